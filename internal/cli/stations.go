package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/runner"
)

// stations are the engines of hosts, for those who apply one manifest in many
// places. Each is opened when it is first needed, and stays open until close.
type stations struct {
	app       *app
	workspace string
	hosts     *hosts
	flags     engineFlags
	news      io.Writer

	mu     sync.Mutex
	opened map[stationKey]*station
}

// stationKey is a host and how its engine is reached, which may change in the
// inventory; empty is where steps without a host are.
type stationKey struct {
	host, engine, endpoint string
	tls                    inventory.TLS
}

// station is an engine that is in use, or that could not be reached.
type station struct {
	once   sync.Once
	engine engine.Engine
	info   engine.Info
	tls    *runs.EngineTLS // of a host that has its own
	images *shipped.Images
	err    error
}

func (a *app) newStations(hosts *hosts, flags engineFlags, news io.Writer) (*stations, error) {
	workspace, err := a.workspace()
	if err != nil {
		return nil, err
	}
	if _, err := flags.policy(); err != nil {
		return nil, err
	}
	return &stations{app: a, workspace: workspace, hosts: hosts, flags: flags, news: news, opened: map[stationKey]*station{}}, nil
}

func (c *stations) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for _, s := range c.opened {
		if s.engine != nil {
			err = errors.Join(err, s.engine.Close())
		}
	}
	return err
}

// equipped makes the options of a run in one of the places where its manifest is
// applied. There is nobody to ask, and no Stop: what has begun is finished.
func (c *stations) equipped(ctx context.Context, log deploylog.Log, in *input, command string, files []string, at *station, place string) (*started, error) {
	if !at.info.Remote {
		if err := in.manifest.CheckPlugs(); err != nil {
			return nil, err
		}
	}
	s := &started{input: in, ctx: ctx, news: &news{fallback: io.Discard}, engine: at.engine, log: log}
	c.app.equip(s, command, files, c.flags, at.info, at.images)
	s.control.Engines = &engines{app: c.app, engine: at.engine, info: at.info, tls: at.tls, news: c.news}
	s.control.Place, s.containers.Place = place, place
	s.control.Target = deploylog.Target(runner.Placed(string(s.control.Target), place))
	s.caller.Confirm = runner.ConfirmNo
	return s, nil
}

// attributes of a host: a text, or a list of them.
func attributes(h inventory.Host) map[string]any {
	all := map[string]any{}
	for key, values := range h.Attributes {
		if len(values) == 1 {
			all[key] = values[0]
			continue
		}
		list := make([]any, len(values))
		for i, v := range values {
			list[i] = v
		}
		all[key] = list
	}
	return all
}

// at returns the engine of a host. One that could not be reached is tried again
// each time, and at once where only somebody else had lost interest.
func (c *stations) at(ctx context.Context, host string) (*station, error) {
	key := stationKey{host: host}
	if h, ok := c.hosts.host(host); ok {
		key.engine, key.endpoint = h.Engine, h.Endpoint
		if h.TLS != nil {
			key.tls = *h.TLS
		}
	}
	for {
		c.mu.Lock()
		s := c.opened[key]
		if s == nil {
			s = &station{}
			c.opened[key] = s
		}
		c.mu.Unlock()
		mine := false
		s.once.Do(func() { mine, s.err = true, c.open(ctx, host, s) })
		if s.err == nil {
			return s, nil
		}
		c.mu.Lock()
		if c.opened[key] == s {
			delete(c.opened, key)
		}
		c.mu.Unlock()
		if mine || !errors.Is(s.err, context.Canceled) {
			return nil, s.err
		}
	}
}

func (c *stations) open(ctx context.Context, host string, s *station) error {
	if host == "" {
		e, info, err := c.app.openEngine(ctx, c.news, c.flags)
		if err != nil {
			return err
		}
		s.engine, s.info = e, info
	} else {
		h, ok := c.hosts.host(host)
		if !ok {
			return fmt.Errorf("host %s is no longer in %s", host, c.hosts.path)
		}
		e, info, err := c.app.openHost(ctx, h, c.hosts.path, c.news)
		if err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
		s.engine, s.info = e, info
		if files := tlsOf(h, c.hosts.path); files != nil {
			s.tls = &runs.EngineTLS{CA: files.CA, Cert: files.Cert, Key: files.Key}
		}
	}
	images, err := c.app.images(s.engine, s.info, c.flags)
	if err != nil {
		err = errors.Join(err, s.engine.Close())
		s.engine = nil
		return err
	}
	s.images = images
	return nil
}

// patienceWithHost is how long the engine of a host may take to answer at first.
const patienceWithHost = 10 * time.Second

// openHost connects to the engine of a host.
func (a *app) openHost(ctx context.Context, h inventory.Host, file string, news io.Writer) (e engine.Engine, info engine.Info, err error) {
	ctx, cancel := context.WithTimeout(ctx, patienceWithHost)
	defer cancel()
	if h.Engine == inventory.OCI {
		e, err = oci.Open(ctx, oci.Options{Runtime: a.global.ociRuntime, AllowUnbounded: a.global.unbounded, Logger: logger(news)})
	} else {
		o := docker.Options{Host: h.Endpoint, Env: a.withoutTLS, Logger: logger(news)}
		o.TLS = tlsOf(h, file)
		e, err = docker.Open(ctx, o)
	}
	if err != nil {
		return nil, engine.Info{}, err
	}
	if info, err = e.Info(ctx); err != nil {
		return nil, engine.Info{}, errors.Join(err, e.Close())
	}
	return e, info, nil
}

// tlsOf are the files for the engine of a host, nil when it has none of its own:
// relative paths are below the directory of the inventory.
func tlsOf(h inventory.Host, file string) *docker.TLS {
	if h.TLS == nil {
		return nil
	}
	below := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		whole := filepath.Join(filepath.Dir(file), path)
		if abs, err := filepath.Abs(whole); err == nil {
			return abs
		}
		return whole
	}
	return &docker.TLS{CA: below(h.TLS.CA), Cert: below(h.TLS.Cert), Key: below(h.TLS.Key)}
}

// withoutTLS is the environment without what it says of the TLS of Docker, which
// the inventory says for each host.
func (a *app) withoutTLS(name string) string {
	if strings.HasPrefix(name, "DOCKER_TLS") || name == "DOCKER_CERT_PATH" {
		return ""
	}
	return a.getenv(name)
}
