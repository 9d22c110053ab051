package docker

import (
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
)

// A plug may hold a bind mount of the workspace. Mounting needs root, as the tests
// of containers do.
func TestADirectoryIsSeenThroughABindMountInAPlug(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	workspace, plug := filepath.Join(root, "workspace"), filepath.Join(root, "plug")
	state, inside := filepath.Join(workspace, engine.StateDir), filepath.Join(plug, "in side")
	for _, directory := range []string{state, inside} {
		require.NoError(t, os.MkdirAll(directory, 0o700))
	}
	mounts := []engine.Mount{{Source: workspace, Target: "/w"}, {Source: plug, Target: "/plug"}}
	check := func(want ...string) {
		t.Helper()
		if got, err := engine.Seen(state, mounts); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	check("/w/.deployster")
	require.NoError(t, syscall.Mount(workspace, inside, "", syscall.MS_BIND, ""))
	t.Cleanup(func() {
		assert.NoError(t, syscall.Unmount(inside, 0))
	})
	check("/plug/in side/.deployster", "/w/.deployster")
}
