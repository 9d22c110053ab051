//go:build linux

package store

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/registrytest"
)

var amd64 = v1.Platform{OS: "linux", Architecture: "amd64"}

func open(t testing.TB, dir string) *Store {
	return must.Get(Open(Options{Dir: dir, Platform: amd64, Rootless: os.Geteuid() != 0}))(t)
}

func file(name, content string) tarEntry {
	return tarEntry{Header: tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, content: content}
}

func directory(name string, mode int64) tarEntry {
	return tarEntry{Header: tar.Header{Typeflag: tar.TypeDir, Name: name + "/", Mode: mode}}
}

func symlink(name, target string) tarEntry {
	return tarEntry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}}
}

func hardLink(name, target string) tarEntry {
	return tarEntry{Header: tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o644}}
}

type tarEntry struct {
	tar.Header
	content string
}

func tarOf(t testing.TB, entries ...tarEntry) []byte {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, entry := range entries {
		entry.Size = int64(len(entry.content))
		if entry.Typeflag != tar.TypeXGlobalHeader {
			entry.ModTime = time.Unix(1, 0)
		}
		require.NoError(t, w.WriteHeader(&entry.Header), "pack %.40q", entry.Name)
		must.Get(io.WriteString(w, entry.content))(t)
	}
	require.NoError(t, w.Close())
	return packed.Bytes()
}

func imageOf(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	var made []v1.Layer
	for _, content := range layers {
		made = append(made, static.NewLayer(content, types.OCIUncompressedLayer))
	}
	image := must.Get(mutate.AppendLayers(mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1), made...))(t)
	return forPlatform(t, image, amd64)
}

func forPlatform(t testing.TB, image v1.Image, platform v1.Platform) v1.Image {
	t.Helper()
	return withConfig(t, image, func(config *v1.ConfigFile) {
		config.OS, config.Architecture = platform.OS, platform.Architecture
	})
}

func withConfig(t testing.TB, image v1.Image, change func(*v1.ConfigFile)) v1.Image {
	t.Helper()
	config, err := image.ConfigFile()
	require.NoError(t, err)
	config = config.DeepCopy()
	change(config)
	if image, err = mutate.ConfigFile(image, config); err != nil {
		t.Fatal(err)
	}
	return image
}

func save(t testing.TB, ref string, image v1.Image) []byte {
	return saveAll(t, map[string]v1.Image{ref: image})
}

func saveAll(t testing.TB, images map[string]v1.Image) []byte {
	tags := map[name.Tag]v1.Image{}
	for ref, image := range images {
		tag := must.Get(name.NewTag(ref))(t)
		tags[tag] = image
	}
	var packed bytes.Buffer
	require.NoError(t, tarball.MultiWrite(tags, &packed))
	return packed.Bytes()
}

func load(t testing.TB, s *Store, packed []byte) Image {
	images := must.Get(s.Load(t.Context(), bytes.NewReader(packed), nil))(t)
	require.Len(t, images, 1, "images were loaded")
	return images[0]
}

// lease takes the layers of an image and gives them back at the end.
func lease(t testing.TB, s *Store, id string) *Lease {
	held := must.Get(s.Rootfs(t.Context(), id))(t)
	t.Cleanup(held.Release)
	return held
}

func checkError(t *testing.T, err, target error, texts ...string) {
	require.Error(t, err, "no error, want one that says %q", texts)
	assert.False(t, target != nil && !errors.Is(err, target), "error %q is not %q", err, target)
	for _, text := range texts {
		assert.Contains(t, err.Error(), text, "error %q does not say %q", err, text)
	}
}

func checkEmpty(t *testing.T, s *Store) {
	images := must.Get(s.List())(t)
	assert.True(t, len(images) <= 0, "the store lists %v; want nothing", images)
	for _, dir := range []string{"images", "layers/sha256", "tmp"} {
		assert.Empty(t, namesIn(t, filepath.Join(s.dir, dir)), "%s holds", dir)
	}
	for _, lock := range namesIn(t, filepath.Join(s.dir, "locks")) {
		assert.Equal(t, "index", lock, "the lock")
	}
}

func namesIn(t *testing.T, dir string) []string {
	entries := must.Get(os.ReadDir(dir))(t)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// tree lists what is below a directory, one line each: path, type and content or target, if there is one.
func tree(dir string) ([]string, error) {
	var lines []string
	err := filepath.WalkDir(dir, func(at string, entry fs.DirEntry, err error) error {
		if err != nil || at == dir {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		line, about := name, ""
		switch entry.Type() {
		case fs.ModeDir:
			line += "/"
		case 0:
			content, err := os.ReadFile(at)
			if err != nil {
				return err
			}
			about = fmt.Sprintf("%q", content)
		case fs.ModeSymlink:
			target, err := os.Readlink(at)
			if err != nil {
				return err
			}
			about = "-> " + target
		default:
			about = entry.Type().String()
		}
		lines = append(lines, strings.TrimSpace(line+" "+about))
		return nil
	})
	return lines, err
}

func checkTree(t *testing.T, dir string, want ...string) {
	got := must.Get(tree(dir))(t)
	assert.True(t, slices.Equal(got, want), "%s holds\n  %s\nwant\n  %s", dir, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
}

// testRegistry is a registry whose answers can be disturbed.
type testRegistry struct {
	*registrytest.Registry

	mutex   sync.Mutex
	asked   []string // paths
	at      string   // part of the path of the answer that is changed
	after   int      // its bytes after which it stalls
	change  func([]byte) []byte
	stalled chan struct{} // closed when it stalls
	resume  chan struct{}
}

func serveRegistry(t *testing.T, user, password string) *testRegistry {
	r := &testRegistry{}
	r.Registry = registrytest.Serve(t, &registrytest.Registry{User: user, Password: password, Between: r.disturb})
	return r
}

func (r *testRegistry) disturb(w http.ResponseWriter, request *http.Request, images http.Handler) {
	r.mutex.Lock()
	r.asked = append(r.asked, request.URL.Path)
	hit := request.Method == http.MethodGet && r.at != "" && strings.Contains(request.URL.Path, r.at)
	at := *r.settings()
	r.mutex.Unlock()
	switch {
	case !hit:
		images.ServeHTTP(w, request)
	case at.change != nil:
		registrytest.Alter(w, request, images, at.change)
	default:
		if code, body := registrytest.Answer(w, request, images); at.after > 0 {
			w.WriteHeader(code)
			_, _ = w.Write(body[:at.after])
			_ = http.NewResponseController(w).Flush()
		}
		close(at.stalled)
		select {
		case <-at.resume:
		case <-request.Context().Done():
		}
	}
}

// disturbance is what a registry does to an answer.
type disturbance struct {
	after           int
	change          func([]byte) []byte
	stalled, resume chan struct{}
}

func (r *testRegistry) settings() *disturbance {
	return &disturbance{after: r.after, change: r.change, stalled: r.stalled, resume: r.resume}
}

// stall makes one answer stop after some bytes, and tells when it does.
func (r *testRegistry) stall(at string, after int) <-chan struct{} {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.at, r.after, r.stalled, r.resume = at, after, make(chan struct{}), make(chan struct{})
	return r.stalled
}

// goOn ends a stall, and lets what stalls now fail.
func (r *testRegistry) goOn() {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.at = ""
	close(r.resume)
}

func (r *testRegistry) alter(at string, change func([]byte) []byte) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.at, r.change = at, change
}

// askedFor counts the requests with this in their path.
func (r *testRegistry) askedFor(part string) int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	n := 0
	for _, path := range r.asked {
		if strings.Contains(path, part) {
			n++
		}
	}
	return n
}
