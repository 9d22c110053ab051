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
	"github.com/deployster-go/deployster/internal/ringtest"
)

// somebody is a user without any rights.
const somebody = 65534

// asSomebody prepares this test binary to be executed by another user, in a
// directory of that user's that holds the probe's tar.
func asSomebody(t *testing.T, args ...string) (command *exec.Cmd, directory string) {
	t.Helper()
	directory, err := os.MkdirTemp("", "deployster-oci-")
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, os.RemoveAll(directory))
	})
	binary, err := os.ReadFile("/proc/self/exe")
	require.NoError(t, err)
	tar, err := enginetest.ImageTar(probeRef, enginetest.ProbeImage(t, ""))
	require.NoError(t, err)
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

// Root executes this test as another user. What that user is refused for having
// one user only, and no bounds, is left out.
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
	tar, err := os.ReadFile("probe.tar")
	require.NoError(t, err)
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
	info, err := e.Info(t.Context())
	require.NoError(t, err)
	assert.Contains(t, info.Address, "without root")
	spec := probe("exit", "0")
	spec.User = "1234"
	_, err = e.Run(t.Context(), spec, engine.IO{})
	assert.ErrorContains(t, err, "without root there is only user 0")
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
	t.Helper()
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
	able, err := filepath.Abs("../../scripts/able")
	require.NoError(t, err)
	for name, script := range map[string]string{
		"this package": `exec "$0" -test.run '^TestWithoutRoot$'`,
		"all":          "exec " + able,
	} {
		said, err := withoutUserNamespaces(t, script).CombinedOutput()
		if err != nil || !strings.Contains(string(said), "not run") || !strings.Contains(string(said), "TestWithoutRoot") {
			t.Errorf("%s: %v, %s", name, err, said)
		}
		inCI := withoutUserNamespaces(t, script)
		inCI.Env = append(inCI.Env, "CI=true")
		if said, err := inCI.CombinedOutput(); err == nil || !strings.Contains(string(said), "TestWithoutRoot") {
			t.Errorf("%s, in CI: %v, %s", name, err, said)
		}
	}
}
