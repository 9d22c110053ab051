package worktree

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// inRepository is a repository of which git makes a commit of some files.
func inRepository(t *testing.T, files ...string) (dir string, git func(stdin string, args ...string) string) {
	dir = t.TempDir()
	git = func(stdin string, args ...string) string {
		c := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"}, args...)...)
		c.Stdin = strings.NewReader(stdin)
		out, err := c.Output()
		require.NoError(t, err, "git %s", args)
		return strings.TrimSpace(string(out))
	}
	git("", "init", "-q")
	for _, name := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	git("", "add", "-A")
	git("", "commit", "-q", "-m", "all")
	return dir, git
}

func TestOnlyWhatIsInTheDirectoryIsKept(t *testing.T) {
	dir, _ := inRepository(t, "a/1", "a/b/2", "ab/3", "c")
	for in, want := range map[string][]string{"a": {"a/1", "a/b/2"}, "a/b": {"a/b/2"}, ".": {"a/1", "a/b/2", "ab/3", "c"}} {
		tree := Open(t.Context(), filepath.Join(dir, in))
		require.True(t, tree != nil && tree.proved, "the tree of %s is %+v", in, tree)
		var kept []string
		for _, e := range tree.entries {
			kept = append(kept, e.path)
		}
		assert.True(t, slices.Equal(kept, want), "of %s are kept %q, want %q", in, kept, want)
	}
}

func TestALongListIsNotKept(t *testing.T) {
	dir, git := inRepository(t, "a")
	blob := git("", "rev-parse", "HEAD:a")
	var names strings.Builder
	for i := range maxListing / 4000 {
		names.WriteString("100644 blob " + blob + "\t" + strings.Repeat("x", 4000) + string([]byte{byte('a' + i/676%26), byte('a' + i/26%26), byte('a' + i%26)}) + "\n")
	}
	commit := git("", "commit-tree", "-m", "many", git(names.String(), "mktree"))
	git("", "update-ref", "HEAD", commit)
	tree := Open(t.Context(), dir)
	assert.True(t, tree != nil && tree.Commit == commit && !tree.proved && len(tree.entries) == 0, "%d files are kept of commit %s", len(tree.entries), tree.Commit)
}
