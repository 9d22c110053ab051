package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
)

func TestADirectoryIsSeenWhereMountsShowIt(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	workspace, elsewhere := filepath.Join(root, "sites", "one"), filepath.Join(root, "elsewhere")
	state := filepath.Join(workspace, engine.StateDir)
	for _, directory := range []string{filepath.Join(state, "work"), filepath.Join(workspace, "sub"), elsewhere} {
		require.NoError(t, os.MkdirAll(directory, 0o700))
	}
	for link, to := range map[string]string{
		filepath.Join(root, "link"):        workspace,
		filepath.Join(elsewhere, "inside"): filepath.Join(workspace, "sub"),
		filepath.Join(elsewhere, "state"):  state,
	} {
		require.NoError(t, os.Symlink(to, link))
	}
	var views engine.Views
	defer views.Close()
	mount := func(source, target string) engine.Mount { return engine.Mount{Source: source, Target: target} }
	for _, c := range []struct {
		name, directory string
		mounts          []engine.Mount
		want            []string
	}{
		{"of the workspace", state, []engine.Mount{mount(workspace, "/w")}, []string{"/w/.deployster"}},
		{"of the workspace by way of a link", state, []engine.Mount{mount(filepath.Join(root, "link"), "/w/")}, []string{"/w/.deployster"}},
		{"asked for by way of a link", filepath.Join(elsewhere, "state"), []engine.Mount{mount(workspace, "/w")}, []string{"/w/.deployster"}},
		{"of what holds the workspace", state, []engine.Mount{mount(workspace, "/w"), mount(root, "/plug")}, []string{"/plug/sites/one/.deployster", "/w/.deployster"}},
		{"of the machine", state, []engine.Mount{mount("/", "/host")}, []string{"/host" + state}},
		{"of itself", state, []engine.Mount{mount(state, "/plug")}, []string{"/plug"}},
		{"of a part of it", state, []engine.Mount{mount(filepath.Join(state, "work"), "/plug")}, nil},
		{"of something else", state, []engine.Mount{mount(elsewhere, "/plug"), mount(filepath.Join(workspace, "sub"), "/sub")}, nil},
		{"under another mount", state, []engine.Mount{mount(workspace, "/w"), mount(elsewhere, "/w/.deployster")}, nil},
		{"around another mount", state, []engine.Mount{mount(workspace, "/w"), mount(elsewhere, "/w/.deployster/x")}, []string{"/w/.deployster"}},
		{"twice at one place", state, []engine.Mount{mount(workspace, "/w"), mount(workspace, "/w")}, []string{"/w/.deployster"}},
		{"of what is not there", filepath.Join(root, "none"), []engine.Mount{mount(root, "/plug")}, nil},
		{"of what cannot be mounted", state, []engine.Mount{mount(filepath.Join(root, "none"), "/plug")}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, seen := range map[string]func(string, []engine.Mount) ([]string, error){"once": engine.Seen, "again and again": views.Seen} {
				got := must.Get(seen(c.directory, c.mounts))(t)
				assert.True(t, slices.Equal(got, c.want), "%s: %q; want %q", name, got, c.want)
			}
		})
	}
	for name, want := range map[string]error{
		state: engine.ErrHidden, filepath.Join(state, "work"): engine.ErrHidden, filepath.Join(elsewhere, "state", "work"): engine.ErrHidden,
		workspace: nil, elsewhere: nil, filepath.Join(elsewhere, "inside"): nil, filepath.Join(root, "none"): fs.ErrNotExist,
	} {
		_, err := engine.Finder{Hidden: state}.Find(name)
		assert.ErrorIs(t, err, want, name)
	}
	_, err := engine.Finder{Hidden: filepath.Join(root, "none")}.Find(workspace)
	assert.NoError(t, err)
}
