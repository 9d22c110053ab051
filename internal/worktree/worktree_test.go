package worktree_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/gittest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/worktree"
)

type repository struct{ gittest.Repository }

func newRepository(t testing.TB, args ...string) repository {
	t.Setenv("HOME", t.TempDir()) // without settings
	return repository{gittest.New(t, args...)}
}

func (r repository) must(err error) { require.NoError(r, err) }

// compare copies files and directories below a directory to nowhere.
func (r repository) compare(dir string, paths ...string) (*worktree.Tree, bool) {
	tree := worktree.Open(r.Context(), filepath.Join(r.Dir, dir))
	c := tree.Compare()
	if c == nil {
		return nil, c.Exact()
	}
	for _, path := range paths {
		root := filepath.Join(r.Dir, dir)
		err := filepath.WalkDir(filepath.Join(root, path), func(at string, d os.DirEntry, err error) error {
			below := strings.TrimPrefix(at, root+"/")
			switch {
			case err != nil:
				return err
			case d.IsDir():
				c.Directory(below)
			case d.Type() == os.ModeSymlink:
				target, err := os.Readlink(at)
				r.must(err)
				c.Link(below, target)
			default:
				text, err := os.ReadFile(at)
				r.must(err)
				info, err := d.Info()
				r.must(err)
				h := c.Hash(info.Size())
				_, _ = h.Write(text)
				c.File(below, info.Mode()&0o100 != 0, h)
			}
			return nil
		})
		r.must(err)
		c.Source(path)
	}
	return tree, c.Exact()
}

// made are repositories of started, by how they are made. Tests copy them.
var made = map[string]string{}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, dir := range made {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// started is a repository with a commit of files, links and directories.
func started(t testing.TB, args ...string) (r repository, commit string) {
	t.Setenv("HOME", t.TempDir()) // without settings
	how := strings.Join(args, " ")
	if made[how] == "" {
		from := committed(t, args...)
		dir := must.Get(os.MkdirTemp("", "worktree-test-"))(t)
		made[how] = dir
		require.NoError(t, exec.Command("cp", "-a", from.Dir+"/.", dir).Run())
	}
	r = repository{gittest.Repository{TB: t, Dir: t.TempDir()}}
	r.must(exec.Command("cp", "-a", made[how]+"/.", r.Dir).Run())
	return r, r.Git("rev-parse", "HEAD")
}

func committed(t testing.TB, args ...string) repository {
	r := newRepository(t, args...)
	r.Write("src/a.txt", "a")
	r.Write("src/deep/b", "b\n")
	r.Write("src/deep.txt", "which sorts between what git sorts otherwise")
	r.Write("src/run", "run")
	r.Write("lib/c", "c")
	r.must(os.Chmod(filepath.Join(r.Dir, "src/run"), 0o755))
	r.must(os.Symlink("a.txt", filepath.Join(r.Dir, "src/link")))
	r.Commit()
	return r
}

func TestWhatIsCopiedIsComparedWithTheCommit(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r repository)
		exact  bool
	}{
		"nothing is changed":       {func(repository) {}, true},
		"what is not copied":       {func(r repository) { r.Write("other/x", "x"); r.Write("lib/c", "d") }, true},
		"a file is changed":        {func(r repository) { r.Write("src/a.txt", "b") }, false},
		"a change is in the index": {func(r repository) { r.Write("src/a.txt", "b"); r.Git("add", "-A") }, false},
		"a change that git ignores": {func(r repository) {
			r.Git("update-index", "--assume-unchanged", "src/a.txt")
			r.Write("src/a.txt", "b")
		}, false},
		"a file is new":          {func(r repository) { r.Write("src/new", "") }, false},
		"a file is ignored":      {func(r repository) { r.Write(".git/info/exclude", "*.o"); r.Write("src/a.o", "") }, false},
		"a file is missing":      {func(r repository) { r.must(os.Remove(filepath.Join(r.Dir, "src/deep/b"))) }, false},
		"a directory is empty":   {func(r repository) { r.must(os.Mkdir(filepath.Join(r.Dir, "src/empty"), 0o755)) }, false},
		"a file may be executed": {func(r repository) { r.must(os.Chmod(filepath.Join(r.Dir, "src/a.txt"), 0o755)) }, false},
		"a file may not":         {func(r repository) { r.must(os.Chmod(filepath.Join(r.Dir, "src/run"), 0o644)) }, false},
		"others may read a file": {func(r repository) { r.must(os.Chmod(filepath.Join(r.Dir, "src/a.txt"), 0o666)) }, true},
		"a link leads elsewhere": {func(r repository) {
			r.must(os.Remove(filepath.Join(r.Dir, "src/link")))
			r.must(os.Symlink("run", filepath.Join(r.Dir, "src/link")))
		}, false},
		"a link is a file": {func(r repository) {
			r.must(os.Remove(filepath.Join(r.Dir, "src/link")))
			r.Write("src/link", "a.txt")
		}, false},
		"line breaks are converted": {func(r repository) {
			r.Git("config", "core.autocrlf", "true")
			r.must(os.Remove(filepath.Join(r.Dir, "src/deep/b")))
			r.Git("checkout", "src/deep/b")
		}, false},
		"a submodule": {func(r repository) {
			other, _ := started(r.TB, "--object-format="+r.Git("rev-parse", "--show-object-format"))
			r.Git("submodule", "add", "-q", other.Dir, "src/sub")
			r.Commit()
		}, false},
		"a later commit": {func(r repository) { r.Write("src/a.txt", "b"); r.Commit() }, true},
		"names that are odd": {func(r repository) {
			r.Write("src/deep0", "0")
			r.Write("src/\tä \"\n\\", "x")
			r.Write("src/deep-/x", "x")
			r.Commit()
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			formats := []string{"sha1", "sha256"}
			if !ringtest.All() { // some of the cases by one, and some by the other
				formats = formats[len(name)%2:][:1]
			}
			for _, format := range formats {
				r, _ := started(t, "--object-format="+format)
				c.change(r)
				tree, exact := r.compare("", "src")
				assert.True(t, tree != nil && tree.Commit == r.Git("rev-parse", "HEAD") && exact == c.exact, "%s: it is %+v, exact %t", format, tree, exact)
			}
		})
	}
}

func TestSourcesBelowTheWorkTree(t *testing.T) {
	r, _ := started(t)
	r.must(os.Symlink("src", filepath.Join(r.Dir, "linked")))
	r.Commit()
	for _, c := range []struct {
		dir   string
		paths []string
		exact bool
	}{
		{"src", []string{"deep", "a.txt"}, true},
		{"", []string{"src/deep", "src/link", "lib"}, true},
		{"", nil, false}, // nothing was copied
		{"", []string{".git/hooks"}, false},
		{"", []string{"linked"}, true},
		{"", []string{"linked/deep"}, false}, // the commit has the link alone
	} {
		_, exact := r.compare(c.dir, c.paths...)
		assert.True(t, exact == c.exact, "%v in %q: exact %t", c.paths, c.dir, exact)
	}
	worktree := filepath.Join(t.TempDir(), "other")
	r.Git("worktree", "add", "-q", worktree)
	other := repository{gittest.Repository{TB: t, Dir: worktree}}
	other.Write("src/a.txt", "b")
	commit := other.Commit()
	tree, exact := other.compare("", "src")
	assert.True(t, tree != nil && tree.Commit == commit && exact, "of another work tree it is %+v, %t", tree, exact)
}

func TestWhereThereIsNoCommit(t *testing.T) {
	for name, prepare := range map[string]func(t *testing.T) string{
		"no repository":     func(t *testing.T) string { return t.TempDir() },
		"no commit":         func(t *testing.T) string { return newRepository(t).Dir },
		"no work tree":      func(t *testing.T) string { r, _ := started(t); return filepath.Join(r.Dir, ".git") },
		"a bare repository": func(t *testing.T) string { return newRepository(t, "--bare").Dir },
		"no directory":      func(t *testing.T) string { return filepath.Join(t.TempDir(), "gone") },
		"another user's": func(t *testing.T) string {
			r, _ := started(t)
			r.must(filepath.WalkDir(r.Dir, func(at string, _ os.DirEntry, err error) error {
				r.must(err)
				return os.Lchown(at, 12345, 12345)
			}))
			return r.Dir
		},
		"no git": func(t *testing.T) string { r, _ := started(t); t.Setenv("PATH", t.TempDir()); return r.Dir },
		"a pipe to which nobody writes": func(t *testing.T) string {
			r, _ := started(t)
			config := filepath.Join(r.Dir, ".git", "config")
			r.must(os.Remove(config))
			r.must(syscall.Mkfifo(config, 0o600))
			return r.Dir
		},
		"a git that hangs on": func(t *testing.T) string {
			r, _ := started(t)
			bin := t.TempDir()
			r.must(os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\nwhile :; do echo true; done\n"), 0o755))
			t.Setenv("PATH", bin)
			return r.Dir
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, ctx := prepare(t), t.Context()
			if strings.HasPrefix(name, "a pipe") && !ringtest.All() { // where it gives up by itself after half a minute
				over, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				ctx = over
			}
			tree := worktree.Open(ctx, dir)
			assert.True(t, tree == nil && !tree.Compare().Exact(), "it is %+v", tree)
			tree.Compare().Directory("src")
			tree.Compare().Source("src")
		})
	}
}

func TestNoProgramOfTheRepositoryIsRun(t *testing.T) {
	r, _ := started(t)
	ran := filepath.Join(t.TempDir(), "ran")
	program := filepath.Join(t.TempDir(), "program")
	r.must(os.WriteFile(program, []byte("#!/bin/sh\necho \"$0 $*\" >> "+ran+"\ncat\n"), 0o755))
	r.Write("src/.gitattributes", "* filter=evil diff=evil\n")
	r.Git("add", "-A")
	commit := r.Commit()
	for key, value := range map[string]string{
		"core.fsmonitor": program, "core.hooksPath": filepath.Dir(program), "filter.evil.clean": program, "filter.evil.smudge": program,
		"filter.evil.process": program, "diff.evil.textconv": program, "diff.external": program, "core.pager": program, "pager.ls-tree": program,
		"core.editor": program, "core.sshCommand": program, "credential.helper": program, "alias.ls-tree": "!" + program, "core.askPass": program,
		"gpg.program": program, "log.showSignature": "true", "uploadpack.packObjectsHook": program,
	} {
		r.Git("config", key, value)
	}
	for _, hook := range []string{"post-index-change", "post-checkout", "pre-commit", "reference-transaction"} {
		r.must(os.Symlink(program, filepath.Join(r.Dir, ".git/hooks", hook)))
	}
	r.must(os.RemoveAll(ran))
	tree, exact := r.compare("", "src")
	assert.True(t, tree != nil && tree.Commit == commit && exact, "it is %+v, %t", tree, exact)
	text, err := os.ReadFile(ran)
	assert.True(t, err != nil, "it ran %s", text)
}

func TestNothingIsFetched(t *testing.T) {
	r, commit := started(t)
	ran := filepath.Join(t.TempDir(), "ran")
	tree := r.Git("rev-parse", "HEAD:src")
	r.must(os.Remove(filepath.Join(r.Dir, ".git/objects", tree[:2], tree[2:])))
	for key, value := range map[string]string{
		"core.repositoryFormatVersion": "1", "extensions.partialClone": "origin", "remote.origin.promisor": "true",
		"remote.origin.url": "ext::sh -c echo% >>" + ran, "protocol.allow": "always", "protocol.ext.allow": "always",
	} {
		r.Git("config", key, value)
	}
	got, exact := r.compare("", "lib")
	assert.True(t, got != nil && got.Commit == commit && got.Repository == "" && !exact, "it is %+v, %t", got, exact)
	assert.Error(t, must.Fail(os.Stat(ran)), "it was fetched")
}

// Who can write to a repository may put objects there under names that are not theirs, or say
// that others take their place. Neither is the commit's.
func TestForgedObjectsProveNothing(t *testing.T) {
	t.Run("a replaced commit", func(t *testing.T) {
		r, commit := started(t)
		r.Write("src/a.txt", "forged")
		forged := r.Commit()
		r.Git("checkout", "-q", "--detach", commit)
		r.Git("replace", commit, forged)
		r.Write("src/a.txt", "forged")
		tree, exact := r.compare("", "src")
		assert.True(t, tree != nil && tree.Commit == commit && !exact, "it is %+v, %t", tree, exact)
	})
	for _, object := range []string{"HEAD^{commit}", "HEAD^{tree}", "HEAD:src"} {
		t.Run(object, func(t *testing.T) {
			r, commit := started(t)
			real := r.Git("rev-parse", object)
			r.Write("src/a.txt", "forged")
			r.Commit()
			forged := r.Git("rev-parse", object)
			r.Git("update-ref", "refs/heads/main", commit)
			at := func(name string) string { return filepath.Join(r.Dir, ".git/objects", name[:2], name[2:]) }
			text, err := os.ReadFile(at(forged))
			r.must(err)
			r.must(os.Remove(at(real)))
			r.must(os.WriteFile(at(real), text, 0o444))
			tree, exact := r.compare("", "src")
			assert.False(t, exact, "it is %+v", tree)
		})
	}
}

func TestManyFiles(t *testing.T) {
	r := newRepository(t)
	files := ringtest.Cases(10_000, 100_000)
	var in bytes.Buffer
	in.WriteString("blob\nmark :1\ndata 1\nx\ncommit refs/heads/main\ncommitter a <a@example.org> 0 +0000\ndata 0\n")
	for i := range files {
		fmt.Fprintf(&in, "M 100644 :1 src/%d/%d\n", i%100, i)
	}
	c := exec.Command("git", "-C", r.Dir, "fast-import", "--quiet")
	c.Stdin = &in
	out, err := c.CombinedOutput()
	require.True(t, err == nil, "%v: %s", err, out)
	real, err := exec.LookPath("git")
	r.must(err)
	bin, calls := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	r.must(os.WriteFile(filepath.Join(bin, "git"), []byte("#!/bin/sh\necho >> "+calls+"\nexec "+real+" \"$@\"\n"), 0o755))
	t.Setenv("PATH", bin)
	compared := worktree.Open(t.Context(), r.Dir).Compare()
	for i := range files {
		h := compared.Hash(1)
		_, _ = h.Write([]byte("x"))
		compared.File(fmt.Sprintf("src/%d/%d", i%100, i), false, h)
	}
	compared.Source("src")
	made, err := os.ReadFile(calls)
	assert.True(t, err == nil && len(made) <= 10 && compared.Exact(), "git was called %d times, %v; exact %t", len(made), err, compared.Exact())
}

// Deployster may be run by a hook, whose variables name another repository.
func TestTheRepositoryOfAHookIsNotMeant(t *testing.T) {
	hook, _ := started(t)
	r, _ := started(t)
	r.Write("src/more", "")
	commit := r.Commit()
	t.Setenv("GIT_DIR", filepath.Join(hook.Dir, ".git"))
	t.Setenv("GIT_WORK_TREE", hook.Dir)
	tree := worktree.Open(t.Context(), r.Dir)
	assert.True(t, tree != nil && tree.Commit == commit, "it is %+v", tree)
}

func TestAnAddressHasNoCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.org/a/b.git":                         "https://example.org/a/b.git",
		"https://user:token@example.org:8443/a.git":           "https://example.org:8443/a.git",
		"https://token@example.org/a.git":                     "https://example.org/a.git",
		"https://example.org/a.git?private_token=x#y":         "https://example.org/a.git",
		"https://us%40er:to%2Fken@example.org/a%20b":          "https://example.org/a%20b",
		"https://user:to@ken@example.org/a":                   "https://example.org/a",
		"ssh://git:secret@example.org:22/a.git":               "ssh://example.org:22/a.git",
		"ssh://git@[2001:db8::1]:22/a.git":                    "ssh://[2001:db8::1]:22/a.git",
		"git@example.org:a/b.git":                             "ssh://example.org/a/b.git",
		"example.org:/srv/b.git":                              "ssh://example.org/srv/b.git",
		"git@example.org:b.git?token=x":                       "ssh://example.org/b.git",
		"user:token@example.org:b.git":                        "",
		"https://mirror.example/https://u:token@example.org/": "",
		"https://mirror.example/u:token%40example.org/":       "",
		"ext::sh -c 'echo token'":                             "",
		"ext::sh":                                             "",
		"helper::https://user:token@example.org/a":            "",
		"https:user:token@example.org":                        "",
		"https:///user:token@example.org":                     "",
		"https://user:token@":                                 "",
		"https://user:to\nken@example.org/a":                  "",
		"https://user:token\\@example.org/a":                  "",
		"/srv/git/a.git":                                      "",
		"../a.git":                                            "",
		"file:///srv/git/a.git":                               "",
		"":                                                    "",
		"https://example.org/" + strings.Repeat("a", 2000):    "",
	} {
		got := worktree.Address(text)
		assert.True(t, got == want, "%q is %q, not %q", text, got, want)
	}
}

func FuzzAddress(f *testing.F) {
	f.Add("https://", "example.org/a")
	f.Add("", "example.org:a")
	f.Fuzz(func(t *testing.T, scheme, rest string) {
		for _, user := range []string{"hunter2@", "x:hunter2@"} {
			got := worktree.Address(scheme + user + rest)
			assert.False(t, strings.Contains(got, "hunter2"), "%q is %q", scheme+user+rest, got)
		}
	})
}
