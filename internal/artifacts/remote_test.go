package artifacts_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/artifacts"
)

// testRegistry is a registry on this machine. alter, which may be nil, changes what it
// answers to GET.
type testRegistry struct {
	host  string
	alter func(path string, body []byte) []byte
	auth  string // of the header; "" is for all
}

func serve(t *testing.T) *testRegistry {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	r := &testRegistry{}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if r.auth != "" && request.Header.Get("Authorization") != r.auth {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		if r.alter == nil || request.Method != http.MethodGet {
			images.ServeHTTP(w, request)
			return
		}
		answer := httptest.NewRecorder()
		images.ServeHTTP(answer, request)
		for key, values := range answer.Header() {
			w.Header()[key] = values
		}
		body := r.alter(request.URL.Path, answer.Body.Bytes())
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
}

// pushed is an artifact that a registry has, as is its store.
func pushed(t *testing.T, r *testRegistry) (a artifacts.Artifact, ref string) {
	s, _ := newStore(t)
	a = collect(t, s, write(t, toolchain))
	ref, err := s.Push(t.Context(), a.Digest, r.host+"/builds/gcc", "9.1", nil)
	must(t, err)
	return a, ref
}

func TestAnArtifactGoesToARegistryAndBack(t *testing.T) {
	r := serve(t)
	a, ref := pushed(t, r)
	assert.Equal(t, r.host+"/builds/gcc@"+a.Digest, ref)
	for _, name := range []string{ref, r.host + "/builds/gcc:9.1"} {
		s, store := newStore(t)
		for range 2 { // the second time it is there
			var told []artifacts.Progress
			got, err := s.Pull(t.Context(), name, artifacts.Limits{}, func(p artifacts.Progress) { told = append(told, p) })
			assert.True(t, err == nil && got == a, "pulled is %v, %v; want %v", got, err, a)
			if last := told[len(told)-1]; told[0].Done != 0 || last.Done != last.Total || last.Total < 1024 || !slices.IsSortedFunc(told, func(a, b artifacts.Progress) int { return int(a.Done - b.Done) }) {
				t.Errorf("told is %v", told)
			}
		}
		files, err := s.Directory(t.Context(), a.Digest)
		must(t, err)
		again := collect(t, s, files)
		assert.True(t, again == a, "unpacked it is %v", again)
		wantNothingHalf(t, store)
	}
}

// Whoever has a client of registries can read an artifact, without this program.
func TestAnyClientOfARegistryReadsAnArtifact(t *testing.T) {
	r := serve(t)
	a, ref := pushed(t, r)
	parsed, err := name.ParseReference(ref)
	must(t, err)
	image, err := remote.Image(parsed)
	must(t, err)
	manifest, err := image.Manifest()
	must(t, err)
	if manifest.ArtifactType != "application/vnd.deployster.artifact.v1" || manifest.MediaType != types.OCIManifestSchema1 || manifest.Config.MediaType != "application/vnd.oci.empty.v1+json" {
		t.Errorf("its manifest is %+v", manifest)
	}
	layers, err := image.Layers()
	must(t, err)
	content, err := layers[0].Uncompressed()
	must(t, err)
	var names []string
	for in := tar.NewReader(content); ; {
		header, err := in.Next()
		if err == io.EOF {
			break
		}
		must(t, err)
		names = append(names, header.Name)
	}
	want := []string{"README", "bin/", "bin/cc", "bin/gcc", "empty/", "lib/", "lib/libc.so", "lib-2/", "lib-2/x", "zero"}
	assert.True(t, slices.Equal(names, want), "in it are %q", names)
	config, err := image.RawConfigFile()
	assert.True(t, err == nil && string(config) == "{}", "its configuration is %q, %v", config, err)
	to, err := layout.Write(filepath.Join(t.TempDir(), "layout"), must1(random.Index(1, 0, 0)))
	must(t, err)
	must(t, to.AppendImage(image))
	digest, err := v1.NewHash(a.Digest)
	must(t, err)
	assert.NoError(t, errOf(to.Image(digest)))
}

func must1[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestWhatARegistryGivesIsNotTrusted(t *testing.T) {
	sparse := func(path string, of string) bool { return strings.Contains(path, of) }
	tests := map[string]struct {
		alter  func(path string, body []byte) []byte
		limits artifacts.Limits
		want   string
		is     error
	}{
		"a byte of the layer": {func(path string, body []byte) []byte {
			if sparse(path, "/blobs/") {
				body[len(body)/2] ^= 1
			}
			return body
		}, artifacts.Limits{}, "is not what it was", artifacts.ErrAltered},
		"half of the layer": {func(path string, body []byte) []byte {
			if sparse(path, "/blobs/") {
				return body[:len(body)/2]
			}
			return body
		}, artifacts.Limits{}, "", nil},
		"another manifest": {func(path string, body []byte) []byte {
			return bytes.Replace(body, []byte(`"size":`), []byte(`"size":1`), 1)
		}, artifacts.Limits{}, "digest", nil},
		"a huge manifest": {func(path string, body []byte) []byte {
			if sparse(path, "/manifests/") {
				return append(body, bytes.Repeat([]byte(" "), 2<<20)...)
			}
			return body
		}, artifacts.Limits{}, "its manifest has more than 1048576 bytes", nil},
		"too many files": {nil, artifacts.Limits{Files: 5}, "it has more than 5 files", nil},
		"too large":      {nil, artifacts.Limits{Bytes: 5}, `"README" and what is before it have more than 5 bytes`, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := serve(t)
			_, ref := pushed(t, r)
			r.alter = test.alter
			s, store := newStore(t)
			a, err := s.Pull(t.Context(), ref, test.limits, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), ref) || test.is != nil && !errors.Is(err, test.is) {
				t.Errorf("it is %v, %v", a, err)
			}
			blobs, err := os.ReadDir(filepath.Join(store, "blobs", "sha256"))
			assert.True(t, err != nil || len(blobs) == 0, "stored are %v", blobs)
			if _, err := os.Stat(store); err == nil {
				wantNothingHalf(t, store)
			}
		})
	}
}

func TestWhatIsNoArtifactIsNotPulled(t *testing.T) {
	r := serve(t)
	image, err := random.Image(100, 1)
	must(t, err)
	index, err := random.Index(100, 1, 1)
	must(t, err)
	must(t, remote.Write(must1(name.NewTag(r.host+"/x:image")), image))
	must(t, remote.WriteIndex(must1(name.NewTag(r.host+"/x:index")), index))
	s, _ := newStore(t)
	for ref, want := range map[string]string{
		r.host + "/x:image": `it is no artifact of a build: its type is "application/vnd.docker.container.image.v1+json", not "application/vnd.deployster.artifact.v1"`,
		r.host + "/x:index": `it is no artifact of a build: its type is "application/vnd.oci.image.index.v1+json"`,
		r.host + "/x:none":  "does not have it: check name, tag and digest",
		r.host + "/x":       "write REGISTRY/REPOSITORY@sha256:… or REGISTRY/REPOSITORY:TAG",
		"builds/gcc:9.1":    "write REGISTRY/REPOSITORY@sha256:…",
		r.host + "/x@md5:1": "write REGISTRY/REPOSITORY@sha256:…",
	} {
		a, err := s.Pull(t.Context(), ref, artifacts.Limits{}, nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s is %v, %v", ref, a, err)
	}
}

func TestCredentialsAreThoseOfDocker(t *testing.T) {
	r := serve(t)
	encoded := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	r.auth = "Basic " + encoded
	s, _ := newStore(t)
	a := collect(t, s, write(t, toolchain))
	_, err := s.Push(t.Context(), a.Digest, r.host+"/builds/gcc", "", nil)
	assert.ErrorContains(t, err, "`docker login "+r.host+"`", "without credentials")
	config := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.host, encoded)
	must(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600))
	ref, err := s.Push(t.Context(), a.Digest, r.host+"/builds/gcc", "", nil)
	must(t, err)
	other, _ := newStore(t)
	assert.NoError(t, errOf(other.Pull(t.Context(), ref, artifacts.Limits{}, nil)))
}

func TestWhatWasAlteredIsNotPushed(t *testing.T) {
	r := serve(t)
	s, store := newStore(t)
	digest := collect(t, s, write(t, toolchain)).Digest
	must(t, overwrite(layerOf(t, store, digest)))
	ref, err := s.Push(t.Context(), digest, r.host+"/builds/gcc", "9.1", nil)
	assert.True(t, errors.Is(err, artifacts.ErrAltered), "it is %q, %v", ref, err)
	for _, to := range []string{"", "gcc", "builds/gcc", r.host, r.host + "/UPPER"} {
		assert.ErrorContains(t, errOf(s.Push(t.Context(), digest, to, "", nil)), "write REGISTRY/REPOSITORY, such as", "to %q", to)
	}
}

func TestNothingIsSentInTheClearButToThisMachine(t *testing.T) {
	asked := errors.New("asked")
	way := artifacts.Guarded(roundTrip(func(*http.Request) (*http.Response, error) { return nil, asked }))
	for url, want := range map[string]bool{
		"https://registry.example.org/v2/": true, "http://127.0.0.1:5000/v2/": true, "http://[::1]:5000/v2/": true, "http://localhost:5000/v2/": true,
		"http://registry.example.org/v2/": false, "http://10.0.0.1:5000/v2/": false, "http://localhost.example.org/v2/": false, "http://build.local/v2/": false,
	} {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
		must(t, err)
		_, err = way.RoundTrip(request)
		assert.True(t, errors.Is(err, asked) == want, "%s: %v", url, err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
