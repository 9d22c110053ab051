package invoke

import (
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
)

// What a container sees of this machine depends on where its engine is.
func TestWhatContainersSee(t *testing.T) {
	w, plug := t.TempDir(), engine.Mount{Source: "/srv/site", Target: "/plug/root"}
	work := filepath.Join(w, "call")
	workspace := engine.Mount{Source: w, Target: w, ReadOnly: true}
	for name, c := range map[string]struct {
		remote, copies bool
		mounts         []engine.Mount
		env, hide      []string
	}{
		"an engine of this machine":     {mounts: []engine.Mount{workspace, {Source: work + workSuffix, Target: workTarget}, plug}, env: []string{"DEPLOYSTER_WORKSPACE=" + w, "DEPLOYSTER_WORK=" + workTarget}, hide: []string{filepath.Join(w, engine.StateDir)}},
		"one that is elsewhere":         {remote: true, mounts: []engine.Mount{plug}},
		"one that copies the workspace": {remote: true, copies: true, mounts: []engine.Mount{workspace, plug}, env: []string{"DEPLOYSTER_WORKSPACE=" + w}},
	} {
		v := &Invoker{containers: Containers{Workspace: w, Remote: c.remote, Copies: c.copies}}
		spec, err := v.containerSpec(protocol.Invocation{}, engine.Image{ID: "sha256:1"}, []engine.Mount{plug}, false, work)
		if err != nil {
			t.Fatal(err)
		}
		in := ""
		if len(c.env) > 0 {
			in = w
		}
		if !reflect.DeepEqual(spec.Mounts, c.mounts) || !slices.Equal(spec.Env, c.env) || !slices.Equal(spec.Hide, c.hide) || spec.WorkDir != in {
			t.Errorf("%s: %+v", name, spec)
		}
	}
}
