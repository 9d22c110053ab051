package submission_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
)

// git runs git in the workspace, without settings of whoever runs the test.
func (w *world) git(args ...string) string {
	w.Helper()
	c := exec.Command("git", append([]string{"-C", w.dir, "-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
	c.Env = append(os.Environ(), "HOME="+w.dir+"/none")
	out, err := c.CombinedOutput()
	require.NoError(w, err)
	return strings.TrimSpace(string(out))
}

func TestTheCommitOfTheSourcesIsCarried(t *testing.T) {
	const text = "group: g\njob: {image: build:1}\npackages:\n  a: {sources: [src/a]}\n  b: {sources: [src]}\n  c: {build: [lib], sources: [src/a]}\n  d: {sources: [src/b, src/gone]}\n  lib: {released: {path: lib}}\n  none: {}\n"
	change := func(name string) func(w *world) { return func(w *world) { w.write(name, "changed") } }
	remove := func(name string) func(w *world) {
		return func(w *world) { require.NoError(w, os.RemoveAll(filepath.Join(w.dir, name))) }
	}
	for name, c := range map[string]struct {
		change   func(w *world)
		touched  string
		recorded bool
		exact    bool
	}{
		"as it was committed":             {func(*world) {}, "a b c", true, true},
		"one package is changed":          {change("src/b/x"), "a b c", true, false},
		"a file is new":                   {change("src/b/new"), "b", true, false},
		"a file is missing":               {remove("src/b/x"), "b", true, false},
		"what is not read is changed":     {change("src/b/x"), "a c", true, true},
		"what was released is changed":    {change("lib/l"), "a b c", true, true},
		"what cannot be built is changed": {change("src/b/x"), "a d", true, true},
		"there are no sources":            {func(*world) {}, "none", false, false},
		"there is no repository":          {remove(".git"), "a b c", false, false},
		"there is no git":                 {func(w *world) { w.TB.(*testing.T).Setenv("PATH", "/nowhere") }, "a b c", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"src/a": "a", "src/b/x": "x", "lib/l": "l"})
			w.git("init", "-q")
			w.git("remote", "add", "origin", "https://user:swordfish@example.org/base.git?token=swordfish")
			w.git("add", "-A")
			w.git("commit", "-q", "-m", "all")
			commit := w.git("rev-parse", "HEAD")
			c.change(w)
			got := w.collected(text, strings.Fields(c.touched)...).Submit
			want := &record.Source{Repository: "https://example.org/base.git", Commit: commit, Exact: c.exact}
			if !c.recorded {
				want = nil
			}
			if !reflect.DeepEqual(got.Source, want) || c.recorded && got.Commit != commit {
				t.Errorf("it is %+v, %q", got.Source, got.Commit)
			}
		})
	}
}
