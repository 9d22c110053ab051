package artifacts_test

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/registrytest"
)

// testRegistry is a registry on this machine. alter, which may be nil, changes what it
// answers to GET.
type testRegistry struct {
	*registrytest.Registry
	alter func(path string, body []byte) []byte
}

func serve(t *testing.T) *testRegistry {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	r := &testRegistry{}
	r.Registry = registrytest.Serve(t, &registrytest.Registry{Between: func(w http.ResponseWriter, request *http.Request, images http.Handler) {
		if r.alter == nil || request.Method != http.MethodGet {
			images.ServeHTTP(w, request)
			return
		}
		registrytest.Alter(w, request, images, func(body []byte) []byte { return r.alter(request.URL.Path, body) })
	}})
	return r
}

// pushed is an artifact that a registry has, as is its store.
func pushed(t *testing.T, r *testRegistry) (a artifacts.Artifact, ref string) {
	s, _ := newStore(t)
	a = collect(t, s, write(t, toolchain))
	ref, err := s.Push(t.Context(), a.Digest, r.Host+"/builds/gcc", "9.1", nil)
	must(t, err)
	return a, ref
}

func TestAnArtifactGoesToARegistryAndBack(t *testing.T) {
	r := serve(t)
	a, ref := pushed(t, r)
	assert.Equal(t, r.Host+"/builds/gcc@"+a.Digest, ref)
	for _, name := range []string{ref, r.Host + "/builds/gcc:9.1"} {
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
	must(t, remote.Write(must1(name.NewTag(r.Host+"/x:image")), image))
	must(t, remote.WriteIndex(must1(name.NewTag(r.Host+"/x:index")), index))
	s, _ := newStore(t)
	for ref, want := range map[string]string{
		r.Host + "/x:image": `it is no artifact of a build: its type is "application/vnd.docker.container.image.v1+json", not "application/vnd.deployster.artifact.v1"`,
		r.Host + "/x:index": `it is no artifact of a build: its type is "application/vnd.oci.image.index.v1+json"`,
		r.Host + "/x:none":  "does not have it: check name, tag and digest",
		r.Host + "/x":       "write REGISTRY/REPOSITORY@sha256:… or REGISTRY/REPOSITORY:TAG",
		"builds/gcc:9.1":    "write REGISTRY/REPOSITORY@sha256:…",
		r.Host + "/x@md5:1": "write REGISTRY/REPOSITORY@sha256:…",
	} {
		a, err := s.Pull(t.Context(), ref, artifacts.Limits{}, nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s is %v, %v", ref, a, err)
	}
}

func TestCredentialsAreThoseOfDocker(t *testing.T) {
	r := serve(t)
	encoded := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	r.User, r.Password = "me", "secret"
	s, _ := newStore(t)
	a := collect(t, s, write(t, toolchain))
	_, err := s.Push(t.Context(), a.Digest, r.Host+"/builds/gcc", "", nil)
	assert.ErrorContains(t, err, "`docker login "+r.Host+"`", "without credentials")
	config := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, r.Host, encoded)
	must(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600))
	ref, err := s.Push(t.Context(), a.Digest, r.Host+"/builds/gcc", "", nil)
	must(t, err)
	other, _ := newStore(t)
	assert.NoError(t, errOf(other.Pull(t.Context(), ref, artifacts.Limits{}, nil)))
}

func TestWhatWasAlteredIsNotPushed(t *testing.T) {
	r := serve(t)
	s, store := newStore(t)
	digest := collect(t, s, write(t, toolchain)).Digest
	must(t, overwrite(layerOf(t, store, digest)))
	ref, err := s.Push(t.Context(), digest, r.Host+"/builds/gcc", "9.1", nil)
	assert.True(t, errors.Is(err, artifacts.ErrAltered), "it is %q, %v", ref, err)
	for _, to := range []string{"", "gcc", "builds/gcc", r.Host, r.Host + "/UPPER"} {
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

// opened is the layer of an artifact.
func opened(t *testing.T, s *artifacts.Store, digest string) ([]byte, artifacts.Layer) {
	body, layer, err := s.Open(t.Context(), digest)
	must(t, err)
	defer body.Close()
	content, err := io.ReadAll(body)
	must(t, err)
	return content, layer
}

// files are those that are sent.
var files = map[string]string{"bin/make!": "#!/bin/sh", "lib/": "", "lib/a.so": "a", "lib/b.so": "-> a.so"}

func TestAnArtifactIsSentFromStoreToStore(t *testing.T) {
	from, _ := newStore(t)
	a := collect(t, from, write(t, files))
	content, layer := opened(t, from, a.Digest)
	to, dir := newStore(t)
	for range 2 { // what is there already is no problem
		got, err := to.Receive(t.Context(), a.Digest, layer, iotest.OneByteReader(bytes.NewReader(content)), artifacts.Limits{})
		require.True(t, err == nil && got == a, "it is %+v, %v, want %+v", got, err, a)
	}
	must(t, to.Verify(t.Context(), a.Digest))
	wantNothingHalf(t, dir)
}

func TestWhatIsNoArtifactIsNotReceived(t *testing.T) {
	from, _ := newStore(t)
	a := collect(t, from, write(t, files))
	content, layer := opened(t, from, a.Digest)
	other := collect(t, from, write(t, map[string]string{"other": ""}))
	altered := bytes.Replace(content, []byte("#!/bin/sh"), []byte("#!/bin/hs"), 1)
	text := []byte("no tar")
	noTar := artifacts.Layer{Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(text)), Size: int64(len(text))}
	for name, test := range map[string]struct {
		digest string
		layer  artifacts.Layer
		body   []byte
		limits artifacts.Limits
		want   any
	}{
		"another artifact":         {other.Digest, layer, content, artifacts.Limits{}, new(*artifacts.RefusedError)},
		"no digest":                {"sha256:../../x", layer, content, artifacts.Limits{}, new(*artifacts.RefusedError)},
		"no digest of the layer":   {a.Digest, artifacts.Layer{Digest: "sha256:..", Size: layer.Size}, content, artifacts.Limits{}, new(*artifacts.RefusedError)},
		"a size below zero":        {a.Digest, artifacts.Layer{Digest: layer.Digest, Size: -1}, content, artifacts.Limits{}, new(*artifacts.RefusedError)},
		"another size":             {a.Digest, artifacts.Layer{Digest: layer.Digest, Size: layer.Size - 1}, content[:layer.Size-1], artifacts.Limits{}, new(*artifacts.RefusedError)},
		"altered bytes":            {a.Digest, layer, altered, artifacts.Limits{}, artifacts.ErrAltered},
		"too few bytes":            {a.Digest, layer, content[:len(content)-1], artifacts.Limits{}, artifacts.ErrAltered},
		"no bytes":                 {a.Digest, layer, nil, artifacts.Limits{}, artifacts.ErrAltered},
		"too many bytes":           {a.Digest, layer, append(bytes.Clone(content), 0), artifacts.Limits{}, artifacts.ErrAltered},
		"too many files":           {a.Digest, layer, content, artifacts.Limits{Files: 4}, new(*artifacts.RefusedError)},
		"more than fits":           {a.Digest, layer, content, artifacts.Limits{Bytes: 3}, new(*artifacts.RefusedError)},
		"a huge layer":             {digestOfLayer(t, artifacts.Layer{Digest: layer.Digest, Size: 1 << 60}), artifacts.Layer{Digest: layer.Digest, Size: 1 << 60}, content, artifacts.Limits{}, new(*artifacts.RefusedError)},
		"what is no tar":           {digestOfLayer(t, noTar), noTar, text, artifacts.Limits{}, new(*artifacts.RefusedError)},
		"what fills the disk":      {a.Digest, layer, content, artifacts.Limits{MinFree: 1 << 62}, syscall.ENOSPC},
		"what breaks off in a gap": {a.Digest, layer, nil, artifacts.Limits{}, io.ErrUnexpectedEOF},
	} {
		t.Run(name, func(t *testing.T) {
			to, dir := newStore(t)
			collect(t, to, write(t, nil)) // so that its directories are there
			var body io.Reader = bytes.NewReader(test.body)
			if sentinel, is := test.want.(error); is && errors.Is(sentinel, io.ErrUnexpectedEOF) {
				body = io.MultiReader(bytes.NewReader(content[:700]), iotest.ErrReader(io.ErrUnexpectedEOF))
			}
			_, err := to.Receive(t.Context(), test.digest, test.layer, body, test.limits)
			if sentinel, is := test.want.(error); is && !errors.Is(err, sentinel) || !is && !errors.As(err, test.want) {
				t.Errorf("the error is %v, want %T %[2]v", err, test.want)
			}
			assert.False(t, to.Has(test.digest), "it is in the store")
			wantNothingHalf(t, dir)
		})
	}
}

// digestOfLayer is the digest that an artifact of a layer would have, as the refusal of another
// one says.
func digestOfLayer(t *testing.T, layer artifacts.Layer) string {
	s, _ := newStore(t)
	_, err := s.Receive(t.Context(), "", layer, bytes.NewReader(nil), artifacts.Limits{})
	_, digest, found := strings.Cut(fmt.Sprint(err), " makes ")
	require.True(t, found, "%v", err)
	return digest
}

func TestAnAlteredArtifactIsNotSent(t *testing.T) {
	s, dir := newStore(t)
	a := collect(t, s, write(t, files))
	content, layer := opened(t, s, a.Digest)
	content[0] ^= 1
	must(t, os.WriteFile(filepath.Join(dir, "blobs/sha256", layer.Digest[len("sha256:"):]), content, 0o600))
	body, _, err := s.Open(t.Context(), a.Digest)
	must(t, err)
	defer body.Close()
	got, err := io.ReadAll(body)
	assert.True(t, errors.Is(err, artifacts.ErrAltered) && len(got) != len(content), "%d of %d bytes were read: %v", len(got), len(content), err)
	_, _, err = s.Open(t.Context(), "sha256:"+strings.Repeat("0", 64))
	assert.True(t, errors.Is(err, artifacts.ErrMissing), "one that is not there is opened: %v", err)
}

func TestAnArtifactThatIsAboutToBeNamedStays(t *testing.T) {
	s, dir := newStore(t)
	named, left := collect(t, s, write(t, files)), collect(t, s, write(t, map[string]string{"other": ""}))
	long := time.Now().Add(-2 * artifacts.MinAge)
	blobs, err := os.ReadDir(filepath.Join(dir, "blobs/sha256"))
	must(t, err)
	for _, b := range blobs {
		must(t, os.Chtimes(filepath.Join(dir, "blobs/sha256", b.Name()), long, long))
	}
	if is, err := s.Use(t.Context(), named.Digest); !is || err != nil {
		t.Errorf("it is there: %v, %v", is, err)
	}
	if is, err := s.Use(t.Context(), "sha256:"+strings.Repeat("0", 64)); is || err != nil {
		t.Errorf("one that is not there is: %v, %v", is, err)
	}
	_, err = s.Prune(t.Context(), time.Now().Add(-artifacts.MinAge), func(string) bool { return false }, false)
	must(t, err)
	assert.True(t, s.Has(named.Digest) && !s.Has(left.Digest), "what was asked for is gone, or what was not has stayed")
}

// dialog is a client whose requests a function answers, on a connection in memory.
func dialog(t *testing.T, serve func(c net.Conn, r *bufio.Reader)) *http.Client {
	inner := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			serve(theirs, bufio.NewReader(theirs))
		}()
		return ours, nil
	}}
	t.Cleanup(inner.CloseIdleConnections)
	return &http.Client{Transport: artifacts.Impatient(inner, time.Minute)}
}

// closed waits until the client has closed a connection.
func closed(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

// slowly is a body of which a byte comes each 50 seconds.
type slowly struct{ left int }

func (s *slowly) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	<-time.After(50 * time.Second)
	s.left--
	p[0] = 'x'
	return 1, nil
}

func TestARegistryThatIsSilentIsGivenUp(t *testing.T) {
	const silent = "nothing was sent or received for 1m0s"
	for name, c := range map[string]struct {
		body  io.Reader
		serve func(c net.Conn, r *bufio.Reader)
		wait  time.Duration
		want  string // "" is that all goes well
	}{
		"it never answers": {nil, func(_ net.Conn, r *bufio.Reader) { closed(r) }, 0, silent},
		"it takes nothing": {strings.NewReader(strings.Repeat("x", 1<<20)), func(_ net.Conn, r *bufio.Reader) { _, _ = http.ReadRequest(r); <-time.After(time.Hour) }, 0, silent},
		"it stops in the middle": {nil, func(c net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			closed(r)
		}, 0, silent},
		"it gives a byte now and then": {nil, func(c net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")
			_, _ = io.Copy(c, &slowly{10})
			closed(r)
		}, 0, ""},
		"it is given a byte now and then": {&slowly{10}, func(c net.Conn, r *bufio.Reader) {
			if request, err := http.ReadRequest(r); err == nil {
				closed(request.Body)
			}
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			closed(r)
		}, 0, ""},
		"who reads takes his time": {nil, func(c net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
			_, _ = fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			closed(r)
		}, time.Hour, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost/v2/", c.body)
				must(t, err)
				answer, err := dialog(t, c.serve).Do(request)
				if err == nil {
					<-time.After(c.wait)
					_, err = io.ReadAll(answer.Body)
					_ = answer.Body.Close()
				}
				assert.True(t, (c.want != "" || err == nil) && (c.want == "" || err != nil && strings.Contains(err.Error(), c.want)), "it is %v, want %q", err, c.want)
				<-time.After(2 * time.Hour) // until the server has ended
			})
		})
	}
}

// again is a transport whose connection was closed just as a request was to be sent: it sends
// it once more, slowly.
type again struct{}

func (again) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := r.GetBody()
	if err != nil {
		return nil, err
	}
	text := ""
	for one := make([]byte, 1); ; {
		select {
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		case <-time.After(50 * time.Second):
		}
		n, err := body.Read(one)
		if text += string(one[:n]); err != nil {
			break
		}
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text)), Request: r}, body.Close()
}

// What is sent of a request counts also where it is sent once more.
func TestARequestThatIsSentAgainIsNotSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://localhost/v2/", strings.NewReader("text"))
		must(t, err)
		client := http.Client{Transport: artifacts.Impatient(again{}, time.Minute)}
		answer, err := client.Do(request)
		must(t, err)
		text, err := io.ReadAll(answer.Body)
		must(t, err)
		must(t, answer.Body.Close())
		assert.Equal(t, "text", string(text), "it has sent %q", text)
	})
}
