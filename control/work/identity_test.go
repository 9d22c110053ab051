package work

import (
	"os"
	"path/filepath"
	"testing"
)

// An inventory is known by its name wherever its file lies, and without one by its path.
func TestTheIdentityOfAnInventory(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "a", "inventory.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(h *Hosts, identity string) {
		t.Helper()
		if got := h.Identity(); got != identity {
			t.Errorf("it is known as %q, want %q", got, identity)
		}
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	h := NewHosts(path)
	want(h, "")
	write("") // an empty file is no inventory
	want(h, "")
	write("hosts: []")
	want(h, path)

	// Through a link it is the same, and a moved checkout has another.
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Dir(path), link); err != nil {
		t.Fatal(err)
	}
	want(NewHosts(filepath.Join(link, "inventory.yaml")), path)
	t.Chdir(filepath.Dir(path))
	want(NewHosts("inventory.yaml"), path)
	if err := os.Rename(filepath.Dir(path), filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	want(NewHosts(filepath.Join(dir, "b", "inventory.yaml")), filepath.Join(dir, "b", "inventory.yaml"))
	if err := os.Rename(filepath.Join(dir, "b"), filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}

	// The name counts wherever it is; one that is broken stays what it was.
	write("{name: fleet, hosts: []}")
	want(h, "fleet")
	want(NewHosts(filepath.Join(link, "inventory.yaml")), "fleet")
	write("{name: fleet, hosts: [")
	want(h, "fleet")
	write("")
	want(h, "fleet")
	write("# no name any more\nhosts: []")
	want(h, path)
}
