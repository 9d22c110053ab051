package lockfile_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/lockfile"
)

// Who may read it is for the umask to say, as of the manifests that it is kept with.
func TestANewLockFileHasTheModeOfANewFile(t *testing.T) {
	for umask, want := range map[int]os.FileMode{0o022: 0o644, 0o077: 0o600, 0o002: 0o664} {
		dir := t.TempDir()
		was := syscall.Umask(umask)
		err := (lockfile.File{}).Write(dir)
		syscall.Umask(was)
		require.NoError(t, err)
		info, err := os.Stat(filepath.Join(dir, lockfile.Name))
		assert.True(t, err == nil && info.Mode().Perm() == want, "with the umask %04o it has %v, %v, want %v", umask, info.Mode(), err, want)
		entries, err := os.ReadDir(dir)
		assert.True(t, err == nil && len(entries) == 1, "beside it are %v, %v", entries, err)
	}
}
