package regularfile_test

import (
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/internal/regularfile"
)

func TestNothingIsOpenedButAFile(t *testing.T) {
	t.Chdir(t.TempDir()) // a socket's path is short
	listener, err := net.Listen("unix", "socket")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if err := errors.Join(os.WriteFile("file", []byte("text"), 0o600), syscall.Mkfifo("fifo", 0o600), os.Mkdir("dir", 0o700),
		os.Symlink("file", "link"), os.Symlink("fifo", "to-fifo"), os.Symlink("/dev/null", "out")); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(".")
	if err != nil {
		t.Fatal(err)
	}
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
				if err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), filepath.Base(name)) {
					t.Errorf("%s %s: %v", way, name, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s %s: %v", way, name, err)
				continue
			}
			text, err := io.ReadAll(f)
			if err := errors.Join(err, f.Close()); err != nil || string(text) != "text" || info.Size() != 4 {
				t.Errorf("%s %s: %q, %v", way, name, text, err)
			}
		}
	}
	if err := os.Symlink("loop", "loop"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := regularfile.OpenNoLink("loop/file"); !errors.Is(err, syscall.ELOOP) || errors.Is(err, regularfile.ErrNotFile) {
		t.Errorf("behind a loop of links: %v", err)
	}
	for way, open := range ways {
		if _, _, err := open("none"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s what there is not: %v", way, err)
		}
	}
}
