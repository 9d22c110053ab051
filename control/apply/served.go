package apply

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/deployster-go/deployster/control/gc"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/runner"
)

// The bounds of what one process carries out for others.
const (
	maxRunning = 16 // runs at once
	maxEnded   = 50 // runs of which what was observed is kept after they ended
	maxPlans   = 8  // plans that are kept
)

// Why no run begins.
var (
	ErrStopping = errors.New("the server stops, and begins nothing new")
	ErrBusy     = fmt.Errorf("the server carries out %d runs, and no more at once: ask again when one has ended", maxRunning)
)

// Options are what the runs of one process have in common.
type Options struct {
	Config  work.Config
	Connect func(context.Context) (*work.Connection, error) // to the engine of all runs, which stays open
	Begun   func(*Served)                                   // is told of each that begins
	Ended   func(one *Served, err error)                    // is told of each that has ended
}

// Runs are the runs that a process carries out for others, who follow them.
type Runs struct {
	o       Options
	serving chan struct{} // closed when ctx is there
	broken  chan error    // why nothing can be recorded any more

	mu      sync.Mutex
	ctx     context.Context // of all runs
	closed  bool            // none begins any more
	running sync.WaitGroup
	active  int
	known   []*Served // in the order in which they began
}

// NewRuns is a process that carries out runs while Serve does.
func NewRuns(o Options) *Runs {
	return &Runs{o: o, serving: make(chan struct{}), broken: make(chan error, 1)}
}

// Serve has runs carried out until stop is closed, and returns when all have ended: what is
// running is finished, and nothing new begins. The end of ctx kills what is running.
func (r *Runs) Serve(ctx context.Context, stop <-chan struct{}) (err error) {
	r.mu.Lock()
	r.ctx = ctx
	r.mu.Unlock()
	close(r.serving)
	select {
	case <-stop:
	case <-ctx.Done():
	case err = <-r.broken:
	}
	r.mu.Lock()
	r.closed = true
	for _, one := range r.known {
		one.Stop()
	}
	r.mu.Unlock()
	r.running.Wait()
	return err
}

// Begin has a run carried out, and returns when the log says that it has begun. It does not
// begin where ctx ends before that; when it has begun, it goes on.
func (r *Runs) Begin(ctx context.Context, request Request) (*Served, error) {
	var bound *planned
	if request.Plan != "" {
		var err error
		if bound, err = r.planned(request); err != nil {
			return nil, err
		}
	}
	command := "apply"
	if request.Removing {
		command = "destroy"
	}
	one, err := r.start(ctx, request, command, func(all context.Context, run *Run, one *Served) error {
		if bound != nil && !request.Removing { // what is there by then is removed, as wherever it is asked for
			of := planfile.File{Resources: bound.resources}
			run.Spec.Fingerprint, run.Spec.Bound = bound.salt.Fingerprint, of.Bound()
			run.does(runs.Planned{ID: request.Plan, After: bound.log.Event, Resources: bound.resources})
		}
		if bound != nil && run.orphans != nil {
			run.orphans.Planned = []string{}
			for _, r := range bound.resources {
				run.orphans.Planned = append(run.orphans.Planned, r.From+"#"+r.Name)
			}
		}
		return run.Execute(all, runner.ConfirmNo, request.KeepGoing, func(*runner.Runner) error {
			run.Caller.Observer = one
			return ctx.Err() // who asks does not know that it begins
		})
	})
	if err != nil {
		return nil, err
	}
	select {
	case <-one.begun:
		return one, nil
	case <-one.over:
	}
	select {
	case <-one.begun:
		return one, nil
	default:
		return nil, one.err
	}
}

// start has something done as a run of its own, in the time of the process.
func (r *Runs) start(ctx context.Context, request Request, command string, do func(context.Context, *Run, *Served) error) (*Served, error) {
	select {
	case <-r.serving:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	all, leave, err := r.enter()
	if err != nil {
		return nil, err
	}
	going := false
	defer func() {
		if !going { // also where preparing it panics
			leave()
		}
	}()
	stop := make(chan struct{})
	run, err := request.prepare(ctx, r.o, command, stop)
	if err != nil {
		return nil, err
	}
	one := newServed(run.Input.Run, string(run.Control.Target), stop)
	one.Command, one.began = command, r.o.Config.Now()
	if err := r.add(one); err != nil {
		return nil, err
	}
	notice := run.Control.Notice
	run.Control.Notice = func(text string) {
		one.Notice(text)
		if notice != nil {
			notice(text)
		}
	}
	r.o.Begun(one)
	going = true
	go func() {
		defer leave()
		r.end(one, crash.Do("carrying out run "+one.ID, func() error { return do(all, run, one) }))
	}()
	return one, nil
}

// enter takes one of the places for runs.
func (r *Runs) enter() (all context.Context, leave func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return nil, nil, ErrStopping
	case r.active >= maxRunning:
		return nil, nil, ErrBusy
	}
	r.active++
	r.running.Add(1)
	return r.ctx, func() {
		r.mu.Lock()
		r.active--
		r.mu.Unlock()
		r.running.Done()
	}, nil
}

// add has a run stopped with the process, and followed.
func (r *Runs) add(one *Served) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return ErrStopping
	}
	ended := 0
	for _, old := range slices.Backward(r.known) {
		if old.hasEnded() {
			ended++
		}
	}
	r.known = slices.DeleteFunc(r.known, func(old *Served) bool {
		if !old.hasEnded() || ended < maxEnded {
			return false
		}
		ended--
		return true
	})
	r.known = append(r.known, one)
	plans := 0
	for _, old := range slices.Backward(r.known) {
		if old.kept() == nil {
			continue
		}
		if plans++; plans >= maxPlans { // one may plan
			old.keep(nil)
		}
	}
	return nil
}

// end notes how a run ended.
func (r *Runs) end(one *Served, err error) {
	one.Took = max(0, r.o.Config.Now().Sub(one.began))
	one.end(err)
	r.o.Ended(one, err)
	if errors.Is(err, deploylog.ErrPoisoned) || errors.Is(err, deploylog.ErrUnwritten) {
		select {
		case r.broken <- err:
		default: // it is known
		}
	}
	// At worst it stays: a run does not fail of what old runs left.
	_ = gc.Sometimes(context.Background(), r.o.Config.Log, filepath.Join(r.o.Config.Workspace, engine.StateDir), one.ID, r.o.Config.MaxWorkAll, r.o.Config.Now())
}

// Find is a run of this process; nil is none that it knows, or knows any more.
func (r *Runs) Find(id string) *Served {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.IndexFunc(r.known, func(one *Served) bool { return one.ID == id }); i >= 0 {
		return r.known[i]
	}
	return nil
}
