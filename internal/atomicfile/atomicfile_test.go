package atomicfile_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/must"
)

// wantFile compares the only file of a directory.
func wantFile(t *testing.T, path, want string) {
	got := must.Get(os.ReadFile(path))(t)
	assert.Equal(t, want, string(got))
	info := must.Get(os.Stat(path))(t)
	assert.Equal(t, fs.FileMode(0o600), info.Mode(), "a file is for its owner only")
	assert.Len(t, must.Get(os.ReadDir(filepath.Dir(path)))(t), 1)
}

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"one", "another, which is longer", ""} {
		require.NoError(t, atomicfile.WriteFile(path, []byte(content)))
		wantFile(t, path, content)
	}
}

func TestAFileIsInItsPlaceOnlyOnceItIsCommitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, atomicfile.WriteFile(path, []byte("old")))
	write := func() *atomicfile.File {
		f := must.Get(atomicfile.Create(path))(t)
		require.NoError(t, must.Fail(f.WriteString("new")))
		wantOld := must.Get(os.ReadFile(path))(t)
		assert.Equal(t, "old", string(wantOld), "before it is committed")
		return f
	}
	write().Discard()
	wantFile(t, path, "old")

	f := write()
	require.NoError(t, f.Commit())
	f.Discard() // as it was deferred
	wantFile(t, path, "new")
}

func TestWhatCannotBeWrittenLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	assert.ErrorIs(t, atomicfile.WriteFile(filepath.Join(dir, "none", "file"), nil), fs.ErrNotExist, "without a directory")
	assert.ErrorIs(t, atomicfile.SyncDir(filepath.Join(dir, "none")), fs.ErrNotExist, "a directory that is not there")
	// The file system of processes is one that cannot make its directories durable.
	assert.NoError(t, atomicfile.SyncDir("/proc/self"), "where the file system knows no such thing")
	failed := errors.New("no more")
	err := atomicfile.Write(filepath.Join(dir, "file"), func(w io.Writer) error {
		require.NoError(t, must.Fail(w.Write([]byte("half"))))
		return failed
	})
	if err != failed { //nolint:errorlint // the very same
		t.Errorf("of a content that fails: %v", err)
	}
	taken := filepath.Join(dir, "taken")
	require.NoError(t, os.Mkdir(taken, 0o700))
	assert.Error(t, atomicfile.WriteFile(taken, []byte("x")), "a directory was replaced")
	assert.Len(t, must.Get(os.ReadDir(dir))(t), 1)
}
