package engines

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/inventory"
)

// namedContexts is how many contexts an error names at most.
const namedContexts = 10

// checkContext fails if the docker command has no such context here, and names those that it has.
func checkContext(name string, env func(string) string) error {
	known, directory, err := docker.Contexts(docker.Options{Env: env})
	if err != nil || slices.Contains(known, name) { // one that cannot be read does not spoil the others
		return nil
	}
	text := fmt.Sprintf("there is no docker context %s in %s", name, directory)
	if meant := suggest.Closest(name, known); meant != "" {
		text += fmt.Sprintf(", did you mean %q?", meant)
	} else if len(known) > 0 {
		text += ", which has " + phrase.First(known, namedContexts)
	}
	return fmt.Errorf("%s: make it with `docker context create %s --docker host=ssh://USER@HOST`", text, name)
}

// Address returns the address of the Docker Engine of a host, and asks that engine nothing; "" is
// that of a host that has no such engine.
func Address(a *app.App, h inventory.Host) (string, error) {
	if h.Context == "" {
		return h.Endpoint, nil
	}
	if err := checkContext(h.Context, a.WithoutTLS); err != nil {
		return "", err
	}
	return docker.Address(docker.Options{Context: h.Context, Source: "the inventory", Env: a.WithoutTLS})
}
