//go:build linux

package store

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

func TestAPulledImageIsFoundByTagAndDigest(t *testing.T) {
	registry := serveRegistry(t, "", "")
	image := imageOf(t, tarOf(t, file("a", "1")), tarOf(t, file("b", "2")))
	tag, digest := registry.Push(t, "team/web:1", image)
	_, sum, _ := strings.Cut(digest, "@")
	s := open(t, t.TempDir())
	pulled := must.Get(s.Pull(t.Context(), tag, nil))(t)
	assert.True(t, pulled.Digest == sum && slices.Equal(pulled.Names, []string{tag, digest}) && pulled.Size == 2, "pulled was %+v", pulled)
	for _, ref := range []string{tag, digest, tag + "@" + sum, registry.Host + "/team/web:other@" + sum} {
		found := must.Get(s.Find(ref))(t)
		assert.True(t, found.ID == pulled.ID && found.Digest == sum, "%s is %s; want %s", ref, found.ID, pulled.ID)
	}
	held := lease(t, s, pulled.ID)
	checkTree(t, held.Layers[0], `b "2"`)
	checkTree(t, held.Layers[1], `a "1"`)

	// Loading it says nothing about registries, and takes nothing back.
	assert.Equal(t, sum, load(t, s, save(t, "web", image)).Digest, "after it was loaded too, its digest")
}

func TestOnlyMissingLayersArePulled(t *testing.T) {
	registry := serveRegistry(t, "", "")
	low, high := tarOf(t, file("a", "1")), tarOf(t, file("b", "2"))
	s := open(t, t.TempDir())
	load(t, s, save(t, "base", imageOf(t, low)))
	ref, _ := registry.Push(t, "web", imageOf(t, low, high))
	must.Get(s.Pull(t.Context(), ref, nil))(t)
	before := registry.askedFor(hashOf(low).Hex)
	must.Get(s.Pull(t.Context(), ref, nil))(t)
	assert.Equal(t, before, registry.askedFor(hashOf(low).Hex), "a layer that is there was asked for")
}

func TestPullTakesTheVariantForThisPlatform(t *testing.T) {
	registry := serveRegistry(t, "", "")
	ours := imageOf(t, tarOf(t, file("a", "amd64")))
	v3 := imageOf(t, tarOf(t, file("a", "amd64/v3")))
	theirs := forPlatform(t, imageOf(t, tarOf(t, file("a", "arm64"))), arm64)
	index := mutate.AppendManifests(empty.Index,
		variant(theirs, arm64),
		variant(v3, v1.Platform{OS: "linux", Architecture: "amd64", Variant: "v3"}),
		variant(ours, amd64),
		variant(theirs, v1.Platform{OS: "unknown", Architecture: "unknown"}))
	ref := registry.PushIndex(t, "web:1", index)
	s := open(t, t.TempDir())
	pulled := must.Get(s.Pull(t.Context(), ref, nil))(t)
	checkTree(t, lease(t, s, pulled.ID).Layers[0], `a "amd64"`)

	// As with Docker, what is pinned is the index, which is the same everywhere.
	sum := must.Get(index.Digest())(t)
	assert.Equal(t, sum.String(), pulled.Digest, "its digest is %s, want %s", pulled.Digest, sum)
	pinned := registry.Host + "/web@" + sum.String()
	found, err := s.Find(pinned)
	assert.True(t, err == nil && found.ID == pulled.ID, "%s is %s, %v; want %s", pinned, found.ID, err, pulled.ID)
	again, err := s.Pull(t.Context(), pinned, nil)
	assert.True(t, err == nil && again.ID == pulled.ID, "pulled by digest was %s, %v; want %s", again.ID, err, pulled.ID)
}

func TestPullReportsProgress(t *testing.T) {
	registry := serveRegistry(t, "", "")
	layers := [][]byte{tarOf(t, file("a", strings.Repeat("a", 1<<20))), tarOf(t, file("b", strings.Repeat("b", 1<<20)))}
	ref, _ := registry.Push(t, "web", imageOf(t, layers...))
	total := int64(len(layers[0]) + len(layers[1]))
	s := open(t, t.TempDir())
	load(t, s, save(t, "base", imageOf(t, layers[0])))
	var reports []engine.Progress
	must.Get(s.Pull(t.Context(), ref, func(p engine.Progress) { reports = append(reports, p) }))(t)
	assert.True(t, reports[0] == (engine.Progress{Image: ref}),
		"the first report is %+v, want one that only names the image", reports[0])
	if last := reports[len(reports)-1]; last != (engine.Progress{Image: ref, Current: total, Total: total}) {
		t.Errorf("the last report is %+v, want all %d bytes", last, total)
	}
	assert.True(t, len(reports) >= 5, "there are only %d reports", len(reports))
	for i, p := range reports[1:] {
		assert.True(t, p.Current > reports[i].Current && p.Total == total, "%+v comes after %+v", p, reports[i])
	}
}

// Where credentials may be is for package registryauth to test.
func TestPullWithCredentials(t *testing.T) {
	registry := serveRegistry(t, "somebody", "secret:word")
	ref, _ := registry.Push(t, "private:tag", imageOf(t, tarOf(t, file("a", "1"))))
	auths := func(host, user, password string) map[string]any {
		encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		return map[string]any{"auths": map[string]any{host: map[string]any{"auth": encoded}}}
	}
	for _, c := range []struct {
		name   string
		config map[string]any
		fails  []string // nil: it succeeds
	}{
		{"right ones in the file", auths(registry.Host, "somebody", "secret:word"), nil},
		{"none", map[string]any{}, []string{ref, "wants credentials", "docker login " + registry.Host}},
		{"wrong ones", auths(registry.Host, "somebody", "wrong"), []string{ref, "does not accept the credentials", "docker login " + registry.Host}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			raw := must.Get(json.Marshal(c.config))(t)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o600))
			t.Setenv("DOCKER_CONFIG", dir)
			s := open(t, t.TempDir())
			_, err := s.Pull(t.Context(), ref, nil)
			if c.fails == nil {
				require.NoError(t, err)
				return
			}
			checkError(t, err, engine.ErrNoImage, c.fails...)
			require.NotContains(t, err.Error(), "wrong")
			assert.NotContains(t, err.Error(), "secret", "the error tells the password: %v", err)
			checkEmpty(t, s)
		})
	}
}

func TestPullFails(t *testing.T) {
	content := tarOf(t, file("a", strings.Repeat("a", 5000)))
	good := imageOf(t, content)
	squeezed := imageWith(t, types.OCILayer, gzipped(t, content), content)
	raw := must.Get(good.RawConfigFile())(t)
	for _, c := range []struct {
		name   string
		ref    string // of another image than web:tag
		image  v1.Image
		index  v1.ImageIndex
		at     string // part of the path of an answer
		change func([]byte) []byte
		noSuch bool // is engine.ErrNoImage
		says   []string
	}{
		{name: "no such tag", ref: "web:other", image: good, noSuch: true, says: []string{"check name, tag and digest"}},
		{name: "no such repository", ref: "missing", image: good, noSuch: true, says: []string{"check name, tag and digest"}},
		{name: "no such digest", ref: "web@sha256:" + strings.Repeat("0", 64), image: good, noSuch: true, says: []string{"check name, tag and digest"}},
		{name: "another platform", image: forPlatform(t, good, arm64), noSuch: true, says: []string{"is for linux/arm64, this engine runs linux/amd64"}},
		{name: "an index without this platform", noSuch: true, says: []string{"is for linux/arm64, this engine runs linux/amd64"},
			index: mutate.AppendManifests(empty.Index, variant(good, arm64), variant(good, v1.Platform{OS: "unknown", Architecture: "unknown"}))},
		{name: "an index that lies", noSuch: true, says: []string{"is for linux/arm64, this engine runs linux/amd64"},
			index: mutate.AppendManifests(empty.Index, variant(forPlatform(t, good, arm64), amd64))},
		{name: "an index of nothing", index: empty.Index, noSuch: true, says: []string{"its index holds no image"}},
		{name: "schema 1", image: mutate.MediaType(good, types.DockerManifestSchema1Signed), noSuch: true, says: []string{"schema 1", "push it again"}},
		{name: "something else", image: mutate.ConfigMediaType(good, "application/x-chart"), noSuch: true, says: []string{`"application/x-chart"`, "not a container image"}},
		{name: "something else altogether", image: mutate.MediaType(good, "application/x-other"), noSuch: true, says: []string{`"application/x-other"`, "not a container image"}},
		{name: "layers of another type", image: imageWith(t, "application/x-other", content, content), noSuch: true, says: []string{`"application/x-other"`, "is not supported"}},
		{name: "a damaged configuration", image: good, at: hashOf(raw).Hex, change: flip, noSuch: true, says: []string{"configuration"}},
		{name: "a damaged manifest", image: good, at: "/manifests/", change: func([]byte) []byte { return []byte("{") }, noSuch: true, says: []string{"web:tag"}},
		{name: "a damaged layer", image: good, at: hashOf(content).Hex, change: flip, says: []string{hashOf(content).String(), "it is damaged", hashOf(flip(content)).String()}},
		{name: "a damaged layer with gzip", image: squeezed, at: hashOf(gzipped(t, content)).Hex, change: flip, says: []string{hashOf(gzipped(t, content)).String(), "it is damaged"}},
		{name: "a truncated layer", image: squeezed, at: hashOf(gzipped(t, content)).Hex, change: func(b []byte) []byte { return b[:len(b)/2] }, says: []string{hashOf(gzipped(t, content)).String()}},
		{name: "a layer that is too long", image: good, at: hashOf(content).Hex, change: func(b []byte) []byte { return append(slices.Clone(b), "more"...) }, says: []string{hashOf(content).String(), "it is damaged"}},
		{name: "another layer than was built", image: imageWith(t, types.OCILayer, gzipped(t, content), []byte("other")), says: []string{"it is damaged", hashOf([]byte("other")).String()}},
	} {
		t.Run(c.name, func(t *testing.T) {
			registry := serveRegistry(t, "", "")
			var ref string
			if c.index != nil {
				ref = registry.PushIndex(t, "web:tag", c.index)
			} else {
				ref, _ = registry.Push(t, "web:tag", c.image)
			}
			if c.ref != "" {
				ref = registry.Host + "/" + c.ref
			}
			if c.change != nil {
				registry.alter(c.at, c.change)
			}
			s := open(t, t.TempDir())
			_, err := s.Pull(t.Context(), ref, nil)
			checkError(t, err, nil, append(c.says, ref)...)
			assert.Equal(t, c.noSuch, errors.Is(err, engine.ErrNoImage), "%v; is it ErrNoImage: want %t", err, c.noSuch)
			_, err = s.Prune(t.Context(), func(Image) bool { return true })
			assert.NoError(t, err)
			checkEmpty(t, s)
		})
	}

	s := open(t, t.TempDir())
	for ref, says := range map[string][]string{
		"127.0.0.1:1/web:tag":               {"connection refused", "registry 127.0.0.1:1 cannot be reached"},
		"registry.invalid/web:tag":          {"registry registry.invalid cannot be reached", "check the registry's name"},
		"sha256:" + strings.Repeat("0", 64): {"use the image's name"},
	} {
		_, err := s.Pull(t.Context(), ref, nil)
		checkError(t, err, engine.ErrNoImage, append(says, ref)...)
		if errors.As(err, new(*engine.UnreachableError)) && strings.Contains(err.Error(), "no such image") {
			t.Errorf("whether there is such an image is not known: %v", err)
		}
	}
	_, err := s.Pull(t.Context(), "Not A Reference", nil)
	checkError(t, err, nil, "Not A Reference", "invalid reference")
}

func TestPullingEndsWithItsContext(t *testing.T) {
	content := tarOf(t, file("a", strings.Repeat("a", 100_000)))
	image := imageOf(t, content)
	for _, at := range []string{"/manifests/", hashOf(content).Hex} {
		registry := serveRegistry(t, "", "")
		ref, _ := registry.Push(t, "web", image)
		stalled := registry.stall(at, 1000*strings.Count(at, hashOf(content).Hex))
		s := open(t, t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { _, err := s.Pull(ctx, ref, nil); done <- err }()
		<-stalled
		cancel()
		err := <-done
		checkError(t, err, context.Canceled, ref)
		assert.True(t, !errors.Is(err, engine.ErrNoImage), "%v: a cancelled pull says nothing about the image", err)
		assert.Empty(t, namesIn(t, filepath.Join(s.dir, "tmp")))
	}
}

func TestManyPullTheSameImageAtOnce(t *testing.T) {
	content := tarOf(t, file("a", strings.Repeat("a", 100_000)))
	image := imageOf(t, content)
	registry := serveRegistry(t, "", "")
	ref, _ := registry.Push(t, "web", image)
	before := registry.askedFor("/blobs/" + hashOf(content).String())
	s := open(t, t.TempDir())
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			pulled, err := s.Pull(t.Context(), ref, nil)
			if err != nil {
				t.Error(err)
				return
			}
			held, err := s.Rootfs(t.Context(), pulled.ID)
			if err != nil {
				t.Error(err)
				return
			}
			held.Release()
		})
	}
	group.Wait()
	assert.Equal(t, 1, registry.askedFor("/blobs/"+hashOf(content).String())-before, "the layer was fetched")
}

func TestALayerIsNotPrunedWhileItsImageIsPulled(t *testing.T) {
	low, high := tarOf(t, file("a", "1")), tarOf(t, file("b", strings.Repeat("b", 100_000)))
	registry := serveRegistry(t, "", "")
	ref, _ := registry.Push(t, "web", imageOf(t, low, high))
	s := open(t, t.TempDir())
	nothing := func(Image) bool { return false }
	orphan := load(t, s, save(t, "base", imageOf(t, low))) // shares the layer, and will go
	stalled := registry.stall(hashOf(high).Hex, 1000)
	done := make(chan error)
	go func() { _, err := s.Pull(t.Context(), ref, nil); done <- err }()
	<-stalled
	lowLock := s.layerLock(hashOf(low))
	waittest.Until(t, func() bool {
		held, err := try(lowLock, exclusive)
		if held != nil {
			held.release()
		}
		return err == nil && held == nil
	}, "the lower layer to be held")
	result, err := s.Prune(t.Context(), nothing)
	assert.True(t, err == nil && len(result.Images) == 1 && result.Images[0].ID == orphan.ID &&
		result.Bytes == 0, "Prune removed %+v, %v; want only the name of what is shared", result, err)
	assert.True(t, exists(s.layerDir(hashOf(low))), "the layer is gone")
	registry.goOn()
	assert.Error(t, <-done, "the registry broke the connection and the image was pulled")
	_, err = s.Pull(t.Context(), ref, nil)
	assert.NoError(t, err)
}

// rewrite changes the files of a tar; content nil leaves one out.
func rewrite(t *testing.T, packed []byte, change func(name string, content []byte) []byte) []byte {
	var entries []tarEntry
	for r := tar.NewReader(bytes.NewReader(packed)); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return tarOf(t, entries...)
		}
		require.NoError(t, err)
		if header.Typeflag == tar.TypeDir {
			continue
		}
		content := must.Get(io.ReadAll(r))(t)
		if content = change(header.Name, content); content != nil {
			entries = append(entries, file(header.Name, string(content)))
		}
	}
}

func flip(content []byte) []byte {
	content = slices.Clone(content)
	content[len(content)/2] ^= 1
	return content
}

func wrongChecksum(content []byte) []byte { content[len(content)-8] ^= 1; return content }

func TestMistakenImagesAreRefusedAndLeaveNothing(t *testing.T) {
	content := tarOf(t, file("a", strings.Repeat("a", 3000)))
	good := imageOf(t, content)
	whole := save(t, "web", good)
	anyLayout := func(image v1.Image) []byte {
		return tarOfDir(t, layoutOf(t, named(image, fullNameAnnotation, "web")))
	}
	isLayer := func(name string) bool { return strings.HasSuffix(name, ".tar") }
	squeezed := imageWith(t, types.OCILayer, gzipped(t, content), content)
	squeezedDigest := hashOf(gzipped(t, content))
	const platform = `{"os":"linux","architecture":"amd64"}`
	largest := platform + strings.Repeat(" ", maxDocument-len(platform))
	large := withConfig(t, imageOf(t), func(config *v1.ConfigFile) { config.Author = strings.Repeat("a", maxDocument-1000) })
	only := func(entries ...tarEntry) []byte { return tarOf(t, entries...) }
	for _, c := range []struct {
		name   string
		packed []byte
		says   []string
	}{
		{"nothing", nil, []string{"the tar is empty"}},
		{"no tar", bytes.Repeat([]byte("noise"), 1000), []string{"it is not a tar", "docker save"}},
		{"some other tar", only(file("README", "hello")), []string{"no images in it", "docker save", "OCI layout"}},
		{"a very old one", only(file("repositories", "{}")), []string{"before 1.10", "save the image again"}},
		{"damaged gzip", flip(gzipped(t, whole)), []string{"read"}},
		{"gzip with a wrong checksum", wrongChecksum(gzipped(t, whole)), []string{"read the tar", "checksum"}},
		{"truncated gzip", gzipped(t, whole)[:200], []string{"truncated", "save the image again"}},
		{"no manifest.json in it", only(file("manifest.json", "[]")), []string{"no images in it"}},
		{"a manifest.json of something else", only(file("manifest.json", `{"a":1}`)), []string{"manifest.json"}},
		{"a missing configuration", rewrite(t, whole, func(name string, content []byte) []byte {
			if strings.HasPrefix(name, "sha256:") {
				return nil
			}
			return content
		}), []string{"web:latest", "is missing", "save the image again"}},
		{"a missing layer", rewrite(t, whole, func(name string, content []byte) []byte {
			if isLayer(name) {
				return nil
			}
			return content
		}), []string{"web:latest", hashOf(content).String(), "is missing", "save the image again"}},
		{"a damaged layer", rewrite(t, whole, func(name string, content []byte) []byte {
			if isLayer(name) {
				return flip(content)
			}
			return content
		}), []string{"web:latest", hashOf(content).String(), "it is damaged", "its digest is " + hashOf(flip(content)).String()}},
		{"links without end", only(file("manifest.json", `[{"Config":"c","Layers":[]}]`), symlink("c", "d"), symlink("d", "c")), []string{"too many links"}},
		{"a name that is none", only(file("manifest.json", `[{"Config":"c","RepoTags":["No Name"],"Layers":[]}]`), file("c", "{}")), []string{"No Name", "invalid reference"}},
		{"layers that the configuration lacks", only(file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), file("c", "{}"), file("l", "")), []string{"1 layers", "0"}},
		{"a layer without a digest", only(file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), file("c", `{"rootfs":{"diff_ids":[null]}}`), file("l", "")), []string{"configuration", "cannot parse hash"}},
		{"a layer with the digest of a path", only(file("manifest.json", `[{"Config":"c","Layers":["l"]}]`), file("c", `{"rootfs":{"diff_ids":["sha256:../../x"]}}`), file("l", "")), []string{"configuration"}},
		{"a configuration without end", only(file("manifest.json", `[{"Config":"c","Layers":[]}]`), file("c", strings.Repeat(" ", maxDocument+1))), []string{"which is the limit"}},
		{"images without end", only(file("manifest.json", "["+strings.Repeat("{},", maxImages)+"{}]")), []string{"1001 images", "1000 are the limit"}},
		{"a layout of images without end", only(file("index.json", `{"manifests":[`+strings.Repeat("{},", maxImages)+"{}]}")), []string{"1001 images", "1000 are the limit"}},
		{"configurations without end", only(file("manifest.json", "["+strings.Repeat(`{"Config":"c"},`, 8)+`{"Config":"c"}]`), file("c", largest)), []string{"configurations", "67108864 bytes, which is the limit"}},
		{"a layout of configurations without end", rewrite(t, anyLayout(large), func(name string, content []byte) []byte {
			if name != "index.json" {
				return content
			}
			before, manifest, _ := strings.Cut(string(content), "[")
			manifest, after, _ := strings.Cut(manifest, "]")
			return []byte(before + "[" + strings.Repeat(manifest+",", 8) + manifest + "]" + after)
		}), []string{"configurations", "67108864 bytes, which is the limit"}},
		{"another platform", save(t, "web", forPlatform(t, good, arm64)), []string{"web:latest", "is for linux/arm64, this engine runs linux/amd64"}},
		{"another system", save(t, "web", forPlatform(t, good, v1.Platform{OS: "windows", Architecture: "amd64"})), []string{"is for windows/amd64, this engine runs linux/amd64"}},
		{"one image of two for another platform", saveAll(t, map[string]v1.Image{"web": good, "other": forPlatform(t, good, arm64)}), []string{"other", "is for linux/arm64"}},
		{"a layout for other platforms", tarOfDir(t, layoutOf(t, variant(good, arm64), variant(good, v1.Platform{OS: "linux", Architecture: "s390x"}))), []string{"is for linux/arm64, linux/s390x, this engine runs linux/amd64"}},
		{"a layout with nothing in it", tarOfDir(t, layoutOf(t)), []string{"no images in it"}},
		{"a layout without a layer", rewrite(t, anyLayout(good), func(name string, in []byte) []byte {
			if name == "blobs/sha256/"+hashOf(content).Hex {
				return nil
			}
			return in
		}), []string{"web", hashOf(content).String(), "is missing"}},
		{"a layout with a damaged layer", rewrite(t, anyLayout(squeezed), func(name string, in []byte) []byte {
			if name == "blobs/sha256/"+squeezedDigest.Hex {
				return flip(in)
			}
			return in
		}), []string{"web", squeezedDigest.String(), "it is damaged", "its digest is"}},
		{"a layout with a truncated layer", rewrite(t, anyLayout(squeezed), func(name string, in []byte) []byte {
			if name == "blobs/sha256/"+squeezedDigest.Hex {
				return in[:len(in)/2]
			}
			return in
		}), []string{"web", squeezedDigest.String(), "it is damaged", "its digest is"}},
		{"a layout with a damaged manifest", rewrite(t, anyLayout(good), func(name string, in []byte) []byte {
			if bytes.Contains(in, []byte(`"layers"`)) && strings.HasPrefix(name, "blobs/") {
				return append(in, ' ')
			}
			return in
		}), []string{"web", "it is damaged"}},
		{"a layer that is not what the configuration says", anyLayout(imageWith(t, types.OCILayer, gzipped(t, content), []byte("other"))), []string{"web", "it is damaged", hashOf(content).String(), hashOf([]byte("other")).String()}},
		{"a layer that is not allowed", anyLayout(imageOf(t, tarOf(t, hardLink("a", "../../b")))), []string{"web", hashOf(tarOf(t, hardLink("a", "../../b"))).String(), "no such file"}},
		{"a layer that is no tar", anyLayout(imageOf(t, bytes.Repeat([]byte("noise"), 1000))), []string{"web", "its digest is right", "use another one"}},
		{"a layer of another type", anyLayout(imageWith(t, "application/x-other", content, content)), []string{"web", `media type "application/x-other"`, "is not supported"}},
		{"a layer that may not be distributed", anyLayout(imageWith(t, types.OCIRestrictedLayer, content, content)), []string{"web", "nondistributable", "is not supported"}},
		{"something else in a layout", anyLayout(mutate.ConfigMediaType(good, "application/x-chart")), []string{"web", `"application/x-chart"`, "not a container image"}},
		{"indexes in indexes", tarOfDir(t, layoutOf(t, nested(10, good))), []string{"indexes inside one another"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, t.TempDir())
			_, err := s.Load(t.Context(), bytes.NewReader(c.packed), nil)
			checkError(t, err, nil, append(c.says, "load images")...)
			checkEmpty(t, s)
		})
	}
}

func nested(depth int, image v1.Image) mutate.IndexAddendum {
	add := mutate.IndexAddendum{Add: image}
	for range depth {
		add = mutate.IndexAddendum{Add: mutate.AppendManifests(empty.Index, add)}
	}
	return add
}

func TestATarThatEndsAnywhereIsWholeOrNothing(t *testing.T) {
	image := imageOf(t, tarOf(t, file("a", "1")), tarOf(t, file("b", "2")))
	for name, packed := range map[string][]byte{
		"docker save": save(t, "web", image),
		"a layout":    tarOfDir(t, layoutOf(t, named(image, fullNameAnnotation, "web"))),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir())
			for end := 0; end < len(packed); end += 256 {
				images, err := s.Load(t.Context(), bytes.NewReader(packed[:end]), nil)
				if err != nil {
					checkEmpty(t, s)
					continue
				}
				// The end of a tar says nothing that is needed.
				require.True(t, len(images) == 1 && end >= len(packed)-2048, "%d of %d bytes gave %v", end, len(packed), images)
				checkTree(t, lease(t, s, images[0].ID).Layers[0], `b "2"`)
				return
			}
		})
	}
}

func TestLoadPathNeedsAFileOrDirectory(t *testing.T) {
	s := open(t, t.TempDir())
	for path, says := range map[string]string{
		filepath.Join(t.TempDir(), "missing"): "no such file",
		"/dev/null":                           "neither a file nor a directory",
		t.TempDir():                           "no images in it",
	} {
		_, err := s.LoadPath(t.Context(), path, nil)
		checkError(t, err, nil, path, says)
	}
	checkEmpty(t, s)
}

func TestALayoutDoesNotLeadOutOfItsDirectory(t *testing.T) {
	content := tarOf(t, file("a", "1"))
	dir := layoutOf(t, named(imageOf(t, content), fullNameAnnotation, "web"))
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, content, 0o600))
	blob := filepath.Join(dir, "blobs", "sha256", hashOf(content).Hex)
	require.NoError(t, os.Remove(blob))
	require.NoError(t, os.Symlink(outside, blob))
	s := open(t, t.TempDir())
	_, err := s.LoadPath(t.Context(), dir, nil)
	checkError(t, err, nil, "escapes")
	checkEmpty(t, s)
}

func TestALoadThatFailsLeavesOthersAlone(t *testing.T) {
	s := open(t, t.TempDir())
	interrupted := s.layerDir(hashOf([]byte("of a pull that will go on")))
	require.NoError(t, makeDir(interrupted))
	shared := tarOf(t, file("shared", "1"))
	kept := load(t, s, save(t, "kept", imageOf(t, shared)))
	bad := rewrite(t, save(t, "kept", imageOf(t, shared, tarOf(t, file("own", "1")))), func(name string, content []byte) []byte {
		if bytes.Contains(content, []byte("own")) && strings.HasSuffix(name, ".tar") {
			return flip(content)
		}
		return content
	})
	require.Error(t, must.Fail(s.Load(t.Context(), bytes.NewReader(bad), nil)), "a damaged image was loaded")
	found := must.Get(s.Find("kept"))(t)
	assert.Equal(t, kept.ID, found.ID, "kept is %s; want %s", found.ID, kept.ID)
	checkTree(t, lease(t, s, kept.ID).Layers[0], `shared "1"`)
	layers := namesIn(t, s.layersDir())
	assert.True(t, len(layers) == 2 && exists(interrupted), "the layers are %v, want the shared one and that of the pull", layers)
}
