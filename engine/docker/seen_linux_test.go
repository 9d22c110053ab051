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
	"github.com/deployster-go/deployster/internal/must"
)

// A plug may hold a bind mount of the workspace. Mounting needs root, as the tests of containers do.
func TestADirectoryIsSeenThroughABindMountInAPlug(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	workspace, plug := filepath.Join(root, "workspace"), filepath.Join(root, "plug")
	state, inside := filepath.Join(workspace, engine.StateDir), filepath.Join(plug, "in side")
	for _, directory := range []string{state, inside} {
		require.NoError(t, os.MkdirAll(directory, 0o700))
	}
	mounts := []engine.Mount{{Source: workspace, Target: "/w"}, {Source: plug, Target: "/plug"}}
	check := func(want ...string) {
		got := must.Get(engine.Seen(state, mounts))(t)
		assert.True(t, slices.Equal(got, want), "%q; want %q", got, want)
	}
	check("/w/.deployster")
	require.NoError(t, syscall.Mount(workspace, inside, "", syscall.MS_BIND, ""))
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(inside, 0)) })
	check("/plug/in side/.deployster", "/w/.deployster")
}
