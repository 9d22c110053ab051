package cli_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/enginetest/dockerdtest"
	"github.com/deployster-go/deployster/internal/must"
)

// dockerEngines returns that many Docker Engines, which answer. All tests share them: who stops one
// starts it again, and who has containers made there has them removed.
func dockerEngines(t *testing.T, n int) []*dockerdtest.Engine {
	t.Helper()
	for len(lasting.engines) < n {
		lasting.engines = append(lasting.engines, dockerdtest.New(&lasting))
	}
	return lasting.engines[:n]
}

// lasting is a test that ends with the package.
var lasting lastingTest

type lastingTest struct {
	testing.TB
	engines []*dockerdtest.Engine
	ends    []func()
	failed  error
}

func (l *lastingTest) Helper()            {}
func (l *lastingTest) Cleanup(end func()) { l.ends = append(l.ends, end) }
func (l *lastingTest) Error(args ...any) {
	l.failed = errors.Join(l.failed, errors.New(fmt.Sprint(args...)))
}
func (l *lastingTest) Fatal(args ...any)               { panic(fmt.Sprint(args...)) }
func (l *lastingTest) Fatalf(text string, args ...any) { panic(fmt.Sprintf(text, args...)) }

func (l *lastingTest) end() error {
	for _, end := range l.ends {
		end()
	}
	return l.failed
}

func load(t *testing.T, address string, refs ...string) {
	e := must.Get(docker.Open(t.Context(), docker.Options{Host: address}))(t)
	for _, ref := range refs {
		tar := must.Get(enginetest.ImageTar(ref, images[ref]))(t)
		require.NoError(t, e.Load(t.Context(), bytes.NewReader(tar)))
	}
	require.NoError(t, e.Close())
}

// probe is the image of a program that does as it is told.
const probe = "deployster-test-probe:1"

// loadProbe gives it to an engine.
func loadProbe(t *testing.T, address string) {
	t.Helper()
	if images[probe] == nil {
		images[probe] = enginetest.ProbeImage(t, "")
	}
	load(t, address, probe)
}

// contextOf is a directory of Docker's configuration, in which an address is the current one.
func contextOf(t *testing.T, address string) string {
	dir := must.Get(dockerContext(t.TempDir(), "mine", address))(t)
	return dir
}

// wire leads to the Docker Engine of this machine by an address of its own, as long as it is not cut.
// While it hangs it accepts whatever comes, and nothing passes.
type wire struct {
	*testing.T
	path     string
	listener net.Listener
	hung     bool
	waits    func() // is called when a container is waited for; nil is not

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
	if t.waits != nil && bytes.Contains(p, []byte("/wait?")) {
		t.waits()
	}
	return t.to.Write(p)
}

func newWire(t *testing.T) *wire {
	t.Helper()
	dir, err := os.MkdirTemp("", "wire") // the path of a socket must be short
	require.NoError(t, err)
	w := &wire{T: t, path: filepath.Join(dir, "socket")}
	w.join()
	t.Cleanup(func() {
		if w.hung {
			w.answer()
		}
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
			far, err := net.Dial("unix", strings.TrimPrefix(dockerAddress, "unix://"))
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
					w.mu.RLock()
					defer w.mu.RUnlock()
					_ = to.(*net.UnixConn).CloseWrite()
				})
			}
		}
	})
}

// hang lets nothing pass until answer.
func (w *wire) hang() {
	w.mu.Lock()
	w.hung = true
}

func (w *wire) answer() {
	w.hung = false
	w.mu.Unlock()
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

// A run is sent as spans to whom the environment names, and the same run without anybody
// there neither fails nor takes long; without the environment nothing is sent.
func TestARunIsTraced(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	names := map[string]int{}
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		assert.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		for _, of := range data.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				for _, s := range scope.Spans {
					names[s.Name]++
				}
			}
		}
	}))
	defer collector.Close()
	s := newSite(t, "  a: {type: ONE-SHOT, config: {value: one}}")
	apply := func(endpoint string) string {
		c := exec.Command(binary, "apply", "m.yaml", "--confirm", "NO")
		c.Dir, c.Env = s.dir, append(os.Environ(), "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_TRACES_SAMPLER=always_on")
		began := time.Now()
		out, err := c.CombinedOutput()
		assert.True(t, err == nil && time.Since(began) <= 2*time.Minute, "%s: %v after %s\n%s", endpoint, err, time.Since(began), out)
		return string(out)
	}
	out := apply("")
	mu.Lock()
	assert.True(t, !strings.Contains(out, "spans") && len(names) == 0, "nobody asked for spans: %v\n%s", names, out)
	mu.Unlock()
	for _, do := range []func() error{func() error { return os.RemoveAll(s.dir + "/things") }, func() error { return os.Mkdir(s.dir+"/things", 0o700) }} {
		require.NoError(t, do())
	}
	apply(collector.URL)
	mu.Lock()
	for _, name := range []string{"apply", "resource a", "container state"} {
		assert.NotZero(t, names[name], "there is no span %q among %v", name, names)
	}
	mu.Unlock()
	collector.Close()
	out = apply(collector.URL)
	assert.Equal(t, 1, strings.Count(out, "note: spans are not sent"), "it is not said that nobody takes spans:\n%s", out)
}
