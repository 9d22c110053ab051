package jobs

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/recipe"
)

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

// BenchmarkRecipe measures what a job takes to find out what it runs.
func BenchmarkRecipe(b *testing.B) {
	text, _ := documents(b, "a")
	b.Run("of the last document", func(b *testing.B) {
		j := New(Options{Object: func(string) ([]byte, error) { return text, nil }})
		for b.Loop() {
			read, err := j.recipes("a")
			if err == nil {
				_, err = recipe.Select(read.from, read.all, 1)
			}
			require.NoError(b, err)
		}
	})
	b.Run("of another", func(b *testing.B) {
		for b.Loop() {
			if _, err := recipe.At(text, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}
