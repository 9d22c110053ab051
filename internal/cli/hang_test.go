package cli_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// hangingEngine is the socket of the engine of this machine. While it hangs it accepts
// whatever comes, and never answers.
type hangingEngine struct {
	*testing.T
	address string
	mu      sync.Mutex
	hung    chan struct{} // until it is closed; nil is not hanging
	all     []net.Conn
}

func newHangingEngine(t *testing.T) *hangingEngine {
	t.Helper()
	dir, err := os.MkdirTemp("", "hang") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		t.Fatal(err)
	}
	e := &hangingEngine{T: t, address: "unix://" + filepath.Join(dir, "socket")}
	go func() {
		for {
			from, err := socket.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", "/var/run/docker.sock")
			if err != nil {
				_ = from.Close()
				continue
			}
			e.mu.Lock()
			e.all = append(e.all, from, to)
			e.mu.Unlock()
			go e.copy(to, from)
			go e.copy(from, to)
		}
	}()
	t.Cleanup(func() {
		e.answer()
		_ = socket.Close()
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, c := range e.all {
			_ = c.Close()
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *hangingEngine) copy(to, from net.Conn) {
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		e.mu.Lock()
		hung := e.hung
		e.mu.Unlock()
		if hung != nil {
			<-hung
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			if errors.Is(err, io.EOF) {
				if half, ok := to.(*net.UnixConn); ok {
					_ = half.CloseWrite()
				}
			}
			return
		}
	}
}

// hang lets the engine answer nothing any more.
func (e *hangingEngine) hang() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hung = make(chan struct{})
}

// answer ends that.
func (e *hangingEngine) answer() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hung != nil {
		close(e.hung)
	}
	e.hung = nil
}

// hostAtWork has revision 1 at work on resource a, which is held, on a host whose engine
// hangs then. The keys of the step are added to its own.
func hostAtWork(t *testing.T, keys string) (*site, *hangingEngine, *run) {
	s, e := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}"), newHangingEngine(t)
	for name, text := range map[string]string{
		"one.yaml":       "pipeline: one\nstages: [{name: all, deploy: {host_groups: [{name: g, hosts: \"attribute:x == y\"}], steps: [{event: host-deployed, manifest: m.yaml" + keys + "}]}}]\n",
		"inventory.yaml": fmt.Sprintf("hosts: [{name: h, endpoint: %q, attributes: {x: y}}]\n", e.address),
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.deployster("pipeline", "apply", "-f", "one.yaml")
	s.deployster("pipeline", "release", "one", "1")
	s.hold("a")
	r := s.start("pipeline", "run")
	s.untilBusy("a")
	e.hang()
	return s, e, r
}

func TestASecondSignalEndsASchedulerWhoseEngineHangs(t *testing.T) {
	s, e, r := hostAtWork(t, "")
	for _, answer := range []string{"interrupt again", "killing"} {
		if err := r.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		r.out.until(t, answer)
	}
	before := time.Now()
	if code := s.exit(r); code != 130 {
		t.Errorf("exit %d\n%s", code, r.out)
	}
	if took := time.Since(before); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
	e.answer()
	s.release("a")
	s.deployster("pipeline", "run", "--until-idle")
	s.until(1, s.happened("pipeline-finished-successfully", "pipeline/one"))
}
