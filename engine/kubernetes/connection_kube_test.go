//go:build kube

package kubernetes

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/kubernetes/kubetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

// proxy is between a client and the API server.
type proxy struct {
	net.Listener
	to string

	mu      sync.Mutex
	passed  int64 // bytes, both ways
	at      int64 // of these the connections are disturbed; 0 is never
	disturb func(p *proxy)
	all     []*proxied
	down    bool
}

type proxied struct {
	client, server net.Conn
	stalled        chan struct{} // closed when nothing is to come through any more
}

func newProxy(t *testing.T, server string) *proxy {
	address := must.Get(url.Parse(server))(t)
	p := &proxy{Listener: must.Get(net.Listen("tcp", "127.0.0.1:0"))(t), to: address.Host}
	t.Cleanup(func() {
		_ = p.Close()
		p.cut()
	})
	go func() {
		for {
			client, err := p.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn) {
	p.mu.Lock()
	down := p.down
	p.mu.Unlock()
	server, err := net.Dial("tcp", p.to)
	if down || err != nil {
		_ = client.Close()
		return
	}
	c := &proxied{client: client, server: server, stalled: make(chan struct{})}
	p.mu.Lock()
	p.all = append(p.all, c)
	p.mu.Unlock()
	go p.copy(c, server, client)
	p.copy(c, client, server)
}

func (p *proxy) copy(c *proxied, to, from net.Conn) {
	for piece := make([]byte, 4<<10); ; {
		n, err := from.Read(piece)
		p.count(n)
		if closed(c.stalled) {
			return // it stays, until somebody closes it
		}
		if err == nil {
			_, err = to.Write(piece[:n])
		}
		if err != nil {
			_, _ = c.client.Close(), c.server.Close()
			return
		}
	}
}

func (p *proxy) count(n int) {
	p.mu.Lock()
	p.passed += int64(n)
	disturb := p.disturb
	if p.at == 0 || p.passed < p.at {
		disturb = nil
	} else {
		p.at = 0
	}
	p.mu.Unlock()
	if disturb != nil {
		disturb(p)
	}
}

// cut breaks all connections.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all {
		_, _ = c.client.Close(), c.server.Close()
	}
	p.all = nil
}

// away breaks all connections, and takes no new ones for a while.
func (p *proxy) away() {
	p.mu.Lock()
	p.down = true
	p.mu.Unlock()
	p.cut()
	time.AfterFunc(time.Second, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.down = false
	})
}

// stall lets nothing through the connections that there are.
func (p *proxy) stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.all {
		if !closed(c.stalled) {
			close(c.stalled)
		}
	}
}

// behind is an engine of its own behind a proxy.
func (f *fixture) behind(t *testing.T) (*proxy, *Engine) {
	p := newProxy(t, f.cluster.Server)
	o := f.options
	o.Kubeconfig, o.Context = filepath.Join(t.TempDir(), "kubeconfig"), ""
	kubetest.Kubeconfig(t, o.Kubeconfig, "https://"+p.Addr().String(), f.cluster.Token, o.Namespace)
	e := must.Get(Open(t.Context(), o))(t)
	t.Cleanup(func() { _ = e.Close() })
	e.silence = 3 * time.Second
	must.Get(e.shimImage(t.Context()))(t)
	return p, e
}

// rounds is how many points of a run there are at which each disturbance comes.
const rounds = 20

// Connections break, stall and come back at any point of a run, and the action is done once, to its end,
// which its run knows.
func TestAnActionSurvivesItsConnectionToACluster(t *testing.T) {
	t.Parallel()
	f := newFixture(t, Baseline)
	source, directory := f.volume(t)
	program := enginetest.Binary(t, "github.com/deployster-go/deployster/engine/kubernetes/testdata/ledger", runtime.GOARCH)
	image := must.Get(enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Path: "/ledger", Entrypoint: []string{"/ledger"}}))(t)
	const ref = "ledger:test"
	packed := must.Get(enginetest.ImageTar(ref, image))(t)
	require.NoError(t, f.Load(t.Context(), bytes.NewReader(packed)))
	copied := t.TempDir() // which goes into each Pod, before its program begins
	require.NoError(t, os.WriteFile(filepath.Join(copied, "file"), []byte(rand.Text()+strings.Repeat("0123456789abcdef", 2<<10)), 0o600))
	perform := func(t *testing.T, e *Engine, name string) (string, engine.Exit, error) {
		var out bytes.Buffer
		spec := engine.Spec{
			Image: ref, Args: []string{"/data/" + name, "2s"}, Whole: true, Timeout: waittest.Limit,
			Mounts: []engine.Mount{{Source: source, Target: "/data"}, {Source: copied, Target: "/plug", ReadOnly: true}},
		}
		exit, err := e.Run(t.Context(), spec, engine.IO{Stdin: strings.NewReader("an input\r\n"), Stdout: &out})
		return out.String(), exit, err
	}
	const did, says = "begun\ndone\n", "one\r\ntwo\nan input\r\nthree"
	check := func(t *testing.T, name, out string, exit engine.Exit, err error) {
		ledger, _ := os.ReadFile(filepath.Join(directory, name))
		if err != nil || exit.Code != 7 || out != says || string(ledger) != did {
			t.Errorf("%s: %v, %v, it said %q and did %q", name, exit, err, out, ledger)
		}
	}
	p, e := f.behind(t)
	p.mu.Lock()
	before := p.passed
	p.mu.Unlock()
	out, exit, err := perform(t, e, "undisturbed")
	check(t, "undisturbed", out, exit, err)
	p.mu.Lock()
	whole := p.passed - before
	p.mu.Unlock()
	require.NotZero(t, whole)
	for name, disturb := range map[string]func(p *proxy){"cut": (*proxy).cut, "away": (*proxy).away, "stalled": (*proxy).stall} {
		for round := range rounds {
			t.Run(fmt.Sprint(name, " ", round), func(t *testing.T) {
				t.Parallel()
				p, e := f.behind(t)
				p.mu.Lock()
				p.at, p.disturb = p.passed+1+whole*int64(round)/rounds, disturb
				p.mu.Unlock()
				file := fmt.Sprint(name, "-", round)
				out, exit, err := perform(t, e, file)
				check(t, file, out, exit, err)
			})
		}
	}
}
