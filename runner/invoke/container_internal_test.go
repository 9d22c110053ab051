package invoke

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
)

// What a container sees of this machine depends on where its engine is.
func TestWhatContainersSee(t *testing.T) {
	w, linked, plug := t.TempDir(), t.TempDir(), engine.Mount{Source: "/srv/site", Target: "/plug/root"}
	work := filepath.Join(w, "call")
	if err := errors.Join(os.Mkdir(filepath.Join(w, engine.StateDir), 0o700), os.Mkdir(filepath.Join(linked, "kept"), 0o700), os.Symlink("kept", filepath.Join(linked, engine.StateDir))); err != nil {
		t.Fatal(err)
	}
	of := func(dir string) engine.Mount { return engine.Mount{Source: dir, Target: dir, ReadOnly: true} }
	for name, c := range map[string]struct {
		in             string // the workspace; "" is w
		remote, copies bool
		works          bool
		mounts         []engine.Mount
		env, hide      []string
	}{
		"an engine of this machine":                                {mounts: []engine.Mount{of(w), {Source: work + workSuffix, Target: protocol.WorkDir}, plug}, env: []string{"DEPLOYSTER_WORKSPACE=" + w, "DEPLOYSTER_WORK=" + protocol.WorkDir}, hide: []string{filepath.Join(w, engine.StateDir)}},
		"one that is elsewhere":                                    {remote: true, mounts: []engine.Mount{plug}},
		"one that gives each container a work directory":           {remote: true, works: true, mounts: []engine.Mount{plug}, env: []string{"DEPLOYSTER_WORK=" + protocol.WorkDir}},
		"one that does both":                                       {remote: true, copies: true, works: true, mounts: []engine.Mount{of(w), plug}, env: []string{"DEPLOYSTER_WORK=" + protocol.WorkDir, "DEPLOYSTER_WORKSPACE=" + w}, hide: []string{filepath.Join(w, engine.StateDir)}},
		"one that copies the workspace":                            {remote: true, copies: true, mounts: []engine.Mount{of(w), plug}, env: []string{"DEPLOYSTER_WORKSPACE=" + w}, hide: []string{filepath.Join(w, engine.StateDir)}},
		"one that copies a workspace whose state is behind a link": {in: linked, remote: true, copies: true, mounts: []engine.Mount{of(linked), plug}, env: []string{"DEPLOYSTER_WORKSPACE=" + linked}, hide: []string{filepath.Join(linked, "kept")}},
	} {
		dir := cmp.Or(c.in, w)
		v := &Invoker{containers: Containers{Workspace: dir, Remote: c.remote, Copies: c.copies, Works: c.works}}
		spec, err := v.containerSpec(protocol.Invocation{}, engine.Image{ID: "sha256:1"}, []engine.Mount{plug}, false, work)
		if err != nil {
			t.Fatal(err)
		}
		in, at := "", ""
		if c.copies || !c.remote {
			in = dir
		}
		if c.works {
			at = protocol.WorkDir
		}
		if !reflect.DeepEqual(spec.Mounts, c.mounts) || !slices.Equal(spec.Env, c.env) || !slices.Equal(spec.Hide, c.hide) || spec.WorkDir != in || spec.Work != at {
			t.Errorf("%s: %+v", name, spec)
		}
	}
}
