package docker

import (
	"errors"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine"
)

// What the daemon was about to do when its machine had no more of something is in its texts, too,
// and says nothing about the container or its image.
func TestAnEngineThatLacksSomethingIsNotTheFaultOfTheContainer(t *testing.T) {
	e := &Engine{}
	spec := engine.Spec{Image: "web", Entrypoint: "/tool", Network: "net"}
	for _, said := range []string{
		`OCI runtime create failed: runc create failed: exec: "/tool": mkdir /var/lib/docker/overlay2/x/merged: no space left on device: unknown`,
		`failed to create task: exec: "runc": fork/exec /usr/sbin/runc: too many open files: unknown`,
		"network net not found: open /var/lib/docker/network/files: too many open files in system",
		"invalid mount config: write /var/lib/docker/containers/x/config.v2.json: no space left on device",
		"No such image: web: open /var/lib/docker/image/x: Too many open files",
	} {
		err := e.runError("create the container", spec, errors.New(said))
		if errors.As(err, new(*engine.SpecError)) || errors.Is(err, engine.ErrNoImage) || !strings.Contains(err.Error(), said) {
			t.Errorf("it says %v", err)
		}
		err = e.pullError("web:1", "registry.example", false, errors.New("failed to register layer: "+said))
		if errors.Is(err, engine.ErrNoImage) || strings.Contains(err.Error(), "registry.example") || !strings.Contains(err.Error(), said) {
			t.Errorf("of a pull it says %v", err)
		}
	}
	if err := e.runError("create the container", spec, errors.New(`exec: "/tool": permission denied`)); !errors.As(err, new(*engine.SpecError)) {
		t.Errorf("of what cannot be executed it says %v", err)
	}
}
