package contents_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/contents"
	"github.com/deployster-go/deployster/internal/must"
)

// later is a reader to which all that is there is old, so that it remembers.
func later() *contents.Reader {
	return &contents.Reader{Now: func() time.Time { return time.Now().Add(time.Hour) }}
}

func tree(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, errors.Join(
		os.MkdirAll(filepath.Join(dir, "bin"), 0o755), os.WriteFile(filepath.Join(dir, "bin/tool"), []byte("one"), 0o755),
		os.WriteFile(filepath.Join(dir, "a"), []byte("x"), 0o644), os.Symlink("bin/tool", filepath.Join(dir, "link")), os.Symlink("/nowhere", filepath.Join(dir, "out")),
	))
	return dir
}

func TestAHashTellsWhatADirectoryHolds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		same   bool
	}{
		"nothing":              {func(string) error { return nil }, true},
		"times":                {func(dir string) error { return os.Chtimes(filepath.Join(dir, "a"), time.Unix(1, 0), time.Unix(1, 0)) }, true},
		"a text of one length": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "bin/tool"), []byte("two"), 0o755) }, false},
		"a permission":         {func(dir string) error { return os.Chmod(filepath.Join(dir, "bin/tool"), 0o644) }, false},
		"where a link leads": {func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, "link")), os.Symlink("a", filepath.Join(dir, "link")))
		}, false},
		"a file more":        {func(dir string) error { return os.WriteFile(filepath.Join(dir, "bin/b"), nil, 0o644) }, false},
		"an empty directory": {func(dir string) error { return os.Mkdir(filepath.Join(dir, "empty"), 0o755) }, false},
		"a name":             {func(dir string) error { return os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")) }, false},
		"a text that has moved": {func(dir string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "a"), nil, 0o644), os.WriteFile(filepath.Join(dir, "b"), []byte("x"), 0o644))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			r := later()
			before := must.Get(r.Of(t.Context(), dir))(t)
			require.NoError(t, c.change(dir))
			after := must.Get(r.Of(t.Context(), dir))(t)
			assert.Equal(t, c.same, before.Hash == after.Hash)
			assert.Equal(t, must.Get(later().Of(t.Context(), dir))(t), after, "a reader that remembers nothing finds another hash")
		})
	}
}

func TestALinkToAPathIsFollowedAndAFileIsAContent(t *testing.T) {
	dir := tree(t)
	r := later()
	require.NoError(t, os.Symlink(dir, dir+"-link"))
	defer os.Remove(dir + "-link")
	assert.Equal(t, must.Get(r.Of(t.Context(), dir))(t), must.Get(r.Of(t.Context(), dir+"-link"))(t))
	c := must.Get(r.Of(t.Context(), filepath.Join(dir, "a")))(t)
	assert.Equal(t, [2]int64{1, 1}, [2]int64{int64(c.Files), c.Bytes})
}

func TestWhatHasNoContentIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"a FIFO":         {func(dir string) error { return syscall.Mkfifo(filepath.Join(dir, "p"), 0o600) }, "p is a FIFO, which has no content"},
		"too many bytes": {func(dir string) error { return os.Truncate(filepath.Join(dir, "a"), contents.MaxBytes+1) }, "holds more than 256 MiB"},
		"nothing there":  {os.RemoveAll, "cannot be read: "},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t)
			require.NoError(t, c.make(dir))
			_, err := later().Of(t.Context(), dir)
			require.ErrorAs(t, err, new(*contents.RefusedError))
			assert.ErrorContains(t, err, c.want)
		})
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	_, err := later().Of(stopped, tree(t))
	assert.ErrorIs(t, err, context.Canceled)
}

func TestAnExceptionIsNotRead(t *testing.T) {
	dir := tree(t)
	r := &contents.Reader{Except: filepath.Join(dir, "bin"), Now: time.Now}
	before := must.Get(r.Of(t.Context(), dir))(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bin/tool"), []byte("two"), 0o755))
	assert.Equal(t, before, must.Get(r.Of(t.Context(), dir))(t))
}

// A file that was changed just now may be changed again without another time.
func TestWhatIsNewIsNotRemembered(t *testing.T) {
	dir := tree(t)
	r := &contents.Reader{Now: time.Now}
	before := must.Get(r.Of(t.Context(), dir))(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a"), []byte("y"), 0o644))
	assert.NotEqual(t, before.Hash, must.Get(r.Of(t.Context(), dir))(t).Hash)
}
