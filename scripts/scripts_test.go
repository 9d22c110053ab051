// Package scripts holds the scripts behind the Makefile, and the tests that they
// fail when they should.
package scripts

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

// machine is one that has only the commands that a test gives it.
type machine struct {
	*testing.T
	bin string
	dir string // in which a script is started
	as  *syscall.SysProcAttr
}

// newMachine has what every Debian has, of what the scripts use.
func newMachine(t *testing.T) machine {
	m := machine{T: t, bin: t.TempDir(), dir: t.TempDir()}
	for _, command := range []string{"bash", "sh", "env", "cat", "mkdir", "rmdir", "awk", "grep", "sed", "mktemp", "rm"} {
		m.install(command)
	}
	return m
}

// withoutRoot is the machine as somebody who is not root sees it.
func (m machine) withoutRoot() machine {
	m.Helper()
	if os.Geteuid() != 0 {
		return m
	}
	for _, dir := range []string{filepath.Dir(m.bin), filepath.Dir(m.dir)} {
		if err := os.Chmod(dir, 0o755); err != nil { // others are to come in
			m.Fatal(err)
		}
	}
	m.as = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	return m
}

func (m machine) install(command string) {
	path, err := exec.LookPath(command)
	if err == nil {
		err = os.Symlink(path, filepath.Join(m.bin, command))
	}
	require.NoError(m, err)
}

// stub gives the machine a command of the test's own. It takes the place of an
// installed one, which is a link: whatever was written to that would go to the
// command of this machine.
func (m machine) stub(command, script string) {
	fresh := filepath.Join(m.TempDir(), command)
	require.NoError(m, errors.Join(
		os.WriteFile(fresh, []byte("#!/bin/sh\n"+script+"\n"), 0o755),
		os.Rename(fresh, filepath.Join(m.bin, command)),
	))
}

// run runs a command there, whose stdin stays open, and returns what it says.
func (m machine) run(command string, args ...string) (said string, code int) {
	reading, writing, err := os.Pipe()
	require.NoError(m, err)
	defer func() { _, _ = reading.Close(), writing.Close() }()
	c := exec.CommandContext(m.Context(), command, args...)
	c.Dir, c.Stdin = m.dir, reading
	c.SysProcAttr = m.as
	c.Env = []string{"PATH=" + m.bin, "HOME=" + m.dir, "GIT_CONFIG_GLOBAL=/dev/null"}
	out, err := c.CombinedOutput()
	ended := (*exec.ExitError)(nil)
	require.True(m, err == nil || errors.As(err, &ended), "%v", err)
	return string(out), c.ProcessState.ExitCode()
}

// script copies a script to the machine, to where it is in a checkout.
func (m machine) script(name string) string {
	text, err := os.ReadFile(name)
	to := filepath.Join(m.dir, "scripts", name)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o755))
	}
	require.NoError(m, err)
	return to
}

// checkout is a machine with a repository that has these files, in which nothing
// but the formatting can be wrong.
func checkout(t *testing.T, files map[string]string) (m machine, check string) {
	m = newMachine(t)
	m.install("git")
	m.install("gofmt")
	m.stub("go", "exit 0")
	m.stub("golangci-lint", "exit 0")
	check = m.script("check")
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}} {
		said, code := m.run(filepath.Join(m.bin, "git"), args...)
		require.Zero(t, code, "git %s: %s", args, said)
	}
	return m, check
}

func TestWhatIsNotFormattedFailsTheCheck(t *testing.T) {
	m, check := checkout(t, map[string]string{"a.go": "package a\n", "with space.go": "package a\n"})
	said, code := m.run(check)
	assert.Zero(t, code, "formatted files: exit %d, %s", code, said)
	m, check = checkout(t, map[string]string{"a.go": "package a\n", "b c.go": "package  a\n"})
	said, code = m.run(check)
	assert.True(t, code != 0 && strings.Contains(said, "b c.go"), "a file that is not formatted: exit %d, %s", code, said)
	m, check = checkout(t, map[string]string{"a.go": "package\n"})
	said, code = m.run(check)
	assert.True(t, code != 0 && strings.Contains(said, "a.go"), "a file that is not Go: exit %d, %s", code, said)
}

// A check that finds nothing because it looked at nothing has not passed.
func TestACheckOfNoFileFails(t *testing.T) {
	m, check := checkout(t, map[string]string{"readme.txt": "no Go here\n"})
	said, code := m.run(check)
	assert.True(t, code != 0 && strings.Contains(said, "nothing would be checked"), "no file: exit %d, %s", code, said)
	m, check = checkout(t, map[string]string{"a.go": "package a\n"})
	require.NoError(t, os.Remove(filepath.Join(m.bin, "git")))
	said, code = m.run(check)
	assert.True(t, code != 0 && strings.Contains(said, "git cannot list the files"), "no git: exit %d, %s", code, said)
	m, check = checkout(t, map[string]string{"a.go": "package a\n"})
	require.NoError(t, os.Remove(filepath.Join(m.bin, "gofmt")))
	said, code = m.run(check)
	assert.True(t, code != 0 && strings.Contains(said, "gofmt"), "no gofmt: exit %d, %s", code, said)
}

func TestWhatIsMissingIsInstalledOrNamed(t *testing.T) {
	needed, err := os.ReadFile("../Makefile")
	assert.True(t, err == nil && regexp.MustCompile(`scripts/need .*\bgit\b`).Match(needed), "make test does not install git (%v)", err)
	m := newMachine(t)
	need := m.script("need")
	m.stub("runc", "exit 0")
	said, code := m.run(need, "--say", "git", "runc", "openssh-client", "gcc")
	assert.True(t, code != 0 && strings.Contains(said, "apt-get install git openssh-client gcc libc6-dev)"), "exit %d, %s", code, said)
	said, code = m.run(need, "runc")
	assert.True(t, code == 0 && said == "", "nothing is missing: exit %d, %s", code, said)
	said, code = m.run(need, "git")
	assert.True(t, code != 0 && strings.Contains(said, "missing: git"), "where there is no apt-get: exit %d, %s", code, said)
	if os.Geteuid() == 0 {
		m.stub("apt-get", `echo "apt-get $*"`)
		said, code := m.run(need, "git", "runc")
		if code != 0 || !strings.Contains(said, "apt-get update") || !regexp.MustCompile(`apt-get install .*\bgit\n`).MatchString(said) {
			t.Errorf("exit %d, %s", code, said)
		}
		m.stub("apt-get", `[ "$1" != update ]`)
		said, code = m.run(need, "git")
		assert.NotZero(t, code, "no package list can be had: exit %d, %s", code, said)
	}
}

func TestPagesAreHugeInCIAloneAndOnlyMeanwhile(t *testing.T) {
	m := newMachine(t)
	setting := filepath.Join(m.dir, "enabled")
	script := m.script("with-huge-pages")
	text, err := os.ReadFile(script)
	if err == nil {
		err = os.WriteFile(script, []byte(strings.Replace(string(text), "/sys/kernel/mm/transparent_hugepage/enabled", setting, 1)), 0o755)
	}
	require.NoError(t, err)
	const before = "always [madvise] never\n"
	show := "cat " + setting + " 2>/dev/null || echo none; exit 7"
	for _, tc := range []struct{ name, ci, command, setting, meanwhile, after string }{
		{"at a desk", "", show, before, before, before},
		{"in CI", "true", show, before, "always\n", "madvise\n"},
		{"in CI whose kernel has none", "true", show, "", "none\n", ""},
		{"in CI that is ended", "true", `trap "echo clears up; exit 7" TERM; kill -TERM $PPID; while :; do read -r line; done`, before, "clears up\n", "madvise\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_ = os.Remove(setting)
			if tc.setting != "" {
				require.NoError(t, os.WriteFile(setting, []byte(tc.setting), 0o600))
			}
			said, code := m.run("/usr/bin/env", "CI="+tc.ci, script, "sh", "-c", tc.command)
			require.Equal(t, tc.meanwhile, said)
			assert.Equal(t, 7, code, "the command")
			left, _ := os.ReadFile(setting)
			assert.Equal(t, tc.after, string(left), "afterwards the setting is %q", left)
		})
	}
}

// The engine outlives the command, which clears up with it.
func TestAnEngineIsStoppedAfterTheCommand(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, as an engine does")
	}
	m := newMachine(t)
	for _, command := range []string{"setsid", "sleep", "touch", "tail"} {
		m.install(command)
	}
	m.stub("docker", `[ -e "$HOME/engine" ]`)
	m.stub("dockerd", `trap 'rm "$HOME/engine"; exit 0' TERM; touch "$HOME/engine"; while :; do sleep 0.05; done`)
	script := m.script("with-docker")
	for name, command := range map[string]string{
		"it ends by itself": `docker && echo clears up; exit 7`,
		"it is ended":       `trap "docker && echo clears up; exit 7" TERM; kill -TERM $PPID; while :; do read -r line; done`,
	} {
		t.Run(name, func(t *testing.T) {
			said, code := m.run(script, "sh", "-c", command)
			assert.Equal(t, "clears up\n", said)
			assert.Equal(t, 7, code, "the command")
			assert.NoFileExists(t, filepath.Join(m.dir, "engine"))
		})
	}
}

// The demo says what the machine lacks before it installs anything.
func TestTheDemoSaysFirstWhatIsMissing(t *testing.T) {
	m := newMachine(t)
	demo := m.script("demo")
	m.script("need")
	m.stub("apt-get", "echo apt-get; exit 1")
	m.stub("docker", "exit 1")
	m.stub("unshare", "exit 1")
	said, code := m.run(demo)
	if code == 0 || !strings.Contains(said, "no Docker Engine answers") || strings.Contains(said, "apt-get\n") {
		t.Errorf("nothing will do: exit %d, %s", code, said)
	}
	m.stub("unshare", "exit 0")
	for _, args := range [][]string{{"--check"}, nil} { // the first before anything is compiled
		said, code := m.withoutRoot().run(demo, args...)
		assert.True(t, code != 0 && strings.Contains(said, "missing: runc"), "without root and runc, %q: exit %d, %s", args, code, said)
	}
	if os.Geteuid() == 0 {
		m.stub("mkdir", "exit 1") // no control group can be made
		said, code := m.run(demo, "--check")
		assert.True(t, code == 0 && strings.Contains(said, "--allow-unbounded"), "no control groups: exit %d, %s", code, said)
	}
	m.stub("docker", "exit 0")
	said, code = m.run(demo, "--check")
	assert.True(t, code == 0 && said == "", "with Docker: exit %d, %s", code, said)
}

// What a command substitution fails with is lost unless it is all that a variable
// is set to; and inside of it nothing but inherit_errexit ends at a failure.
func TestNoFailureOfASubstitutionIsLost(t *testing.T) {
	scripts := must.Get(filepath.Glob("*"))(t)
	examples, err := filepath.Glob("../examples/*/build")
	require.True(t, err == nil && len(examples) != 0, "examples %v, %v", examples, err)
	assigned := regexp.MustCompile(`(^|[\s!&|{(])[a-z_]+=$`)
	declared := regexp.MustCompile(`\b(local|declare|export|readonly) [^;]*\$\([^(]`)
	for _, name := range append(append(scripts, examples...), "../.ci/run", "../Makefile") {
		if strings.HasSuffix(name, ".go") {
			continue
		}
		text := must.Get(os.ReadFile(name))(t)
		isScript := filepath.Base(name) != "Makefile"
		if isScript && !strings.Contains(string(text), "\nset -euo pipefail\nshopt -s inherit_errexit\n") {
			t.Errorf("%s does not end at every failure", name)
		}
		for number, line := range strings.Split(string(text), "\n") {
			opens := "$("
			if !isScript {
				opens = "$$("
			}
			for at, rest := 0, line; ; {
				i := strings.Index(rest, opens)
				if i < 0 {
					break
				}
				at += i
				if !strings.HasPrefix(rest[i:], "$((") && !assigned.MatchString(line[:at]) || declared.MatchString(line) {
					t.Errorf("%s:%d: a failure in here is lost: %s", name, number+1, strings.TrimSpace(line))
				}
				at += len(opens)
				rest = line[at:]
			}
		}
	}
}
