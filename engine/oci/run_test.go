//go:build linux

package oci

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/internal/waittest"
)

func stdoutOf(t *testing.T, e *Engine, spec engine.Spec) string {
	var stdout, stderr bytes.Buffer
	exit := must.Get(e.Run(t.Context(), spec, engine.IO{Stdout: &stdout, Stderr: &stderr}))(t)
	require.Equal(t, 0, exit.Code, "run of %q: exit %+v\n%s", spec.Args, exit, stderr.String())
	return stdout.String()
}

// fails runs a probe that must end with a code other than 0.
func fails(t *testing.T, e *Engine, spec engine.Spec) {
	exit := must.Get(e.Run(t.Context(), spec, engine.IO{}))(t)
	assert.True(t, exit.Code != 0, "run of %q: exit %+v; want it to fail", spec.Args, exit)
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
	own := must.Get(os.ReadFile("/etc/hosts"))(t)
	hostname := must.Get(os.Hostname())(t)
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
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(inner, 0)) })
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
		assert.True(t, strings.Contains(strings.ToLower(said), "exec format error") &&
			(exit.Code != 0 || err != nil), "exit %+v, error %v, stderr %q", exit, err, stderr.String())
	})
}

func loadImage(t *testing.T, e *Engine, spec enginetest.ImageSpec) string {
	image := must.Get(enginetest.BuildImage(spec))(t)
	digest := must.Get(image.Digest())(t)
	ref := "deployster-enginetest:" + digest.Hex[:12]
	tar := must.Get(enginetest.ImageTar(ref, image))(t)
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
		assert.Contains(t, remedy(name), want, name)
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

// withoutCgroups says that this test binary runs where it may unmount control groups without anybody else noticing.
const withoutCgroups = "DEPLOYSTER_TEST_WITHOUT_CGROUPS"

// The test executes itself in a mount namespace without control groups.
func TestWithoutControlGroups(t *testing.T) {
	if os.Getenv(withoutCgroups) == "" {
		command := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestWithoutControlGroups$", "-test.count=1")
		command.Env = append(os.Environ(), withoutCgroups+"=1")
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
		said := must.Get(command.CombinedOutput())(t)
		assert.True(t, bytes.Contains(said, []byte("PASS")), "\n%s", said)
		return
	}
	require.NoError(t, errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Unmount("/sys/fs/cgroup", unix.MNT_DETACH),
	))
	_, err := Open(t.Context(), Options{CacheDir: t.TempDir(), RunDir: t.TempDir()})
	require.ErrorIs(t, err, engine.ErrUnavailable)
	assert.Contains(t, err.Error(), "--allow-unbounded", "without control groups")
	for _, runtime := range []string{"runc", "crun"} {
		t.Run(runtime, func(t *testing.T) {
			var log bytes.Buffer
			e := openWith(t, Options{
				CacheDir: t.TempDir(), RunDir: t.TempDir(), Runtime: runtime, AllowUnbounded: true,
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			})
			assert.Contains(t, must.Get(e.Info(t.Context()))(t).Address, "not bounded")
			tar := loadProbe(t, e)
			if ringtest.All() { // else by one container, and TestWithoutRoot, which has no control groups either
				enginetest.Run(t, func(*testing.T) engine.Engine { return e }, enginetest.Images{
					Probe: probeRef, Tar: tar, Network: "none", NoLimits: true,
				})
			}
			spec := probe("exit", "0")
			spec.Memory = 64 << 20
			stdoutOf(t, e, spec)
			assert.Equal(t, 1, strings.Count(log.String(), "not bounded"), "want one warning: %s", &log)
			assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"), "want one warning: %s", &log)
		})
	}
}

// What is allowed changes nothing where there are control groups.
func TestBoundsAreKeptWhereTheyCanBe(t *testing.T) {
	e := openWith(t, Options{CacheDir: t.TempDir(), RunDir: t.TempDir(), AllowUnbounded: true})
	loadProbe(t, e)
	spec := probe("allocate", "200000000")
	spec.Memory = 64 << 20
	assert.Equal(t, killed, must.Get(e.Run(t.Context(), spec, engine.IO{}))(t).Code)
}

// underway is a run whose container has written something and waits for stdin.
type underway struct {
	stdin *io.PipeWriter
	exit  engine.Exit
	err   error
	ended chan struct{}
}

// begin starts a container that ends with code 7 when stdin is closed.
func begin(t *testing.T, e *Engine, labels map[string]string) *underway {
	t.Helper()
	spec := probe("read-exit", "7")
	spec.Labels = labels
	reader, writer := io.Pipe()
	u := &underway{stdin: writer, ended: make(chan struct{})}
	first := make(stamp, 1)
	go func() {
		defer close(u.ended)
		u.exit, u.err = e.Run(t.Context(), spec, engine.IO{Stdin: reader, Stdout: first})
	}()
	t.Cleanup(func() { _ = writer.Close(); <-u.ended })
	select {
	case <-first:
	case <-u.ended:
		t.Fatalf("the container exited without output: exit %+v, error %v", u.exit, u.err)
	}
	return u
}

// stamp keeps when it is first written to.
type stamp chan time.Time

func (s stamp) Write(p []byte) (int, error) {
	select {
	case s <- time.Now():
	default:
	}
	return len(p), nil
}

// Engines share what they know by their run directory, whichever process they are in.
func TestContainersOfAnotherTool(t *testing.T) {
	e := open(t)
	loadProbe(t, e)
	other := openWith(t, Options{CacheDir: t.TempDir(), RunDir: string(e.dir)})
	find := func() engine.Container {
		t.Helper()
		found := must.Get(other.Containers(t.Context(), map[string]string{"a": "1", "b": ""}))(t)
		require.True(t, len(found) == 1 && found[0].Started && found[0].Running && found[0].Labels["b"] == "2", "found %+v", found)
		return found[0]
	}
	u := begin(t, e, map[string]string{"a": "1", "b": "2"})
	id := find().ID
	short, cancel := context.WithCancel(t.Context())
	cancel()
	assert.ErrorIs(t, must.Fail(other.Wait(short, id)), context.Canceled, "a cancelled wait")
	waited := make(chan engine.Exit, 1)
	go func() {
		exit, err := other.Wait(t.Context(), id)
		assert.NoError(t, err)
		waited <- exit
	}()
	_ = u.stdin.Close()
	exit := <-waited
	assert.True(t, exit == (engine.Exit{Code: 7}), "waited for: %+v, want code 7", exit)
	<-u.ended
	u = begin(t, e, map[string]string{"a": "1", "b": "2"})
	assert.NoError(t, other.Remove(t.Context(), find().ID))
	<-u.ended
	assert.True(t, u.err == nil && u.exit == (engine.Exit{Code: killed}), "removed by another: exit %+v, error %v", u.exit, u.err)
	assert.Empty(t, must.Get(other.Containers(t.Context(), nil))(t))
}

// Process ids are used again: what has another beginning is somebody else.
func TestOthersAreNotKilled(t *testing.T) {
	self := must.Get(identify(os.Getpid()))(t)
	assert.True(t, !self.ended(), "this process is gone")
	if err := self.kill(someID); err != nil { // it is no launcher
		t.Error(err)
	}
	self.Began += "0"
	assert.True(t, self.ended(), "a process that began at another time is the same")
}

func TestALauncherWaitsForTheNextRun(t *testing.T) {
	e := open(t)
	loadProbe(t, e)
	waiting := func() *container {
		t.Helper()
		stdoutOf(t, e, probe("exit", "0"))
		e.ahead.starting.Wait()
		require.True(t, e.ahead.next != nil, "none waits")
		return e.ahead.next
	}
	first := waiting()
	first.kill()
	<-first.ended
	second := waiting()
	assert.NoError(t, e.Close())
	select {
	case <-second.ended:
	default:
		t.Error("it is left when the engine is closed")
	}
	stdoutOf(t, e, probe("exit", "0"))
	assert.True(t, e.ahead.next == nil, "a closed engine starts another")
}

// A launcher that did nothing is not taken for a container that has ended.
func TestALauncherThatDoesNothingIsAnError(t *testing.T) {
	e := open(t)
	loadProbe(t, e)
	t.Run("it understands nothing", func(t *testing.T) {
		c := must.Get(e.prepare())(t)
		defer c.close()
		must.Get(io.WriteString(c.control, "what is no request"))(t)
		code, failure := c.end()
		require.NotNil(t, failure)
		assert.Contains(t, failure.Error(), "before there was one: exit status 1", "exit code %d", code)
	})
	t.Run("it dies before it has its request", func(t *testing.T) {
		e.passed = func(point string) {
			if point == "the record is made" {
				anyRecord(e, func(id string, r record) bool {
					// One that is just being executed is not seen to be a launcher.
					assert.NoError(t, poll(t.Context(), func() (bool, error) { return r.Launcher.ended(), r.Launcher.kill(id) }))
					return true
				})
			}
		}
		defer func() { e.passed = nil }()
		exit, err := e.Run(t.Context(), probe("exit", "0"), engine.IO{})
		assert.ErrorContains(t, err, "send the request to the launcher", "exit %+v, error", exit)
	})
}

// A path that leads elsewhere when it is mounted shows the container nothing.
func TestWhatWasCheckedIsMountedOrNothing(t *testing.T) {
	e := open(t)
	loadProbe(t, e)
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	plug, secret := filepath.Join(root, "plug"), filepath.Join(root, "secret")
	for _, dir := range []string{plug, secret} {
		require.NoError(t, os.Mkdir(dir, 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte(filepath.Base(dir)), 0o644))
	}
	read := func() (string, error) {
		spec, out := probe("read", "/plug/file"), bytes.Buffer{}
		spec.Mounts = must.Get(engine.Finder{}.Pin([]engine.Mount{{Source: plug, Target: "/plug"}}))(t)
		_, err := e.Run(t.Context(), spec, engine.IO{Stdout: &out})
		return out.String(), err
	}
	for name, replace := range map[string]func() error{
		"by a link":      func() error { return os.Symlink(secret, plug) },
		"by a directory": func() error { return os.Rename(secret, plug) },
		"by nothing":     func() error { return nil },
	} {
		back := func() {}
		e.passed = func(point string) {
			if point == "the record is made" { // after the check, before the mount
				assert.NoError(t, errors.Join(os.Rename(plug, plug+".old"), replace()), name)
				back = func() {
					if name == "by a directory" {
						assert.NoError(t, os.Rename(plug, secret))
					}
					_ = os.Remove(plug)
					assert.NoError(t, os.Rename(plug+".old", plug))
				}
			}
		}
		said, err := read()
		e.passed = nil
		back()
		assert.ErrorIs(t, err, engine.ErrReplaced, name)
		assert.Empty(t, said, name)
	}
	said, err := read()
	require.NoError(t, err)
	assert.Equal(t, "plug", said)
	if os.Geteuid() != 0 {
		return
	}
	// There is a launcher by now that waits, and may not see what is mounted from here on.
	e.ahead.starting.Wait()
	require.NoError(t, unix.Mount("tmpfs", plug, "tmpfs", 0, ""))
	t.Cleanup(func() { assert.NoError(t, unix.Unmount(plug, unix.MNT_DETACH)) })
	require.NoError(t, os.WriteFile(filepath.Join(plug, "file"), []byte("mounted"), 0o644))
	said, err = read()
	require.NoError(t, err)
	assert.Equal(t, "mounted", said)
}

// actLose makes this test binary end its first thread, say so, and go on until its stdin ends.
const actLose = "lose"

func loseFirstThread() {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		go loseFirstThread() // gets another thread, since this one is kept
		select {}
	}
	go func() { _, _ = io.Copy(io.Discard, os.Stdin); os.Exit(0) }()
	fmt.Fprintln(os.Stdout, "lost")
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// The kernel kills a launcher's container after the launcher's first thread, and before its last.
func TestProcessesAreGoneWithTheirLastThread(t *testing.T) {
	command := exec.CommandContext(t.Context(), "/proc/self/exe")
	command.Env = append(os.Environ(), actAs+"="+actLose)
	stdin := must.Get(command.StdinPipe())(t)
	stdout := must.Get(command.StdoutPipe())(t)
	require.NoError(t, command.Start())
	who := must.Get(identify(command.Process.Pid))(t)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	ctx := waittest.Context(t)
	require.NoError(t, poll(ctx, func() (bool, error) {
		fields, err := statOf(who.PID)
		return err == nil && fields[stateField] == "Z", err
	}), "its first thread does not end")
	assert.True(t, !who.ended(), "a process that has threads is gone")
	_ = stdin.Close()
	assert.NoError(t, poll(ctx, func() (bool, error) { return who.ended(), nil }), "a process without threads is not gone")
	_ = command.Wait()
}

// A tool that dies while it starts something leaves its locks to that for a moment.
func TestLocksMayOutliveTheirTool(t *testing.T) {
	e := open(t)
	dead := e.tool
	dead.Began += "0"
	id, kept, err := e.dir.createRecord(record{Created: time.Now(), Tool: &dead})
	require.NoError(t, err)
	time.AfterFunc(50*time.Millisecond, func() { _ = kept.Close() })
	found, err := e.Containers(t.Context(), nil)
	assert.True(t, err == nil && len(found) == 0, "found %+v, error %v", found, err)
	assert.True(t, !exists(e.dir.record(id)), "the record is left")
}

// What is found in the run directory may be anything.
func TestDamagedRecordsAreSwept(t *testing.T) {
	e := open(t)
	for i, content := range []string{"", "{", `{"Labels":{"a":"1"}`, `[]`, `{"Launcher":{"PID":1,"Began":"0"}}`, `{"Launcher":{"PID":-1}}`, "\x00\xff"} {
		id := someID[:idLength-1] + string(rune('0'+i))
		require.NoError(t, os.WriteFile(e.dir.record(id), []byte(content), 0o600))
	}
	found, err := e.Containers(t.Context(), nil)
	assert.True(t, err == nil && len(found) == 0, "found %+v, error %v", found, err)
	ids, err := e.dir.ids()
	assert.True(t, err == nil && len(ids) == 0, "left: %v (%v)", ids, err)
	for _, id := range []string{"", "..", "../mnt", someID + "0"} {
		assert.ErrorIs(t, must.Fail(e.Wait(t.Context(), id)), engine.ErrNoContainer, id)
	}
}

// An engine says the same of a container of its own, whose record it need not read, as another engine that reads it.
func TestAnEngineKnowsItsOwnContainersAsOthersDo(t *testing.T) {
	run := t.TempDir()
	e := openWith(t, Options{CacheDir: t.TempDir(), RunDir: run})
	other := openWith(t, Options{CacheDir: t.TempDir(), RunDir: run})
	loadProbe(t, e)
	hold, done := make(chan struct{}), make(chan error, 1)
	spec := probe("hang")
	spec.Labels, spec.Hold = map[string]string{"a": "1"}, hold
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		_, err := e.Run(ctx, spec, engine.IO{Stdin: strings.NewReader("x")})
		done <- err
	}()
	same := func(started bool) {
		t.Helper()
		err := poll(t.Context(), func() (bool, error) {
			found, err := e.Containers(t.Context(), map[string]string{"a": "1"})
			return len(found) == 1 && found[0].Started == started, err
		})
		require.NoError(t, err)
		mine, err := e.Containers(t.Context(), nil)
		theirs := must.Get(other.Containers(t.Context(), nil))(t)
		assert.True(t, err == nil && reflect.DeepEqual(mine, theirs), "it says %+v (%v), another %+v", mine, err, theirs)
		found, err := e.Containers(t.Context(), map[string]string{"a": "2"})
		assert.True(t, err == nil && len(found) == 0, "another label finds %+v (%v)", found, err)
		mine[0].Labels["a"] = "2" // is the caller's
	}
	same(false)
	close(hold)
	same(true)
	cancel()
	<-done
	found := must.Get(e.Containers(t.Context(), nil))(t)
	assert.True(t, len(found) == 0 && len(e.own.byID) == 0, "it still knows %+v, %v", found, e.own.byID)
}
