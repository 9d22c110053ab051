package build

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
			require.NoError(t, err)
			defer said.Close()
			l := &jobLog{app: &app.App{Printer: &output.Printer{Out: said}}}
			short := bytes.Join([][]byte{all[:half], left, all[c.size-half:]}, nil)
			for _, content := range [][]byte{all[:c.shown], short, short} {
				path := filepath.Join(t.TempDir(), "log")
				require.NoError(t, os.WriteFile(path, content, 0o600))
				f, err := os.Open(path)
				require.NoError(t, err)
				assert.NoError(t, l.shortened(localLog{f}))
				assert.NoError(t, l.copy(localLog{f}))
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

// The log of a container that goes on when its process has died is taken again and again: each
// time more of its middle is left out.
func TestAFollowedLogOfWhichMoreIsLeftOut(t *testing.T) {
	const half = jobs.MaxLog / 2
	for name, grown := range map[string]int{"by a little": 100, "by all that was shown": half, "by more than that": half + 7, "by much": 2 * jobs.MaxLog} {
		t.Run(name, func(t *testing.T) {
			const first = jobs.MaxLog + 50
			all := make([]byte, first+grown)
			for i := range all {
				all[i] = "abcdefghijklmnopqrstuvw\n"[i%24]
			}
			omission := func(n int) []byte { return fmt.Appendf(nil, "\n[%d bytes are left out here]\n", n) }
			short := func(size int) []byte {
				return bytes.Join([][]byte{all[:half], omission(size - jobs.MaxLog), all[size-half : size]}, nil)
			}
			said, err := os.Create(filepath.Join(t.TempDir(), "said"))
			require.NoError(t, err)
			defer said.Close()
			l := &jobLog{app: &app.App{Printer: &output.Printer{Out: said}}}
			for _, content := range [][]byte{all[:half+3], short(first), short(first), short(len(all)), short(len(all))} {
				path := filepath.Join(t.TempDir(), "log")
				require.NoError(t, os.WriteFile(path, content, 0o600))
				f, err := os.Open(path)
				require.NoError(t, err)
				assert.NoError(t, errors.Join(l.shortened(localLog{f}), l.copy(localLog{f}), f.Close()))
			}
			want := [][]byte{all[:half+3], omission(47), all[first-half : first]}
			if missed := grown - half; missed > 0 {
				want = append(want, omission(missed))
			}
			want = append(want, all[max(first, len(all)-half):])
			if shown, err := os.ReadFile(said.Name()); err != nil || !bytes.Equal(shown, bytes.Join(want, nil)) {
				t.Errorf("%d bytes are shown, want %d: %v", len(shown), len(bytes.Join(want, nil)), err)
			}
		})
	}
}
