package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/jsonstream"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/registryauth"
)

// Image makes the image behind ref available according to policy. Credentials
// for its registry come from Docker's configuration (auths, credHelpers,
// credsStore). An image id is never pulled.
func (e *Engine) Image(ctx context.Context, ref string, policy engine.PullPolicy, progress func(engine.Progress)) (engine.Image, error) {
	named, err := parse(ref)
	if err != nil {
		return engine.Image{}, fmt.Errorf("image %q: %w", ref, err)
	}
	switch policy {
	case engine.PullAlways:
	case engine.PullMissing, engine.PullNever:
		image, err := e.inspect(ctx, ref, named)
		if err == nil || !errdefs.IsNotFound(err) {
			return image, err
		}
		if policy == engine.PullNever {
			return engine.Image{}, fmt.Errorf("image %q: %w: it is not in the engine and is not to be pulled; load it, or pull it with `docker pull %s`", ref, engine.ErrNoImage, ref)
		}
	default:
		return engine.Image{}, fmt.Errorf("image %q: pull policy %q is not known: use missing, always or never", ref, policy)
	}
	if named != nil {
		if err := e.pull(ctx, ref, named, progress); err != nil {
			return engine.Image{}, err
		}
	}
	image, err := e.inspect(ctx, ref, named)
	if errdefs.IsNotFound(err) {
		return engine.Image{}, fmt.Errorf("image %q: %w: an id cannot be pulled; use the image's name", ref, engine.ErrNoImage)
	}
	return image, err
}

// parse understands a reference; an image id has no name.
func parse(ref string) (reference.Named, error) {
	parsed, err := reference.ParseAnyReference(ref)
	if err != nil {
		return nil, err
	}
	named, ok := parsed.(reference.Named)
	if !ok {
		return nil, nil
	}
	return reference.TagNameOnly(named), nil
}

// inspect asks for an image that the engine holds. The error of one that it
// does not hold satisfies errdefs.IsNotFound.
func (e *Engine) inspect(ctx context.Context, ref string, named reference.Named) (engine.Image, error) {
	found, err := e.client.ImageInspect(ctx, ref)
	if err != nil {
		return engine.Image{}, e.wrap(fmt.Sprintf("look for image %q", ref), err)
	}
	return engine.Image{
		Ref:    ref,
		ID:     found.ID,
		Digest: manifestDigest(named, found.RepoDigests),
		OS:     found.Os,
		Arch:   goarch(found.Architecture),
	}, nil
}

// manifestDigest picks, of the digests an image is known by, the one it has under the name it
// was asked for. It is "" where the image was only tagged with that name: under it, no
// registry has the digest.
func manifestDigest(named reference.Named, digests []string) string {
	if digested, ok := named.(reference.Digested); ok {
		return digested.Digest().String()
	}
	for _, known := range digests {
		parsed, err := reference.ParseNormalizedNamed(known)
		if err != nil {
			continue
		}
		if digested, ok := parsed.(reference.Digested); ok && named != nil && parsed.Name() == named.Name() {
			return digested.Digest().String()
		}
	}
	return ""
}

func (e *Engine) pull(ctx context.Context, ref string, named reference.Named, progress func(engine.Progress)) error {
	host := reference.Domain(named)
	credentials, err := e.credentials(ctx, named)
	if err != nil {
		return fmt.Errorf("pull image %q: %w", ref, err)
	}
	stream, err := e.client.ImagePull(ctx, named.String(), client.ImagePullOptions{RegistryAuth: credentials})
	if err != nil {
		return e.pullError(ref, host, credentials != "", err)
	}
	layers := newLayers(ref, progress)
	for message, err := range stream.JSONMessages(ctx) {
		if err != nil {
			return e.wrap(fmt.Sprintf("pull image %q", ref), err)
		}
		if message.Error != nil {
			return e.pullError(ref, host, credentials != "", message.Error)
		}
		layers.see(message)
	}
	layers.done()
	return nil
}

// credentials returns what the registry is to be shown, encoded for the
// engine, or "" if Docker's configuration has nothing for it.
func (e *Engine) credentials(ctx context.Context, named reference.Named) (string, error) {
	host := reference.Domain(named)
	found, err := e.keychain.Find(ctx, host, named.Name())
	if err != nil || found == (authn.AuthConfig{}) {
		return "", err
	}
	return authconfig.Encode(registry.AuthConfig{
		Username:      found.Username,
		Password:      found.Password,
		ServerAddress: registryauth.Key(host),
		IdentityToken: found.IdentityToken,
		RegistryToken: found.RegistryToken,
	})
}

// pullError reports why an image could not be had. The engine passes the
// registry's answer on as text.
func (e *Engine) pullError(ref, host string, hasCredentials bool, err error) error {
	action := fmt.Sprintf("pull image %q", ref)
	if isCancelled(err) || client.IsErrConnectionFailed(err) {
		return e.wrap(action, err)
	}
	if engine.Exhausted(err) {
		return fmt.Errorf("%s: the engine's machine lacks something: %w", action, err)
	}
	text := strings.ToLower(err.Error())
	contains := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	var advice string
	switch {
	case contains("unauthorized", "no basic auth credentials", "authentication required", "denied", "forbidden"):
		advice = fmt.Sprintf("registry %s wants credentials: `docker login %s`", host, host)
		if hasCredentials {
			advice = fmt.Sprintf("registry %s does not accept the credentials of Docker's configuration for this image: `docker login %s`", host, host)
		}
	case contains("no matching manifest", "does not match the specified platform"):
		advice = "the registry has no variant of it for the engine's platform"
	case contains("not found", "manifest unknown", "name unknown"):
		advice = fmt.Sprintf("registry %s does not have it: check name, tag and digest", host)
	case contains("dial tcp", "no such host", "timeout", "connection refused", "deadline exceeded"):
		return fmt.Errorf("%s: %w; check the registry's name and the engine's network", action, &engine.UnreachableError{Registry: host, Cause: err})
	case contains("x509", "tls", "http response to https client"):
		advice = fmt.Sprintf("the engine does not trust registry %s: check its certificate, or the engine's insecure-registries", host)
	default:
		advice = fmt.Sprintf("check that registry %s has it", host)
	}
	return fmt.Errorf("%s: %w: %w; %s", action, engine.ErrNoImage, err, advice)
}

// Load puts the images of a docker-save tar into the engine.
func (e *Engine) Load(ctx context.Context, tar io.Reader) error {
	loading, err := e.client.ImageLoad(ctx, tar, client.ImageLoadWithQuiet(true))
	if err != nil {
		return e.wrap("load images", err)
	}
	defer func() { _ = loading.Close() }()
	loaded := false
	for answers := json.NewDecoder(loading); ; {
		var message jsonstream.Message
		err := answers.Decode(&message)
		switch {
		case errors.Is(err, io.EOF) && !loaded:
			return errors.New("load images: the tar holds none; it must be one as `docker save` makes")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("load images: read the engine's answer: %w", err)
		case message.Error != nil:
			return fmt.Errorf("load images: %w", message.Error)
		case strings.HasPrefix(message.Stream, "Loaded image"):
			loaded = true
		}
	}
}

// Save returns the image behind ref as a docker-save tar, which the caller
// closes. It fails with engine.ErrNoImage when the engine does not hold it.
func (e *Engine) Save(ctx context.Context, ref string) (io.ReadCloser, error) {
	saved, err := e.client.ImageSave(ctx, []string{ref})
	if errdefs.IsNotFound(err) {
		return nil, fmt.Errorf("save image %q: %w: it is not in the engine; `docker images` lists what is there", ref, engine.ErrNoImage)
	}
	if err != nil {
		return nil, e.wrap(fmt.Sprintf("save image %q", ref), err)
	}
	return saved, nil
}
