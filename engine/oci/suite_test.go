//go:build linux

package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
)

func TestOCIPassesTheSuite(t *testing.T) {
	networks := []string{"none"}
	if ringtest.All() { // else by a case of the suite
		networks = append(networks, "host")
	}
	e, cache := openWithCache(t, "")
	tar := loadProbe(t, e)
	for _, network := range networks {
		t.Run(network, func(t *testing.T) { passTheSuite(t, e, cache, tar, network) })
	}
}

// Other runtimes create a container before they start it. The runtime that is always there does so, too, when asked to.
// In "make test" one container shows that, and TestOCIPassesTheSuite all else.
func TestOtherRuntimesPassTheSuite(t *testing.T) {
	for name, runtime := range map[string]string{"runc in steps": "", "crun": "crun"} {
		t.Run(name, func(t *testing.T) {
			e, cache := openWithCache(t, runtime)
			e.keeps = false
			tar := loadProbe(t, e)
			if ringtest.All() {
				passTheSuite(t, e, cache, tar, "none")
				return
			}
			for _, held := range []bool{false, true} {
				var out bytes.Buffer
				assert.Equal(t, engine.Exit{}, must.Get(runProbe(t.Context(), e, held, &out))(t))
				assert.Equal(t, "x", out.String())
			}
		})
	}
}

func openWithCache(t *testing.T, runtime string) (*Engine, string) {
	cache := t.TempDir()
	return openWith(t, Options{CacheDir: cache, RunDir: t.TempDir(), Runtime: runtime}), cache
}

func passTheSuite(t *testing.T, e *Engine, cache string, tar []byte, network string) {
	enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
		Probe: probeRef, Tar: tar, Network: network,
		Caller: func(t *testing.T, order string) *exec.Cmd {
			command := exec.CommandContext(t.Context(), "/proc/self/exe", order)
			command.Env = append(os.Environ(), actAs+"="+actDie, "TEST_CACHE="+cache, "TEST_RUN="+string(e.dir), "TEST_RUNTIME="+e.runtime)
			return command
		},
	})
}

// actDie makes this test binary run a container and be killed.
const actDie = "die"

func die() {
	e, err := Open(context.Background(), Options{
		CacheDir: os.Getenv("TEST_CACHE"), RunDir: os.Getenv("TEST_RUN"), Runtime: os.Getenv("TEST_RUNTIME"),
	})
	if err == nil {
		err = enginetest.Die(e, os.Args[1])
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// probeRef names the suite's image in the engines of these tests.
const probeRef = "deployster-enginetest:probe"

// This test binary does something else when this variable says so.
const actAs = "DEPLOYSTER_TEST_ACT_AS"

func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	switch os.Getenv(actAs) {
	case actRun:
		runForever()
	case actLose:
		loseFirstThread()
	case actDie:
		die()
	case actOpen:
		sayHowOpenWent()
	case "":
		os.Exit(enginetest.Main(m, "TestWithoutRoot", "TestForbiddenUserNamespaces", "TestWhatAMachineWithoutUserNamespacesCanNotTestIsNamed"))
	default: // never the tests: they would start themselves again, and again
		os.Exit(1)
	}
}

func open(tb testing.TB) *Engine {
	return openWith(tb, Options{CacheDir: tb.TempDir(), RunDir: tb.TempDir()})
}

func openWith(tb testing.TB, options Options) *Engine {
	e, err := Open(tb.Context(), options)
	require.NoError(tb, err, "these tests need root, runc and overlayfs")
	tb.Cleanup(func() {
		assert.NoError(tb, e.Close())
		assert.Empty(tb, must.Get(e.dir.ids())(tb))
	})
	return e
}

func loadProbe(tb testing.TB, e *Engine) []byte {
	tar := must.Get(enginetest.ImageTar(probeRef, enginetest.ProbeImage(tb, "")))(tb)
	require.NoError(tb, e.Load(tb.Context(), bytes.NewReader(tar)))
	return tar
}

func probe(args ...string) engine.Spec { return engine.Spec{Image: probeRef, Args: args} }

// somebody is a user without any rights.
const somebody = 65534

// asSomebody prepares this test binary to be executed by another user, in a
// directory of that user's that holds the probe's tar.
func asSomebody(t *testing.T, args ...string) (command *exec.Cmd, directory string) {
	directory = must.Get(os.MkdirTemp("", "deployster-oci-"))(t)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(directory)) })
	binary := must.Get(os.ReadFile("/proc/self/exe"))(t)
	tar := must.Get(enginetest.ImageTar(probeRef, enginetest.ProbeImage(t, "")))(t)
	for file, content := range map[string][]byte{"program": binary, "probe.tar": tar} {
		require.NoError(t, os.WriteFile(filepath.Join(directory, file), content, 0o755))
	}
	for _, file := range []string{"", "program", "probe.tar"} {
		require.NoError(t, os.Chown(filepath.Join(directory, file), somebody, somebody))
	}
	command = exec.CommandContext(t.Context(), filepath.Join(directory, "program"), args...)
	command.Dir = directory
	command.Env = []string{ringtest.Variable + "=" + os.Getenv(ringtest.Variable), "PATH=/usr/bin:/bin", "HOME=" + directory, "TMPDIR=" + directory, "XDG_RUNTIME_DIR=" + directory}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: somebody, Gid: somebody}}
	return command, directory
}

// Root executes this test as another user. What that user is refused for having one user only, and no bounds, is left out.
func TestWithoutRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		command, _ := asSomebody(t, "-test.run=^TestWithoutRoot$", "-test.count=1",
			"-test.skip=^TestWithoutRoot$/./^cases$/^(environment,_directory_and_user|users_and_groups_are_looked_up_in_the_image)$")
		said, err := command.CombinedOutput()
		require.NoError(t, err, "%s", said)
		assert.Contains(t, string(said), "PASS")
		return
	}
	var log bytes.Buffer
	cache := t.TempDir()
	e := openWith(t, Options{CacheDir: cache, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	tar := must.Get(os.ReadFile("probe.tar"))(t)
	require.NoError(t, e.Load(t.Context(), bytes.NewReader(tar)))
	runs := []struct{ runtime, network string }{{"runc", "host"}}
	if ringtest.All() {
		runs = append(runs, struct{ runtime, network string }{"runc", "none"}, struct{ runtime, network string }{"crun", "host"})
	}
	for _, run := range runs {
		t.Run(run.runtime+" "+run.network, func(t *testing.T) {
			e := e
			if run.runtime != "runc" {
				e = openWith(t, Options{CacheDir: cache, RunDir: t.TempDir(), Runtime: run.runtime})
			}
			enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
				Probe: probeRef, Tar: tar, Network: run.network, NoLimits: true,
			})
		})
	}
	t.Run("killed at any moment", func(t *testing.T) { killAtAnyMoment(t, e, cache) })
	assert.Empty(t, log.String(), "warnings")
	for range 2 {
		spec := probe("exit", "0")
		spec.Memory = 64 << 20
		stdoutOf(t, e, spec)
	}
	assert.Equal(t, 1, strings.Count(log.String(), "not bounded"), "warned of bounds that are not kept: %s", &log)
	assert.Contains(t, must.Get(e.Info(t.Context()))(t).Address, "without root")
	spec := probe("exit", "0")
	spec.User = "1234"
	assert.ErrorContains(t, must.Fail(e.Run(t.Context(), spec, engine.IO{})), "without root there is only user 0")
}

// actOpen makes this test binary open an engine and say how that went.
const actOpen = "open"

func sayHowOpenWent() {
	_, err := Open(context.Background(), Options{})
	fmt.Fprintln(os.Stdout, errors.Is(err, engine.ErrUnavailable), err)
}

// withoutUserNamespaces has a shell run a script where they are forbidden. The
// sysctl belongs to a user namespace, so that is one of the test's own.
func withoutUserNamespaces(t *testing.T, script string) *exec.Cmd {
	command, directory := asSomebody(t)
	command.Path = "/bin/sh"
	command.Args = []string{"sh", "-c", "echo 0 >/proc/sys/user/max_user_namespaces && " + script, filepath.Join(directory, "program")}
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER, UidMappings: mapping, GidMappings: mapping, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{},
	}
	return command
}

func TestForbiddenUserNamespaces(t *testing.T) {
	command := withoutUserNamespaces(t, `exec setpriv --reuid 65534 --regid 65534 --clear-groups "$0"`)
	command.Env = append(command.Env, actAs+"="+actOpen)
	said, err := command.CombinedOutput()
	require.NoError(t, err, "%s", said)
	for _, want := range []string{"true ", "forbidden by the sysctl user.max_user_namespaces = 0"} {
		assert.Contains(t, string(said), want, "%q does not say %q", said, want)
	}
}

// Nobody takes tests that were not run for tests that passed.
func TestWhatAMachineWithoutUserNamespacesCanNotTestIsNamed(t *testing.T) {
	able := must.Get(filepath.Abs("../../scripts/able"))(t)
	for name, script := range map[string]string{
		"this package": `exec "$0" -test.run '^TestWithoutRoot$'`,
		"all":          "exec " + able,
	} {
		said, err := withoutUserNamespaces(t, script).CombinedOutput()
		assert.True(t, err == nil && strings.Contains(string(said), "not run") &&
			strings.Contains(string(said), "TestWithoutRoot"), "%s: %v, %s", name, err, said)
		inCI := withoutUserNamespaces(t, script)
		inCI.Env = append(inCI.Env, "CI=true")
		said, err = inCI.CombinedOutput()
		assert.True(t, err != nil && strings.Contains(string(said), "TestWithoutRoot"), "%s, in CI: %v, %s", name, err, said)
	}
}
