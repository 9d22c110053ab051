package build

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/output"
)

// However much of a log was shown when its middle is left out, nothing of it is shown twice, and
// what is not shown at all is said once.
func TestAFollowedLogWhoseMiddleIsLeftOut(t *testing.T) {
	const half = jobs.MaxLog / 2
	for _, c := range []struct {
		size, shown int
		missed      int // bytes; 0 is none
	}{
		{jobs.MaxLog + 7, 0, 7},
		{jobs.MaxLog + 7, half - 1, 7},
		{jobs.MaxLog + 7, half, 7},
		{jobs.MaxLog + 7, half + 3, 4},
		{jobs.MaxLog + 7, half + 7, 0},
		{jobs.MaxLog + 7, jobs.MaxLog, 0},
		{3 * jobs.MaxLog, half + 1, 2*jobs.MaxLog - 1},
		{3 * jobs.MaxLog, jobs.MaxLog, 2*jobs.MaxLog - half},
	} {
		t.Run(fmt.Sprintf("%d bytes after %d", c.size, c.shown), func(t *testing.T) {
			all := make([]byte, c.size)
			for i := range all {
				all[i] = "abcdefghijklmnopqrstuvw\n"[i%24]
			}
			left := fmt.Appendf(nil, "\n[%d bytes are left out here]\n", c.size-jobs.MaxLog)
			said, err := os.Create(filepath.Join(t.TempDir(), "said"))
			if err != nil {
				t.Fatal(err)
			}
			defer said.Close()
			l := &jobLog{app: &app.App{Printer: &output.Printer{Out: said}}}
			short := bytes.Join([][]byte{all[:half], left, all[c.size-half:]}, nil)
			for _, content := range [][]byte{all[:c.shown], short, short} {
				path := filepath.Join(t.TempDir(), "log")
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
				f, err := os.Open(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := l.shortened(f); err != nil {
					t.Error(err)
				}
				if err := l.copy(f); err != nil {
					t.Error(err)
				}
				_ = f.Close()
			}
			want := all
			if c.missed > 0 {
				want = bytes.Join([][]byte{all[:max(half, c.shown)], fmt.Appendf(nil, "\n[%d bytes are left out here]\n", c.missed), all[c.size-half:]}, nil)
			}
			if shown, err := os.ReadFile(said.Name()); err != nil || !bytes.Equal(shown, want) {
				t.Errorf("%d bytes are shown, want %d: %v", len(shown), len(want), err)
			}
		})
	}
}
