package artifacts_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/internal/artifacts"
)

// What has holes takes more of the disk in the store than it took before.
func TestAFileWithHolesIsRefusedWhereTheDiskHasNoRoomForIt(t *testing.T) {
	s, dir := newStore(t)
	from := t.TempDir()
	var disk syscall.Statfs_t
	must(t, syscall.Statfs(from, &disk))
	free := uint64(disk.Bavail) * uint64(disk.Bsize) //nolint:unconvert // types differ among systems
	must(t, os.WriteFile(filepath.Join(from, "holes"), []byte("x"), 0o600))
	must(t, os.Truncate(filepath.Join(from, "holes"), 15<<30))
	_, err := s.Collect(t.Context(), from, artifacts.Limits{MinFree: free - min(free, 1<<30)})
	var refused *artifacts.RefusedError
	if !errors.As(err, &refused) || refused.Path != "holes" || !strings.Contains(refused.Reason, "has 16106127360 bytes with its holes") {
		t.Errorf("it is %v", err)
	}
	must(t, os.WriteFile(filepath.Join(from, "holes"), []byte("text"), 0o600))
	if _, err = s.Collect(t.Context(), from, artifacts.Limits{MinFree: 1 << 62}); !errors.Is(err, syscall.ENOSPC) || errors.As(err, &refused) {
		t.Errorf("without holes it is %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "tmp", "*")); len(left) > 0 {
		t.Errorf("left is %q", left)
	}
}
