package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
)

const (
	idleAfter = 5 * time.Minute // without a call, after which a process is ended; a person may be thinking
	grace     = 2 * time.Second // in which a process must have ended after its stdin did
)

// mostServed bounds the input of what is sent to a process, in bytes; a larger
// one is given to a container. The line around it is longer by little.
const mostServed = protocol.MaxRequest / 2

// servedDir is where the processes of a run have their files: no resource can
// be called so.
const servedDir = "_served"

// servers are the processes of a run that serve.
type servers struct {
	mu      sync.Mutex
	byKey   map[string]*server
	started []*process // since the last end
	count   int        // in all; numbers their files
}

// server has the calls of all that may share a process made by one. It starts
// the process when the first call comes, and again when one comes after it was
// ended for being idle. After a process that failed or was slow it starts no
// more.
type server struct {
	runner *Runner
	name   string // type, as in the manifest
	image  engine.Image
	action protocol.Invocation
	mounts []engine.Mount
	warned sync.Once

	mu      sync.Mutex
	current *process // nil before the first
	broken  error    // why none is asked any longer
}

// serverFor returns the server for a resource whose type answered init so, nil
// if it does not serve. A process is shared by those that agree in all that a
// container is given, so none sees a plug that its resource may not.
func (r *Runner) serverFor(res *resource, init protocol.InitOutput, mounts []engine.Mount) *server {
	if init.ServeAction == nil {
		return nil
	}
	key, err := json.Marshal([]any{res.Type, res.image.ID, init.ServeAction, mounts})
	if err != nil {
		return nil // it is made of text only
	}
	r.servers.mu.Lock()
	defer r.servers.mu.Unlock()
	if r.servers.byKey == nil {
		r.servers.byKey = map[string]*server{}
	}
	s := r.servers.byKey[string(key)]
	if s == nil {
		s = &server{runner: r, name: res.Type, image: res.image, action: *init.ServeAction, mounts: mounts}
		r.servers.byKey[string(key)] = s
	}
	return s
}

// servedBy returns the server for a call, nil if it takes a container of its
// own.
func (r *resource) servedBy(c call) *server {
	if c.invocation.Entrypoint != "" || !r.runsOwn(c.invocation) {
		return nil
	}
	return r.server
}

// served makes a call by way of a process; asked is false where it needs a
// container of its own.
func (r *Runner) served(ctx context.Context, s *server, i *calling) (exit engine.Exit, asked bool, err error) {
	exit, asked, err = s.ask(ctx, i)
	if !asked && ctx.Err() == nil {
		s.warned.Do(func() {
			r.tell(Warning, i.resource, i.action, fmt.Sprintf("%v; from here on, its calls get containers of their own", err))
		})
	}
	return exit, asked, err
}

// ask has a call made by the process. When asked is false, the call is not and
// will not be made, and err says why.
func (s *server) ask(ctx context.Context, i *calling) (exit engine.Exit, asked bool, err error) {
	q := &request{calling: i, ended: make(chan struct{})}
	p, err := s.send(ctx, q)
	if err != nil {
		return engine.Exit{}, false, err
	}
	timer := time.NewTimer(i.timeout)
	defer timer.Stop()
	select {
	case <-q.ended:
	case <-timer.C:
		p.giveUp(q, fmt.Errorf("did not answer %s of %s: %w after %s", i.action, i.resource, engine.ErrTimeout, i.timeout))
	case <-ctx.Done():
		why := context.Cause(ctx)
		if i.answers && errors.Is(why, ErrInterrupted) {
			p.abandon(q, why)
		} else {
			p.giveUp(q, fmt.Errorf("was killed: %w", why))
		}
	}
	<-q.ended
	return q.exit, !q.unasked, q.err
}

// send gives a request to the process, which it starts where there is none.
func (s *server) send(ctx context.Context, q *request) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.broken == nil {
		if s.current == nil {
			if s.current, s.broken = s.start(ctx, q.calling); s.broken != nil {
				break
			}
		}
		switch err := s.current.send(q); {
		case err == nil:
			return s.current, nil
		case errors.Is(err, errClosing):
			s.current = nil
		default:
			s.broken = err
		}
	}
	return nil, s.broken
}

// unusable tells whether calls are known to need containers of their own.
func (s *server) unusable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken != nil
}

// start starts a process. It outlives the call that it is started for.
func (s *server) start(ctx context.Context, first *calling) (*process, error) {
	r := s.runner
	what := fmt.Sprintf("the process that serves %s (image %.19s)", s.name, s.image.ID)
	image := s.image
	if s.action.Image != "" && s.action.Image != s.name {
		var err error
		if image, err = r.imageFor(ctx, first.resource, s.action.Image); err != nil {
			return nil, fmt.Errorf("%s can not be started: %w", what, err)
		}
	}
	r.servers.mu.Lock()
	defer r.servers.mu.Unlock()
	r.servers.count++
	dir := filepath.Join(r.containers.Work, servedDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("%s can not be started: making a directory: %w", what, err)
	}
	path := filepath.Join(dir, fmt.Sprintf("%02d-%s", r.servers.count, fileName(s.name)))
	spec, err := r.plainSpec(s.action, image, s.mounts, path)
	if err != nil {
		return nil, fmt.Errorf("%s can not be started: %w", what, err)
	}
	spec.Labels[LabelKind] = KindServe
	p := newProcess(what, r, path+".stderr")
	r.servers.started = append(r.servers.started, p)
	running, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	p.kill = kill
	go func() {
		exit, err := r.engineRun(running, spec, engine.IO{Stdin: p.stdin, Stdout: p, Stderr: p.stderr})
		kill(nil)
		defer r.caught(&err, "ending a process that serves")
		p.over(exit, err)
	}()
	return p, nil
}

// rest ends what runs besides the calls of a walk, and returns when it has
// ended: processes that serve, and containers that were made ready for nothing.
func (r *Runner) rest(ctx context.Context) {
	r.servers.mu.Lock()
	started := r.servers.started
	r.servers.started = nil
	r.servers.mu.Unlock()
	for _, p := range started {
		p.close()
	}
	for _, p := range started {
		select {
		case <-p.ended:
		case <-ctx.Done():
			p.kill(context.Cause(ctx))
			<-p.ended
		}
	}
	r.background.Wait()
}
