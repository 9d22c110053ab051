package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/deployster-go/deployster/control/reachable"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// Connection is an engine that is in use.
type Connection struct {
	Engine   engine.Engine
	Info     engine.Info
	Images   invoke.Images
	Recovery runs.Engines // finds the engines of dead runs, from this one
}

// CheckPlugs is the check of a manifest whose engine sees the files of this machine;
// another's files are not known.
func (c *Connection) CheckPlugs(m *manifest.Manifest) error {
	if c.Info.Remote {
		return nil
	}
	return m.CheckPlugs()
}

// Dial connects to the engine of a host. The zero Host has the engine of what has
// no host: the default of the process.
type Dial func(ctx context.Context, host inventory.Host) (*Connection, error)

// EnginePool holds the engines of hosts, for those who apply one manifest in many
// places. Each is opened when it is first needed, and stays open until Close. It
// is safe for concurrent use.
type EnginePool struct {
	hosts *Hosts
	dial  Dial

	mu     sync.Mutex
	opened map[poolKey]*pooled
}

// poolKey is a host and how its engine is reached, which may change in the
// inventory; empty is what has no host.
type poolKey struct{ host, reach string }

// pooled is an engine that is open, or why it could not be reached.
type pooled struct {
	once       sync.Once
	connection *Connection
	err        error
}

// NewEnginePool returns a pool of the engines of hosts.
func NewEnginePool(hosts *Hosts, dial Dial) *EnginePool {
	return &EnginePool{hosts: hosts, dial: dial, opened: map[poolKey]*pooled{}}
}

// Close closes all engines.
func (p *EnginePool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	for _, c := range p.opened {
		if c.connection != nil {
			err = errors.Join(err, c.connection.Engine.Close())
		}
	}
	return err
}

// Connection returns the engine of a host. One that could not be reached is tried
// again each time, and at once where another caller gave up while opening it.
func (p *EnginePool) Connection(ctx context.Context, host string) (*Connection, error) {
	key := poolKey{host: host}
	if h, ok := p.hosts.host(host); ok {
		key.reach = h.Reach()
	}
	for {
		p.mu.Lock()
		c := p.opened[key]
		if c == nil {
			c = &pooled{}
			p.opened[key] = c
		}
		p.mu.Unlock()
		ours := false
		c.once.Do(func() {
			ours = true
			c.connection, c.err = p.open(ctx, host)
		})
		if c.err == nil {
			return c.connection, nil
		}
		p.mu.Lock()
		if p.opened[key] == c {
			delete(p.opened, key)
		}
		p.mu.Unlock()
		if ours || !errors.Is(c.err, context.Canceled) {
			return nil, c.err
		}
	}
}

func (p *EnginePool) open(ctx context.Context, host string) (*Connection, error) {
	if host == "" {
		return p.dial(ctx, inventory.Host{})
	}
	h, ok := p.hosts.host(host)
	if !ok {
		return nil, &inventory.NoHostError{Host: host, File: p.hosts.path}
	}
	c, err := p.dial(ctx, h)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", host, err)
	}
	return c, nil
}

// search finds hosts whose engines answer.
func (p *EnginePool) search() *reachable.Search[*Connection] {
	return reachable.New(HostTimeout, p.Answering)
}

// HostTimeout is how long the engine of a host may take to answer at first.
const HostTimeout = 10 * time.Second

// Answering is Connection of an engine that answers now. One that has been open
// for a while may be gone, which its connection would report much later.
func (p *EnginePool) Answering(ctx context.Context, host string) (*Connection, error) {
	c, err := p.Connection(ctx, host)
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeout(ctx, HostTimeout)
	defer cancel()
	if _, err := c.Engine.Info(asking); err != nil {
		return nil, fmt.Errorf("host %s: %w", cmp.Or(host, "of --engine"), err)
	}
	return c, nil
}
