package sqlite

import (
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
)

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
	t.Helper()
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

// wantLikeLog fails where a file beside the log is not for those that the log is
// for.
func wantLikeLog(t *testing.T, path string) {
	t.Helper()
	for _, suffix := range []string{anchorSuffix, checkSuffix} {
		f, err := os.Open(path + suffix)
		require.NoError(t, err)
		own, log, err := stats(f, path)
		assert.True(t, err == nil && own.Uid == log.Uid && own.Gid == log.Gid && own.Mode == log.Mode, "%s: %+v, %v; the log: %+v", suffix, own, err, log)
		require.NoError(t, f.Close())
	}
}

// withoutOthers takes away what is beside a log, as an earlier version leaves
// it, and shares its directory with a user and a group.
func withoutOthers(t *testing.T, uid, gid int, mode fs.FileMode) (path string) {
	t.Helper()
	path = written(t)
	dir := filepath.Dir(path)
	for _, suffix := range []string{anchorSuffix, checkSuffix, "-wal", "-shm"} {
		err := os.Remove(path + suffix)
		require.True(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
	}
	err := errors.Join(os.Chown(path, uid, gid), os.Chown(dir, uid, gid), os.Chmod(path, mode), os.Chmod(dir, mode|0o110), openUp(filepath.Dir(dir)))
	require.NoError(t, err)
	return path
}

// TestWhatWasLeftUnfinishedIsRemoved once nobody can be at it any more, and
// nothing else.
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
	require.NoError(t, openLog(t, path).Close())
	wantLikeLog(t, path)
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
		info, err := os.Stat(path + suffix)
		assert.True(t, err == nil && info.Mode()&0o600 == 0o600, "%s: %+v, %v", suffix, info, err)
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
		if said, err := as(t, member, "append once", path); err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		require.NoError(t, openLog(t, path).Close())
		for _, suffix := range []string{anchorSuffix, checkSuffix} {
			info, err := os.Stat(path + suffix)
			assert.True(t, err == nil && info.Mode() == 0o660 && int(info.Sys().(*syscall.Stat_t).Gid) == gid, "%s: %+v, %v", suffix, info, err)
		}
	})
	t.Run("it is shared later", func(t *testing.T) {
		path := withoutOthers(t, -1, -1, 0o600)
		require.NoError(t, opened(t, path, 1))
		dir := filepath.Dir(path)
		err := errors.Join(os.Chown(path, -1, gid), os.Chown(dir, -1, gid), os.Chmod(path, 0o660), os.Chmod(dir, 0o770))
		require.NoError(t, err)
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
