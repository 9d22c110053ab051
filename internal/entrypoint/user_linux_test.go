package entrypoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/internal/must"
)

func TestFilesOfAnImageAreReadWithinIt(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("outside"), 0o600))
	for _, c := range []struct {
		name    string
		make    func(root string) error // of root/etc/passwd
		want    string
		refused string
	}{
		{"a file", func(root string) error { return os.WriteFile(root+"/etc/passwd", []byte("inside"), 0o600) }, "inside", ""},
		{"none", func(string) error { return nil }, "", ""},
		{"no directory for it", func(root string) error { return os.Remove(root + "/etc") }, "", ""},
		{"a link within", func(root string) error {
			if err := os.WriteFile(root+"/real", []byte("inside"), 0o600); err != nil {
				return err
			}
			return os.Symlink("/real", root+"/etc/passwd")
		}, "inside", ""},
		{"an absolute link to the host", func(root string) error { return os.Symlink(outside, root+"/etc/passwd") }, "", ""},
		{"a relative link to the host", func(root string) error {
			return os.Symlink(strings.Repeat("../", 30)+outside, root+"/etc/passwd")
		}, "", ""},
		{"a linked directory of the host", func(root string) error {
			return os.Symlink("/proc/self/cwd", root+"/etc/passwd")
		}, "", ""},
		{"a link to itself", func(root string) error { return os.Symlink("passwd", root+"/etc/passwd") }, "", "too many levels"},
		{"a directory", func(root string) error { return os.Mkdir(root+"/etc/passwd", 0o700) }, "", "no regular file"},
		{"a pipe that nobody writes to", func(root string) error { return unix.Mkfifo(root+"/etc/passwd", 0o600) }, "", "no regular file"},
		{"more than anybody needs", func(root string) error {
			if err := os.WriteFile(root+"/etc/passwd", nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(root+"/etc/passwd", largest+1)
		}, "", "larger than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			require.NoError(t, os.Mkdir(root+"/etc", 0o700))
			require.NoError(t, c.make(root))
			opened := must.Get(os.Open(root))(t)
			defer func() { _ = opened.Close() }()
			content, err := readWithin(opened, "etc/passwd")
			if c.refused != "" {
				assert.True(t, err != nil && strings.Contains(err.Error(), c.refused), "%.100q, error %v; want %q", content, err, c.refused)
				return
			}
			assert.True(t, err == nil && string(content) == c.want, "%.100q, error %v; want %q", content, err, c.want)
		})
	}
}

func TestLastErrorOfALog(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"empty":             {"", ""},
		"warnings":          {`{"level":"warning","msg":"hm"}` + "\n", ""},
		"errors":            {`{"level":"error","msg":"first"}` + "\n" + `{"level":"error","msg":"second"}` + "\n", "second"},
		"cut off":           {`{"level":"error","msg":"first"}` + "\n" + `{"level":"err`, "first"},
		"no JSON":           {"level=error msg=x", ""},
		"JSON of some kind": {`[1,2]`, ""},
	} {
		file := filepath.Join(t.TempDir(), "log")
		require.NoError(t, os.WriteFile(file, []byte(c.content), 0o600))
		assert.Equal(t, c.want, LastError(file), name)
	}
	assert.Empty(t, LastError(filepath.Join(t.TempDir(), "none")), "of no file")
}

func TestOnlyWhatAKernelDoesNotKnowNeedsALaterOne(t *testing.T) {
	for err, want := range map[error]string{
		unix.ENOSYS:                      "5.11",
		unix.EINVAL:                      "5.11",
		fmt.Errorf("x: %w", unix.EINVAL): "5.11",
		unix.EPERM:                       "",
	} {
		var failure *Failure
		if !errors.As(unsupported("5.11", "do it", err), &failure) || failure.Linux != want || failure.Error() != "do it: "+err.Error() {
			t.Errorf("%v: %+v, want Linux %q", err, failure, want)
		}
	}
}
