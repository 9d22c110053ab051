package submission_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever leads to what Deployster keeps, no source has anything of it: sources go to
// registries, and the log has what nobody else is to read.
func TestWhatDeploysterKeepsIsNoSource(t *testing.T) {
	const leads = "where Deployster keeps its state"
	for name, c := range map[string]struct {
		links map[string]string // to what they lead
		text  string
		want  string // in the cause why a cannot be built; "" is that its sources are only src/f
	}{
		"a link to it":                   {map[string]string{"kept": ".deployster"}, "sources: [kept]", leads},
		"a link to what is in it":        {map[string]string{"kept": ".deployster/objects"}, "sources: [kept]", leads},
		"a link to a file of it":         {map[string]string{"kept": ".deployster/log.db"}, "sources: [kept]", leads},
		"a link to a link":               {map[string]string{"kept": "other", "other": ".deployster"}, "sources: [kept]", leads},
		"a path through a link":          {map[string]string{"kept": ".deployster"}, "sources: [kept/log.db]", leads},
		"released as a link to it":       {map[string]string{"kept": ".deployster"}, "build: [old]", leads},
		"the directory that it leads to": {map[string]string{}, "sources: [moved]", leads},
		"all that is above it":           {map[string]string{"src/moved": "../src"}, "sources: [src]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"src/f": "f", ".deployster/log.db": "secret", ".deployster/objects/x": "secret"})
			for from, to := range c.links {
				require.NoError(t, os.Symlink(to, filepath.Join(w.dir, from)))
			}
			if strings.Contains(c.text, "moved") { // what is kept is elsewhere in the workspace
				at := filepath.Join(w.dir, ".deployster")
				require.NoError(t, os.Rename(at, filepath.Join(w.dir, "moved")))
				require.NoError(t, os.Symlink("moved", at))
			}
			got := w.collected("group: g\njob: {image: build:1}\npackages: {old: {released: {path: kept}}, a: {"+c.text+"}, b: {}}\n", "a", "b")
			if c.want == "" {
				require.Len(t, got.Sources, 1)
				assert.EqualValues(t, 1, got.Sources[0].Size)
				return
			}
			require.Len(t, got.Submit.Unbuildable, 1)
			assert.Contains(t, got.Submit.Unbuildable[0].Cause, c.want)
		})
	}
}

// A workspace whose state is elsewhere in it is submitted as a whole without that.
func TestStateUnderAnotherNameIsNoSource(t *testing.T) {
	w := newWorld(t, map[string]string{"all/f": "f", "all/kept/log.db": "secret"})
	require.NoError(t, os.Symlink("all/kept", filepath.Join(w.dir, ".deployster")))
	got := w.collected("group: g\njob: {image: build:1}\npackages: {a: {sources: [all]}}\n")
	if len(got.Sources) != 1 || got.Sources[0].Size != 1 || got.Sources[0].Files != 2 {
		t.Errorf("kept are %+v", got.Sources)
	}
}
