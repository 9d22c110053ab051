package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/internal/pattern"
)

// RegistryAuth is what the registry of an image is shown when it is pulled. The schemas of
// configurations have its secrets writeOnly.
type RegistryAuth struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	IdentityToken string `json:"identity_token,omitempty"`
}

// encode makes it what the engine takes for the registry of an image, or "" of nil.
func (a *RegistryAuth) encode(ref string) (string, error) {
	if a == nil {
		return "", nil
	}
	if (a.Username == "" || a.Password == "") && a.IdentityToken == "" {
		return "", errors.New("registry_auth needs username and password, or identity_token, and what it has is empty")
	}
	named, err := reference.ParseNormalizedNamed(ref)
	if err != nil {
		return "", err
	}
	host := reference.Domain(named)
	if host == "docker.io" {
		host = "" // the engine knows its own registry by another name, and by none
	}
	return authconfig.Encode(registry.AuthConfig{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, ServerAddress: host})
}

// isID matches the id of the content of an image.
var isID = pattern.Lazy(`^sha256:[0-9a-f]{64}$`)

// EnsureImage pulls an image that the engine does not hold, and says so first. The registry
// is shown auth, or nothing where that is nil.
func EnsureImage(ctx context.Context, docker *client.Client, ref string, auth *RegistryAuth, sayf func(format string, args ...any)) (client.ImageInspectResult, error) {
	image, err := docker.ImageInspect(ctx, ref)
	if err == nil || !errdefs.IsNotFound(err) {
		return image, wrap(err, "looking for image "+ref)
	}
	if isID().MatchString(ref) {
		return image, fmt.Errorf("the Docker Engine behind the plug \"docker\" holds no image %s, and an id cannot be pulled: load the image there, or name one of a registry", ref)
	}
	shown, err := auth.encode(ref)
	if err != nil {
		return image, fmt.Errorf("pulling image %s: %w", ref, err)
	}
	sayf("pulling image %s", ref)
	pull, err := docker.ImagePull(ctx, ref, client.ImagePullOptions{RegistryAuth: shown})
	if err == nil {
		defer func() { _ = pull.Close() }()
		err = pull.Wait(ctx)
	}
	if err != nil {
		advice := "where the registry wants credentials, give them as registry_auth"
		if auth != nil {
			advice = "check the name, and whether the credentials in registry_auth are right and still valid"
		}
		return image, fmt.Errorf("pulling image %s: %w; %s", ref, err, advice)
	}
	image, err = docker.ImageInspect(ctx, ref)
	return image, wrap(err, "looking for image "+ref+" after it was pulled")
}
