//go:build linux

package shipped

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What the running program is found to be is remembered, and not after another took its
// place.
func TestTheRunningProgramIsReadAgainWhenItIsAnother(t *testing.T) {
	dir := t.TempDir()
	path := put(t, filepath.Join(dir, "deployster"), static(t))
	i := &Images{source: Source{Executable: path, GOOS: "linux", GOARCH: "amd64"}, options: Options{OS: "linux", Arch: "amd64"}}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	id, changed := identityOf(info)
	first, err := i.binary()
	if err != nil {
		t.Fatal(err)
	}
	if i.running.identity != "" && time.Since(changed) < recently {
		t.Error("a file that changed just now was remembered")
	}
	// As it would be some seconds later.
	i.running = ownProgram{id, Binary{Path: path, Arch: "amd64", SHA256: "remembered"}}
	<-time.After(time.Until(changed.Add(recently)))
	if b, err := i.binary(); err != nil || b.SHA256 != "remembered" {
		t.Errorf("it was read again: %+v, %v", b, err)
	}
	put(t, filepath.Join(dir, "new"), append(static(t), 0))
	if err := os.Rename(filepath.Join(dir, "new"), path); err != nil {
		t.Fatal(err)
	}
	if b, err := i.binary(); err != nil || b.SHA256 == "remembered" || b.SHA256 == first.SHA256 {
		t.Errorf("another is taken for it: %+v, %v", b, err)
	}
}
