package docker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
)

// Tunnels holds the ssh connections of a process to Docker Engines. All engines of one
// address share one ssh process, and so one login. So do all behind one jump host. Tunnels is safe for concurrent use.
type Tunnels struct {
	env    func(string) string
	jitter func() float64 // a random part of a pause, from 0 to 1

	mu      sync.Mutex
	tunnels map[string]*tunnel // by address
	gates   map[string]*gate   // by the machine that takes the logins
	jumps   map[string]string  // the machine that takes the logins of a jump host, by its name
	place   *socketDirectory   // nil before the first login
	closed  bool
	under   sync.WaitGroup // processes, and logins under way
}

// NewTunnels returns the tunnels of a process. Env looks an environment variable up; nil
// is os.Getenv. No process starts before the first engine needs one.
func NewTunnels(env func(string) string) *Tunnels {
	if env == nil {
		env = os.Getenv
	}
	return &Tunnels{env: env, jitter: rand.Float64, tunnels: map[string]*tunnel{}, gates: map[string]*gate{}, jumps: map[string]string{}}
}

// errTunnelsClosed is returned for an engine that is used after the tunnels are closed.
var errTunnelsClosed = errors.New("the ssh connections of this process are closed")

// Close ends all ssh processes, waits for them, and removes their sockets.
func (t *Tunnels) Close() error {
	t.mu.Lock()
	t.closed = true
	for _, each := range t.tunnels {
		each.cancel()
	}
	place := t.place
	t.place = nil
	t.mu.Unlock()
	t.under.Wait()
	if place == nil {
		return nil
	}
	return place.remove()
}

// linger is how long a tunnel without users stays open for the next one.
const linger = 10 * time.Second

// use returns the tunnel to a far machine. The caller must release it.
func (t *Tunnels) use(to target) *tunnel {
	t.mu.Lock()
	key := to.String()
	found := t.tunnels[key]
	if found == nil {
		found = &tunnel{owner: t, target: to}
		found.ctx, found.cancel = context.WithCancel(context.Background())
		if t.closed {
			found.cancel()
		}
		t.tunnels[key] = found
	}
	t.mu.Unlock()
	found.mu.Lock()
	defer found.mu.Unlock()
	found.users++
	if found.leaving != nil {
		found.leaving.Stop()
		found.leaving = nil
	}
	return found
}

// gate returns the gate of logins at a machine, or through one. Most is its bound.
func (t *Tunnels) gate(address string, most int) *gate {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gates[address] == nil {
		t.gates[address] = newGate(most)
	}
	return t.gates[address]
}

// sockets returns the directory of the sockets, which it makes when it is needed first.
func (t *Tunnels) sockets() (*socketDirectory, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, errTunnelsClosed
	}
	if t.place == nil {
		var err error
		if t.place, err = newSocketDirectory(t.env); err != nil {
			return nil, err
		}
	}
	return t.place, nil
}

// begin has f run in the background. Close waits for it. It reports false after Close.
func (t *Tunnels) begin(doing string, f func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.under.Go(func() {
		defer crash.End(engine.StateDir, doing)
		f()
	})
	return true
}

// How long a login that sshd drops is tried again, without the time that it waits for its turn.
const (
	openPatience = 30 * time.Second // when an engine is opened
	dialPatience = 2 * time.Minute  // when the connection of an open engine broke
	loginTime    = 30 * time.Second // of one login, unless Options.Timeout says less
)

// tunnel is the way to one far machine: its ssh process, which is started when it is needed
// and again when it has died.
type tunnel struct {
	owner  *Tunnels
	target target
	ctx    context.Context // of its processes
	cancel context.CancelFunc

	mu        sync.Mutex
	users     int
	leaving   *time.Timer // until the process of a tunnel without users ends
	settings  *settings   // of the ssh command; nil before they are known
	current   *login      // the last one; nil before the first
	forbidden bool        // the server forbids forwarding
	misses    int         // logins in a row that failed through the shared jump host only
	last      route       // of the last connection
}

// route is how connections reach the engine at the far side.
type route string

const (
	undecided route = ""
	forwarded route = "ssh, forwarded socket"
	command   route = "ssh, docker command"
)

// login is a login that is under way or done.
type login struct {
	done    chan struct{} // closed once session and err hold
	session *session
	err     error
}

// release gives the tunnel up. Its process ends when no engine has used it for a while.
func (t *tunnel) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users--; t.users == 0 {
		t.leaving = time.AfterFunc(linger, t.endUnused)
	}
}

func (t *tunnel) endUnused() {
	defer crash.End(engine.StateDir, "ending an ssh connection")
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.users == 0 && t.current != nil {
		select {
		case <-t.current.done:
			t.current.session.end()
		default: // its callers have given up, and it ends by itself
		}
		t.current = nil
	}
}

func (t *tunnel) route() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.last)
}

// ready logs in and finds a way to the engine, unless that is done. Within is how long each may take.
func (t *tunnel) ready(ctx context.Context, within time.Duration) error {
	s, err := t.session(ctx, within, max(openPatience, within))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, way, err := s.dial(ctx)
	t.took(way)
	if errors.Is(err, errSessionOver) { // the connection broke since the login
		conn, err = t.dial(ctx)
	}
	if err != nil {
		return err
	}
	return conn.Close()
}

// session returns the session that all connections share. One login is under way at a time,
// for all callers: it goes on if one of them gives up.
func (t *tunnel) session(ctx context.Context, within, patience time.Duration) (*session, error) {
	t.mu.Lock()
	under := t.current
	if under == nil || under.failed() {
		under = &login{done: make(chan struct{})}
		started := t.owner.begin("logging in by ssh", func() {
			defer close(under.done)
			under.session, under.err = t.login(t.ctx, bounds{within, patience})
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.users == 0 || t.current != under { // nobody waits any more
				under.session.end()
			}
		})
		if !started {
			t.mu.Unlock()
			return nil, errTunnelsClosed
		}
		t.current = under
	}
	t.mu.Unlock()
	select {
	case <-under.done:
		return under.session, under.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// failed reports whether a login failed, or its session has ended.
func (l *login) failed() bool {
	select {
	case <-l.done:
		return l.err != nil || l.session.over()
	default:
		return false
	}
}

// mostLogins is how often a connection that ends at once is made again for one request.
const mostLogins = 3

// dial returns a connection to the engine.
func (t *tunnel) dial(ctx context.Context) (net.Conn, error) {
	for logins := 1; ; logins++ {
		s, err := t.session(ctx, loginTime, dialPatience)
		if err != nil {
			return nil, err
		}
		conn, way, err := s.dial(ctx)
		switch {
		case err == nil:
			t.took(way)
			return conn, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case !errors.Is(err, errSessionOver), logins == mostLogins:
			return nil, err
		}
		// The connection broke since the login: log in again.
	}
}

// took records the way of a connection.
func (t *tunnel) took(way route) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = way
}

// errSessionOver is wrapped by a dial that failed since the ssh process has ended.
var errSessionOver = errors.New("the ssh connection has ended")

// The idle connections to an engine behind ssh. A new one is a round trip away, not a login.
const (
	mostIdle = 6
	idleTime = 30 * time.Second
)

// clientOptions configures a client whose connections are made through the tunnel.
func (t *tunnel) clientOptions() []client.Opt {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return keepCause(t.dial(ctx)) }
	transport := &http.Transport{DialContext: dial, MaxIdleConns: mostIdle, MaxIdleConnsPerHost: mostIdle, IdleConnTimeout: idleTime}
	return []client.Opt{
		client.WithHTTPClient(&http.Client{Transport: transport, CheckRedirect: client.CheckRedirect}),
		client.WithHost("http://" + client.DummyHost), client.WithDialContext(dial), client.WithAPIVersionFromEnv(),
	}
}

// enterTunnel has the engine use the tunnel of its address.
func (e *Engine) enterTunnel(options Options) error {
	to, err := parseTarget(e.endpoint.address)
	if err != nil {
		return fmt.Errorf("connect to Docker at %s (from %s): %w", e.endpoint.address, e.endpoint.source, err)
	}
	tunnels := options.Tunnels
	if tunnels == nil {
		e.own = NewTunnels(options.Env)
		tunnels = e.own
	}
	e.tunnel = tunnels.use(to)
	return nil
}

// leaveTunnel gives the tunnel up, and ends it if it is the engine's own.
func (e *Engine) leaveTunnel() error {
	if e.tunnel == nil || e.left.Swap(true) {
		return nil
	}
	e.tunnel.release()
	if e.own != nil {
		return e.own.Close()
	}
	return nil
}

// Route returns how connections to an engine behind ssh are made: "ssh, forwarded socket"
// or "ssh, docker command". It is "" for every other engine.
func (e *Engine) Route() string {
	if e.tunnel == nil {
		return ""
	}
	return e.tunnel.route()
}
