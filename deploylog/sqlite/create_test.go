package sqlite

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// TestLinkToLog opens one log by its own name and through links to it and to
// its directory.
func TestLinkToLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "real", "log.db")
	l := openLog(t, path)
	byFile, byDir := filepath.Join(dir, "link.db"), filepath.Join(dir, "linked")
	require.NoError(t, errors.Join(os.Symlink(path, byFile), os.Symlink("real", byDir)))
	for _, name := range []string{byFile, filepath.Join(byDir, "log.db")} {
		linked := openLog(t, name)
		unlock, err := l.TryLock("host/a")
		require.NoError(t, err)
		wantError(t, errOf(linked.TryLock("host/a")), deploylog.ErrLocked)
		unlock()
		assert.True(t, linked.ID() == l.ID(), "%s: log %s, want %s", name, linked.ID(), l.ID())
	}
	assert.ErrorIs(t, errOf(os.Lstat(byFile+".locks")), fs.ErrNotExist, "locks beside the link")
}

// TestLinkToDamagedLog lets a crash leave a damaged write-ahead log, which lies
// beside the log and not beside the link.
func TestLinkToDamagedLog(t *testing.T) {
	l := newLog(t)
	path := l.path
	appendEach(t, l, 0, 20)
	crashed, name := newPath(t), filepath.Join(t.TempDir(), "link.db")
	wal := bytes.Clone(read(t, path+"-wal"))
	wal[len(wal)/2] ^= 4
	write(t, crashed, read(t, path))
	write(t, crashed+"-wal", wal)
	require.NoError(t, os.Symlink(crashed, name))
	wantError(t, errOf(Open(t.Context(), name, Options{})), deploylog.ErrCorrupt, "log.db-wal is damaged", "backup")
}

func TestDanglingLink(t *testing.T) {
	dir := t.TempDir()
	path, name := filepath.Join(dir, "log.db"), filepath.Join(dir, "link.db")
	require.NoError(t, os.Symlink(path, name))
	wantError(t, errOf(Open(t.Context(), name, Options{})), nil, name, "a link to "+path+", which does not exist", "remove the link")
	entries, err := os.ReadDir(dir)
	assert.True(t, err == nil && len(entries) == 1, "%v, %v: only the link should be there", entries, err)
}

func TestNewDirectoriesAreDurable(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name string
		dir  string
		want []string
	}{
		{"none is new", "", nil},
		{"one is new", "a", []string{""}},
		{"two more are new", "a/b/c", []string{"a/b", "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var synced, want []string
			for _, d := range c.want {
				want = append(want, filepath.Join(dir, d))
			}
			err := makeDir(filepath.Join(dir, c.dir), func(d string) error {
				info, err := os.Stat(filepath.Join(dir, c.dir))
				assert.True(t, err == nil && info.IsDir(), "%s is synced before it has its entry: %v", d, err)
				synced = append(synced, d)
				return nil
			})
			assert.True(t, err == nil && slices.Equal(synced, want), "synced %q, %v; want %q", synced, err, want)
		})
	}
	failed := errors.New("the disk is gone")
	assert.ErrorIs(t, makeDir(filepath.Join(dir, "x"), func(string) error { return failed }), failed)
}

// TestPlaceWithoutHardLinks stands for file systems that have none.
func TestPlaceWithoutHardLinks(t *testing.T) {
	for _, refusal := range []error{syscall.EPERM, syscall.ENOTSUP, syscall.EOPNOTSUPP} {
		noLinks := func(file, name string) error {
			return &os.LinkError{Op: "link", Old: file, New: name, Err: refusal}
		}
		dir := t.TempDir()
		first, second, name := filepath.Join(dir, "1"), filepath.Join(dir, "2"), filepath.Join(dir, "log.db")
		write(t, first, []byte("first"))
		write(t, second, []byte("second"))
		assert.NoError(t, place(first, name, noLinks), "%v", refusal)
		err := place(second, name, noLinks)
		assert.True(t, errors.Is(err, fs.ErrExist), "%v: error %v for a taken name", refusal, err)
		got := string(read(t, name))
		assert.True(t, got == "first", "%v: %q is in place", refusal, got)
	}
	broken := func(string, string) error { return syscall.EIO }
	assert.ErrorIs(t, place("1", "2", broken), syscall.EIO)
}

// TestWriteAheadLogStaysSmall lets many logs come, append and go, as the runs
// of a program do, while another one stays open.
func TestWriteAheadLogStaysSmall(t *testing.T) {
	path := newPath(t)
	_ = openLog(t, path)
	largest := int64(0)
	const runs = 30
	for i := range runs {
		l, err := Open(t.Context(), path, Options{})
		require.NoError(t, err)
		require.NoError(t, errOf(l.Append(t.Context(), sample(i))))
		require.NoError(t, l.Close())
		info, err := os.Stat(path + "-wal")
		require.NoError(t, err)
		largest = max(largest, info.Size())
	}
	limit := int64(20 * pageSize)
	assert.True(t, largest <= limit, "the write-ahead log grew to %d bytes in %d runs, want at most %d", largest, runs, limit)
}
