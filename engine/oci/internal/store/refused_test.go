//go:build linux

package store

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"
)

// rewrite changes the files of a tar; content nil leaves one out.
func rewrite(t *testing.T, packed []byte, change func(name string, content []byte) []byte) []byte {
	t.Helper()
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
		content, err := io.ReadAll(r)
		require.NoError(t, err)
		if content = change(header.Name, content); content != nil {
			entries = append(entries, file(header.Name, string(content)))
		}
	}
}

// flip changes one bit in the middle.
func flip(content []byte) []byte {
	content = slices.Clone(content)
	content[len(content)/2] ^= 1
	return content
}

// wrongChecksum changes what gzip has at its end.
func wrongChecksum(content []byte) []byte {
	content[len(content)-8] ^= 1
	return content
}

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

// nested is an index in an index in an index.
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
	if _, err := s.Load(t.Context(), bytes.NewReader(bad), nil); err == nil {
		t.Fatal("a damaged image was loaded")
	}
	if found, err := s.Find("kept"); err != nil || found.ID != kept.ID {
		t.Errorf("kept is %s, %v; want %s", found.ID, err, kept.ID)
	}
	checkTree(t, lease(t, s, kept.ID).Layers[0], `shared "1"`)
	if layers := namesIn(t, s.layersDir()); len(layers) != 2 || !exists(interrupted) {
		t.Errorf("the layers are %v, want the shared one and that of the pull", layers)
	}
}
