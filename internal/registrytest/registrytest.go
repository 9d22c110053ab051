// Package registrytest serves a registry of images on this machine, for tests.
package registrytest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// Registry is a registry that wants User and Password, unless both are empty.
type Registry struct {
	*httptest.Server
	Host           string
	User, Password string
	// Between gets the requests instead of the registry, which is images. It may be nil.
	Between func(w http.ResponseWriter, r *http.Request, images http.Handler)
}

// Serve serves a registry until the test ends.
func Serve(t testing.TB, r *Registry) *Registry {
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true))
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		user, password, _ := request.BasicAuth()
		switch {
		case user != r.User || password != r.Password:
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
		case r.Between != nil:
			r.Between(w, request, images)
		default:
			images.ServeHTTP(w, request)
		}
	}))
	t.Cleanup(r.Close)
	r.Host = strings.TrimPrefix(r.URL, "http://")
	return r
}

// Answer returns what the registry would answer. It only sets the header.
func Answer(w http.ResponseWriter, r *http.Request, images http.Handler) (code int, body []byte) {
	answer := httptest.NewRecorder()
	images.ServeHTTP(answer, r)
	for key, values := range answer.Header() {
		w.Header()[key] = values
	}
	return answer.Code, answer.Body.Bytes()
}

// Alter answers with what the registry would, changed.
func Alter(w http.ResponseWriter, r *http.Request, images http.Handler, change func(body []byte) []byte) {
	code, body := Answer(w, r, images)
	w.Header().Del("Content-Length")
	w.WriteHeader(code)
	_, _ = w.Write(change(body))
}

func (r *Registry) auth() remote.Option {
	return remote.WithAuth(&authn.Basic{Username: r.User, Password: r.Password})
}

// Push pushes an image, and returns its references by tag and by digest.
func (r *Registry) Push(t testing.TB, repository string, image v1.Image) (tag, digest string) {
	ref, err := name.NewTag(r.Host + "/" + repository)
	require.NoError(t, err)
	require.NoError(t, remote.Write(ref, image, r.auth()), "push")
	sum, err := image.Digest()
	require.NoError(t, err)
	return ref.Name(), ref.Context().Name() + "@" + sum.String()
}

// PushIndex pushes an index, and returns its reference by tag.
func (r *Registry) PushIndex(t testing.TB, repository string, index v1.ImageIndex) string {
	ref, err := name.NewTag(r.Host + "/" + repository)
	require.NoError(t, err)
	require.NoError(t, remote.WriteIndex(ref, index, r.auth()), "push")
	return ref.Name()
}
