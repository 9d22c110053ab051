package oci

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/oci/internal/store"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// killed is the exit code of what was killed.
const killed = 128 + int(syscall.SIGKILL)

// Run runs one container to its end and removes it:
//
//	launcher → record, locked → request → (created → hold → start)
//	→ copy streams until they end → exit → remove cgroups and record
//
// Killing the launcher ends everything, wherever it stands, so that is what a
// cancel does, and there is nothing to undo step by step. A Read of
// streams.Stdin may still be outstanding when Run returns; what it yields is
// dropped.
//
// A container that is removed by others while it runs ended by that: its exit
// is returned like any other.
func (e *Engine) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	exit, err := e.run(ctx, fail, spec, streams)
	if ctx.Err() != nil {
		// The cause of the interruption, in place of what the interrupted step reports.
		err = context.Cause(ctx)
	}
	if err != nil {
		return engine.Exit{}, fmt.Errorf("run image %q: %w", spec.Image, err)
	}
	return exit, nil
}

// passes marks a point in the life of a container after which there is more, or
// less, to be removed by others if the tool dies.
func (e *Engine) passes(point string) {
	if e.passed != nil {
		e.passed(point)
	}
}

func (e *Engine) run(ctx context.Context, fail context.CancelCauseFunc, spec engine.Spec, streams engine.IO) (exit engine.Exit, err error) {
	if ctx.Err() != nil {
		return engine.Exit{}, context.Cause(ctx)
	}
	if spec.Hold == nil {
		spec.Limit(ctx, fail)
	}
	image, err := e.store.Find(spec.Image)
	if err != nil {
		return engine.Exit{}, err
	}
	lease, err := e.store.Rootfs(ctx, image.ID)
	if err != nil {
		return engine.Exit{}, err
	}
	defer lease.Release()

	c, err := e.take(spec.Mounts)
	if err != nil {
		return engine.Exit{}, err
	}
	e.passes("there is a launcher")
	// Removing orphans needs the launcher once there is more of a container than it.
	who, err := identify(c.process.Pid)
	if err != nil {
		c.close()
		return engine.Exit{}, err
	}
	kept, err := e.keep(record{
		Created: time.Now().UTC(), Labels: spec.Labels, Tool: &e.tool, Launcher: &who, Started: spec.Hold == nil,
	})
	if err != nil {
		c.close()
		return engine.Exit{}, err
	}
	id := kept.id
	e.passes("the record is made")
	defer func() { e.discard(ctx, kept, exit, err) }()
	defer c.close()
	defer context.AfterFunc(ctx, c.kill)()

	request, err := e.request(ctx, id, spec, lease)
	if err != nil {
		return engine.Exit{}, err
	}
	request.Whole = spec.Whole && streams.Stdin != nil
	if err := e.start(ctx, c, kept, spec, request, func() { spec.Limit(ctx, fail) }); err != nil {
		return engine.Exit{}, err
	}
	c.copy(streams, request, fail)
	e.passes("the output is closed")
	code, failure := c.end()
	e.passes("the container has ended")
	if failure != nil {
		return engine.Exit{}, e.explain(spec, failure)
	}
	exit = engine.Exit{Code: code}
	if e.bounded {
		exit.OOMKilled, err = e.cgroups.killedForMemory(id)
	}
	return exit, err
}

// start has the container started, at once or when it is released. A launcher
// that is killed after it has its request reports nothing.
func (e *Engine) start(ctx context.Context, c *container, kept *ownRecord, spec engine.Spec, request entrypoint.Request, released func()) error {
	if err := c.orders.Encode(request); err != nil {
		return fmt.Errorf("send the request to the launcher: %w", err)
	}
	e.startAhead()
	e.passes("the launcher has its request")
	if !request.Steps {
		return nil
	}
	switch report := c.report(); {
	case report.Failed != nil:
		return e.explain(spec, report.Failed)
	case !report.Created:
		return nil
	}
	e.passes("the container is created")
	if spec.Hold != nil {
		select {
		case <-spec.Hold:
			released()
		case <-ctx.Done():
		case <-c.ended:
			return nil
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := kept.add(record{Started: true}); err != nil {
		return fmt.Errorf("record that the container is started: %w", err)
	}
	e.passes("the start is recorded")
	_ = c.orders.Encode(entrypoint.Start{})
	e.passes("the container is started")
	return nil
}

// request is what the launcher is to do for a run.
func (e *Engine) request(ctx context.Context, id string, spec engine.Spec, lease *store.Lease) (entrypoint.Request, error) {
	if spec.Offline && spec.Network == "" {
		spec.Network = "none"
	}
	h, err := e.host()
	if err != nil {
		return entrypoint.Request{}, err
	}
	sources, err := e.sources(spec, &h)
	if err != nil {
		return entrypoint.Request{}, err
	}
	if e.rootless && (spec.Memory != 0 || spec.Pids != 0) {
		e.warnUnbounded(ctx, "without root there are no control groups; run as root, or use the docker engine")
	}
	image := lease.Image.Config.Config
	config, err := configure(id, spec, image, h)
	if err != nil {
		return entrypoint.Request{}, &engine.SpecError{Cause: err}
	}
	mounts, err := json.Marshal(config.Mounts)
	if err != nil {
		return entrypoint.Request{}, fmt.Errorf("encode the runtime's configuration: %w", err)
	}
	linux, err := json.Marshal(config.Linux)
	if err != nil {
		return entrypoint.Request{}, fmt.Errorf("encode the runtime's configuration: %w", err)
	}
	user := image.User
	if spec.User != "" {
		user = spec.User
	}
	return entrypoint.Request{
		ID:       id,
		Dir:      e.dir.mountPoint(),
		Rootless: e.rootless,
		Hide:     e.cgroups.hidden,
		Unified:  e.insistent(),
		Layers:   lease.Layers,
		Sources:  sources,
		Files:    networkFiles(config.Hostname, spec.Network),
		User:     user,
		Runtime:  e.runtime,
		Options:  e.options(spec.Network),
		Log:      e.dir.log(id),
		Steps:    spec.Hold != nil || !e.keeps,
		Config:   entrypoint.Config{Version: config.Version, Process: config.Process, Hostname: config.Hostname, Mounts: mounts, Linux: linux},
	}, nil
}

// sources are those of the mounts: what was found of each when it was checked, or is now. The
// launcher shows the runtime nothing else.
func (e *Engine) sources(spec engine.Spec, h *host) ([]entrypoint.Source, error) {
	var all []entrypoint.Source
	for i, m := range spec.Mounts {
		if !filepath.IsAbs(m.Source) {
			return nil, nil // which its configuration refuses
		}
		found := m.Found
		if found == (engine.Found{}) {
			var err error
			switch found, err = (engine.Finder{}).Find(m.Source); {
			case errors.Is(err, fs.ErrNotExist):
				return nil, &engine.SpecError{Cause: fmt.Errorf("mount source %s does not exist: %w", m.Source, err)}
			case err != nil:
				return nil, fmt.Errorf("mount source %s: %w", m.Source, err)
			}
		}
		if !found.Dir {
			h.files = append(h.files, m.Source)
		}
		all = append(all, entrypoint.Source(found))
		h.sources = append(h.sources, entrypoint.SourceAt(e.dir.mountPoint(), i))
	}
	return all, nil
}

// crun reports whether the runtime is crun, which has an option to do without control
// groups.
func (e *Engine) crun() bool { return strings.HasPrefix(e.version, "crun ") }

// insistent reports whether the runtime would end for want of control groups that
// are not there for it.
func (e *Engine) insistent() bool {
	return !e.bounded && (!e.rootless || e.cgroups.none) && !e.gvisor()
}

// gvisor reports whether the runtime is gVisor's, which differs from the others.
func (e *Engine) gvisor() bool { return strings.HasPrefix(e.version, "runsc ") }

// options are the runtime's own, for a container of a network.
func (e *Engine) options(network string) []string {
	var options []string
	switch {
	case e.bounded:
	case e.crun() && !e.rootless:
		options = append(options, "--cgroup-manager=disabled")
	default:
		options = append(options, "--rootless=true") // runc then does without control groups, also for root
	}
	if e.gvisor() { // it has a network stack of its own, which reaches nothing here
		if network == "" {
			network = "host"
		}
		options = append(options, "--network="+network)
	}
	return options
}

// discard removes what outlives a launcher, and its record last: as long as
// that is there, others would remove what this process leaves when it dies.
func (e *Engine) discard(ctx context.Context, kept *ownRecord, exit engine.Exit, failure error) {
	id := kept.id
	defer func() {
		e.own.remove(id)
		_ = kept.Close()
	}()
	if failure != nil {
		exit = engine.Exit{Code: killed}
	}
	err := e.removeRemains(id)
	if err == nil {
		e.passes("what is not the record is removed")
		err = kept.add(record{Exit: &exit})
		e.passes("the end is recorded")
		err = errors.Join(err, os.Remove(kept.Name()))
		e.passes("the record is removed")
	}
	if err != nil {
		e.log.WarnContext(ctx, "something of a container is left behind", "container", id, "error", err)
	}
}

// removeRemains removes what a dead container has left, except for its record.
func (e *Engine) removeRemains(id string) error {
	if err := e.cgroups.remove(id); err != nil {
		return err
	}
	if err := os.Remove(e.dir.log(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the runtime's log: %w", err)
	}
	return nil
}
