//go:build linux

package oci

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

// actRun makes this test binary run containers until it is killed, every second
// one held for a while. It says when it begins.
const actRun = "run"

// killAt names the variable with the point of a run at which the tool kills itself.
const killAt = "DEPLOYSTER_TEST_KILL_AT"

func runForever() {
	ctx := context.Background()
	e, err := Open(ctx, Options{CacheDir: os.Getenv("TEST_CACHE"), RunDir: os.Getenv("TEST_RUN")})
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		os.Exit(1)
	}
	last := os.Getenv(killAt)
	e.passed = func(point string) {
		if point == last {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	for held := false; ; held = !held {
		fmt.Fprintln(os.Stdout, "begin")
		exit, err := runProbe(ctx, e, held, os.Stdout)
		if err != nil || exit.Code != 0 {
			fmt.Fprintln(os.Stdout, exit, err)
			os.Exit(1)
		}
	}
}

func runProbe(ctx context.Context, e *Engine, held bool, stdout io.Writer) (engine.Exit, error) {
	spec := probe("cat")
	if held {
		hold := make(chan struct{})
		spec.Hold = hold
		time.AfterFunc(30*time.Millisecond, func() { close(hold) })
	}
	return e.Run(ctx, spec, engine.IO{Stdin: strings.NewReader("x"), Stdout: stdout})
}

func points(t *testing.T, e *Engine) []string {
	var passed []string
	e.passed = func(point string) {
		if !slices.Contains(passed, point) {
			passed = append(passed, point)
		}
	}
	defer func() { e.passed = nil }()
	for _, held := range []bool{false, true} {
		require.Equal(t, 0, must.Get(runProbe(t.Context(), e, held, nil))(t).Code)
	}
	require.True(t, len(passed) != 0, "runs pass no points")
	return passed
}

// stages are what the launcher and the runtime do in that time, in order, and how
// that can be seen: the tool is killed as soon as they have come so far.
func stages(e *Engine) map[string]func() bool {
	stages := map[string]func() bool{
		"the launcher has mounted": func() bool {
			return anyRecord(e, func(_ string, r record) bool {
				return r.Launcher != nil && mentions(r.Launcher.PID, "mountinfo", "overlay")
			})
		},
		"the runtime has begun": func() bool {
			return anyRecord(e, func(id string, _ record) bool { return exists(e.dir.log(id)) })
		},
	}
	if !e.rootless {
		stages["the first control group is made"] = func() bool {
			return anyRecord(e, func(id string, _ record) bool { return len(cgroupsLeft(e, id)) > 0 })
		}
		stages["the last control group is made"] = func() bool {
			return anyRecord(e, func(id string, _ record) bool { return len(cgroupsLeft(e, id)) == len(e.cgroups.mounted) })
		}
	}
	return stages
}

func anyRecord(e *Engine, is func(id string, r record) bool) bool {
	ids, _ := e.dir.ids()
	for _, id := range ids {
		file, err := openRecord(e.dir.record(id))
		if err != nil {
			continue
		}
		known := file.read()
		_ = file.Close()
		if is(id, known) {
			return true
		}
	}
	return false
}

func exists(name string) bool { _, err := os.Lstat(name); return err == nil }

func mentions(pid int, file, text string) bool {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), file))
	return err == nil && strings.Contains(string(content), text)
}

func cgroupsLeft(e *Engine, id string) []string {
	var left []string
	for _, hierarchy := range e.cgroups.mounted {
		if group := filepath.Join(hierarchy, cgroupOf(id)); exists(group) {
			left = append(left, group)
		}
	}
	return left
}

// killedTool starts a tool that runs containers, kills it when the moment has
// come, and returns the ids of the containers of which it left a record.
func killedTool(t *testing.T, e *Engine, cache, point string, moment func(output *bufio.Reader)) []string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "/proc/self/exe")
	command.Env = append(os.Environ(), actAs+"="+actRun, killAt+"="+point, "TEST_CACHE="+cache, "TEST_RUN="+string(e.dir))
	reading, writing, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = reading.Close() }()
	command.Stdout = writing
	require.NoError(t, command.Start())
	_ = writing.Close()
	output := bufio.NewReader(reading)
	assert.Equal(t, "begin\n", must.Get(output.ReadString('\n'))(t))
	if point == "" {
		moment(output)
		_ = command.Process.Kill()
	}
	err = command.Wait()
	if command.ProcessState.Exited() {
		said, _ := io.ReadAll(output)
		t.Errorf("the tool ended by itself: %v, %s", err, said)
	}
	return must.Get(e.dir.ids())(t)
}

// Whenever a tool is killed, the next one finds and removes what is left.
func TestKilledAtAnyMoment(t *testing.T) {
	cache := t.TempDir()
	e := openWith(t, Options{CacheDir: cache, RunDir: t.TempDir()})
	loadProbe(t, e)
	killAtAnyMoment(t, e, cache)
}

func killAtAnyMoment(t *testing.T, e *Engine, cache string) {
	check := func(t *testing.T, ids []string) {
		t.Helper()
		ctx := waittest.Context(t)
		next := openWith(t, Options{CacheDir: cache, RunDir: string(e.dir)})
		// A process that the tool was about to start has its locks until it does
		// something else, and dies when it learns that the tool has died.
		var found []engine.Container
		assert.NoError(t, poll(ctx, func() (none bool, err error) {
			found, err = next.Containers(ctx, nil)
			return len(found) == 0, err
		}), "left: containers %v", found)
		assert.Empty(t, left(e, ids), "left")
		if err := poll(ctx, func() (bool, error) { return len(alive(e, ids)) == 0, nil }); err != nil {
			t.Errorf("left: processes %v", alive(e, ids))
		}
	}
	for _, point := range points(t, e) {
		t.Run(point, func(t *testing.T) { check(t, killedTool(t, e, cache, point, nil)) })
	}
	for stage, reached := range stages(e) {
		t.Run(stage, func(t *testing.T) {
			check(t, killedTool(t, e, cache, "", func(*bufio.Reader) {
				for ctx := waittest.Context(t); !reached(); {
					require.NoError(t, ctx.Err(), "it does not come so far")
				}
			}))
		})
	}
	t.Run("the program has written something", func(t *testing.T) {
		check(t, killedTool(t, e, cache, "", func(output *bufio.Reader) { _, _ = output.ReadByte() }))
	})
	delays := ringtest.Cases(4, 20)
	for n := range delays {
		delay := time.Duration(n) * 100 * time.Millisecond / time.Duration(delays)
		t.Run(fmt.Sprintf("after %s", delay), func(t *testing.T) {
			check(t, killedTool(t, e, cache, "", func(*bufio.Reader) { <-time.After(delay) }))
		})
	}
}

// left lists what there still is of files and of control groups of the containers,
// in which no process can be when they are gone.
func left(e *Engine, ids []string) []string {
	var found []string
	_ = filepath.WalkDir(string(e.dir), func(path string, entry os.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			found = append(found, path)
		}
		return nil
	})
	for _, id := range ids {
		found = append(found, cgroupsLeft(e, id)...)
	}
	return found
}

// alive lists the processes that are of the containers, or see a mount in the run directory.
func alive(e *Engine, ids []string) []string {
	var found []string
	processes, _ := filepath.Glob("/proc/[0-9]*")
	for _, process := range processes {
		pid, _ := strconv.Atoi(filepath.Base(process))
		seen := mentions(pid, "mountinfo", string(e.dir))
		for _, id := range ids {
			seen = seen || mentions(pid, "cgroup", cgroupOf(id)) || mentions(pid, "cmdline", id)
		}
		// Engines of this process may have launchers that wait; of the others none.
		seen = seen || mentions(pid, "cmdline", e.dir.mountPoint()) && !mentions(pid, "status", fmt.Sprintf("\nPPid:\t%d\n", os.Getpid()))
		if seen {
			found = append(found, process)
		}
	}
	return found
}

// A tool that is killed takes its container along before anybody sweeps.
func TestContainersDieWithTheirTool(t *testing.T) {
	cache := t.TempDir()
	e := openWith(t, Options{CacheDir: cache, RunDir: t.TempDir()})
	loadProbe(t, e)
	ids := killedTool(t, e, cache, "", func(output *bufio.Reader) { _, _ = output.ReadByte() })
	gone := func() (bool, error) {
		return !anyRecord(e, func(_ string, r record) bool { return r.Launcher != nil && !r.Launcher.ended() }), nil
	}
	assert.NoError(t, poll(waittest.Context(t), gone), "containers %v run on without their tool", ids)
	_, err := e.Containers(t.Context(), nil)
	assert.NoError(t, err)
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	clone := fmt.Errorf("start the launcher: %w", &os.PathError{Op: "fork/exec", Path: "/proc/self/exe", Err: syscall.EPERM})
	private := &entrypoint.Failure{Doing: "keep mounts private", Text: "permission denied"}
	overlay := &entrypoint.Failure{Doing: "mount an overlay", Text: "no such device"}
	for _, c := range []struct {
		name               string
		err                error
		rootless, overlays bool
		sysctl             string // of the one that is set to 0 or 1
		says               string
	}{
		{"an old kernel", &entrypoint.Failure{Doing: "keep files from the container", Text: "invalid argument", Linux: "5.11"}, false, true, "", "needs Linux 5.11"},
		{"an old kernel, without root", &entrypoint.Failure{Doing: "mount", Text: "function not implemented", Linux: "5.12"}, true, true, "kernel.unprivileged_userns_clone=0", "needs Linux 5.12"},
		{"no overlays in the kernel", overlay, false, false, "", "`modprobe overlay`"},
		{"nor without root", overlay, true, false, "", "`modprobe overlay`"},
		{"overlays for root only", overlay, true, true, "", "needs Linux 5.11"},
		{"no user namespaces", clone, true, true, "user.max_user_namespaces=0", "user.max_user_namespaces = 0"},
		{"Debian's setting", clone, true, true, "kernel.unprivileged_userns_clone=0", "kernel.unprivileged_userns_clone = 0"},
		{"Ubuntu's setting", private, true, true, "kernel.apparmor_restrict_unprivileged_userns=1", "kernel.apparmor_restrict_unprivileged_userns = 1"},
		{"something else", clone, true, true, "kernel.unprivileged_userns_clone=1", "do not work for you here"},
		{"root in a container", clone, false, true, "", "run that privileged"},
		{"mounts that root may not make", private, false, true, "", "run that privileged"},
		{"too many files", syscall.EMFILE, false, true, "", "too many open files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, value, _ := strings.Cut(c.sysctl, "=")
			err := whyForbidden(c.err, c.rootless, c.overlays, func(name string) string {
				if name == set {
					return value
				}
				return ""
			})
			assert.True(t, errors.Is(err, c.err) && strings.Contains(err.Error(), c.says), "%v, want %q", err, c.says)
		})
	}
}

func TestWhatRuntimesSayIsExplained(t *testing.T) {
	e := &Engine{runtime: "/usr/bin/some-runtime"}
	spec := engine.Spec{Image: "web", Entrypoint: "/tool"}
	for said, want := range map[string]string{
		`exec: "/tool": stat /tool: no such file or directory`:    `entrypoint "/tool" cannot be executed in image "web"`,
		"executable file `/tool` not found: No such file":         `entrypoint "/tool" cannot be executed in image "web"`,
		"open executable: Permission denied":                      `entrypoint "/tool" cannot be executed in image "web"`,
		"exec container process `/tool`: Exec format error":       "is built for another platform",
		"creating cgroup directory `/sys/fs/cgroup/x`: Read-only": "some-runtime cannot use this machine's control groups",
		"something that no case is for":                           "some-runtime: run the container: something",
	} {
		err := e.explain(spec, &entrypoint.Failure{Doing: "run the container", Text: said, Runtime: true})
		assert.True(t, strings.Contains(err.Error(), want) && strings.Contains(err.Error(), said), "%v, want %q", err, want)
	}
	for _, said := range []string{`exec: "/tool": mkdir /run/x: no space left on device`, "open executable: Too many open files in system"} {
		err := e.explain(spec, &entrypoint.Failure{Doing: "run the container", Text: said, Runtime: true})
		assert.True(t, !errors.As(err, new(*engine.SpecError)) && strings.HasPrefix(err.Error(), "some-runtime: ") &&
			strings.Contains(err.Error(), said), "of a machine that lacks something it says %v", err)
	}
	own := &entrypoint.Failure{Doing: "find user", Text: "exec: it is none of the runtime's"}
	err := e.explain(spec, own)
	assert.True(t, errors.Is(err, own) && err.Error() == own.Error(), "%v", err)
}
