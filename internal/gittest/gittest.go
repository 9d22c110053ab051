// Package gittest makes repositories of git for tests.
package gittest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Repository is a directory with a repository.
type Repository struct {
	testing.TB
	Dir string
}

// New makes a repository. Args are those of git init.
func New(t testing.TB, args ...string) Repository {
	r := Repository{t, t.TempDir()}
	r.Git(append([]string{"init", "-q", "-b", "main"}, args...)...)
	return r
}

// Git runs git there, without settings of whoever runs the test, and returns what it prints.
func (r Repository) Git(args ...string) string {
	r.Helper()
	c := exec.Command("git", append([]string{"-C", r.Dir, "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always"}, args...)...)
	c.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null")
	var errors bytes.Buffer
	c.Stderr = &errors
	out, err := c.Output()
	require.NoError(r, err, "git %s: %s", strings.Join(args, " "), &errors)
	return strings.TrimSpace(string(out))
}

// Write writes a file.
func (r Repository) Write(name, text string) {
	r.Helper()
	at := filepath.Join(r.Dir, name)
	require.NoError(r, os.MkdirAll(filepath.Dir(at), 0o700))
	require.NoError(r, os.WriteFile(at, []byte(text), 0o600))
}

// Commit commits all files, and returns the commit.
func (r Repository) Commit() string {
	r.Helper()
	r.Git("add", "-A")
	r.Git("commit", "-q", "--allow-empty", "-m", "all")
	return r.Git("rev-parse", "HEAD")
}
