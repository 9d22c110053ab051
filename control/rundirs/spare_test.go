package rundirs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// places is a directory with the runs of a place, of which some are kept.
type places struct {
	*testing.T
	dir  string
	kept Kept
}

func newPlaces(t *testing.T) *places {
	dir := t.TempDir()
	return &places{T: t, dir: dir, kept: Kept{spare: spareDirs{in: filepath.Join(dir, "spare")}}}
}

// run is a run of a place that writes files, over what it may have got of another.
func (p *places) run(name string, files map[string]string) {
	dir := filepath.Join(p.dir, name)
	end := p.kept.Begin("place", dir)
	for file, text := range files {
		path := filepath.Join(dir, file)
		require.NoError(p, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(p, os.WriteFile(path, []byte(text), 0o600))
	}
	p.kept.Add("place", dir)
	end()
}

// files are those of a run, by their names.
func (p *places) files(name string) map[string]string {
	files := map[string]string{}
	root := os.DirFS(filepath.Join(p.dir, name))
	require.NoError(p, eachFile(filepath.Join(p.dir, name), func(path string, e os.DirEntry) error {
		below, err := filepath.Rel(filepath.Join(p.dir, name), path)
		if err != nil || e.IsDir() {
			return err
		}
		file, err := root.Open(below)
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		files[below] = string(text)
		_ = file.Close()
		return err
	}))
	return files
}

func (p *places) inode(name string) uint64 {
	var stat syscall.Stat_t
	require.NoError(p, syscall.Stat(filepath.Join(p.dir, name), &stat))
	return stat.Ino
}

func TestARunWritesIntoTheFilesOfAnOldOne(t *testing.T) {
	p := newPlaces(t)
	var first uint64
	for i := range mostKept + 1 {
		p.run(fmt.Sprint("run", i), map[string]string{"web/01-state.stdin.json": "long ago", "web/02-set.stdout": "set", "old/01-state.stdin.json": "gone since"})
		if i == 0 {
			first = p.inode("run0/web/01-state.stdin.json")
		}
	}
	want := map[string]string{"web/01-state.stdin.json": "new", "web/02-set.stderr": "failed"}
	p.run("last", want)
	assert.Equal(t, want, p.files("last"), "the last run")
	assert.Equal(t, first, p.inode("last/web/01-state.stdin.json"), "its file is not that of the first run")
	_, err := os.Stat(filepath.Join(p.dir, "last", "old"))
	assert.True(t, os.IsNotExist(err), "it has a directory of a resource that it does not have")
	for i := 2; i <= mostKept; i++ {
		got := p.files(fmt.Sprint("run", i))
		assert.True(t, len(got) == 3 && got["web/02-set.stdout"] == "set", "run %d has %q", i, got)
	}
}

// What somebody else put into the directory of a run, or keeps by another name, is not written to.
func TestOnlyFilesOfOursAreWrittenInto(t *testing.T) {
	p := newPlaces(t)
	outside := filepath.Join(p.dir, "outside")
	for _, name := range []string{"link", "kept", "open"} {
		require.NoError(t, os.MkdirAll(filepath.Join(outside, name), 0o700))
	}
	precious := filepath.Join(outside, "precious")
	require.NoError(t, os.WriteFile(precious, []byte("precious"), 0o600))
	p.run("run0", map[string]string{
		"web/01-state.stdin.json": "kept elsewhere", "web/02-set.stdout": "set", "web/02-set.work/theirs": "theirs", "web/03-state.stdout": "shared", "top": "level",
	})
	of := func(name string) string { return filepath.Join(p.dir, "run0", name) }
	for _, err := range []error{
		os.Link(of("web/01-state.stdin.json"), filepath.Join(outside, "kept", "input")),
		os.Symlink(precious, of("web/04-link.stdout")),
		os.Symlink(filepath.Join(outside, "link"), of("directory")),
		os.Chmod(of("web/03-state.stdout"), 0o640),
	} {
		require.NoError(t, err)
	}
	for i := range mostKept {
		p.run(fmt.Sprint("run", i+1), map[string]string{"web/01-state.stdin.json": "input"})
	}
	spare, err := filepath.Glob(filepath.Join(p.dir, "spare", "*", "*", "*"))
	assert.True(t, err == nil && len(spare) == 1 && filepath.Base(spare[0]) == "02-set.stdout", "spare are %q (%v)", spare, err)
	p.run("last", map[string]string{"web/01-state.stdin.json": "new"})
	assert.Len(t, p.files("last"), 1, "the last run")
	for name, want := range map[string]string{"precious": "precious", "kept/input": "kept elsewhere"} {
		text := must.Get(os.ReadFile(filepath.Join(outside, name)))(t)
		assert.Equal(t, want, string(text), "%s has %q, want %q", name, text, want)
	}
	_, err = os.Stat(filepath.Join(outside, "link"))
	assert.NoError(t, err, "what a link leads to")
}

func TestARunDoesWithoutASpareDirectory(t *testing.T) {
	for name, spoil := range map[string]func(in string) error{
		"removed":       os.RemoveAll,
		"not to be had": func(in string) error { return os.Rename(in, in+" elsewhere") },
	} {
		p := newPlaces(t)
		for i := range mostKept + 1 {
			p.run(fmt.Sprint("run", i), map[string]string{"web/01-state.stdin.json": "input"})
		}
		require.NoError(t, spoil(p.kept.spare.in))
		for i := range 3 {
			run := fmt.Sprint("later", i)
			p.run(run, map[string]string{"web/01-state.stdin.json": run})
			assert.Equal(t, run, p.files(run)["web/01-state.stdin.json"], name)
		}
		entries, err := os.ReadDir(p.dir)
		runs := slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name()[:1] == "s" })
		require.NoError(t, err, name)
		assert.Len(t, runs, mostKept, name)
	}
}

func TestTheFilesOfTheLastRunsInAPlaceAreKept(t *testing.T) {
	dir := t.TempDir()
	var k Kept
	for i := range 8 {
		for _, place := range []string{"a", "b"} {
			run := filepath.Join(dir, fmt.Sprint(place, i))
			require.NoError(t, os.MkdirAll(filepath.Join(run, "web"), 0o700))
			k.Add(place, run)
		}
	}
	k.Add("c", filepath.Join(dir, "gone already"))
	left := must.Get(os.ReadDir(dir))(t)
	assert.True(t, len(left) == 2*mostKept && left[0].Name() == "a3" && left[mostKept].Name() == "b3", "left is %v", left)
}
