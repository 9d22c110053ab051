package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
)

func TestAViewTellsWhetherPathsLeadElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		same   bool
	}{
		"nothing":                  {func(*testing.T, string) {}, true},
		"a file in it":             {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "file")) }, true},
		"another directory":        {replace, false},
		"a mount on it":            {mount, false},
		"a mount below it":         {func(t *testing.T, dir string) { mount(t, filepath.Join(dir, "below")) }, false},
		"a mount elsewhere":        {func(t *testing.T, _ string) { mount(t, t.TempDir()) }, true},
		"a link to another one":    {func(t *testing.T, dir string) { replace(t, filepath.Dir(dir)) }, false},
		"a mount beside, alike it": {func(t *testing.T, dir string) { mount(t, dir+"-beside") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "above", "dir")
			for _, d := range []string{filepath.Join(dir, "below"), dir + "-beside"} {
				require.NoError(t, os.MkdirAll(d, 0o700))
			}
			link := filepath.Join(t.TempDir(), "link")
			require.NoError(t, os.Symlink(dir, link))
			var views engine.Views
			defer views.Close()
			before := must.Get(views.Of([]string{link}))(t)
			c.change(t, dir)
			for _, when := range []string{"at once", "again"} {
				after, err := views.Of([]string{link})
				if err != nil || after.Same(before) != c.same {
					t.Errorf("%s, the same: %t, want %t (%v)", when, after.Same(before), c.same, err)
				}
			}
			var anew engine.Views
			defer anew.Close()
			if after, err := anew.Of([]string{link}); err != nil || after.Same(before) != c.same {
				t.Errorf("looked at anew, the same: %t, want %t (%v)", after.Same(before), c.same, err)
			}
		})
	}
	var views engine.Views
	assert.Error(t, must.Fail(views.Of([]string{filepath.Join(t.TempDir(), "none")})), "what is not there leads somewhere")
}

func TestWhereADirectoryIsMountedOnceMoreItIsSeen(t *testing.T) {
	home, again := filepath.Join(t.TempDir(), "home"), filepath.Join(t.TempDir(), "again")
	state := filepath.Join(home, engine.StateDir)
	for _, d := range []string{state, again} {
		require.NoError(t, os.MkdirAll(d, 0o700))
	}
	var views engine.Views
	defer views.Close()
	shows := func(want ...string) {
		got := must.Get(views.Seen(state, []engine.Mount{{Source: again, Target: "/plug"}}))(t)
		assert.True(t, slices.Equal(got, want), "it is seen at %q; want %q", got, want)
	}
	shows()
	require.NoError(t, unix.Mount(home, again, "", unix.MS_BIND, ""), "this test needs root")
	shows("/plug/" + engine.StateDir)
	shows("/plug/" + engine.StateDir)
	require.NoError(t, unix.Unmount(again, 0))
	shows()
}

func write(t *testing.T, path string) { require.NoError(t, os.WriteFile(path, nil, 0o600)) }

// replace puts another directory in the place of one, with such a directory in it.
func replace(t *testing.T, dir string) {
	require.NoError(t, os.Rename(dir, dir+"-old"))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "dir"), 0o700))
}

func mount(t *testing.T, dir string) {
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""), "this test needs root")
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, 0)) })
}
