//go:build linux

package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
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
	"github.com/deployster-go/deployster/internal/waittest"
)

func TestAPulledImageIsFoundByTagAndDigest(t *testing.T) {
	registry := serveRegistry(t, "", "")
	image := imageOf(t, tarOf(t, file("a", "1")), tarOf(t, file("b", "2")))
	tag, digest := registry.push(t, "team/web:1", image)
	_, sum, _ := strings.Cut(digest, "@")
	s := open(t, t.TempDir())
	pulled, err := s.Pull(t.Context(), tag, nil)
	require.NoError(t, err)
	if pulled.Digest != sum || !slices.Equal(pulled.Names, []string{tag, digest}) || pulled.Size != 2 {
		t.Errorf("pulled was %+v", pulled)
	}
	for _, ref := range []string{tag, digest, tag + "@" + sum, registry.host + "/team/web:other@" + sum} {
		if found, err := s.Find(ref); err != nil || found.ID != pulled.ID || found.Digest != sum {
			t.Errorf("%s is %s, %v; want %s", ref, found.ID, err, pulled.ID)
		}
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
	ref, _ := registry.push(t, "web", imageOf(t, low, high))
	if _, err := s.Pull(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
	before := registry.askedFor(hashOf(low).Hex)
	if _, err := s.Pull(t.Context(), ref, nil); err != nil {
		t.Fatal(err)
	}
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
	ref := registry.pushIndex(t, "web:1", index)
	s := open(t, t.TempDir())
	pulled, err := s.Pull(t.Context(), ref, nil)
	require.NoError(t, err)
	checkTree(t, lease(t, s, pulled.ID).Layers[0], `a "amd64"`)

	// As with Docker, what is pinned is the index, which is the same everywhere.
	sum, err := index.Digest()
	require.NoError(t, err)
	assert.Equal(t, sum.String(), pulled.Digest, "its digest is %s, want %s", pulled.Digest, sum)
	pinned := registry.host + "/web@" + sum.String()
	if found, err := s.Find(pinned); err != nil || found.ID != pulled.ID {
		t.Errorf("%s is %s, %v; want %s", pinned, found.ID, err, pulled.ID)
	}
	if again, err := s.Pull(t.Context(), pinned, nil); err != nil || again.ID != pulled.ID {
		t.Errorf("pulled by digest was %s, %v; want %s", again.ID, err, pulled.ID)
	}
}

func TestPullReportsProgress(t *testing.T) {
	registry := serveRegistry(t, "", "")
	layers := [][]byte{tarOf(t, file("a", strings.Repeat("a", 1<<20))), tarOf(t, file("b", strings.Repeat("b", 1<<20)))}
	ref, _ := registry.push(t, "web", imageOf(t, layers...))
	total := int64(len(layers[0]) + len(layers[1]))
	s := open(t, t.TempDir())
	load(t, s, save(t, "base", imageOf(t, layers[0])))
	var reports []engine.Progress
	if _, err := s.Pull(t.Context(), ref, func(p engine.Progress) { reports = append(reports, p) }); err != nil {
		t.Fatal(err)
	}
	if reports[0] != (engine.Progress{Image: ref}) {
		t.Errorf("the first report is %+v, want one that only names the image", reports[0])
	}
	if last := reports[len(reports)-1]; last != (engine.Progress{Image: ref, Current: total, Total: total}) {
		t.Errorf("the last report is %+v, want all %d bytes", last, total)
	}
	assert.True(t, len(reports) >= 5, "there are only %d reports", len(reports))
	for i, p := range reports[1:] {
		if p.Current <= reports[i].Current || p.Total != total {
			t.Errorf("%+v comes after %+v", p, reports[i])
		}
	}
}

func TestPullWithCredentials(t *testing.T) {
	registry := serveRegistry(t, "somebody", "secret:word")
	ref, _ := registry.push(t, "private:tag", imageOf(t, tarOf(t, file("a", "1"))))
	helpers := t.TempDir()
	helper := func(name, script string) {
		path := filepath.Join(helpers, "docker-credential-"+name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
	}
	helper("right", `read host; echo "{\"ServerURL\":\"$host\",\"Username\":\"somebody\",\"Secret\":\"secret:word\"}"`)
	t.Setenv("PATH", helpers+string(os.PathListSeparator)+os.Getenv("PATH"))
	auths := func(host, user, password string) map[string]any {
		encoded := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
		return map[string]any{"auths": map[string]any{host: map[string]any{"auth": encoded}}}
	}
	for _, c := range []struct {
		name   string
		config map[string]any
		fails  []string // nil: it succeeds
	}{
		{"right ones in the file", auths(registry.host, "somebody", "secret:word"), nil},
		{"a helper for this registry", map[string]any{"credHelpers": map[string]any{registry.host: "right"}}, nil},
		{"a helper for all registries", map[string]any{"credsStore": "right"}, nil},
		{"none", map[string]any{}, []string{ref, "wants credentials", "docker login " + registry.host}},
		{"those of another registry", auths("registry.example", "somebody", "secret:word"), []string{"wants credentials", "docker login " + registry.host}},
		{"wrong ones", auths(registry.host, "somebody", "wrong"), []string{ref, "does not accept the credentials", "docker login " + registry.host}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			raw, err := json.Marshal(c.config)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o600))
			t.Setenv("DOCKER_CONFIG", dir)
			s := open(t, t.TempDir())
			_, err = s.Pull(t.Context(), ref, nil)
			if c.fails == nil {
				require.NoError(t, err)
				return
			}
			checkError(t, err, engine.ErrNoImage, c.fails...)
			if strings.Contains(err.Error(), "wrong") || strings.Contains(err.Error(), "secret") {
				t.Errorf("the error tells the password: %v", err)
			}
			checkEmpty(t, s)
		})
	}
}

func TestPullFails(t *testing.T) {
	content := tarOf(t, file("a", strings.Repeat("a", 5000)))
	good := imageOf(t, content)
	squeezed := imageWith(t, types.OCILayer, gzipped(t, content), content)
	raw, err := good.RawConfigFile()
	require.NoError(t, err)
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
				ref = registry.pushIndex(t, "web:tag", c.index)
			} else {
				ref, _ = registry.push(t, "web:tag", c.image)
			}
			if c.ref != "" {
				ref = registry.host + "/" + c.ref
			}
			if c.change != nil {
				registry.alter(c.at, c.change)
			}
			s := open(t, t.TempDir())
			_, err := s.Pull(t.Context(), ref, nil)
			checkError(t, err, nil, append(c.says, ref)...)
			assert.Equal(t, c.noSuch, errors.Is(err, engine.ErrNoImage), "%v; is it ErrNoImage: want %t", err, c.noSuch)
			if _, err := s.Prune(t.Context(), func(Image) bool { return true }); err != nil {
				t.Error(err)
			}
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
	_, err = s.Pull(t.Context(), "Not A Reference", nil)
	checkError(t, err, nil, "Not A Reference", "invalid reference")
}

func TestPullingEndsWithItsContext(t *testing.T) {
	content := tarOf(t, file("a", strings.Repeat("a", 100_000)))
	image := imageOf(t, content)
	for _, at := range []string{"/manifests/", hashOf(content).Hex} {
		registry := serveRegistry(t, "", "")
		ref, _ := registry.push(t, "web", image)
		stalled := registry.stall(at, 1000*strings.Count(at, hashOf(content).Hex))
		s := open(t, t.TempDir())
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := s.Pull(ctx, ref, nil)
			done <- err
		}()
		<-stalled
		cancel()
		err := <-done
		checkError(t, err, context.Canceled, ref)
		assert.True(t, !errors.Is(err, engine.ErrNoImage), "%v: a cancelled pull says nothing about the image", err)
		if left := namesIn(t, filepath.Join(s.dir, "tmp")); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}

func TestManyPullTheSameImageAtOnce(t *testing.T) {
	content := tarOf(t, file("a", strings.Repeat("a", 100_000)))
	image := imageOf(t, content)
	registry := serveRegistry(t, "", "")
	ref, _ := registry.push(t, "web", image)
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
	ref, _ := registry.push(t, "web", imageOf(t, low, high))
	s := open(t, t.TempDir())
	nothing := func(Image) bool { return false }
	orphan := load(t, s, save(t, "base", imageOf(t, low))) // shares the layer, and will go
	stalled := registry.stall(hashOf(high).Hex, 1000)
	done := make(chan error)
	go func() {
		_, err := s.Pull(t.Context(), ref, nil)
		done <- err
	}()
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
	if err != nil || len(result.Images) != 1 || result.Images[0].ID != orphan.ID || result.Bytes != 0 {
		t.Errorf("Prune removed %+v, %v; want only the name of what is shared", result, err)
	}
	assert.True(t, exists(s.layerDir(hashOf(low))), "the layer is gone")
	registry.goOn()
	assert.Error(t, <-done, "the registry broke the connection and the image was pulled")
	if _, err := s.Pull(t.Context(), ref, nil); err != nil {
		t.Error(err)
	}
}
