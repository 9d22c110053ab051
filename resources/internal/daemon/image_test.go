package daemon_test

import (
	"context"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	"github.com/deployster-go/deployster/resources/internal/dockertest"
)

func TestImagesArePulledWithTheCredentialsOfTheConfiguration(t *testing.T) {
	docker := dockertest.Client(t)
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "hunter2" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors":[{"code":"UNAUTHORIZED"}]}`, http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ref := must.Get(name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/private:1"))(t)
	image := must.Get(random.Image(100, 1))(t)
	require.NoError(t, remote.Write(ref, image, remote.WithAuth(&authn.Basic{Username: "me", Password: "hunter2"})))
	t.Cleanup(func() { _, _ = docker.ImageRemove(context.Background(), ref.Name(), client.ImageRemoveOptions{}) })
	var said []string
	pull := func(auth *daemon.RegistryAuth) error {
		_, err := daemon.EnsureImage(t.Context(), docker, ref.Name(), auth, func(format string, _ ...any) { said = append(said, format) })
		return err
	}
	for _, c := range []struct {
		auth *daemon.RegistryAuth
		says string
	}{
		{nil, "where the registry wants credentials, give them as registry_auth"},
		{&daemon.RegistryAuth{Username: "me", Password: "hunter3"}, "check the name, and whether the credentials in registry_auth are right"},
		{&daemon.RegistryAuth{Username: "me"}, "registry_auth needs username and password, or identity_token"},
	} {
		err := pull(c.auth)
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), ref.Name()) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("with %+v: %v", c.auth, err)
		}
	}
	assert.NoError(t, pull(&daemon.RegistryAuth{Username: "me", Password: "hunter2"}))
	assert.Len(t, said, 3, "said %q", said)
}
