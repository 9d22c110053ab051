// Package forgetest has a place where git repositories are kept for tests: a real repository
// behind real git over HTTP, and beside it the API of a provider, which keeps pull requests as
// that does, as far as they are asked for here.
package forgetest

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cgi" //nolint:gosec // what it warns of was mended in versions long gone
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Token is who may push and open pull requests.
const Token = "s3cret-t0ken"

// Forge keeps one repository, acme/deploy.
type Forge struct {
	testing.TB
	*httptest.Server
	Kind string // provider

	PageSize int // that the provider gives at most; 0 is what it is asked for

	mu       sync.Mutex
	root     string
	pulls    []*pull
	requests []string // METHOD PATH, in order
	before   func(http.ResponseWriter, *http.Request) (done bool)
	served   int // answers of the API with contents
	sent     int // bytes of packs
}

type pull struct {
	number              int
	title, body         string
	branch, base, state string // open, merged, closed
	merged              time.Time
	fork                bool
	commits             []string // messages, newest first
}

// New has a repository whose branch main has files, by path. What is named -> is a link.
func New(t testing.TB, kind string, files map[string]string) *Forge {
	t.Helper()
	f := &Forge{TB: t, Kind: kind, root: t.TempDir()}
	f.git("", "init", "-q", "--bare", "-b", "main", f.bare())
	f.git(f.bare(), "config", "http.receivepack", "true")
	f.Configure("uploadpack.allowFilter", "true")
	f.Configure("uploadpack.allowAnySHA1InWant", "true")
	f.Commit("main", files, "")
	backend := &cgi.Handler{
		Path:   filepath.Join(strings.TrimSpace(f.git("", "--exec-path")), "git-http-backend"),
		Env:    []string{"GIT_PROJECT_ROOT=" + f.root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=deployster"},
		Stderr: io.Discard, // it tells its progress
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.requests = append(f.requests, r.Method+" "+r.URL.Path)
		before := f.before
		f.mu.Unlock()
		if before != nil && before(w, r) {
			return
		}
		if !strings.Contains(r.URL.Path, ".git/") {
			f.api(w, r)
			return
		}
		if _, password, _ := r.BasicAuth(); password != Token {
			w.Header().Set("WWW-Authenticate", "Basic")
			http.Error(w, "who is "+password+"?", http.StatusUnauthorized)
			return
		}
		counted := &counter{ResponseWriter: w}
		backend.ServeHTTP(counted, r)
		if strings.HasSuffix(r.URL.Path, "/git-upload-pack") {
			f.mu.Lock()
			f.sent += counted.bytes
			f.mu.Unlock()
		}
	}))
	t.Cleanup(f.Close)
	return f
}

// counter counts the bytes of an answer.
type counter struct {
	http.ResponseWriter
	bytes int
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.bytes += n
	return n, err
}

// Configure sets what the configuration of the repository says. By default the server sends parts of
// commits, and objects by their hashes.
func (f *Forge) Configure(key, value string) {
	f.Helper()
	f.git(f.bare(), "config", key, value)
}

// Sent is how many bytes git has sent of the repository since it was last asked.
func (f *Forge) Sent() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.sent
	f.sent = 0
	return n
}

func (f *Forge) bare() string { return filepath.Join(f.root, "acme", "deploy.git") }

// Address is the URL of the repository.
func (f *Forge) Address() string { return f.URL + "/acme/deploy.git" }

// Before has a function see each request first, which may answer it; nil is nothing.
func (f *Forge) Before(see func(http.ResponseWriter, *http.Request) (done bool)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = see
}

// Requests are those that came since.
func (f *Forge) Requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := f.requests
	f.requests = nil
	return all
}

func (f *Forge) git(dir string, args ...string) string {
	f.Helper()
	c := exec.Command("git", args...)
	c.Dir = dir
	c.Env = append(os.Environ(), "GIT_AUTHOR_NAME=ada", "GIT_AUTHOR_EMAIL=ada@localhost", "GIT_COMMITTER_NAME=ada", "GIT_COMMITTER_EMAIL=ada@localhost",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		f.Fatalf("git %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// Commit is what somebody pushes: files by path, on top of the branch, which begins at another
// one where it is not there. A content that begins with -> is that of a symbolic link.
func (f *Forge) Commit(branch string, files map[string]string, from string) {
	f.Helper()
	dir := f.TempDir()
	f.git(dir, "init", "-q", "-b", branch)
	f.git(dir, "remote", "add", "origin", f.bare())
	f.git(dir, "fetch", "-q", "origin")
	for _, start := range []string{branch, from} {
		if start != "" && f.Head(start) != "" {
			f.git(dir, "reset", "-q", "--hard", "origin/"+start)
			break
		}
	}
	for path, content := range files {
		at := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			f.Fatal(err)
		}
		_ = os.Remove(at)
		var err error
		switch to, link := strings.CutPrefix(content, "->"); {
		case content == "":
		case link:
			err = os.Symlink(to, at)
		default:
			err = os.WriteFile(at, []byte(content), 0o600)
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	f.git(dir, "add", "-A")
	f.git(dir, "commit", "-q", "--allow-empty", "-m", "by hand")
	f.git(dir, "push", "-q", "-f", "origin", branch)
}

// Head is the newest commit of a branch, "" where there is none.
func (f *Forge) Head(branch string) string {
	f.Helper()
	return strings.TrimSpace(f.git(f.bare(), "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch))
}

// Parent is the commit before the newest of a branch.
func (f *Forge) Parent(branch string) string {
	f.Helper()
	return strings.TrimSpace(f.git(f.bare(), "rev-parse", branch+"^"))
}

// Show is a file on a branch.
func (f *Forge) Show(branch, path string) string {
	f.Helper()
	return f.git(f.bare(), "show", branch+":"+path)
}

// Changed are the files in which two branches differ.
func (f *Forge) Changed(base, branch string) string {
	f.Helper()
	return strings.TrimSpace(f.git(f.bare(), "diff", "--name-only", base, branch))
}

// Git runs git in the repository, and returns what it prints.
func (f *Forge) Git(args ...string) string {
	f.Helper()
	return f.git(f.bare(), args...)
}

// Check has git check the whole repository.
func (f *Forge) Check() {
	f.Helper()
	f.git(f.bare(), "fsck", "--strict", "--no-dangling")
}

// Delete is that somebody deletes a branch.
func (f *Forge) Delete(branch string) {
	f.Helper()
	f.git(f.bare(), "update-ref", "-d", "refs/heads/"+branch)
}

// Refuse has the server refuse every push, with some words.
func (f *Forge) Refuse(words string) {
	f.Helper()
	hooks := filepath.Join(f.bare(), "hooks")
	if err := os.WriteFile(filepath.Join(hooks, "words"), []byte(words), 0o600); err != nil {
		f.Fatal(err)
	}
	hook := "#!/bin/sh\ncat '" + filepath.Join(hooks, "words") + "' >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(hooks, "pre-receive"), []byte(hook), 0o700); err != nil { //nolint:gosec // git runs it
		f.Fatal(err)
	}
}
