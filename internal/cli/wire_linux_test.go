package cli_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// wire leads to an engine by an address of its own, as long as it is not cut.
type wire struct {
	*testing.T
	path     string
	listener net.Listener

	mu    sync.RWMutex // held to read while something passes
	ends  []net.Conn
	under sync.WaitGroup
}

// throughWire writes to one end of a wire.
type throughWire struct {
	*wire
	to net.Conn
}

func (t throughWire) Write(p []byte) (int, error) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.to.Write(p)
}

func newWire(t *testing.T) *wire {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{T: t, path: filepath.Join(dir, "socket")}
	w.join()
	t.Cleanup(func() {
		w.cut()
		_ = os.RemoveAll(dir)
	})
	return w
}

func (w *wire) address() string { return "unix://" + w.path }

// join makes it lead to the engine.
func (w *wire) join() {
	w.Helper()
	var err error
	if w.listener, err = net.Listen("unix", w.path); err != nil {
		w.Fatal(err)
	}
	l := w.listener
	w.under.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", "/var/run/docker.sock")
			if err != nil {
				_ = near.Close()
				continue
			}
			w.mu.Lock()
			w.ends = append(w.ends, near, far)
			w.mu.Unlock()
			for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
				w.under.Go(func() {
					_, _ = io.Copy(throughWire{w, to}, from)
					_ = to.(*net.UnixConn).CloseWrite()
				})
			}
		}
	})
}

// cut ends all connections, and there are no others. Nothing passes by one of them
// while the others are closed: who notices the first end could still use the last.
func (w *wire) cut() {
	_ = w.listener.Close()
	w.mu.Lock()
	for _, end := range w.ends {
		_ = end.Close()
	}
	w.ends = nil
	w.mu.Unlock()
	w.under.Wait()
}
