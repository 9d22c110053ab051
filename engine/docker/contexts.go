package docker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	dockerendpoint "github.com/docker/cli/cli/context/docker"
	"github.com/docker/cli/cli/context/store"

	"github.com/deployster-go/deployster/internal/registryauth"
)

// Contexts returns the names of the contexts of the docker command, sorted, and the directory
// of the configuration that has them.
func Contexts(options Options) (names []string, directory string, err error) {
	if options.Env == nil {
		options.Env = os.Getenv
	}
	if directory, err = configDirectory(options); err != nil {
		return nil, "", err
	}
	contexts := store.New(filepath.Join(directory, "contexts"), store.NewConfig(
		func() any { return &map[string]any{} },
		store.EndpointTypeGetter(dockerendpoint.DockerEndpoint, func() any { return &dockerendpoint.EndpointMeta{} }),
	))
	if names, err = store.Names(contexts); err != nil {
		return nil, directory, fmt.Errorf("list the contexts of the docker command in %s: %w", directory, err)
	}
	slices.Sort(names)
	return names, directory, nil
}

// Address returns the address of the engine that the options name, and asks that engine nothing.
func Address(options Options) (string, error) {
	if options.Env == nil {
		options.Env = os.Getenv
	}
	directory, err := configDirectory(options)
	if err != nil {
		return "", err
	}
	config, err := registryauth.ConnectionOf(directory)
	if err != nil {
		return "", err
	}
	where, err := resolve(options, directory, config.CurrentContext)
	return where.address, err
}
