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

	"github.com/deployster-go/deployster/control"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/runner"
)

// crew does the work of pipelines' steps: it applies their manifests on the
// engines of their hosts. It is a control.Worker.
type crew struct {
	app       *app
	log       deploylog.Log
	flags     pipelineRunOptions
	news      io.Writer
	workspace string
	hosts     *hosts

	mu      sync.Mutex
	engines map[stationKey]*station
}

// stationKey is a host and where its engine is, which may change in the inventory;
// empty is where steps without a host are.
type stationKey struct{ host, engine, endpoint string }

// station is an engine that is in use, or that could not be reached.
type station struct {
	once   sync.Once
	engine engine.Engine
	info   engine.Info
	images *shipped.Images
	err    error
}

func (a *app) newCrew(log deploylog.Log, o pipelineRunOptions, news io.Writer) (*crew, error) {
	workspace, err := a.workspace()
	if err != nil {
		return nil, err
	}
	if _, err := o.engine.policy(); err != nil {
		return nil, err
	}
	return &crew{
		app: a, log: log, flags: o, news: news, workspace: workspace,
		hosts: newHosts(o.inventory), engines: map[stationKey]*station{},
	}, nil
}

func (c *crew) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for _, s := range c.engines {
		if s.engine != nil {
			err = errors.Join(err, s.engine.Close())
		}
	}
	return err
}

// Work implements control.Worker.
func (c *crew) Work(ctx context.Context, step pipeline.Step, artifacts map[string]string, begin func(func() error) error) (map[string]string, error) {
	at, err := c.station(ctx, step.Host)
	if err != nil {
		return nil, err
	}
	s := &started{ctx: ctx, news: &news{fallback: io.Discard}, engine: at.engine, log: c.log}
	files := []string{filepath.Join(c.workspace, filepath.FromSlash(step.Manifest))}
	if _, err := manifestBelow(c.workspace, files[0]); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", step.Manifest, err)
	}
	flags := c.flags.input
	flags.builtin = c.variables(step, artifacts)
	if s.input, err = c.app.load(files, flags, string(runner.ConfirmNo)); err != nil {
		return nil, err
	}
	if !at.info.Remote {
		if err := s.manifest.CheckPlugs(); err != nil {
			return nil, err
		}
	}
	c.app.equip(s, "pipeline run", files, c.flags.engine, at.info, at.images)
	s.control.Place, s.runner.Place = step.Host, step.Host // and no Stop: a step that has begun is finished
	s.control.Target = deploylog.Target(runner.Placed(string(s.control.Target), step.Host))
	for name, value := range map[string]string{
		"deployment": step.Deployment, "target": string(step.Target), "event": step.Event, "revision": step.Revision,
	} {
		s.runner.Details[name] = value
	}
	held, err := control.Begin(ctx, s.control)
	if err != nil {
		return nil, err
	}
	defer held.End()
	s.runner.Recorder, s.runner.Guard, s.runner.Confirm = &beginning{Run: held, begin: begin}, held, runner.ConfirmNo
	s.runner.Gone = held.Gone
	r := runner.New(s.runner)
	if _, err := r.Apply(ctx); err != nil {
		return nil, err
	}
	return made(r, step), nil
}

// variables are what a manifest knows of its step. Nobody else can set them.
func (c *crew) variables(step pipeline.Step, artifacts map[string]string) map[string]any {
	refs := map[string]any{}
	for kind, ref := range artifacts {
		refs[kind] = ref
	}
	name, _ := control.PipelineOf(step.Target)
	v := map[string]any{
		"pipeline": name, "stage": step.Stage, "revision": step.Revision, "artifacts": refs,
	}
	if h, ok := c.hosts.host(step.Host); ok {
		v["host"], v["host_group"], v["host_attributes"] = h.Name, step.Group, attributes(h)
	}
	return v
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

// made are the references of the artifacts that a manifest made: each is the
// state "ref" of the resource that is called as its kind is.
func made(r *runner.Runner, step pipeline.Step) map[string]string {
	refs := map[string]string{}
	for _, kind := range step.Artifacts {
		if ref, ok := r.State(kind)["ref"].(string); ok {
			refs[kind] = ref
		}
	}
	return refs
}

// beginning records a run as one that its pipeline allowed to begin.
type beginning struct {
	*control.Run
	begin func(func() error) error
}

// Record implements runner.Recorder.
func (b *beginning) Record(ctx context.Context, e runner.Event) error {
	if e.Kind != runner.RunStarted {
		return b.Run.Record(ctx, e)
	}
	return b.begin(func() error { return b.Run.Record(ctx, e) })
}

// station returns the engine of a host. One that could not be reached is tried
// again each time.
func (c *crew) station(ctx context.Context, host string) (*station, error) {
	key := stationKey{host: host}
	if h, ok := c.hosts.host(host); ok {
		key.engine, key.endpoint = h.Engine, h.Endpoint
	}
	c.mu.Lock()
	s := c.engines[key]
	if s == nil {
		s = &station{}
		c.engines[key] = s
	}
	c.mu.Unlock()
	s.once.Do(func() { s.err = c.open(ctx, host, s) })
	if s.err != nil {
		c.mu.Lock()
		if c.engines[key] == s {
			delete(c.engines, key)
		}
		c.mu.Unlock()
		return nil, s.err
	}
	return s, nil
}

func (c *crew) open(ctx context.Context, host string, s *station) error {
	if host == "" {
		e, info, err := c.app.openEngine(ctx, c.news, c.flags.engine)
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
	}
	images, err := c.app.images(s.engine, s.info, c.flags.engine)
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
		e, err = oci.Open(ctx, oci.Options{Runtime: a.global.ociRuntime, Logger: logger(news)})
	} else {
		o := docker.Options{Host: h.Endpoint, Env: a.withoutTLS, Logger: logger(news)}
		if h.TLS != nil {
			below := func(path string) string {
				if path == "" || filepath.IsAbs(path) {
					return path
				}
				return filepath.Join(filepath.Dir(file), path)
			}
			o.TLS = &docker.TLS{CA: below(h.TLS.CA), Cert: below(h.TLS.Cert), Key: below(h.TLS.Key)}
		}
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

// withoutTLS is the environment without what it says of the TLS of Docker, which
// the inventory says for each host.
func (a *app) withoutTLS(name string) string {
	if strings.HasPrefix(name, "DOCKER_TLS") || name == "DOCKER_CERT_PATH" {
		return ""
	}
	return a.getenv(name)
}
