package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/deployster-go/deployster/engine"
)

// resolved is an image that this process has looked up.
type resolved struct {
	image  engine.Image
	pinned string    // by digest, as a Pod names it
	config v1.Config // what its program is
}

// Image looks the image behind ref up: in the repository for what was loaded, and where
// policy allows that in the registry of its name. The cluster pulls it when a Pod needs it.
func (e *Engine) Image(ctx context.Context, ref string, policy engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	var found resolved
	var err error
	switch policy {
	case engine.PullMissing, engine.PullNever:
		found, err = e.held(ctx, ref)
		if err == nil || !errors.Is(err, engine.ErrNoImage) || policy == engine.PullNever {
			break
		}
		found, err = e.pull(ctx, ref)
	case engine.PullAlways:
		if found, err = e.pull(ctx, ref); errors.Is(err, errIsID) {
			found, err = e.held(ctx, ref)
		}
	default:
		return engine.Image{}, fmt.Errorf("image %q: pull policy %q is not known: use missing, always or never", ref, policy)
	}
	if err != nil {
		return engine.Image{}, err
	}
	e.remember(ref, found)
	image := found.image
	image.Ref = ref
	return image, nil
}

// errIsID is why an image is not looked for in a registry.
var errIsID = fmt.Errorf("%w: an id cannot be pulled; use the image's name", engine.ErrNoImage)

func (e *Engine) remember(ref string, found resolved) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.known[ref], e.known[found.image.ID] = found, found
}

// held is an image that was looked up before, or was loaded by anybody.
func (e *Engine) held(ctx context.Context, ref string) (resolved, error) {
	e.mu.Lock()
	found, known := e.known[ref]
	e.mu.Unlock()
	if known {
		return found, nil
	}
	found, err := e.look(ctx, ref, e.repository.Tag(tagOf(ref)))
	if errors.Is(err, engine.ErrNoImage) {
		return resolved{}, fmt.Errorf("image %q: %w: repository %s does not have it under the tag %s, and its own registry is not to be asked", ref, engine.ErrNoImage, e.repository, tagOf(ref))
	}
	return found, err
}

// tagOf is the tag of a loaded image in the repository.
func tagOf(ref string) string {
	if id, ok := strings.CutPrefix(ref, "sha256:"); ok {
		return "id-" + hash(id)
	}
	return "loaded-" + hash(ref)
}

func (e *Engine) pull(ctx context.Context, ref string) (resolved, error) {
	if strings.HasPrefix(ref, "sha256:") {
		return resolved{}, fmt.Errorf("image %q: %w", ref, errIsID)
	}
	named, err := name.ParseReference(ref)
	if err != nil {
		return resolved{}, fmt.Errorf("image %q: %w", ref, err)
	}
	return e.look(ctx, ref, named)
}

// look asks a registry.
func (e *Engine) look(ctx context.Context, ref string, named name.Reference) (resolved, error) {
	described, err := remote.Get(named, e.registry(ctx)...)
	if err != nil {
		return resolved{}, registryError("look up image "+quoted(ref, named), named.Context(), err)
	}
	image, err := described.Image()
	if err != nil {
		return resolved{}, fmt.Errorf("image %q: %w: it has no variant for linux/%s: %w", ref, engine.ErrNoImage, runtime.GOARCH, err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		return resolved{}, registryError("read the configuration of image "+quoted(ref, named), named.Context(), err)
	}
	id, err := image.ConfigName()
	if err != nil {
		return resolved{}, fmt.Errorf("image %q: %w", ref, err)
	}
	digest, err := image.Digest()
	if err != nil {
		return resolved{}, fmt.Errorf("image %q: %w", ref, err)
	}
	found := engine.Image{Ref: ref, ID: id.String(), OS: config.OS, Arch: config.Architecture}
	if named.Context().Name() != e.repository.Name() { // there it has another name
		found.Digest = described.Digest.String()
	}
	return resolved{image: found, pinned: named.Context().Digest(digest.String()).Name(), config: config.Config}, nil
}

func quoted(ref string, named name.Reference) string {
	if ref == named.String() {
		return fmt.Sprintf("%q", ref)
	}
	return fmt.Sprintf("%q (%s)", ref, named)
}

// registry is how registries are asked.
func (e *Engine) registry(ctx context.Context) []remote.Option {
	return []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(e.keychain), remote.WithUserAgent("deployster"),
		remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}),
	}
}

// registryError says what a registry's answer means for the user.
func registryError(action string, repository name.Repository, err error) error {
	host := repository.RegistryStr()
	var answer *transport.Error
	var network *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &answer) && (answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden):
		return fmt.Errorf("%s: %w: %w; registry %s wants credentials for it: `docker login %s`", action, engine.ErrNoImage, err, host, host)
	case errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w: %w; registry %s does not have it: check name, tag and digest", action, engine.ErrNoImage, err, host)
	case errors.As(err, &network), errors.As(err, &dns):
		return fmt.Errorf("%s: %w; check the registry's name and the network", action, &engine.UnreachableError{Registry: host, Cause: err})
	}
	return fmt.Errorf("%s: %w", action, err)
}
