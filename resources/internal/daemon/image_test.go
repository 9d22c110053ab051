package daemon_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/registrytest"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	"github.com/deployster-go/deployster/resources/internal/dockertest"
)

func TestImagesArePulledWithTheCredentialsOfTheConfiguration(t *testing.T) {
	docker := dockertest.Client(t)
	image := must.Get(random.Image(100, 1))(t)
	ref, _ := registrytest.Serve(t, &registrytest.Registry{User: "me", Password: "hunter2"}).Push(t, "private:1", image)
	t.Cleanup(func() { _, _ = docker.ImageRemove(context.Background(), ref, client.ImageRemoveOptions{}) })
	var said []string
	pull := func(auth *daemon.RegistryAuth) error {
		_, err := daemon.EnsureImage(t.Context(), docker, ref, auth, func(format string, _ ...any) { said = append(said, format) })
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
		if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), ref) || strings.Contains(err.Error(), "hunter") {
			t.Errorf("with %+v: %v", c.auth, err)
		}
	}
	assert.NoError(t, pull(&daemon.RegistryAuth{Username: "me", Password: "hunter2"}))
	assert.Len(t, said, 3, "said %q", said)
}
