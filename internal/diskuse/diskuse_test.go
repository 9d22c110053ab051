package diskuse_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/diskuse"
)

func TestTree(t *testing.T) {
	const size = 1 << 20
	write := func(path string) error { return os.WriteFile(path, make([]byte, size), 0o600) }
	for name, test := range map[string]struct {
		leave func(dir string) error
		want  int64 // and at most a tenth more
	}{
		"nothing": {func(string) error { return nil }, 0},
		"a file":  {func(dir string) error { return write(filepath.Join(dir, "a")) }, size},
		"two files": {func(dir string) error {
			return errors.Join(os.Mkdir(filepath.Join(dir, "b"), 0o700), write(filepath.Join(dir, "a")), write(filepath.Join(dir, "b", "a")))
		}, 2 * size},
		"a file with two names": {func(dir string) error {
			return errors.Join(write(filepath.Join(dir, "a")), os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
		}, size},
		"a sparse file": {func(dir string) error {
			path := filepath.Join(dir, "a")
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 100*size))
		}, 0},
		"a link to a file": {func(dir string) error {
			return errors.Join(write(filepath.Join(dir, "a")), os.Symlink("a", filepath.Join(dir, "b")))
		}, size},
		"no directory": {os.Remove, 0},
	} {
		dir := t.TempDir()
		require.NoError(t, test.leave(dir), name)
		got := diskuse.Tree(os.DirFS(dir), ".")
		assert.GreaterOrEqual(t, got, test.want, name)
		assert.LessOrEqual(t, got, test.want+size/10, name)
	}
}
