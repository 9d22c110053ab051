// Package worktree finds out which commit of Git the files of a directory are of, and whether
// they are what that commit has.
//
// What a work tree is at says nothing about what is in its files. So whoever copies them has each
// file compared with the commit as it was copied: by the hash that Git would give it. Nothing is
// taken for the content of a commit that cannot be shown to be: the hashes of the listing are
// those of the trees, up to the commit.
//
// A repository is anybody's, and may say which programs Git is to run. Nothing is called that
// runs any: no hook, filter, monitor or transport. What cannot be found out, be it because there
// is no git or because the repository is another user's, is not known, and no error.
package worktree

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/pattern"
)

// The bounds of asking Git.
const (
	askTimeout  = 30 * time.Second // for all short answers
	listTimeout = time.Minute
	maxAnswer   = 1 << 20  // bytes of a short one
	maxListing  = 64 << 20 // bytes of the list of all files, which is room for more than 500,000
)

var validCommit = pattern.Lazy(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Tree is the commit that a directory of a work tree is at.
type Tree struct {
	Repository string // where others find it, without credentials; "" is not known
	Commit     string

	prefix  string  // of the directory in the work tree; "" or with a slash at its end
	entries []entry // what the commit has in the directory, sorted by path; none unless proved
	proved  bool    // by their hashes
}

// Open finds the commit that a directory is at; nil where it is in no work tree, has no commit, or
// that cannot be found out.
func Open(ctx context.Context, dir string) *Tree {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil
	}
	g := git{program, dir}
	all := ctx
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	about, ok := g.ask(ctx, "rev-parse", "--is-inside-work-tree", "--show-prefix")
	inside, prefix, _ := strings.Cut(about, "\n")
	prefix = strings.TrimSuffix(prefix, "\n")
	if !ok || inside != "true" {
		return nil
	}
	commit, ok := g.ask(ctx, "rev-parse", "--verify", "--quiet", "HEAD^{commit}")
	if commit = strings.TrimSuffix(commit, "\n"); !ok || !validCommit().MatchString(commit) {
		return nil
	}
	t := &Tree{Commit: commit, prefix: prefix}
	if url, ok := g.ask(ctx, "config", "--get", "remote.origin.url"); ok {
		t.Repository = Address(strings.TrimSuffix(url, "\n"))
	}
	if object, ok := g.ask(ctx, "cat-file", "commit", commit); ok {
		t.list(all, g, object)
	}
	return t
}

// git is Git in a directory.
type git struct{ program, dir string }

// command makes a command of Git that runs no program of the repository's choice, and changes
// nothing.
func (g git) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, g.program, append([]string{
		"--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=" + os.DevNull, "-c", "safe.bareRepository=explicit", "-C", g.dir,
	}, args...)...)
	for _, v := range os.Environ() {
		// Variables of a hook that Deployster runs in would name another repository.
		if !strings.HasPrefix(v, "GIT_") || strings.HasPrefix(v, "GIT_CONFIG_") || strings.HasPrefix(v, "GIT_CEILING_") || strings.HasPrefix(v, "GIT_EXEC_") {
			c.Env = append(c.Env, v)
		}
	}
	c.Env = append(c.Env, "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
		"GIT_NO_REPLACE_OBJECTS=1",                            // which would show another commit under this one's name
		"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=forbidden") // objects that are not here stay away
	c.WaitDelay = time.Second
	return c
}

// ask returns what a command prints.
func (g git) ask(ctx context.Context, args ...string) (answer string, ok bool) {
	ok = g.stream(ctx, maxAnswer, func(out io.Reader) bool {
		text, err := io.ReadAll(out)
		answer = string(text)
		return err == nil
	}, args...)
	return answer, ok
}

// stream has what a command prints read. It fails where that has more bytes than most.
func (g git) stream(ctx context.Context, most int64, read func(io.Reader) bool, args ...string) bool {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	c := g.command(ctx, args...)
	pipe, err := c.StdoutPipe()
	if err != nil || c.Start() != nil {
		return false
	}
	out := &io.LimitedReader{R: pipe, N: most + 1}
	ok := read(out)
	if out.N <= 0 || !ok {
		cancel()
		ok = false
	}
	return c.Wait() == nil && ok
}
