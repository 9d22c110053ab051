package regularfile_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/regularfile"
)

func TestNothingIsOpenedButAFile(t *testing.T) {
	t.Chdir(t.TempDir()) // a socket's path is short
	listener := must.Get(net.Listen("unix", "socket"))(t)
	defer listener.Close()
	require.NoError(t, errors.Join(os.WriteFile("file", []byte("text"), 0o600), syscall.Mkfifo("fifo", 0o600), os.Mkdir("dir", 0o700),
		os.Symlink("file", "link"), os.Symlink("fifo", "to-fifo"), os.Symlink("/dev/null", "out")))
	root := must.Get(os.OpenRoot("."))(t)
	defer root.Close()
	ways := map[string]func(string) (*os.File, fs.FileInfo, error){
		"open":    regularfile.Open,
		"no link": regularfile.OpenNoLink,
		"in":      func(name string) (*os.File, fs.FileInfo, error) { return regularfile.OpenIn(root, name) },
	}
	for name, says := range map[string]map[string]string{
		"file":      {"open": "", "no link": "", "in": ""},
		"link":      {"open": "", "no link": "it is a link, not a file", "in": ""},
		"fifo":      {"open": "it is a FIFO, not a file", "no link": "it is a FIFO, not a file", "in": "it is a FIFO, not a file"},
		"to-fifo":   {"open": "it is a FIFO", "no link": "it is a link", "in": "it is a FIFO"},
		"dir":       {"open": "it is a directory", "no link": "it is a directory", "in": "it is a directory"},
		"socket":    {"open": "it is a socket", "no link": "it is a socket", "in": "it is a socket"},
		"/dev/null": {"open": "it is a device", "no link": "it is a device", "in": "path escapes"},
		"out":       {"open": "it is a device", "no link": "it is a link", "in": "path escapes"},
	} {
		for way, says := range says {
			f, info, err := ways[way](name)
			if says != "" {
				assert.ErrorContains(t, err, says, "%s %s", way, name)
				assert.ErrorContains(t, err, filepath.Base(name))
				continue
			}
			require.NoError(t, err, "%s %s", way, name)
			text, err := io.ReadAll(f)
			require.NoError(t, errors.Join(err, f.Close()))
			assert.Equal(t, "text", string(text))
			assert.EqualValues(t, 4, info.Size())
		}
	}
	require.NoError(t, os.Symlink("loop", "loop"))
	_, _, err := regularfile.OpenNoLink("loop/file")
	assert.ErrorIs(t, err, syscall.ELOOP)
	assert.NotErrorIs(t, err, regularfile.ErrNotFile)
	for way, open := range ways {
		_, _, err := open("none")
		assert.ErrorIs(t, err, fs.ErrNotExist, way)
	}
}
