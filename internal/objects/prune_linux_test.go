package objects_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/objects"
)

// What another user stored is as new for whoever stores it again, though that may not change
// its time.
func TestAnObjectOfAnotherUserIsAsNewOnceItIsStoredAgain(t *testing.T) {
	if os.Getuid() != 0 {
		require.Empty(t, os.Getenv("CI"), "only root can act as somebody else, and what a machine cannot run fails in CI")
		t.Skip("only root can act as somebody else")
	}
	dir := filepath.Join(t.TempDir(), "objects")
	store := objects.In(dir, func(f *os.File, made bool) {
		mode := os.FileMode(0o666)
		if info, err := f.Stat(); err == nil && info.IsDir() {
			mode = 0o777
		}
		if made {
			_ = f.Chmod(mode)
		}
	})
	hash := keep(t, store, "shared")
	path := filepath.Join(dir, "sha256", hash)
	old := time.Now().Add(-3 * objects.MinAge)
	require.NoError(t, errors.Join(os.Chtimes(path, old, old), os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(filepath.Dir(filepath.Dir(dir)), 0o755)))
	asSomebody(t, func() error { return store.KeepAll([]byte("shared")) })
	pruned, err := store.Prune(t.Context(), time.Now().Add(-objects.MinAge), func(string) bool { return false }, false)
	assert.True(t, err == nil && pruned.Count == 0, "it removed %+v, %v", pruned, err)
	wantContent(t, store, hash, "shared")
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
	require.NoError(t, <-done)
}
