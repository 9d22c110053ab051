package modulesource

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The bounds of what git fetches and prints.
const (
	mostPack    = 1 << 30 // bytes of one file that git writes, such as a pack
	mostListing = 8 << 20 // bytes of the list of a module's files
	mostSaid    = 2000    // bytes of what it says that are shown
)

// git is the program in a bare repository of its own, of which it runs no hook, and which has no work tree: files
// are taken from the objects.
type git struct{ program, shell, dir string }

func newGit(dir string) (git, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return git{}, errors.New("a module of a git repository needs the program git, which is not in PATH: install it")
	}
	shell, err := exec.LookPath("sh")
	return git{program, shell, dir}, err
}

// kept are the variables that say how the user reaches repositories; others name repositories, or
// programs that are to be run.
var kept = []string{"GIT_SSH=", "GIT_SSH_COMMAND=", "GIT_ASKPASS=", "GIT_SSL_", "GIT_CONFIG_", "GIT_EXEC_PATH=", "GIT_PROXY_"}

// command makes a command that can write no file larger than mostPack, speaks no other protocol than sources
// have, and asks nobody.
func (g git) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, g.shell, append([]string{
		"-c", `ulimit -f "$0" && exec "$@"`, strconv.Itoa(mostPack / 512), g.program, "--no-pager", "--git-dir=" + g.dir,
		"-c", "core.hooksPath=" + os.DevNull, "-c", "protocol.ext.allow=never", "-c", "gc.auto=0", "-c", "maintenance.auto=false",
		"-c", "core.fsmonitor=false", "-c", "fetch.writeCommitGraph=false", "-c", "submodule.recurse=false",
	}, args...)...)
	ssh := false
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") || slices.ContainsFunc(kept, func(k string) bool { return strings.HasPrefix(v, k) }) {
			c.Env = append(c.Env, v)
			ssh = ssh || strings.HasPrefix(v, "GIT_SSH")
		}
	}
	c.Env = append(c.Env, "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL="+strings.Join(schemes, ":"), "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1", "LC_ALL=C")
	if !ssh {
		c.Env = append(c.Env, "GIT_SSH_COMMAND=ssh -oBatchMode=yes")
	}
	c.Dir, c.WaitDelay = os.TempDir(), time.Second
	// What it has started ends with it.
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	return c
}

// run runs a command, and returns the beginning of what it prints.
func (g git) run(ctx context.Context, args ...string) (string, error) {
	out, said := &beginning{most: mostListing}, &beginning{most: mostSaid}
	c := g.command(ctx, args...)
	c.Stdout, c.Stderr = out, said
	err := c.Run()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, said.line())
	}
	if out.over {
		return "", fmt.Errorf("git %s printed more than %d bytes: the module has too many files", args[0], mostListing)
	}
	return string(out.text), nil
}

// The formats in which repositories name their objects.
const (
	formatSHA1, formatSHA256 = "sha1", "sha256"

	// otherFormat is what git says of a repository that has another format than that which fetches.
	otherFormat = "mismatched algorithms"
)

// formatOf is the format in which something names a commit; of a branch or tag that is the usual one.
func formatOf(ref string) string {
	if isCommit().MatchString(ref) && len(ref) == 64 {
		return formatSHA256
	}
	return formatSHA1
}

// init makes the repository, which there may be already.
func (g git) init(ctx context.Context, format string) error {
	if err := os.RemoveAll(g.dir); err != nil {
		return err
	}
	args := []string{"init", "--quiet", "--bare", "--template="}
	if format != formatSHA1 { // which every git knows without being told
		args = append(args, "--object-format="+format)
	}
	_, err := g.run(ctx, args...)
	return err
}

// fetch fetches one commit with its files, and nothing that was before it: the given one, or what the ref of the
// source means.
func (g git) fetch(ctx context.Context, s Source, commit string) (string, error) {
	want := cmp.Or(commit, s.ref, "HEAD")
	found, err := g.fetchAs(ctx, s, want, formatOf(want))
	if err != nil && strings.Contains(err.Error(), otherFormat) && !isCommit().MatchString(want) {
		found, err = g.fetchAs(ctx, s, want, formatSHA256)
	}
	switch {
	case err != nil && strings.Contains(err.Error(), otherFormat):
		return "", fmt.Errorf("commit %.12s is named as a repository of the format %s does, and this one has another: give the commit as `git log` shows it there: %w", want, formatOf(want), err)
	case err == nil && (!isCommit().MatchString(found) || commit != "" && found != commit):
		return "", fmt.Errorf("the ref %s means no commit", want)
	}
	return found, err
}

// fetchAs fetches what a ref means from a repository of a format.
func (g git) fetchAs(ctx context.Context, s Source, want, format string) (string, error) {
	if err := g.init(ctx, format); err != nil {
		return "", err
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance"}
	_, err := g.run(ctx, append(fetch, "--depth=1", "--", s.url, "+"+want+":refs/fetched")...)
	if err != nil && isCommit().MatchString(want) && ctx.Err() == nil {
		// Not every server gives a commit by its hash; then it may be one of a branch or tag.
		if _, all := g.run(ctx, append(fetch, "--", s.url, "+refs/heads/*:refs/all/heads/*", "+refs/tags/*:refs/all/tags/*")...); all != nil {
			return "", errors.Join(err, all)
		}
		if _, err = g.run(ctx, "cat-file", "-e", want+"^{commit}"); err == nil {
			return want, nil
		}
		return "", fmt.Errorf("the repository has no commit %s on any branch or tag", want)
	}
	if err != nil {
		return "", fmt.Errorf("%w; check the URL, the ref %s, and that git can read the repository: `git ls-remote %s`", err, want, s.url)
	}
	found, err := g.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/fetched^{commit}")
	return strings.TrimSpace(found), err
}

// file is one of a commit.
type file struct {
	mode, object, path string
	size               int64
}

// export writes the files of a directory of a commit below to, which is empty.
func (g git) export(ctx context.Context, commit, dir, to string) error {
	tree := commit + ":" + dir
	if kind, err := g.run(ctx, "cat-file", "-t", tree); err != nil || strings.TrimSpace(kind) != "tree" {
		return fmt.Errorf("commit %.12s has no directory %q", commit, dir)
	}
	listing, err := g.run(ctx, "ls-tree", "-r", "-z", "--full-tree", "--long", tree)
	if err != nil {
		return err
	}
	files, err := list(listing)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // opened for reading
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, said := g.command(ctx, "cat-file", "--batch"), &beginning{most: mostSaid}
	var names strings.Builder
	for _, f := range files {
		names.WriteString(f.object + "\n")
	}
	c.Stdin, c.Stderr = strings.NewReader(names.String()), said
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("running git: %w", err)
	}
	err = write(root, files, bufio.NewReader(out))
	if err != nil {
		cancel()
	}
	if ended := c.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("git cat-file: %w: %s", ended, said.line())
	}
	return err
}

// list reads what ls-tree prints, and refuses what no module can have.
func list(listing string) (files []file, err error) {
	var bytes int64
	for line := range strings.SplitSeq(strings.TrimSuffix(listing, "\x00"), "\x00") {
		if line == "" {
			continue
		}
		about, at, found := strings.Cut(line, "\t")
		fields := strings.Fields(about)
		if !found || len(fields) != 4 {
			return nil, fmt.Errorf("git says of a file %.100q, which is not understood", line)
		}
		if slices.ContainsFunc(strings.Split(at, "/"), func(name string) bool { return strings.EqualFold(name, ".git") }) {
			return nil, fmt.Errorf("%.200q has a name that git keeps for itself", at)
		}
		f := file{mode: fields[0], object: fields[2], path: at}
		if f.mode == "160000" {
			return nil, fmt.Errorf("%.200q is a submodule, which is not fetched: leave it out of the directory of the module", at)
		}
		if f.size, err = strconv.ParseInt(fields[3], 10, 64); err != nil || f.size < 0 {
			return nil, fmt.Errorf("git says of a file %.100q, which is not understood", line)
		}
		if bytes += f.size; len(files) >= limits.Files || bytes > limits.Bytes || f.size > limits.Bytes {
			return nil, fmt.Errorf("it has more than %d files or %d bytes: name the directory of the module, as in REPOSITORY//modules/web", limits.Files, limits.Bytes)
		}
		files = append(files, f)
	}
	return files, nil
}

// write writes files with the contents that cat-file prints, one after the other. Nothing is written outside
// of root, whatever they are called and whatever links are among them.
func write(root *os.Root, files []file, contents *bufio.Reader) error {
	for _, f := range files {
		about, err := contents.ReadString('\n')
		if want := fmt.Sprintf("%s blob %d\n", f.object, f.size); err != nil || about != want {
			return fmt.Errorf("git has no content of %.200q", f.path)
		}
		if err := root.MkdirAll(path.Dir(f.path), 0o755); err != nil {
			return err
		}
		content := io.LimitReader(contents, f.size)
		if f.mode == "120000" {
			target, err := io.ReadAll(io.LimitReader(content, 4096))
			if err == nil {
				_, err = io.Copy(io.Discard, content)
			}
			if err == nil {
				err = root.Symlink(string(target), f.path)
			}
			if err != nil {
				return fmt.Errorf("%.200q: %w", f.path, err)
			}
		} else if err := writeFile(root, f, content); err != nil {
			return fmt.Errorf("%.200q: %w", f.path, err)
		}
		if end, err := contents.ReadByte(); err != nil || end != '\n' {
			return fmt.Errorf("git has not all of %.200q", f.path)
		}
	}
	return nil
}

func writeFile(root *os.Root, f file, content io.Reader) error {
	mode := os.FileMode(0o644)
	if f.mode == "100755" {
		mode = 0o755
	}
	to, err := root.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	n, err := io.Copy(to, content)
	if err == nil && n != f.size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, to.Close())
}

// beginning keeps the beginning of what is written to it.
type beginning struct {
	most int
	text []byte
	over bool
}

// Write implements io.Writer.
func (b *beginning) Write(p []byte) (int, error) {
	room := min(len(p), b.most-len(b.text))
	b.text = append(b.text, p[:room]...)
	b.over = b.over || room < len(p)
	return len(p), nil
}

// line is the text in one line of printable characters.
func (b *beginning) line() string {
	printable := bytes.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, bytes.ToValidUTF8(b.text, nil))
	return string(bytes.Join(bytes.Fields(printable), []byte(" ")))
}
