package entrypoint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/internal/must"
)

func TestAShimStartsNothingThatSeesSomethingElse(t *testing.T) {
	dir := t.TempDir()
	is := func(path string) Source {
		var stat unix.Stat_t
		require.NoError(t, unix.Stat(path, &stat))
		return Source{Path: path, Device: stat.Dev, Inode: stat.Ino}
	}
	other := func(s Source) Source { s.Inode++; return s }
	gone := other(is(dir))
	gone.Path = filepath.Join(dir, "none")
	boot, shim := string(must.Get(os.ReadFile(BootFile))(t)), is("/proc/self/exe")
	for name, c := range map[string]struct {
		expected Expected
		want     string
	}{
		"what was checked":                 {Expected{boot, shim, []Source{is(dir)}}, ""},
		"something else":                   {Expected{boot, shim, []Source{is(dir), other(is(dir))}}, ReplacedText + dir},
		"nothing":                          {Expected{boot, shim, []Source{gone}}, ReplacedText + gone.Path + ": "},
		"something else of another kernel": {Expected{"another", shim, []Source{other(is(dir))}}, ""},
		"something else where files have other numbers": {Expected{boot, other(shim), []Source{other(is(dir))}}, ""},
		"nothing that was checked":                      {Expected{Boot: boot, Shim: shim}, ""},
	} {
		err := verify(c.expected.text())
		if c.want == "" {
			assert.NoError(t, err, name)
		} else {
			assert.ErrorContains(t, err, c.want, name)
		}
	}
	assert.Error(t, verify("{"))
}
