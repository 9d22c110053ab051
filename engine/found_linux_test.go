package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
)

func TestNoLinkThatATypeMayHaveMadeIsFollowed(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	in := func(names ...string) string { return filepath.Join(append([]string{root}, names...)...) }
	for _, dir := range []string{in("ws", engine.StateDir, "work"), in("ws", "site", "data", "deep"), in("srv")} {
		require.NoError(t, os.MkdirAll(dir, 0o700))
	}
	require.NoError(t, os.WriteFile(in("srv", "file"), nil, 0o600))
	for link, to := range map[string]string{
		in("ws", "mine"):          "../srv",
		in("ws", "site", "made"):  "../../srv",
		in("ws", "site", "state"): "../.deployster",
		in("srv", "loop"):         "loop",
		in("srv", "back"):         "./../ws/./site/data/..",
		in("srv", "top"):          "/../../" + in("ws"),
	} {
		require.NoError(t, os.Symlink(to, link))
	}
	written := []string{in("ws", "site"), in("none"), "/"}
	for name, c := range map[string]struct {
		path string
		link string // that is not followed
		err  error
	}{
		in("ws", "site", "data", "deep"):       {path: in("ws", "site", "data", "deep")},
		in("ws", "site", "..", "mine", "file"): {path: in("srv", "file")},
		in("srv", "back"):                      {path: in("ws", "site")},
		in("srv", "top", "mine"):               {path: in("srv")},
		in("ws", "site", "made", "file"):       {link: in("ws", "site", "made")},
		in("srv", "back", "state"):             {link: in("ws", "site", "state")},
		in("srv", "top", engine.StateDir):      {err: engine.ErrHidden},
		in("ws", engine.StateDir, "work"):      {err: engine.ErrHidden},
		in("srv", "loop"):                      {err: syscall.ELOOP},
		in("srv", "file", "x"):                 {err: syscall.ENOTDIR},
		in("srv", "none"):                      {err: fs.ErrNotExist},
	} {
		found, err := engine.Finder{Hidden: in("ws", engine.StateDir), Written: written}.Find(name)
		var link *engine.LinkError
		switch {
		case c.link != "":
			require.ErrorAs(t, err, &link, name)
			assert.Equal(t, engine.LinkError{Link: c.link, Within: in("ws", "site")}, *link)
		case c.err != nil:
			assert.ErrorIs(t, err, c.err, name)
		default:
			require.NoError(t, err, name)
			assert.Equal(t, c.path, found.Path)
			assert.True(t, found.Is(must.Get(os.Stat(c.path))(t)))
		}
	}
}

// What is pinned is of what was there, whatever is there by now.
func TestWhatWasCheckedIsKnownAgain(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	state, plug := filepath.Join(root, engine.StateDir), filepath.Join(root, "plug")
	for _, dir := range []string{state, plug} {
		require.NoError(t, os.Mkdir(dir, 0o700))
	}
	mounts := must.Get(engine.Finder{Hidden: state}.Pin([]engine.Mount{{Source: plug, Target: "/plug"}, {Source: filepath.Join(root, "none"), Target: "/none"}}))(t)
	assert.NoError(t, mounts[0].Changed())
	assert.Zero(t, mounts[1].Found)
	require.NoError(t, os.Rename(plug, plug+".old"))
	assert.ErrorIs(t, mounts[0].Changed(), fs.ErrNotExist)
	require.NoError(t, os.Symlink(state, plug))
	assert.ErrorIs(t, mounts[0].Changed(), engine.ErrReplaced)
	assert.Empty(t, must.Get(engine.Seen(state, mounts))(t))
	_, err := engine.Finder{Hidden: state}.Pin(mounts)
	assert.ErrorIs(t, err, engine.ErrHidden)
}
