package app_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/must"
)

func TestTheLogIsClosedThoughWhatIsDoneWithItPanics(t *testing.T) {
	a := app.New()
	a.Global.Log = filepath.Join(t.TempDir(), "log.db")
	var log deploylog.Log
	func() {
		defer func() { _ = recover() }()
		_ = a.WithNewLog(t.Context(), func(opened deploylog.Log) error {
			log = opened
			panic("a mistake")
		})
	}()
	for _, err := range log.Read(t.Context(), deploylog.Filter{}) {
		if err != nil {
			return
		}
	}
	t.Error("it is open")
}

// Whoever may write the log must be able to use what belongs to it, also where root has
// kept it, and nobody else may read it.
func TestTextsAreGivenToWhoMayWriteTheLog(t *testing.T) {
	id := os.Getuid()
	if id == 0 {
		id = 65534
	}
	for mode, wants := range map[os.FileMode][2]os.FileMode{0o600: {0o700, 0o600}, 0o660: {0o770, 0o660}, 0o644: {0o700, 0o600}} {
		a := app.New()
		dir := t.TempDir()
		a.Workspace, a.Global.Log = t.TempDir(), filepath.Join(dir, "link")
		path := filepath.Join(dir, "log.db")
		require.NoError(t, errors.Join(os.WriteFile(path, nil, mode), os.Chmod(path, mode), os.Lchown(path, id, -1), os.Symlink(path, a.Global.Log)))
		texts := must.Get(a.Texts())(t)
		digest := must.Get(texts.Keep([]byte("a secret")))(t)
		objects := filepath.Join(dir, "objects")
		for path, want := range map[string]os.FileMode{
			objects: wants[0], filepath.Join(objects, "sha256"): wants[0], filepath.Join(objects, "sha256", digest): wants[1],
		} {
			info := must.Get(os.Stat(path))(t)
			if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != id || info.Mode().Perm() != want {
				t.Errorf("of a log of %d with mode %v, %s is of %d and has mode %v, want %v", id, mode, path, owner, info.Mode(), want)
			}
		}
	}
}

// A log is shared by another mode, or kept from others again, when much lies beside it:
// that follows when its owner next uses it, whatever for.
func TestTextsFollowALogThatIsSharedLater(t *testing.T) {
	a := app.New()
	a.Workspace = t.TempDir()
	dir := t.TempDir()
	a.Global.Log = filepath.Join(dir, "log.db")
	require.NoError(t, os.WriteFile(a.Global.Log, nil, 0o600))
	texts := must.Get(a.Texts())(t)
	digest := must.Get(texts.Keep([]byte("a secret")))(t)
	store := texts.Objects()
	require.NoError(t, errOf(store.MakeSalt()))
	objects := filepath.Join(dir, "objects")
	wantModes := func(after string, directories, files os.FileMode) {
		t.Helper()
		for path, want := range map[string]os.FileMode{
			objects: directories, filepath.Join(objects, "sha256"): directories,
			filepath.Join(objects, "sha256", digest): files, filepath.Join(objects, "salt"): files,
		} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
				t.Errorf("after %s %s has mode %v, want %v (%v)", after, path, info.Mode(), want, err)
			}
		}
	}
	chmod := func(mode os.FileMode) { require.NoError(t, os.Chmod(a.Global.Log, mode)) }
	chmod(0o660)
	require.NoError(t, errOf(a.Texts()))
	wantModes("a command", 0o770, 0o660)
	chmod(0o600)
	require.NoError(t, errOf(texts.Keep([]byte("another"))))
	wantModes("another is kept", 0o700, 0o600)
	chmod(0o660)
	require.NoError(t, errOf(store.MakeSalt()))
	wantModes("the salt is used", 0o770, 0o660)
}

func errOf[T any](_ T, err error) error { return err }
