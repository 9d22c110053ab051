// Package registryauth finds what registries are to be shown: the credentials that
// `docker login` has left, wherever the program or an engine speaks to one.
//
// They are looked up as the docker command does: in the variable DOCKER_AUTH_CONFIG, with
// the program that Docker's configuration file names for a registry, then in the file.
// The file and the program are somebody else's: both are bounded, and an error
// names them and what to do, and shows nothing that may be a secret.
package registryauth

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/docker/cli/cli/config/credentials"
	"github.com/google/go-containerregistry/pkg/authn"
)

// Key is what Docker's configuration, and its engine, call a registry: its name, but for
// Docker's own, of which they know an address.
func Key(registry string) string {
	switch registry {
	case "docker.io", "index.docker.io", "registry-1.docker.io":
		return "https://index.docker.io/v1/"
	}
	return registry
}

// patience is how long a credential helper may take: it may have to ask a cloud.
const patience = 30 * time.Second

// Keychain finds credentials of registries. The zero value takes what the process's
// environment names. It reads everything anew each time, so that a login counts at once.
type Keychain struct {
	File     string              // Docker's configuration file; "": where the docker command, else podman, has it
	Env      func(string) string // nil: os.Getenv; helpers get the process's own environment
	Patience time.Duration       // how long a helper may take; 0: 30 seconds
}

// Find returns what is known for a repository, REGISTRY/PATH, or for a whole registry.
// What is empty is not known.
func (k Keychain) Find(ctx context.Context, registry, repository string) (authn.AuthConfig, error) {
	found, err := k.find(ctx, registry, repository)
	if err != nil {
		return authn.AuthConfig{}, fmt.Errorf("looking for the credentials of registry %s: %w", registry, err)
	}
	return found, nil
}

func (k Keychain) find(ctx context.Context, registry, repository string) (authn.AuthConfig, error) {
	registry = Key(registry)
	if text := k.env("DOCKER_AUTH_CONFIG"); text != "" {
		config, err := parse([]byte(text))
		if err != nil {
			return authn.AuthConfig{}, fmt.Errorf("the variable DOCKER_AUTH_CONFIG %w; correct it, or unset it", err)
		}
		found, known, err := config.inline(keys(repository, registry)...)
		if err != nil || known {
			return found, wrap(err, "the variable DOCKER_AUTH_CONFIG")
		}
	}
	config, err := k.read()
	if err != nil || config == nil {
		return authn.AuthConfig{}, err
	}
	if helper := cmp.Or(config.CredHelpers[registry], config.CredsStore); helper != "" {
		found, known, err := ask(ctx, helper, registry, cmp.Or(k.Patience, patience))
		if err != nil {
			return authn.AuthConfig{}, fmt.Errorf("%w (%s names the helper)", err, config.file)
		}
		if known {
			return found, nil
		}
	}
	found, _, err := config.inline(keys(repository, registry)...)
	return found, wrap(err, config.file)
}

// keys are the names under which the credentials of a repository may stand in a file, the narrowest first. The
// podman command also writes those of a namespace, and Docker's own registry by its name.
func keys(repository, registry string) (all []string) {
	own := Key("docker.io")
	if host, path, is := strings.Cut(repository, "/"); is && Key(host) == own {
		repository = "docker.io/" + path
	}
	for at := repository; strings.Contains(at, "/"); at = at[:strings.LastIndexByte(at, '/')] {
		all = append(all, at)
	}
	if all = append(all, registry); registry == own {
		all = append(all, "docker.io")
	}
	return all
}

func (k Keychain) env(name string) string {
	if k.Env != nil {
		return k.Env(name)
	}
	return os.Getenv(name)
}

// ResolveContext implements authn.ContextKeychain.
func (k Keychain) ResolveContext(ctx context.Context, target authn.Resource) (authn.Authenticator, error) {
	found, err := k.Find(ctx, target.RegistryStr(), target.String())
	if err != nil {
		return nil, err
	}
	if found == (authn.AuthConfig{}) {
		return authn.Anonymous, nil
	}
	return authn.FromConfig(found), nil
}

// Resolve implements authn.Keychain.
func (k Keychain) Resolve(target authn.Resource) (authn.Authenticator, error) {
	return k.ResolveContext(context.Background(), target)
}

// inline looks the names up among the credentials that stand in the file itself. The
// first name that has some counts; a registry may stand there as a URL, as old versions of
// the docker command wrote it.
func (c *config) inline(names ...string) (authn.AuthConfig, bool, error) {
	for _, name := range names {
		entry, known := c.Auths[name]
		if !known && !strings.Contains(name, "/") {
			for _, key := range c.keys() {
				if credentials.ConvertToHostname(key) == name {
					name, entry, known = key, c.Auths[key], true
					break
				}
			}
		}
		if !known || entry == (authEntry{}) {
			continue
		}
		found, err := entry.decode()
		if err != nil {
			return authn.AuthConfig{}, false, fmt.Errorf("auths has under %q what is no credential: %w; `docker login %s` writes it anew", name, err, credentials.ConvertToHostname(name))
		}
		if found != (authn.AuthConfig{}) {
			return found, true, nil
		}
	}
	return authn.AuthConfig{}, false, nil
}

func wrap(err error, in string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", in, err)
}
