package docker

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// testRegistry is a registry on this machine, which asks for user and password
// if it has some.
type testRegistry struct {
	host           string
	user, password string
	requests       atomic.Int64
}

func serveRegistry(t *testing.T, user, password string) *testRegistry {
	t.Helper()
	r := &testRegistry{user: user, password: password}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		r.requests.Add(1)
		gotUser, gotPassword, _ := request.BasicAuth()
		if gotUser != user || gotPassword != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED","message":"authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, request)
	}))
	t.Cleanup(server.Close)
	r.host = strings.TrimPrefix(server.URL, "http://")
	return r
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

// pushIndex puts an index into the registry that has the image for one platform.
func (r *testRegistry) pushIndex(t *testing.T, repository string, image v1.Image, platform v1.Platform) string {
	t.Helper()
	ref, err := name.NewTag(r.host + "/" + repository)
	require.NoError(t, err)
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &platform}})
	require.NoError(t, remote.WriteIndex(ref, index, r.auth()), "push")
	return ref.Name()
}

// bulk is an image of two layers with this many random bytes each.
func bulk(t *testing.T, size int64) v1.Image {
	t.Helper()
	image, err := random.Image(size, 2)
	require.NoError(t, err)
	config, err := image.ConfigFile()
	require.NoError(t, err)
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	image, err = mutate.ConfigFile(image, config)
	require.NoError(t, err)
	return image
}
