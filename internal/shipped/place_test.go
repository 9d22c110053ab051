package shipped

import (
	"os"
	"path/filepath"
	"testing"
)

// A place is the same by whichever links it is named, also before it is there.
func TestAPlaceIsWhereItsLinksLead(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(path string) string { return filepath.Join(root, path) }
	if err := os.Mkdir(at("dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"whole": at("dir"), "dangling": at("dir/none"), "relative": "dir/none", "dir/back": "../later", "second": "dangling", "below": at("whole/none"),
		"round": "round", "there": "back-again", "back-again": "there", "deeper": "deeper/x",
	} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		"dir": "dir", "whole": "dir", "whole/none": "dir/none", "dangling": "dir/none", "relative": "dir/none", "second": "dir/none", "below": "dir/none",
		"dangling/a/b": "dir/none/a/b", "dir/back": "later", "whole/back/x": "later/x", "none/../dir": "dir",
	} {
		if got := (Check{Here: true}).real(at(path)); got != at(want) {
			t.Errorf("%s is %s, not %s", path, got, at(want))
		}
		if got := (Check{}).real(at(path)); got != at(path) {
			t.Errorf("elsewhere %s is %s", path, got)
		}
	}
	for _, endless := range []string{"round", "there/x", "deeper"} {
		if got := (Check{Here: true}).real(at(endless)); got == "" {
			t.Errorf("%s is nowhere", endless)
		}
	}
}
