package engine_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
)

func TestAViewTellsWhetherPathsLeadElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		same   bool
	}{
		"nothing":                  {func(*testing.T, string) {}, true},
		"a file in it":             {func(t *testing.T, dir string) { write(t, filepath.Join(dir, "file")) }, true},
		"another directory":        {replace, false},
		"a mount on it":            {mount, false},
		"a mount below it":         {func(t *testing.T, dir string) { mount(t, filepath.Join(dir, "below")) }, false},
		"a mount elsewhere":        {func(t *testing.T, _ string) { mount(t, t.TempDir()) }, true},
		"a link to another one":    {func(t *testing.T, dir string) { replace(t, filepath.Dir(dir)) }, false},
		"a mount beside, alike it": {func(t *testing.T, dir string) { mount(t, dir+"-beside") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "above", "dir")
			for _, d := range []string{filepath.Join(dir, "below"), dir + "-beside"} {
				if err := os.MkdirAll(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			link := filepath.Join(t.TempDir(), "link")
			if err := os.Symlink(dir, link); err != nil {
				t.Fatal(err)
			}
			var views engine.Views
			defer views.Close()
			before, err := views.Of([]string{link})
			if err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			for _, when := range []string{"at once", "again"} {
				after, err := views.Of([]string{link})
				if err != nil || after.Same(before) != c.same {
					t.Errorf("%s, the same: %t, want %t (%v)", when, after.Same(before), c.same, err)
				}
			}
			var anew engine.Views
			defer anew.Close()
			if after, err := anew.Of([]string{link}); err != nil || after.Same(before) != c.same {
				t.Errorf("looked at anew, the same: %t, want %t (%v)", after.Same(before), c.same, err)
			}
		})
	}
	var views engine.Views
	if _, err := views.Of([]string{filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("what is not there leads somewhere")
	}
}

// Where a directory is mounted once more it is seen there, too, from then on, and no longer.
func TestWhereADirectoryIsMountedOnceMoreItIsSeen(t *testing.T) {
	home, again := filepath.Join(t.TempDir(), "home"), filepath.Join(t.TempDir(), "again")
	state := filepath.Join(home, engine.StateDir)
	for _, d := range []string{state, again} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var views engine.Views
	defer views.Close()
	shows := func(want ...string) {
		t.Helper()
		got, err := views.Seen(state, []engine.Mount{{Source: again, Target: "/plug"}})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("it is seen at %q, %v; want %q", got, err, want)
		}
	}
	shows()
	if err := unix.Mount(home, again, "", unix.MS_BIND, ""); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	shows("/plug/" + engine.StateDir)
	shows("/plug/" + engine.StateDir)
	if err := unix.Unmount(again, 0); err != nil {
		t.Fatal(err)
	}
	shows()
}

func write(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// replace puts another directory in the place of one, with such a directory in it.
func replace(t *testing.T, dir string) {
	t.Helper()
	if err := os.Rename(dir, dir+"-old"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "dir"), 0o700); err != nil {
		t.Fatal(err)
	}
}

func mount(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
		t.Fatalf("this test needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}
