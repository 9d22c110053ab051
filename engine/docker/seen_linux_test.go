package docker

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/engine"
)

// A plug may hold a bind mount of the workspace. Mounting needs root, as the tests
// of containers do.
func TestADirectoryIsSeenThroughABindMountInAPlug(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	workspace, plug := filepath.Join(root, "workspace"), filepath.Join(root, "plug")
	state, inside := filepath.Join(workspace, engine.StateDir), filepath.Join(plug, "in side")
	for _, directory := range []string{state, inside} {
		if err := os.MkdirAll(directory, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	mounts := []engine.Mount{{Source: workspace, Target: "/w"}, {Source: plug, Target: "/plug"}}
	check := func(want ...string) {
		t.Helper()
		if got, err := engine.Seen(state, mounts); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	check("/w/.deployster")
	if err := syscall.Mount(workspace, inside, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(inside, 0); err != nil {
			t.Error(err)
		}
	})
	check("/plug/in side/.deployster", "/w/.deployster")
}
