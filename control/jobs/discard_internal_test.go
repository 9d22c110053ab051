package jobs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// What jobs leave is removed beside the next ones, but never is more left than is being removed.
func TestNoMoreIsLeftThanIsBeingRemoved(t *testing.T) {
	j := New(Options{Workspace: t.TempDir()})
	left := func() *attempt {
		a := &attempt{Jobs: j, dir: filepath.Join(t.TempDir(), "attempt")}
		require.NoError(t, os.MkdirAll(filepath.Join(a.dir, outName, "d"), 0o700))
		return a
	}
	there := func(a *attempt) bool {
		_, err := os.Lstat(a.dir)
		return err == nil
	}
	for range mostDiscarding {
		j.discarding <- struct{}{} // as while others are removed
	}
	a := left()
	if a.discardBeside(); there(a) {
		t.Error("more is left than is being removed")
	}
	for range mostDiscarding {
		<-j.discarding
	}
	b := left()
	b.discardBeside()
	if j.Wait(); there(b) {
		t.Error("it is there though nothing is being removed")
	}
}
