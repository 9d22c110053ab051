package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
)

func disk(t *testing.T, size string) string {
	dir := t.TempDir()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size), "this test needs root")
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(dir, 0)) })
	return dir
}

// The end of a log is kept also where there is no room for a second file.
func TestALogIsShortenedOnAFullDisk(t *testing.T) {
	dir := disk(t, "2m")
	path := filepath.Join(dir, "log")
	l := must.Get(createLog(path))(t)
	l.half = 512 << 10
	all := strings.Repeat("the middle of it\n", 100_000) + "the end of it\n"
	n, err := l.Write([]byte(all))
	require.True(t, n == len(all) && err == nil, "%v %v", n, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other"), make([]byte, 400<<10), 0o600))
	require.NoError(t, l.close())
	half := int(l.half)
	want := fmt.Sprintf("%s\n[%d bytes are left out here]\n%s", all[:half], len(all)-2*half, all[len(all)-half:])
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("it has %d bytes and ends with %q (%v)", len(text), text[max(len(text)-20, 0):], err)
	}
	assert.Error(t, must.Fail(os.Lstat(path+shortName)), "what was begun is left")
}

// A log that could not be written while the disk was full ends with the last that was printed, and
// says what is missing before that.
func TestALogSaysWhatCouldNotBeWritten(t *testing.T) {
	const line = "what a job prints while the disk is full\n"
	for _, c := range []struct {
		name   string
		lines  int
		before int // lines that are printed while there is room
	}{
		{"all of it is at hand", 1000, 10},
		{"nothing could be written before", 1000, 0},
		{"some is missing", 5000, 10},
		{"more than a log keeps", 20_000, 10},
		{"there was room for nearly as much as a log keeps", 20_000, 6000},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := disk(t, "1m")
			path := filepath.Join(dir, "log")
			l := must.Get(createLog(path))(t)
			l.half = 128 << 10
			for i := range c.lines {
				if i == c.before {
					require.Error(t, os.WriteFile(filepath.Join(dir, "other"), make([]byte, 2<<20), 0o600), "the disk is not full")
				}
				n, err := l.Write([]byte(line))
				require.True(t, n == len(line) && err == nil, "%v %v", n, err)
			}
			require.NoError(t, os.Remove(filepath.Join(dir, "other")))
			must.Get(l.Write([]byte("the end of it\n")))(t)
			assert.True(t, engine.Full(l.close()), "it is not told that the disk was full")
			all := strings.Repeat(line, c.lines) + "the end of it\n"
			text := must.Get(os.ReadFile(path))(t)
			require.LessOrEqual(t, len(text), 2*int(l.half))
			want := all
			if kept := min(int(l.written), 2*int(l.half)-maxUnsaved-len(unwritten)-20); kept+maxUnsaved < len(all) {
				want = fmt.Sprintf("%s\n[%d bytes could not be written here]\n%s", all[:kept], len(all)-kept-maxUnsaved, all[len(all)-maxUnsaved:])
			}
			assert.Equal(t, want, string(text))
		})
	}
}
