package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The end of a log is kept also where there is no room for a second file.
func TestALogIsShortenedOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "log")
	l, err := createLog(path)
	if err != nil {
		t.Fatal(err)
	}
	l.half = 512 << 10
	all := strings.Repeat("the middle of it\n", 100_000) + "the end of it\n"
	if n, err := l.Write([]byte(all)); n != len(all) || err != nil {
		t.Fatal(n, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other"), make([]byte, 400<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	half := int(l.half)
	want := fmt.Sprintf("%s\n[%d bytes are left out here]\n%s", all[:half], len(all)-2*half, all[len(all)-half:])
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("it has %d bytes and ends with %q (%v)", len(text), text[max(len(text)-20, 0):], err)
	}
	if _, err := os.Lstat(path + shortName); err == nil {
		t.Error("what was begun is left")
	}
}
