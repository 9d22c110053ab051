package sqlite

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/must"
)

func newPath(tb testing.TB) string { return filepath.Join(tb.TempDir(), "log.db") }
func newLog(tb testing.TB) *Log    { tb.Helper(); return openLog(tb, newPath(tb)) }

func openLog(tb testing.TB, path string) *Log {
	return openWith(tb, path, Options{}, settings{busyTimeout: defaultBusyTimeout})
}

func openWith(tb testing.TB, path string, o Options, s settings) *Log {
	l := must.Get(open(tb.Context(), path, o, s))(tb)
	tb.Cleanup(func() { assert.NoError(tb, l.Close()) })
	return l
}

func errOf[T any](_ T, err error) error { return err }

func samples(from, n int) []deploylog.Event {
	events := make([]deploylog.Event, n)
	for i := range events {
		events[i] = sample(from + i)
	}
	return events
}

func appendEach(t *testing.T, l *Log, from, n int) {
	for _, e := range samples(from, n) {
		require.NoError(t, errOf(l.Append(t.Context(), e)))
	}
}

func wantNext(t *testing.T, l *Log, n int, seq int64) {
	assert.Equal(t, seq, must.Get(l.Append(t.Context(), sample(n)))(t)[0].Seq)
}

func wantSound(t *testing.T, l *Log, events int64) {
	v, err := l.Verify(t.Context())
	assert.NoError(t, err)
	assert.Equal(t, events, v.Events)
}

func names(t *testing.T, dir string) (all []string) {
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		all = append(all, e.Name())
	}
	return all
}

// TestAShortLook leaves no trace, whatever is beside the log.
func TestAShortLook(t *testing.T) {
	path := written(t)
	for _, suffix := range []string{"", anchorSuffix, checkSuffix} { // one more is missing each time
		if suffix != "" {
			require.NoError(t, os.Remove(path+suffix))
		}
		before := names(t, filepath.Dir(path))
		l := openWith(t, path, Options{ReadOnly: true}, settings{busyTimeout: defaultBusyTimeout})
		n := 0
		for _, err := range l.Read(t.Context(), deploylog.Filter{Last: 10}) {
			require.NoError(t, err)
			n++
		}
		assert.Equal(t, 10, n)
		wantSound(t, l, 300)
		wantError(t, errOf(l.Append(t.Context(), sample(1000))), errReadOnly, path)
		assert.NoError(t, errors.Join(l.Close(), l.Close()))
		assert.Equal(t, before, names(t, filepath.Dir(path)))
	}
	none := filepath.Join(t.TempDir(), "sub", "log.db")
	wantError(t, errOf(Open(t.Context(), none, Options{ReadOnly: true})), fs.ErrNotExist, none)
	assert.ErrorIs(t, errOf(os.Stat(filepath.Dir(none))), fs.ErrNotExist)
}

func TestTheStorePassesTheSuite(t *testing.T) {
	logtest.Run(t, func(tb testing.TB) logtest.Store {
		path := newPath(tb)
		return func() deploylog.Log { return openLog(tb, path) }
	})
}

// TestAFileSystemThatIsReadOnly has the remedy of one that somebody may not write to.
func TestAFileSystemThatIsReadOnly(t *testing.T) {
	for _, refused := range []error{syscall.EROFS, syscall.EACCES, syscall.EPERM} {
		err := explain("/mnt/log.db", &os.PathError{Op: "open", Path: "/mnt/log.db-anchor", Err: refused})
		wantError(t, err, refused, "make the file and its directory /mnt writable, or copy them")
	}
	assert.False(t, isForbidden(explain("/mnt/log.db", fs.ErrNotExist)))
}

// somebody is another user where the tests may act as one, and else the own.
func somebody() (uid int, c *syscall.Credential) {
	const nobody = 65534
	if os.Getuid() != 0 {
		return os.Getuid(), nil
	}
	return nobody, &syscall.Credential{Uid: nobody, Gid: nobody}
}

// as runs the test binary in a role as another user, and returns what it says.
func as(t *testing.T, c *syscall.Credential, role, path string) (said string, err error) {
	dir := t.TempDir() // that of the test binary is not for others
	binary := filepath.Join(dir, "test")
	require.NoError(t, errors.Join(copyFile(os.Args[0], binary), openUp(dir), openUp(filepath.Dir(dir))))
	cmd := exec.Command(binary, path, "d1")
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c}
	b, err := cmd.CombinedOutput()
	return string(b), err
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, in.Close(), out.Close())
}

func wantLikeLog(t *testing.T, path string) {
	for _, suffix := range []string{anchorSuffix, checkSuffix} {
		f := must.Get(os.Open(path + suffix))(t)
		own, log, err := stats(f, path)
		assert.True(t, err == nil && own.Uid == log.Uid && own.Gid == log.Gid && own.Mode == log.Mode, "%s: %+v, %v; the log: %+v", suffix, own, err, log)
		require.NoError(t, f.Close())
	}
}

// withoutOthers takes away what is beside a log, as an earlier version leaves
// it, and shares its directory with a user and a group.
func withoutOthers(t *testing.T, uid, gid int, mode fs.FileMode) (path string) {
	path = written(t)
	dir := filepath.Dir(path)
	for _, suffix := range []string{anchorSuffix, checkSuffix, placeSuffix, "-wal", "-shm"} {
		err := os.Remove(path + suffix)
		require.True(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
	}
	err := errors.Join(os.Chown(path, uid, gid), os.Chown(dir, uid, gid), os.Chmod(path, mode), os.Chmod(dir, mode|0o110), openUp(filepath.Dir(dir)))
	require.NoError(t, err)
	return path
}

// TestWhatWasLeftUnfinishedIsRemoved once nobody can be at it any more, and nothing else.
func TestWhatWasLeftUnfinishedIsRemoved(t *testing.T) {
	path := written(t)
	dir := filepath.Dir(path)
	before := time.Now().Add(-2 * abandonedAfter)
	old := []string{".log.db.new-1", ".log.db-anchor.new-1", ".log.db-check.new-1"}
	kept := []string{".log.db-anchor.new-2", ".log.db2.new-1", ".log.db-anchor", "log.db-anchor.new-1"}
	for _, name := range append(slices.Clone(old), kept...) {
		write(t, filepath.Join(dir, name), nil)
		if name == kept[0] {
			continue // somebody may be at it
		}
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), before, before))
	}
	require.NoError(t, openLog(t, path).Close())
	for _, name := range append(slices.Clone(old), kept...) {
		_, err := os.Lstat(filepath.Join(dir, name))
		assert.Equal(t, slices.Contains(old, name), errors.Is(err, fs.ErrNotExist), "%s: %v", name, err)
	}
}

// TestTheOwnerCanUseALogThatRootHasOpened opens one of an earlier version.
func TestTheOwnerCanUseALogThatRootHasOpened(t *testing.T) {
	uid, owner := somebody()
	path := withoutOthers(t, uid, -1, 0o600)
	l := openLog(t, path)
	require.NoError(t, errOf(l.Append(t.Context(), sample(900))))
	require.NoError(t, l.Close())
	wantLikeLog(t, path)
	assert.Equal(t, must.Get(os.Stat(path))(t).Sys().(*syscall.Stat_t).Uid, must.Get(os.Stat(path+placeSuffix))(t).Sys().(*syscall.Stat_t).Uid, "who has the note of where it is")
	said, err := as(t, owner, "append once", path)
	assert.True(t, err == nil, "%v: %s", err, said)
}

// TestALogThatIsProtectedForAWhile leaves what is beside it to its owner.
func TestALogThatIsProtectedForAWhile(t *testing.T) {
	path := written(t)
	require.NoError(t, os.Chmod(path, 0o444))
	l, err := Open(t.Context(), path, Options{})
	if err == nil {
		err = l.Close()
	}
	if err != nil && os.Getuid() == 0 { // others may not open it like that
		t.Fatal(err)
	}
	for _, suffix := range []string{anchorSuffix, checkSuffix} {
		info := must.Get(os.Stat(path + suffix))(t)
		assert.True(t, info.Mode()&0o600 == 0o600, "%s: %+v", suffix, info)
	}
}

// TestALogOfAGroup is shared in ways in which what is beside it must be, too.
func TestALogOfAGroup(t *testing.T) {
	_, member := somebody()
	gid := os.Getgid()
	if member != nil {
		gid = 12345
		member.Groups = []uint32{12345}
	}
	t.Run("a member opens it first", func(t *testing.T) {
		path := withoutOthers(t, -1, gid, 0o660)
		said, err := as(t, member, "append once", path)
		require.NoError(t, err, "%v: %s", err, said)
		require.NoError(t, openLog(t, path).Close())
		for _, suffix := range []string{anchorSuffix, checkSuffix} {
			info := must.Get(os.Stat(path + suffix))(t)
			assert.True(t, info.Mode() == 0o660 && int(info.Sys().(*syscall.Stat_t).Gid) == gid, "%s: %+v", suffix, info)
		}
	})
	t.Run("it is shared later", func(t *testing.T) {
		path := withoutOthers(t, -1, -1, 0o600)
		require.NoError(t, opened(t, path, 1))
		dir := filepath.Dir(path)
		require.NoError(t, errors.Join(os.Chown(path, -1, gid), os.Chown(dir, -1, gid), os.Chmod(path, 0o660), os.Chmod(dir, 0o770)))
		if err := openLog(t, path).Close(); err != nil { // by its owner
			t.Fatal(err)
		}
		wantLikeLog(t, path)
		said, err := as(t, member, "append once", path)
		assert.True(t, err == nil, "%v: %s", err, said)
	})
	t.Run("a member who may read the anchor", func(t *testing.T) {
		if member == nil {
			return // one's own files cannot be like that
		}
		path := withoutOthers(t, -1, gid, 0o660)
		require.NoError(t, openLog(t, path).Close())
		require.NoError(t, os.Chown(path+anchorSuffix, 1, 1))
		require.NoError(t, os.Chmod(path+anchorSuffix, 0o644))
		said, err := as(t, member, "read", path)
		require.NoError(t, err, said)
		assert.Contains(t, said, "300 events\n")
		said, err = as(t, member, "append once", path)
		assert.Error(t, err, "it was appended to")
		wantError(t, errors.New(said), nil, "log.db-anchor: permission denied", "make the file")
	})
}

// TestLinkToLog opens one log by its own name and through links to it and to its directory.
func TestLinkToLog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "real", "log.db")
	l := openLog(t, path)
	byFile, byDir := filepath.Join(dir, "link.db"), filepath.Join(dir, "linked")
	require.NoError(t, errors.Join(os.Symlink(path, byFile), os.Symlink("real", byDir)))
	for _, name := range []string{byFile, filepath.Join(byDir, "log.db")} {
		linked := openLog(t, name)
		unlock := must.Get(l.TryLock("host/a"))(t)
		wantError(t, errOf(linked.TryLock("host/a")), deploylog.ErrLocked)
		unlock()
		assert.True(t, linked.ID() == l.ID(), "%s: log %s, want %s", name, linked.ID(), l.ID())
	}
	assert.ErrorIs(t, errOf(os.Lstat(byFile+".locks")), fs.ErrNotExist, "locks beside the link")
}

// TestLinkToDamagedLog lets a crash leave a damaged write-ahead log, which lies beside the log and not beside the link.
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
	assert.Len(t, must.Get(os.ReadDir(dir))(t), 1)
}

func TestNewDirectoriesAreDurable(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, dir string
		want      []string
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
				info := must.Get(os.Stat(filepath.Join(dir, c.dir)))(t)
				assert.True(t, info.IsDir(), "%s is synced before it has its entry", d)
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

// TestWriteAheadLogStaysSmall lets many logs come, append and go, as the runs of a program do, while another one stays open.
func TestWriteAheadLogStaysSmall(t *testing.T) {
	path := newPath(t)
	_ = openLog(t, path)
	largest := int64(0)
	const runs = 30
	for i := range runs {
		l := must.Get(Open(t.Context(), path, Options{}))(t)
		require.NoError(t, errOf(l.Append(t.Context(), sample(i))))
		require.NoError(t, l.Close())
		info := must.Get(os.Stat(path + "-wal"))(t)
		largest = max(largest, info.Size())
	}
	limit := int64(20 * pageSize)
	assert.True(t, largest <= limit, "the write-ahead log grew to %d bytes in %d runs, want at most %d", largest, runs, limit)
}
