package entrypoint

import (
	"os"
	"path/filepath"
	"testing"
)

func TestADirectoryIsEmptied(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	for _, err := range []error{
		os.WriteFile(other, nil, 0o600),
		os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700),
		os.WriteFile(filepath.Join(dir, "a", "b", "c"), nil, 0o600),
		os.Symlink(other, filepath.Join(dir, "link")),
		os.Symlink(filepath.Dir(other), filepath.Join(dir, "a", "link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if code := takeEmpty(dir, 2); code != Failed {
		t.Errorf("by a process of a machine it exits with %d", code)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("by a process of a machine it is emptied: %v, %v", entries, err)
	}
	if code := takeEmpty(dir, 1); code != 0 {
		t.Errorf("it exits with %d", code)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("it has %v, %v", entries, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	if code := takeEmpty(filepath.Join(dir, "none"), 1); code != Failed {
		t.Errorf("of one that is not there it exits with %d", code)
	}
}
