//go:build linux

package store

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// testRegistry is a registry on this machine, which asks for user and password
// if it has some.
type testRegistry struct {
	host           string
	user, password string

	mutex   sync.Mutex
	asked   []string // paths
	at      string   // part of the path of the answer that is changed
	after   int      // its bytes after which it stalls
	change  func([]byte) []byte
	stalled chan struct{} // closed when it stalls
	resume  chan struct{}
}

func serveRegistry(t *testing.T, user, password string) *testRegistry {
	t.Helper()
	r := &testRegistry{user: user, password: password}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		gotUser, gotPassword, _ := request.BasicAuth()
		if gotUser != user || gotPassword != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		r.mutex.Lock()
		r.asked = append(r.asked, request.URL.Path)
		hit := request.Method == http.MethodGet && r.at != "" && strings.Contains(request.URL.Path, r.at)
		at := *r.settings()
		r.mutex.Unlock()
		if !hit {
			images.ServeHTTP(w, request)
			return
		}
		answer := httptest.NewRecorder()
		images.ServeHTTP(answer, request)
		for key, values := range answer.Header() {
			w.Header()[key] = values
		}
		body := answer.Body.Bytes()
		if at.change != nil {
			body = at.change(body)
			w.Header().Del("Content-Length")
			w.WriteHeader(answer.Code)
			_, _ = w.Write(body)
			return
		}
		if at.after > 0 {
			w.WriteHeader(answer.Code)
			_, _ = w.Write(body[:at.after])
			_ = http.NewResponseController(w).Flush()
		}
		close(at.stalled)
		select {
		case <-at.resume:
		case <-request.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
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

// alter changes an answer.
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

func (r *testRegistry) auth() remote.Option {
	return remote.WithAuth(&authn.Basic{Username: r.user, Password: r.password})
}

// push puts an image into the registry and returns its reference by tag and by
// digest.
func (r *testRegistry) push(t *testing.T, repository string, image v1.Image) (tag, digest string) {
	t.Helper()
	ref, err := name.NewTag(r.host + "/" + repository)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, image, r.auth()), "push")
	sum, err := image.Digest()
	require.NoError(t, err)
	return ref.Name(), ref.Context().Name() + "@" + sum.String()
}

// pushIndex puts an index into the registry.
func (r *testRegistry) pushIndex(t *testing.T, repository string, index v1.ImageIndex) string {
	t.Helper()
	ref, err := name.NewTag(r.host + "/" + repository)
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(ref, index, r.auth()), "push")
	return ref.Name()
}
