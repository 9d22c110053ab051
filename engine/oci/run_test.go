//go:build linux

package oci

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
)

// stdoutOf runs a probe that succeeds and returns its stdout.
func stdoutOf(t *testing.T, e *Engine, spec engine.Spec) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	exit, err := e.Run(t.Context(), spec, engine.IO{Stdout: &stdout, Stderr: &stderr})
	require.True(t, err == nil && exit.Code == 0, "run of %q: exit %+v, error %v\n%s", spec.Args, exit, err, stderr.String())
	return stdout.String()
}

// fails runs a probe that must end with a code other than 0.
func fails(t *testing.T, e *Engine, spec engine.Spec) {
	t.Helper()
	if exit, err := e.Run(t.Context(), spec, engine.IO{}); err != nil || exit.Code == 0 {
		t.Errorf("run of %q: exit %+v, error %v; want it to fail", spec.Args, exit, err)
	}
}

func TestContainersAreConfined(t *testing.T) {
	e := open(t)
	loadProbe(t, e)
	status := stdoutOf(t, e, probe("read", "/proc/self/status"))
	for _, want := range []string{"NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapEff:\t00000000000004fb\n", "CapBnd:\t00000000000004fb\n", "CapAmb:\t0000000000000000\n"} {
		assert.Contains(t, status, want, "the status of root's process is not")
	}
	plain := probe("read", "/proc/self/status")
	plain.User = "1234"
	if status := stdoutOf(t, e, plain); !strings.Contains(status, "CapEff:\t0000000000000000\n") || !strings.Contains(status, "CapPrm:\t0000000000000000\n") {
		t.Errorf("a plain user has capabilities:\n%s", status)
	}
	for _, name := range []string{"/new", "/etc/hosts", "/image/dir/new", "/proc/sys/kernel/domainname", "/proc/sysrq-trigger", "/sys/new"} {
		fails(t, e, probe("write", name, "text"))
	}
	for _, name := range []string{"/tmp/new", "/dev/shm/new"} {
		spec := probe("write", name, "text")
		spec.User = "1234"
		stdoutOf(t, e, spec)
	}
	assert.Empty(t, stdoutOf(t, e, probe("read", "/proc/interrupts")), "the machine's interrupts are shown")
}

func TestNamesAreResolvedAsTheNetworkHasThem(t *testing.T) {
	e := open(t)
	loadProbe(t, e)
	own, err := os.ReadFile("/etc/hosts")
	require.NoError(t, err)
	hostname, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, string(own), stdoutOf(t, e, probe("read", "/etc/hosts")), "/etc/hosts")
	assert.Equal(t, hostname+"\n", stdoutOf(t, e, probe("read", "/proc/sys/kernel/hostname")), "the name")
	alone := probe("read", "/etc/hosts")
	alone.Network = "none"
	assert.Contains(t, stdoutOf(t, e, alone), "127.0.0.1\tlocalhost", "/etc/hosts without a network")
}

func TestReadOnlyMountsAreSoAllTheWayDown(t *testing.T) {
	e := open(t)
	loadProbe(t, e)
	outer := t.TempDir()
	inner := filepath.Join(outer, "inner")
	require.NoError(t, os.Mkdir(inner, 0o755))
	require.NoError(t, unix.Mount("tmpfs", inner, "tmpfs", 0, "size=1m"))
	t.Cleanup(func() {
		assert.NoError(t, unix.Unmount(inner, 0))
	})
	for readOnly, run := range map[bool]func(*testing.T, *Engine, engine.Spec){
		true:  fails,
		false: func(t *testing.T, e *Engine, spec engine.Spec) { t.Helper(); stdoutOf(t, e, spec) },
	} {
		spec := probe("write", "/mnt/inner/new", "text")
		spec.Mounts = []engine.Mount{{Source: outer, Target: "/mnt", ReadOnly: readOnly}}
		run(t, e, spec)
	}
}

func TestRunFails(t *testing.T) {
	e := open(t)
	loadProbe(t, e)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("this is no program\n"), 0o600))
	bare := loadImage(t, e, enginetest.ImageSpec{Binary: text})
	hostile := loadImage(t, e, enginetest.ImageSpec{Binary: text, Files: map[string]string{"/etc/passwd": strings.Repeat("x", 200_000) + "\n" + "root:x:0:0:::\n"}})
	missing := filepath.Join(t.TempDir(), "missing")
	for _, c := range []struct {
		name   string
		change func(*engine.Spec)
		says   []string
	}{
		{"no such network", func(s *engine.Spec) { s.Network = "no-such-network" }, []string{`network "no-such-network"`, "host and none"}},
		{"no such entrypoint", func(s *engine.Spec) { s.Entrypoint = "/nope" }, []string{`entrypoint "/nope"`, "executable"}},
		{"no such command in PATH", func(s *engine.Spec) { s.Entrypoint = "nope" }, []string{`entrypoint "nope"`, "executable"}},
		{"no such entrypoint of a held run", func(s *engine.Spec) { s.Entrypoint, s.Hold = "/nope", make(chan struct{}) }, []string{`entrypoint "/nope"`, "executable"}},
		{"an entrypoint that is a directory", func(s *engine.Spec) { s.Entrypoint = "/proc" }, []string{`entrypoint "/proc"`}},
		{"an entrypoint that is a file", func(s *engine.Spec) { s.Entrypoint = "/etc/hosts" }, []string{`entrypoint "/etc/hosts"`}},
		{"nothing to execute", func(s *engine.Spec) { s.Image, s.Args = bare, nil }, []string{"neither entrypoint nor command"}},
		{"a user that is not known", func(s *engine.Spec) { s.User = "nobody-here" }, []string{`find user "nobody-here"`}},
		{"users that are not readable", func(s *engine.Spec) { s.Image, s.User = hostile, "somebody" }, []string{`find user "somebody"`}},
		{"a missing mount source among others", func(s *engine.Spec) {
			s.Mounts = []engine.Mount{{Source: filepath.Dir(missing), Target: "/a"}, {Source: missing, Target: "/b"}}
		}, []string{"mount source " + missing + " does not exist"}},
		{"a mount in place of /proc", func(s *engine.Spec) { s.Mounts = []engine.Mount{{Source: filepath.Dir(missing), Target: "/proc/x"}} }, []string{"/proc"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := probe("exit", "0")
			c.change(&spec)
			var stderr bytes.Buffer
			exit, err := e.Run(t.Context(), spec, engine.IO{Stderr: &stderr})
			require.Error(t, err, "exit %+v, want an error", exit)
			for _, want := range append(c.says, spec.Image) {
				assert.Contains(t, err.Error(), want, "%v does not say %q", err, want)
			}
			assert.True(t, stderr.Len() <= 0, "what comes back as an error is on stderr, too: %s", stderr.String())
		})
	}
	t.Run("a program of no known format", func(t *testing.T) {
		var stderr bytes.Buffer
		exit, err := e.Run(t.Context(), engine.Spec{Image: bare, Entrypoint: "/text"}, engine.IO{Stderr: &stderr})
		said := stderr.String()
		if err != nil {
			said += err.Error()
		}
		if !strings.Contains(strings.ToLower(said), "exec format error") || exit.Code == 0 && err == nil {
			t.Errorf("exit %+v, error %v, stderr %q", exit, err, stderr.String())
		}
	})
}

// loadImage loads an image under the name of its first file.
func loadImage(t *testing.T, e *Engine, spec enginetest.ImageSpec) string {
	t.Helper()
	image, err := enginetest.BuildImage(spec)
	require.NoError(t, err)
	digest, err := image.Digest()
	require.NoError(t, err)
	ref := "deployster-enginetest:" + digest.Hex[:12]
	tar, err := enginetest.ImageTar(ref, image)
	require.NoError(t, err)
	require.NoError(t, e.Load(t.Context(), bytes.NewReader(tar)))
	return ref
}

// A runtime that is killed cannot remove what it had put aside for a moment.
func TestRuntimesPutThingsAsideWhereTheyGoWithTheContainer(t *testing.T) {
	directory := t.TempDir()
	said, script := filepath.Join(directory, "said"), filepath.Join(directory, "runtime")
	text := "#!/bin/sh\necho \"$_LIBCONTAINER_STATEDIR\" >>" + said + "\nexec runc \"$@\"\n"
	require.NoError(t, os.WriteFile(script, []byte(text), 0o700))
	e := openWith(t, Options{CacheDir: t.TempDir(), RunDir: t.TempDir(), Runtime: script})
	loadProbe(t, e)
	if err := os.Remove(said); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	stdoutOf(t, e, probe("exit", "0"))
	got, err := os.ReadFile(said)
	if want := e.dir.mountPoint() + "\n"; err != nil || strings.ReplaceAll(string(got), want, "") != "" || len(got) == 0 {
		t.Errorf("they put them into %q (%v), want %q", got, err, want)
	}
}

func TestMissingRuntimesAreToBeInstalledFromTheirOwnPackages(t *testing.T) {
	for name, want := range map[string]string{
		"runc": "`apt-get install runc`", "crun": "`apt-get install crun`", "runsc": "`apt-get install runsc`",
		"youki": "install it as its authors say, in a directory of the PATH",
	} {
		if got := remedy(name); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
}

func TestOpenFails(t *testing.T) {
	directory := t.TempDir()
	text := filepath.Join(directory, "text")
	broken := filepath.Join(directory, "broken")
	for file, mode := range map[string]os.FileMode{text: 0o600, broken: 0o700} {
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/false\n"), mode))
	}
	open := filepath.Join(directory, "open")
	require.NoError(t, os.Mkdir(open, 0o700))
	if err := os.Chmod(open, 0o777); err != nil { // whatever the umask
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		options Options
		says    []string
	}{
		{"no such runtime", Options{Runtime: "no-such-runtime"}, []string{`no runtime "no-such-runtime"`, "as its authors say, in a directory of the PATH"}},
		{"no such path", Options{Runtime: "/no/such/runtime"}, []string{`"/no/such/runtime"`, "no such file"}},
		{"a runtime that is no program", Options{Runtime: text}, []string{text, "cannot be executed"}},
		{"a runtime that is none", Options{Runtime: broken}, []string{broken, "is it an OCI runtime?"}},
		{"a run directory that all may write to", Options{RunDir: open}, []string{open, "nobody else may write"}},
		{"a run directory that is a file", Options{RunDir: text}, []string{text}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.options.RunDir == "" {
				c.options.RunDir = t.TempDir()
			}
			c.options.CacheDir = t.TempDir()
			_, err := Open(t.Context(), c.options)
			require.ErrorIs(t, err, engine.ErrUnavailable)
			for _, want := range c.says {
				assert.Contains(t, err.Error(), want, "%v does not say %q", err, want)
			}
		})
	}
}
