package artifacts_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/internal/artifacts"
)

// needsRoot skips a test that only root can run, but not where all are to run.
func needsRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		require.Empty(t, os.Getenv("CI"), "only root can do this, and what a machine cannot run fails in CI")
		t.Skip("only root can do this")
	}
}

func TestADiskThatIsFullLeavesNothingHalf(t *testing.T) {
	needsRoot(t)
	store := filepath.Join(t.TempDir(), "artifacts")
	must(t, os.Mkdir(store, 0o700))
	must(t, unix.Mount("tmpfs", store, "tmpfs", 0, "size=3m"))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(store, 0)) })
	s := artifacts.In(store)
	full := func(err error) {
		refused := new(artifacts.RefusedError)
		assert.True(t, errors.Is(err, syscall.ENOSPC) && !errors.As(err, &refused) && strings.Contains(err.Error(), "make room"), "it says %v", err)
		wantNothingHalf(t, store)
	}
	_, err := s.Collect(t.Context(), write(t, map[string]string{"big": strings.Repeat("x", 4<<20)}), artifacts.Limits{})
	full(err)
	a := collect(t, s, write(t, map[string]string{"half": strings.Repeat("x", 2<<20)}))
	_, err = s.Directory(t.Context(), a.Digest)
	full(err)
	must(t, s.Verify(t.Context(), a.Digest))
}

func TestADeviceIsRefusedAndNeverOpened(t *testing.T) {
	needsRoot(t)
	s, _ := newStore(t)
	dir := t.TempDir()
	must(t, unix.Mknod(filepath.Join(dir, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	assert.ErrorContains(t, errOf(s.Collect(t.Context(), dir, artifacts.Limits{})), `"null" is a device, not`)
}

func TestWhatCannotBeReadIsRefused(t *testing.T) {
	needsRoot(t)
	for name, mode := range map[string]os.FileMode{"bin/secret": 0, "bin": 0o700} {
		base := t.TempDir()
		must(t, os.Chmod(filepath.Dir(base), 0o755))
		must(t, os.Chmod(base, 0o777))
		dir := write(t, map[string]string{"bin/secret": "x"})
		must(t, os.Chmod(dir, 0o755))
		must(t, os.Chmod(filepath.Dir(dir), 0o755))
		must(t, os.Chmod(filepath.Join(dir, name), mode))
		s := artifacts.In(filepath.Join(base, "artifacts"))
		asSomebody(t, func() error {
			_, err := s.Collect(t.Context(), dir, artifacts.Limits{})
			if refused := new(artifacts.RefusedError); !errors.As(err, &refused) || !strings.Contains(err.Error(), `"`+name+`" cannot be read: permission denied; let the job make it readable`) {
				t.Errorf("it says %v", err)
			}
			return nil
		})
	}
}

// What nobody may write to can be removed by its owner.
func TestSomebodyElseThanRootCanHaveAStore(t *testing.T) {
	needsRoot(t)
	base := t.TempDir()
	must(t, os.Chmod(filepath.Dir(base), 0o755))
	must(t, os.Chmod(base, 0o777))
	dir := write(t, toolchain)
	must(t, os.Chmod(dir, 0o755))
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	s := artifacts.In(filepath.Join(base, "artifacts"))
	asSomebody(t, func() error {
		a, err := s.Collect(t.Context(), dir, artifacts.Limits{})
		if err == nil {
			_, err = s.Directory(t.Context(), a.Digest)
		}
		return errors.Join(err, s.Verify(t.Context(), a.Digest), s.Remove(t.Context(), a.Digest))
	})
	wantNothingHalf(t, filepath.Join(base, "artifacts"))
}

// asSomebody does something on files as another user.
func asSomebody(t *testing.T, do func() error) {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // which ends with the goroutine, as it is another user's
		const nobody = 65534
		if _, _, failed := syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0); failed != 0 {
			done <- failed
			return
		}
		done <- do()
	}()
	must(t, <-done)
}
