package jobs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
)

// What is noted of an attempt is read again, whatever was cut short before it.
func TestHowFarAnAttemptHasComeIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), progressName)
	assert.Equal(t, progress{}, noted(path), "of no file")
	at := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	steps := []progress{{Begun: &begun{At: at}}, {Ended: &end{Began: at, Ended: at.Add(time.Minute)}}, {Result: &build.Result{Finished: &record.Finished{Artifact: "sha256:1"}}}}
	for _, step := range steps {
		// A process has died, or the disk was full, in the midst of a line.
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		require.NoError(t, err)
		_, err = f.WriteString(`{"ended":{"began":"20`)
		require.NoError(t, err)
		require.NoError(t, f.Close())
		require.NoError(t, note(path, step))
	}
	got := noted(path)
	if got.Begun == nil || !got.Begun.At.Equal(at) || got.Ended == nil || got.Ended.took() != time.Minute || got.Result == nil || got.Result.Finished.Artifact != "sha256:1" {
		t.Errorf("it reads %+v", got)
	}
	assert.Error(t, note(filepath.Join(t.TempDir(), "none", progressName), steps[0]), "it was noted in no directory")
}

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

// documents are the recipes of a group: two documents, of which the second has one.
func documents(t testing.TB, group string) (first, second []byte) {
	all := make([]recipe.Recipe, recipe.PerDocument+1)
	for i := range all {
		all[i] = recipe.Recipe{Image: recipe.Image{Image: "build:1"}, Args: []string{"-c", fmt.Sprintf("%s makes %d", group, i)}, Env: map[string]string{"A": "1"}}
	}
	texts, err := recipe.Encode(all)
	require.NoError(t, err)
	return texts[recipe.Name(0)], texts[recipe.Name(recipe.PerDocument)]
}

// Whichever document was read before, a job gets its own recipe, and no other than the document
// has.
func TestEachJobGetsItsRecipe(t *testing.T) {
	a, last := documents(t, "a")
	b, _ := documents(t, "b")
	texts := map[string][]byte{"a": a, "last": last, "b": b, "none": []byte("{")}
	reads := 0
	j := New(Options{Object: func(hash string) ([]byte, error) { reads++; return texts[hash], nil }})
	for _, c := range []struct {
		hash  string
		index int
		want  string // "" is an error
	}{
		{"a", 0, "a makes 0"},
		{"a", recipe.PerDocument - 1, fmt.Sprintf("a makes %d", recipe.PerDocument-1)},
		{"a", recipe.PerDocument, ""},
		{"a", -1, ""},
		{"last", recipe.PerDocument, fmt.Sprintf("a makes %d", recipe.PerDocument)},
		{"last", 0, ""},
		{"none", 0, ""},
		{"b", 7, "b makes 7"},
		{"none", 0, ""},
		{"a", 7, "a makes 7"},
	} {
		var got recipe.Recipe
		read, err := j.recipes(c.hash)
		if err == nil {
			got, err = recipe.Select(read.from, read.all, c.index)
		}
		if (err != nil) != (c.want == "") || err == nil && got.Args[1] != c.want {
			t.Errorf("recipe %d of %s is %v, %v, want %q", c.index, c.hash, got.Args, err, c.want)
		}
	}
	if reads != 6 { // each time that it is another, or was no document
		t.Errorf("documents were read %d times", reads)
	}
}
