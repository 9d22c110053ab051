package rundirs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestTheFilesOfTheLastRunsInAPlaceAreKept(t *testing.T) {
	dir := t.TempDir()
	var k Kept
	for i := range 8 {
		for _, place := range []string{"a", "b"} {
			run := filepath.Join(dir, fmt.Sprint(place, i))
			if err := os.MkdirAll(filepath.Join(run, "web"), 0o700); err != nil {
				t.Fatal(err)
			}
			k.Add(place, run)
		}
	}
	k.Add("c", filepath.Join(dir, "gone already"))
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2*mostKept || left[0].Name() != "a3" || left[mostKept].Name() != "b3" {
		t.Errorf("left is %v, %v", left, err)
	}
}
