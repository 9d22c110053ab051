package manifest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/deployster-go/deployster/manifest"
)

// Nobody writes to the FIFO: what opens it would wait for ever.
func TestWhatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("fifo", link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{fifo: "is a FIFO, not a file", link: "is a FIFO, not a file", "/dev/zero": "is a device, not a file"} {
		if _, err := manifest.ReadFiles([]string{path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of %s: %v", path, err)
		}
	}
}

// What <(COMMAND) names is read, also by a link to it.
func TestAnInheritedPipeIsRead(t *testing.T) {
	for name, path := range map[string]func(fd uintptr) string{
		"/dev/fd":         func(fd uintptr) string { return fmt.Sprintf("/dev/fd/%d", fd) },
		"/proc/self/fd":   func(fd uintptr) string { return fmt.Sprintf("/proc/self/fd/%d", fd) },
		"a relative link": func(fd uintptr) string { return linkTo(t, fmt.Sprintf("/dev/fd/%d", fd)) },
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.WriteString("resources: {}\n"); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		sources, err := manifest.ReadFiles([]string{path(r.Fd())})
		if err != nil || string(sources[0].Data) != "resources: {}\n" {
			t.Errorf("of %s: %v, %v", name, sources, err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// linkTo is a link by a link beside it.
func linkTo(t *testing.T, path string) string {
	t.Helper()
	dir := t.TempDir()
	first, second := filepath.Join(dir, "first"), filepath.Join(dir, "second")
	if err := os.Symlink(path, first); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("first", second); err != nil {
		t.Fatal(err)
	}
	return second
}
