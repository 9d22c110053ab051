package invoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/unwatched"
	"github.com/deployster-go/deployster/protocol"
)

const (
	idleTimeout = 5 * time.Minute // without a call, after which a process is ended; a person may be thinking
	gracePeriod = 2 * time.Second // in which a process must have ended after its stdin did
)

// maxServedInput bounds the input of what is sent to a process, in bytes; a larger
// one is given to a container. The line around it is longer by little.
const maxServedInput = protocol.MaxRequest / 2

// servedDir is where the processes of a run have their files: no resource can
// be called so.
const servedDir = "_served"

// servers are the processes of a run that serve.
type servers struct {
	views engine.Views // of what is not kept
	acted atomic.Int64 // how many actions have ended, which may have changed what mounts lead to

	mu      sync.Mutex
	byKey   map[string]*server
	started []*process // since the last end
	count   int        // in all; numbers their files
}

// closeAll closes the processes that were started, but for those that keep takes,
// and returns them.
func (s *servers) closeAll(keep func(*process) bool) (closed []*process) {
	s.mu.Lock()
	started, byKey := s.started, maps.Clone(s.byKey)
	s.started = nil
	s.mu.Unlock()
	s.views.Close()
	for _, p := range started {
		if !keep(p) {
			p.close()
			closed = append(closed, p)
		}
		for _, server := range byKey {
			server.letGo(p)
		}
	}
	return closed
}

// running is how many were started since the last end.
func (s *servers) running() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.started)
}

// letGo forgets a process that has ended, or is another run's by now: the next call has one
// started, or taken from what is kept.
func (s *server) letGo(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == p {
		s.current = nil
	}
}

// server has the calls of all that may share a process made by one, of several types if
// they are one image. It starts the process when the first call comes, and again when one
// comes after it was ended for being idle. After a process that failed or was slow it
// starts no more.
type server struct {
	invoker *Invoker
	names   []string // types, as in the manifest, sorted; the mutex of servers is held
	key     string   // of all that its processes are given by the type
	image   engine.Image
	action  protocol.Invocation
	mounts  []engine.Mount
	offline bool
	former  bool // as of Target
	warned  sync.Once

	mu      sync.Mutex
	current *process // nil before the first
	looked  int64    // how many actions had ended when it was known to see what there is
	broken  error    // why none is sent a call any longer
}

// Serve has the calls for a resource made as its type answered init: in the network that it needs, and
// by a process with these plugs, if it serves. A process is shared by those that agree in all that a
// container is given, so none sees a plug that its resource may not: also by those of another
// type, where that is the same image. Each request says which type it is for.
func (v *Invoker) Serve(t *Target, init protocol.InitOutput, mounts []engine.Mount) {
	t.server, t.offline = nil, init.Network == protocol.NetworkNone
	if init.ServeAction == nil {
		return
	}
	action, offline := *init.ServeAction, t.offlineFor(*init.ServeAction)
	if t.runsOwnImage(action) {
		action.Image = ""
	}
	key, err := json.Marshal([]any{t.Image.ID, action, mounts, offline})
	if err != nil {
		return // it is made of text only
	}
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	if v.servers.byKey == nil {
		v.servers.byKey = map[string]*server{}
	}
	within := string(key)
	if t.Former {
		within += " former" // its processes may be started where others may not
	}
	s := v.servers.byKey[within]
	if s == nil {
		s = &server{invoker: v, key: string(key), image: t.Image, action: action, mounts: mounts, offline: offline, former: t.Former}
		v.servers.byKey[within] = s
	}
	if at, known := slices.BinarySearch(s.names, t.Type); !known {
		s.names = slices.Insert(s.names, at, t.Type)
	}
	t.server = s
}

// serverFor returns the server for a call, nil if it takes a container of its
// own.
func (t *Target) serverFor(c Call) *server {
	if c.Invocation.Entrypoint != "" || !t.runsOwnImage(c.Invocation) {
		return nil
	}
	return t.server
}

// Expect starts the process to which such a call will be sent, if there is to be one and it is not
// there yet: several are ready sooner when none of them waits for the first call that it gets. Once
// as many as may be at work were started, the others wait for that.
func (v *Invoker) Expect(ctx context.Context, t *Target, i protocol.Invocation) {
	s := t.serverFor(Call{Invocation: i})
	if s == nil || !t.runsOwnImage(s.action) || v.containers.Stop.Requested() || ctx.Err() != nil {
		return // another image may have to be pulled first
	}
	// A panic is reported; the call, if one comes, tries again.
	_ = v.panics.Try("starting what serves "+t.Type, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.current == nil && s.broken == nil && v.servers.running() < v.containers.Parallelism {
			// Where it cannot be started yet, what it needs may be made by then.
			if p, err := s.start(ctx, t.Name); err == nil {
				s.current = p
			}
		}
		return nil
	})
}

// serve makes a call by way of a process; sent is false where it needs a container
// of its own.
func (v *Invoker) serve(ctx context.Context, s *server, c *pendingCall) (exit engine.Exit, sent bool, err error) {
	exit, sent, err = s.call(ctx, c)
	if !sent && ctx.Err() == nil {
		s.warned.Do(func() {
			v.observer.Warn(c.resource, c.Action, fmt.Sprintf("%v; from here on, its calls get containers of their own", err))
		})
	}
	return exit, sent, err
}

// call has a call made by the process. When sent is false, the call is not and
// will not be made, and err says why.
func (s *server) call(ctx context.Context, c *pendingCall) (exit engine.Exit, sent bool, err error) {
	q := &request{pendingCall: c, ended: make(chan struct{})}
	p, err := s.send(ctx, q)
	if err != nil {
		return engine.Exit{}, false, err
	}
	if p.work != "" {
		defer s.invoker.left.use(p.work)
	}
	late := make(chan struct{})
	defer unwatched.AfterFunc(c.timeout, func() { close(late) })()
	select {
	case <-q.ended:
	case <-late:
		p.cancel(q, fmt.Errorf("did not answer %s of %s: %w after %s", c.Action, c.resource, engine.ErrTimeout, c.timeout))
	case <-ctx.Done():
		why := context.Cause(ctx)
		if c.Answers && errors.Is(why, ErrInterrupted) {
			p.abandon(q, why)
		} else {
			p.cancel(q, fmt.Errorf("was killed: %w", why))
		}
	}
	<-q.ended
	c.said = q.said
	return q.exit, !q.notSent, q.err
}

// send gives a request to the process, which it starts where there is none.
func (s *server) send(ctx context.Context, q *request) (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.broken == nil {
		s.forgetStale()
		if s.current == nil {
			if s.current, s.broken = s.start(ctx, q.resource); s.broken != nil {
				s.current = nil
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

// forgetStale forgets the process where an action has changed what its mounts lead to since it was
// started: it would go on seeing, and changing, what they led to then. What it was asked it finishes.
func (s *server) forgetStale() {
	acted := s.invoker.servers.acted.Load()
	if s.current == nil || acted == s.looked {
		return
	}
	if now, err := s.view(s.views()); err != nil || !now.Same(s.current.view) {
		s.current = nil
	}
	s.looked = acted
}

// views looks at what mounts lead to.
func (s *server) views() *engine.Views {
	if r := s.invoker.containers.Reserve; r != nil {
		return &r.views
	}
	return &s.invoker.servers.views
}

// unusable reports whether calls are known to need containers of their own.
func (s *server) unusable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken != nil
}

// start starts a process, or takes one that was kept, for a call of a resource. It outlives
// that.
func (s *server) start(ctx context.Context, resource string) (*process, error) {
	v := s.invoker
	names := v.served(s)
	what := fmt.Sprintf("the process that serves %s (image %.19s)", strings.Join(names, ", "), s.image.ID)
	image := s.image
	if s.action.Image != "" {
		var err error
		if image, err = v.Image(ctx, resource, s.action.Image); err != nil {
			return nil, fmt.Errorf("%s cannot be started: %w", what, err)
		}
	}
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	v.servers.count++
	name := fileName(strings.Join(names, "+"))
	path := filepath.Join(v.containers.Work, servedDir, fmt.Sprintf("%02d-%s", v.servers.count, name))
	p, err := s.process(ctx, image, what, path, name)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be started: %w", what, err)
	}
	v.servers.started = append(v.servers.started, p)
	return p, nil
}

// served are the types of a server, so far.
func (v *Invoker) served(s *server) []string {
	v.servers.mu.Lock()
	defer v.servers.mu.Unlock()
	return slices.Clone(s.names)
}

// process returns a process of the run, whose files begin with a path. Those of one that is to be
// kept have a name.
func (s *server) process(ctx context.Context, image engine.Image, what, path, name string) (*process, error) {
	v := s.invoker
	s.looked = v.servers.acted.Load()
	given, err := s.given(image)
	if err != nil {
		return nil, err
	}
	reserve := v.containers.Reserve
	if reserve == nil {
		p := newProcess(what, v)
		p.view = given.view
		p.assign(v, v.kept(path+stderrSuffix))
		return p, p.start(ctx, s, image, path)
	}
	if p := reserve.take(given, v, v.kept(path+stderrSuffix)); p != nil {
		return p, nil
	}
	p := newProcess(what, reserve.invoker(v))
	p.view = given.view
	p.assign(v, v.kept(path+stderrSuffix))
	return p, p.start(ctx, s, image, reserve.admit(p, given, name, v.containers.Now()))
}

// start runs the container of the process. path begins that of its work directory.
func (p *process) start(ctx context.Context, s *server, image engine.Image, path string) error {
	v := p.home
	spec, err := v.containerSpec(s.action, image, s.mounts, s.offline, v.unfollowed(s.former), path)
	if err != nil {
		p.idleTimer.Stop()
		p.gone()
		return err
	}
	spec.Labels[LabelKind] = KindServe
	if spec.Passing = !v.containers.Remote; !spec.Passing {
		spec.Kept = keptOutput
	}
	running, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	p.kill = kill
	if !v.containers.Remote {
		p.work = path + workSuffix
	}
	go func() {
		exit, err := v.runContainer(running, spec, engine.IO{Stdin: p.stdin, Stdout: p, Stderr: processErrors{p}})
		kill(nil)
		defer v.panics.Catch(&err, "ending a process that serves")
		p.exited(exit, err)
	}()
	return nil
}
