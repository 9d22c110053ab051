package build

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"

	"github.com/deployster-go/deployster/control/submission"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/internal/contents"
	"github.com/deployster-go/deployster/inventory"
)

// target is where the jobs of a group will be done: from here, or by a server.
type target struct {
	artifacts submission.Artifacts
	workers   submission.Workers
	contents  submission.Contents // of plugs; nil if these are on another machine
	engine    func(ctx context.Context, worker string) (*work.Connection, error)
	inventory string // what that of the workers is known as
	platform  string
	close     func() error
}

// openTarget opens where the jobs of a group will be done.
func openTarget(ctx context.Context, a *app.App, o submitOptions) (*target, error) {
	remote, err := a.Remote()
	switch {
	case err != nil:
		return nil, err
	case remote != nil && o.listed:
		return nil, exit.Usage("--inventory: the jobs are done by the workers of server %s; leave it out", remote.Name())
	case remote != nil:
		return openRemote(ctx, a, remote)
	}
	store, err := a.ArtifactsDir()
	if err != nil {
		return nil, err
	}
	pool := session.OpenPool(a, o.work, a.Err)
	workers, host := workersOf(o.work.Inventory, o.listed, 1, pool)
	return &target{
		contents:  &contents.Reader{Except: filepath.Join(a.Workspace, engine.StateDir), Now: a.Now},
		artifacts: artifacts.In(store), workers: workers, inventory: workers.Identity(), platform: "linux/" + runtime.GOARCH, close: pool.Close,
		engine: func(ctx context.Context, worker string) (*work.Connection, error) {
			return pool.Connection(ctx, host(worker))
		},
	}, nil
}

// openRemote opens what a server has.
func openRemote(ctx context.Context, a *app.App, remote *client.Client) (*target, error) {
	state := filepath.Join(a.Workspace, engine.StateDir)
	if err := os.MkdirAll(state, 0o700); err != nil {
		return nil, err
	}
	dir, remove, err := submission.MakeCopies(state, a.Now())
	if err != nil {
		return nil, err
	}
	fleet, err := remote.Workers(ctx)
	var refused *client.Refusal
	if err != nil && (!errors.As(err, &refused) || refused.Status != http.StatusConflict) {
		return nil, errors.Join(err, remove())
	}
	return &target{
		artifacts: &sent{artifacts.In(dir), remote}, workers: remoteWorkers{remote, fleet.Hosts, err},
		inventory: fleet.Identity, platform: fleet.Platform, close: remove,
		engine: func(_ context.Context, worker string) (*work.Connection, error) {
			return &work.Connection{Images: remoteImages{remote, worker}}, nil
		},
	}, nil
}

// remoteWorkers are those of a server.
type remoteWorkers struct {
	*client.Client
	hosts []inventory.Host
	err   error // why it is not known which there are
}

// Workers implements submission.Workers.
func (w remoteWorkers) Workers() ([]inventory.Host, error) { return w.hosts, w.err }

// remoteImages are those of a worker of a server.
type remoteImages struct {
	of     *client.Client
	worker string
}

// Image implements invoke.Images.
func (i remoteImages) Image(ctx context.Context, ref string, policy engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	return i.of.Image(ctx, i.worker, ref, policy)
}

// sent are artifacts that are made here and kept by a server.
type sent struct {
	*artifacts.Store // that they are sent from
	to               *client.Client
}

// Use implements submission.Artifacts.
func (s *sent) Use(ctx context.Context, digest string) (bool, error) {
	return s.to.HasArtifact(ctx, digest)
}

// Collect implements submission.Artifacts.
func (s *sent) Collect(ctx context.Context, dir string, limits artifacts.Limits) (artifacts.Artifact, error) {
	a, err := s.Store.Collect(ctx, dir, limits)
	return s.send(ctx, a, err)
}

// Pull implements submission.Artifacts.
func (s *sent) Pull(ctx context.Context, ref string, limits artifacts.Limits, progress func(artifacts.Progress)) (artifacts.Artifact, error) {
	a, err := s.Store.Pull(ctx, ref, limits, progress)
	return s.send(ctx, a, err)
}

// send sends an artifact that was made, of which nothing stays here.
func (s *sent) send(ctx context.Context, a artifacts.Artifact, err error) (artifacts.Artifact, error) {
	if err != nil {
		return a, err
	}
	if err := s.to.SendArtifact(ctx, s.Store, a.Digest); err != nil {
		return artifacts.Artifact{}, fmt.Errorf("sending artifact %s: %w", a.Digest, err)
	}
	return a, s.Remove(ctx, a.Digest)
}
