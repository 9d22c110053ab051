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
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/waittest"
)

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
	t.Cleanup(func() {
		_ = writer.Close()
		<-u.ended
	})
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

// Engines share what they know by their run directory, whichever process they
// are in.
func TestContainersOfAnotherTool(t *testing.T) {
	e := open(t)
	loadProbe(t, e)
	other := openWith(t, Options{CacheDir: t.TempDir(), RunDir: string(e.dir)})
	find := func() engine.Container {
		t.Helper()
		found, err := other.Containers(t.Context(), map[string]string{"a": "1", "b": ""})
		if err != nil || len(found) != 1 || !found[0].Started || !found[0].Running || found[0].Labels["b"] != "2" {
			t.Fatalf("found %+v, error %v", found, err)
		}
		return found[0]
	}

	u := begin(t, e, map[string]string{"a": "1", "b": "2"})
	id := find().ID
	short, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := other.Wait(short, id); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled wait: %v", err)
	}
	waited := make(chan engine.Exit, 1)
	go func() {
		exit, err := other.Wait(t.Context(), id)
		assert.NoError(t, err)
		waited <- exit
	}()
	_ = u.stdin.Close()
	if exit := <-waited; exit != (engine.Exit{Code: 7}) {
		t.Errorf("waited for: %+v, want code 7", exit)
	}
	<-u.ended

	u = begin(t, e, map[string]string{"a": "1", "b": "2"})
	assert.NoError(t, other.Remove(t.Context(), find().ID))
	<-u.ended
	if u.err != nil || u.exit != (engine.Exit{Code: killed}) {
		t.Errorf("removed by another: exit %+v, error %v", u.exit, u.err)
	}
	if found, err := other.Containers(t.Context(), nil); err != nil || len(found) > 0 {
		t.Errorf("left: %+v (%v)", found, err)
	}
}

// Process ids are used again: what has another beginning is somebody else.
func TestOthersAreNotKilled(t *testing.T) {
	self, err := identify(os.Getpid())
	require.NoError(t, err)
	assert.True(t, !self.ended(), "this process is gone")
	if err := self.kill(someID); err != nil { // it is no launcher
		t.Error(err)
	}
	self.Began += "0"
	assert.True(t, self.ended(), "a process that began at another time is the same")
}

// The launcher that waits for the next run is a process like any other: it may
// die, and is not left.
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
		c, err := e.prepare()
		require.NoError(t, err)
		defer c.close()
		if _, err := io.WriteString(c.control, "what is no request"); err != nil {
			t.Fatal(err)
		}
		code, failure := c.end()
		if failure == nil || !strings.Contains(failure.Error(), "before there was one: exit status 1") {
			t.Errorf("exit code %d, %v; want a failure", code, failure)
		}
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
		if exit, err := e.Run(t.Context(), probe("exit", "0"), engine.IO{}); err == nil || !strings.Contains(err.Error(), "send the request to the launcher") {
			t.Errorf("exit %+v, error %v", exit, err)
		}
	})
}

// actLose makes this test binary end its first thread, say so, and go on until
// its stdin ends.
const actLose = "lose"

func loseFirstThread() {
	runtime.LockOSThread()
	if unix.Gettid() != os.Getpid() {
		go loseFirstThread() // gets another thread, since this one is kept
		select {}
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Fprintln(os.Stdout, "lost")
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0)
}

// The kernel kills a launcher's container after the launcher's first thread, and
// before its last.
func TestProcessesAreGoneWithTheirLastThread(t *testing.T) {
	command := exec.CommandContext(t.Context(), "/proc/self/exe")
	command.Env = append(os.Environ(), actAs+"="+actLose)
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	stdout, err := command.StdoutPipe()
	if err == nil {
		err = command.Start()
	}
	require.NoError(t, err)
	who, err := identify(command.Process.Pid)
	require.NoError(t, err)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("%q, %v", line, err)
	}
	ctx := waittest.Context(t)
	err = poll(ctx, func() (bool, error) {
		fields, err := statOf(who.PID)
		return err == nil && fields[stateField] == "Z", err
	})
	require.NoError(t, err, "its first thread does not end: ")
	assert.True(t, !who.ended(), "a process that has threads is gone")
	_ = stdin.Close()
	assert.NoError(t, poll(ctx, func() (bool, error) { return who.ended(), nil }), "a process without threads is not gone: ")
	_ = command.Wait()
}

// A tool that dies while it starts something leaves its locks to that for a
// moment.
func TestLocksMayOutliveTheirTool(t *testing.T) {
	e := open(t)
	dead := e.tool
	dead.Began += "0"
	id, kept, err := e.dir.createRecord(record{Created: time.Now(), Tool: &dead})
	require.NoError(t, err)
	time.AfterFunc(50*time.Millisecond, func() { _ = kept.Close() })
	if found, err := e.Containers(t.Context(), nil); err != nil || len(found) > 0 {
		t.Errorf("found %+v, error %v", found, err)
	}
	assert.True(t, !exists(e.dir.record(id)), "the record is left")
}

// What is found in the run directory may be anything.
func TestDamagedRecordsAreSwept(t *testing.T) {
	e := open(t)
	for i, content := range []string{"", "{", `{"Labels":{"a":"1"}`, `[]`, `{"Launcher":{"PID":1,"Began":"0"}}`, `{"Launcher":{"PID":-1}}`, "\x00\xff"} {
		id := someID[:idLength-1] + string(rune('0'+i))
		require.NoError(t, os.WriteFile(e.dir.record(id), []byte(content), 0o600))
	}
	if found, err := e.Containers(t.Context(), nil); err != nil || len(found) > 0 {
		t.Errorf("found %+v, error %v", found, err)
	}
	if ids, err := e.dir.ids(); err != nil || len(ids) > 0 {
		t.Errorf("left: %v (%v)", ids, err)
	}
	for _, id := range []string{"", "..", "../mnt", someID + "0"} {
		if _, err := e.Wait(t.Context(), id); !errors.Is(err, engine.ErrNoContainer) {
			t.Errorf("%q: %v, want ErrNoContainer", id, err)
		}
	}
}

// An engine says the same of a container of its own, whose record it need not read, as
// another engine that reads it.
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
		theirs, err2 := other.Containers(t.Context(), nil)
		if err != nil || err2 != nil || !reflect.DeepEqual(mine, theirs) {
			t.Errorf("it says %+v (%v), another %+v (%v)", mine, err, theirs, err2)
		}
		if found, err := e.Containers(t.Context(), map[string]string{"a": "2"}); err != nil || len(found) > 0 {
			t.Errorf("another label finds %+v (%v)", found, err)
		}
		mine[0].Labels["a"] = "2" // is the caller's
	}
	same(false)
	close(hold)
	same(true)
	cancel()
	<-done
	if found, err := e.Containers(t.Context(), nil); err != nil || len(found) > 0 || len(e.own.byID) > 0 {
		t.Errorf("it still knows %+v, %v (%v)", found, e.own.byID, err)
	}
}
