package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
)

// faulty is a way to the engine that fails once, at a piece of what goes through it in either direction.
type faulty struct {
	address string
	engine  string

	mu       sync.Mutex
	at       int // the piece at which it fails, from 1; 0 is never
	pieces   int
	stalls   bool // the connection of the piece goes silent; else all connections end
	away     bool // nobody is let in
	conns    map[net.Conn]bool
	released chan struct{} // ends connections that are silent
}

func newFaulty(t *testing.T) *faulty {
	path := filepath.Join(must.Get(os.MkdirTemp("", "deployster-test"))(t), "s")
	l := must.Get(net.Listen("unix", path))(t)
	f := &faulty{address: "unix://" + path, engine: localSocket(t), conns: map[net.Conn]bool{}, released: make(chan struct{})}
	var under sync.WaitGroup
	under.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			under.Go(func() { f.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		close(f.released)
		f.cut()
		under.Wait()
		_ = os.RemoveAll(filepath.Dir(path))
	})
	return f
}

// failAt has it fail at a piece from now on.
func (f *faulty) failAt(piece int, stalls bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at, f.pieces, f.stalls = piece, 0, stalls
}

// failed reports whether it has.
func (f *faulty) failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pieces >= f.at
}

func (f *faulty) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.conns {
		_ = conn.Close()
	}
}

func (f *faulty) letIn(away bool) {
	f.mu.Lock()
	f.away = away
	f.mu.Unlock()
	if away {
		f.cut()
	}
}

func (f *faulty) serve(near net.Conn) {
	far, err := net.Dial("unix", f.engine)
	if err != nil {
		_ = near.Close()
		return
	}
	f.mu.Lock()
	f.conns[near], f.conns[far] = true, true
	if f.away {
		_ = near.Close()
	}
	f.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { f.pass(far, near, true) })
	ways.Go(func() { f.pass(near, far, false) })
	ways.Wait()
	f.mu.Lock()
	delete(f.conns, near)
	delete(f.conns, far)
	f.mu.Unlock()
	_ = near.Close()
	_ = far.Close()
}

func (f *faulty) pass(to, from net.Conn, requests bool) {
	p := make([]byte, 64<<10)
	attached := false
	for {
		n, err := from.Read(p)
		// Without a shim nobody notices an input that is swallowed in silence, by a way that lets all else pass.
		if fails, stalls := f.passes(n > 0 && !attached); fails {
			if !stalls {
				f.cut()
				return
			}
			<-f.released
		}
		attached = attached || requests && f.swallows() && bytes.Contains(p[:n], []byte("/attach?"))
		if n > 0 {
			if _, err := to.Write(p[:n]); err != nil {
				return
			}
		}
		if err != nil {
			_ = to.(*net.UnixConn).CloseWrite()
			return
		}
	}
}

// passes counts a piece, and reports whether it is the one at which the way fails, and how.
func (f *faulty) passes(counts bool) (fails, stalls bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !counts {
		return false, false
	}
	f.pieces++
	return f.pieces == f.at, f.stalls
}

// swallows reports whether it would take an input in silence.
func (f *faulty) swallows() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stalls
}

// impatient is an engine that is looked at often.
func impatient(tb testing.TB, options Options) *Engine {
	e := openWith(tb, options)
	e.lookEvery = 500 * time.Millisecond
	return e
}

// Wherever a connection breaks or goes silent, the program runs once, to its end, and its caller has
// its exit and all of its output.
func TestAConnectionThatFailsEndsNoRun(t *testing.T) {
	local := open(t)
	probe := loadProbe(t, local)
	const lines = 3
	var out, errs strings.Builder
	for i := range lines {
		fmt.Fprintln(&out, "out", i)
		fmt.Fprintln(&errs, "err", i)
	}
	for name, shim := range map[string]string{"with the shim": shimBinary(t), "without it": ""} {
		for failure, stalls := range map[string]bool{"breaks": false, "goes silent": true} {
			t.Run(name+" it "+failure, func(t *testing.T) {
				t.Parallel()
				f := newFaulty(t)
				for at, over := 1, false; !over && !t.Failed(); at++ {
					f.failAt(0, false)
					e := impatient(t, Options{Host: f.address, Shim: shim})
					dir := t.TempDir()
					spec := probe.spec("journal", "/mnt/journal", fmt.Sprint(lines))
					spec.Whole, spec.Kept, spec.Labels = true, 1<<20, map[string]string{"deployster.test": dir}
					spec.Mounts = []engine.Mount{{Source: dir, Target: "/mnt"}}
					f.failAt(at, stalls)
					var stdout, stderr bytes.Buffer
					exit, err := e.Run(t.Context(), spec, engine.IO{Stdin: strings.NewReader(strings.Repeat("x", 5000)), Stdout: &stdout, Stderr: &stderr})
					over = !f.failed()
					require.NoError(t, err, "at piece %d", at)
					assert.Equal(t, 7, exit.Code)
					assert.Equal(t, out.String(), stdout.String(), "at piece %d", at)
					assert.Equal(t, errs.String(), stderr.String(), "at piece %d", at)
					journal, _ := os.ReadFile(filepath.Join(dir, "journal"))
					assert.Equal(t, "begin 5000\nend\n", string(journal), "at piece %d", at)
					f.failAt(0, false)
					assert.NoError(t, e.Close())
					// A request for the removal that is never answered leaves a container to those who look for it.
					for _, left := range must.Get(local.Containers(t.Context(), spec.Labels))(t) {
						assert.NoError(t, local.Remove(t.Context(), left.ID))
					}
				}
			})
		}
	}
}

// after calls a function once so many bytes were written.
type after struct {
	io.Writer
	left int
	then func()
}

func (a *after) Write(p []byte) (int, error) {
	before := a.left
	if a.left -= len(p); before > 0 && a.left <= 0 {
		a.then()
	}
	return a.Writer.Write(p)
}

// Whatever happens to a connection by ssh, the program runs once, to its end, and its caller has its exit
// and all of its output. ROUNDS is how often, each time at another moment.
func TestAnActionOutlivesItsSSHConnection(t *testing.T) {
	rounds := 1
	if text := os.Getenv("ROUNDS"); text != "" {
		rounds = must.Get(strconv.Atoi(text))(t)
	}
	server := startSSHD(t)
	configuration := must.Get(os.OpenFile(filepath.Join(server.client.Dir, "ssh_config"), os.O_APPEND|os.O_WRONLY, 0))(t)
	must.Get(configuration.WriteString("\nHost *\n  ServerAliveInterval 1\n  ServerAliveCountMax 2\n"))(t)
	require.NoError(t, configuration.Close())
	probe := loadProbe(t, open(t))
	const lines = 100
	var out strings.Builder
	for i := range lines {
		fmt.Fprintln(&out, "out", i)
	}
	for name, trouble := range map[string]func(){
		"its sessions are killed": server.killSessions,
		"sshd is started anew": func() {
			server.killSessions()
			server.restart()
		},
		"its sessions are silent": func() { server.signal(syscall.SIGSTOP) },
		"sshd is away for a while, with another key": func() {
			server.killSessions()
			server.halt()
			server.changeKey()
			server.know()
			server.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			for round := range rounds {
				e := openWith(t, Options{Host: server.address()})
				dir := t.TempDir()
				spec := probe.spec("journal", "/mnt/journal", fmt.Sprint(lines))
				spec.Whole, spec.Kept = true, 1<<20
				spec.Mounts = []engine.Mount{{Source: dir, Target: "/mnt"}}
				var stdout bytes.Buffer
				exit, err := e.Run(t.Context(), spec, engine.IO{Stdin: strings.NewReader("input"), Stdout: &after{&stdout, 1 + round*out.Len()/(rounds+1), trouble}})
				require.NoError(t, err, "round %d", round)
				assert.Equal(t, 7, exit.Code, "round %d", round)
				assert.Equal(t, out.String(), stdout.String(), "round %d", round)
				journal, _ := os.ReadFile(filepath.Join(dir, "journal"))
				assert.Equal(t, "begin 5\nend\n", string(journal), "round %d", round)
				server.signal(syscall.SIGKILL) // those that are stopped
				assert.NoError(t, e.Close())
			}
		})
	}
}

// Thirty hosts at rest have one ssh process and one login each, for as long as REST says. Without it only
// the beginning is tried.
func TestThirtyHostsAtRestLogInOnce(t *testing.T) {
	rest := time.Millisecond
	if text := os.Getenv("REST"); text != "" {
		rest = must.Get(time.ParseDuration(text))(t)
	}
	server := startSSHD(t)
	engines := make([]*Engine, 30)
	for i := range engines {
		engines[i] = openWith(t, Options{Host: server.address()})
	}
	over := time.After(rest)
	check := time.NewTicker(min(rest, 30*time.Second)) // as a controller does
	defer check.Stop()
	for checks := 1; ; checks++ {
		for i, e := range engines {
			_, err := e.Info(t.Context())
			require.NoError(t, err, "engine %d, check %d", i, checks)
		}
		select {
		case <-check.C:
		case <-over:
			assert.Equal(t, len(engines), server.logins(), "logins")
			return
		}
	}
}

// An engine that stays away is lost in time, and its container is left for who asks for it later.
func TestAnEngineThatStaysAwayIsLost(t *testing.T) {
	local := open(t)
	probe := loadProbe(t, local)
	f := newFaulty(t)
	e := impatient(t, Options{Host: f.address, LostFor: time.Second})
	spec := probe.spec("read-exit", "7")
	spec.Labels = map[string]string{"deployster.test": t.TempDir()}
	spec.Kept = 1 << 20
	stdin, input := io.Pipe()
	output := &signalled{Writer: io.Discard, first: make(chan struct{})}
	ended := make(chan error, 1)
	go func() {
		_, err := e.Run(context.Background(), spec, engine.IO{Stdin: stdin, Stdout: output})
		ended <- err
	}()
	<-output.first
	f.letIn(true)
	err := <-ended
	require.ErrorIs(t, err, engine.ErrLost)
	checkError(t, err, engine.ErrUnavailable, "did not answer for 1s", f.address)
	left := must.Get(local.Containers(t.Context(), spec.Labels))(t)
	require.Len(t, left, 1)
	_ = input.Close()
	exit := must.Get(local.Wait(t.Context(), left[0].ID))(t)
	assert.Equal(t, 7, exit.Code)
	assert.NoError(t, local.Remove(t.Context(), left[0].ID))
}

// What the engine has kept is read again where a stream was left, also if that was in the middle of a line.
func TestTheRestOfAStream(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	for _, c := range []struct {
		name, before, kept, want string
		fails                    error
	}{
		{"nothing was read", "", "a\nb\n", "a\nb\n", nil},
		{"in the middle of a line", "a\nb", "a\nbc\nd\n", "c\nd\n", nil},
		{"all was read", "a\nb\n", "a\nb\n", "", nil},
		{"more than what is compared", long, long + "end", "end", nil},
		{"the beginning is gone", "a\nb\n", "c\nd\ne\n", "", errCutOff},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got bytes.Buffer
			r := newReceived(&got, io.Discard)
			must.Get(io.WriteString(&r.stdout, c.before))(t)
			got.Reset()
			rest := r.rest(&r.stdout)
			var err error
			for p := range bytes.SplitSeq([]byte(c.kept), nil) { // a byte at a time
				if _, err = rest.Write(p); err != nil {
					break
				}
			}
			require.ErrorIs(t, err, c.fails)
			assert.Equal(t, c.want, got.String())
		})
	}
}

// The last line that is kept tells whether an output is whole.
func TestAnOutputThatEndedEarlyIsNoticed(t *testing.T) {
	long := strings.Repeat("0123456789", 100)
	for _, c := range []struct {
		name, received, kept string
		whole                bool
	}{
		{"nothing is kept", "a\n", "", true},
		{"it has the last line", "a\nb\n", "b\n", true},
		{"the line was not ended, and what is kept is", "a\nb", "b\n", true},
		{"the line was ended, and what is kept is not", long + "\n", long, true},
		{"a long line", long, long, true},
		{"the last line is missing", "a\n", "b\n", false},
		{"the last line is cut", "a\nbc", "bcd\n", false},
		{"all is missing", "", "a\n", false},
		{"the end of a long line is missing", long, long + "x", false},
	} {
		received, kept := newReceived(io.Discard, io.Discard), newReceived(io.Discard, io.Discard)
		must.Get(io.WriteString(&received.stdout, c.received))(t)
		must.Get(io.WriteString(&kept.stdout, c.kept))(t)
		assert.Equal(t, c.whole, received.stdout.endsWith(kept.stdout.end), c.name)
	}
}
