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

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

// somebody is a user without any rights.
const somebody = 65534

// asSomebody prepares this test binary to be executed by another user, in a
// directory of that user's that holds the probe's tar.
func asSomebody(t *testing.T, args ...string) (command *exec.Cmd, directory string) {
	t.Helper()
	directory, err := os.MkdirTemp("", "deployster-oci-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(directory); err != nil {
			t.Error(err)
		}
	})
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	tar, err := enginetest.ImageTar(probeRef, enginetest.ProbeImage(t, ""))
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range map[string][]byte{"program": binary, "probe.tar": tar} {
		if err := os.WriteFile(filepath.Join(directory, file), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"", "program", "probe.tar"} {
		if err := os.Chown(filepath.Join(directory, file), somebody, somebody); err != nil {
			t.Fatal(err)
		}
	}
	command = exec.CommandContext(t.Context(), filepath.Join(directory, "program"), args...)
	command.Dir = directory
	command.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + directory, "TMPDIR=" + directory, "XDG_RUNTIME_DIR=" + directory}
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: somebody, Gid: somebody}}
	return command, directory
}

// Root executes this test as another user. What that user is refused for having
// one user only, and no bounds, is left out.
func TestWithoutRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		command, _ := asSomebody(t, "-test.run=^TestWithoutRoot$", "-test.count=1",
			"-test.skip=^TestWithoutRoot$/./^cases$/^(environment,_directory_and_user|users_and_groups_are_looked_up_in_the_image)$")
		if said, err := command.CombinedOutput(); err != nil || !bytes.Contains(said, []byte("PASS")) {
			t.Errorf("%v\n%s", err, said)
		}
		return
	}
	var log bytes.Buffer
	cache := t.TempDir()
	e := openWith(t, Options{CacheDir: cache, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	tar, err := os.ReadFile("probe.tar")
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Load(t.Context(), bytes.NewReader(tar)); err != nil {
		t.Fatal(err)
	}
	for _, network := range []string{"host", "none"} {
		t.Run(network, func(t *testing.T) {
			enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
				Probe: probeRef, Tar: tar, Network: network, NoLimits: true,
			})
		})
	}
	if _, err := exec.LookPath("crun"); err == nil {
		t.Run("crun", func(t *testing.T) {
			e := openWith(t, Options{CacheDir: cache, RunDir: t.TempDir(), Runtime: "crun"})
			enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
				Probe: probeRef, Tar: tar, Network: "host", NoLimits: true,
			})
		})
	}
	t.Run("killed at any moment", func(t *testing.T) { killAtAnyMoment(t, e, cache) })
	if log.Len() > 0 {
		t.Errorf("warnings: %s", log.String())
	}
	for range 2 {
		spec := probe("exit", "0")
		spec.Memory = 64 << 20
		stdoutOf(t, e, spec)
	}
	if strings.Count(log.String(), "not bounded") != 1 {
		t.Errorf("warned of bounds that are not kept: %q", log.String())
	}
	if info, err := e.Info(t.Context()); err != nil || !strings.Contains(info.Address, "without root") {
		t.Errorf("%+v, %v", info, err)
	}
	spec := probe("exit", "0")
	spec.User = "1234"
	if _, err := e.Run(t.Context(), spec, engine.IO{}); err == nil || !strings.Contains(err.Error(), "without root there is only user 0") {
		t.Errorf("user 1234: %v", err)
	}
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
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, want := range []string{"true ", "forbidden by the sysctl user.max_user_namespaces = 0"} {
		if !strings.Contains(string(said), want) {
			t.Errorf("%q does not say %q", said, want)
		}
	}
}

// Nobody takes tests that were not run for tests that passed.
func TestWhatAMachineWithoutUserNamespacesCanNotTestIsNamed(t *testing.T) {
	able, err := filepath.Abs("../../scripts/able")
	if err != nil {
		t.Fatal(err)
	}
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
