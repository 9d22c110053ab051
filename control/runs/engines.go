package runs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner/invoke"
)

// EngineUsed is the engine that a run used, as its run-started records it: later
// runs ask that engine what the run left, whichever they use themselves. Two that
// are equal are one engine, and whoever can ask one can ask the other. Fields are
// only ever added. What an old log does not hold is empty.
type EngineUsed struct {
	Kind    string    `json:"kind"`              // "docker", "oci"
	Address string    `json:"address,omitempty"` // where it was reached
	ID      string    `json:"id,omitempty"`      // tells it apart from others that may answer at the address
	Context string    `json:"context,omitempty"` // the name of the context of Docker or of a kubeconfig that led to the address
	TLS     EngineTLS `json:"tls,omitzero"`      // of a host that has its own
	Local   bool      `json:"local,omitempty"`   // its containers are processes of the machine on which the run was
	UID     string    `json:"uid,omitempty"`     // of the run
	Machine string    `json:"machine,omitempty"` // on which the run was
	Boot    string    `json:"boot,omitempty"`    // of that machine: another one each time that it is started

	Kubeconfig string `json:"kubeconfig,omitempty"` // of a cluster: the file that said how it is reached; "" is the user's

	Host string `json:"-"` // name of the machine, from the details of the run
	User string `json:"-"`
}

// EngineTLS is the files by which an engine is trusted, and by which it knows who
// asks.
type EngineTLS struct {
	CA   string `json:"ca,omitempty"`
	Cert string `json:"cert,omitempty"`
	Key  string `json:"key,omitempty"`
}

// String names the engine for people.
func (u EngineUsed) String() string {
	switch {
	case u.Kind == "":
		return "an engine that the log does not name"
	case u.Address == "":
		return u.Kind
	default:
		return u.Kind + " at " + u.Address
	}
}

// Engines finds the engines that runs use.
type Engines interface {
	// Used describes the engine of this run.
	Used(ctx context.Context) EngineUsed

	// ID identifies the engine of this run, by whichever address it is reached; "" is that it says none, or must not.
	// It fails if that cannot be found out.
	ID(ctx context.Context) (string, error)

	// Open opens the engine that a dead run used, which may be that of this run;
	// done is called when it is no longer needed. Without containers, none of the
	// run can exist any more. It fails where that engine cannot be asked, and
	// says why and what would help.
	Open(ctx context.Context, used EngineUsed) (containers Containers, done func(), err error)
}

// openedEngine is the engine of dead runs, or why it cannot be asked. Its lock is
// held while it is opened, which can take long; others can be opened at that time.
type openedEngine struct {
	mu         sync.Mutex
	over       bool       // it was opened, or cannot be
	containers Containers // nil where none can exist
	done       func()
	err        error
}

// engineUsed returns the engine that a run used, nil where nothing of the run can
// exist any more, or need be asked for because the run is abandoned. Each is opened
// once, also where that fails.
func (r *Run) engineUsed(ctx context.Context, u *Unfinished) (Containers, error) {
	if r.o.Engines == nil {
		return r.o.Engine, nil
	}
	r.mu.Lock()
	e := r.opened[u.Used]
	if e == nil {
		e = &openedEngine{}
		r.opened[u.Used] = e
	}
	r.mu.Unlock()
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		containers, done, err := r.o.Engines.Open(ctx, u.Used)
		if err != nil && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		e.over, e.containers, e.done, e.err = true, containers, done, err
	}
	if e.err != nil && u.Abandoned {
		return nil, nil
	}
	return e.containers, e.err
}

// left lists the containers with these labels that runs on this log have on an
// engine.
func (r *Run) left(ctx context.Context, on Containers, labels map[string]string) ([]engine.Container, error) {
	if on == nil {
		return nil, nil
	}
	labels[invoke.LabelLog] = r.o.Log.ID()
	return on.Containers(ctx, labels)
}

// wait waits for the end of a container, up to the OrphanTimeout: late is why it is to
// be stopped then. One that somebody removed has no exit.
func (r *Run) wait(ctx context.Context, on Containers, c engine.Container) (exit *engine.Exit, late string, err error) {
	bounded, cancel := context.WithTimeout(ctx, r.o.OrphanTimeout)
	defer cancel()
	ended, err := on.Wait(bounded, c.ID)
	switch {
	case err == nil:
		return &ended, "", nil
	case bounded.Err() != nil && ctx.Err() == nil:
		return nil, fmt.Sprintf("it still ran %s after its run was found dead, and is being stopped", r.o.OrphanTimeout), nil
	case errors.Is(err, engine.ErrNoContainer):
		return nil, "", nil
	default:
		return nil, "", err
	}
}

// settle brings one container of a dead run to its end, records how an action
// ended, and removes it. One that was made ready for an action that never began
// is only removed.
func (r *Run) settle(ctx context.Context, on Containers, c engine.Container) error {
	if observing(c) || serves(c) || !c.Started {
		return on.Remove(ctx, c.ID)
	}
	started, _, err := r.action(ctx, c)
	if err != nil {
		return err
	}
	if started == nil {
		return on.Remove(ctx, c.ID)
	}
	exit, late, err := r.wait(ctx, on, c)
	if err != nil {
		return err
	}
	// Another run that recovers may have recorded it before it removed the container.
	_, ended, err := r.action(ctx, c)
	if err != nil {
		return err
	}
	// Recorded first: when this run dies here, the container is still there to
	// be found again.
	if !ended {
		name, p := started.Target.Failed(), r.abandoned(*started, "")
		switch {
		case late != "":
			p.Error = late
		case exit == nil:
			p.Error = "its container was removed by somebody else; how it ended is not known"
		default:
			p.Exit = &exit.Code
			if exit.Code == 0 {
				name = started.Target.Succeeded()
			}
		}
		if err := appendOnce(ctx, r.o.Log, *started, name, p); err != nil {
			return err
		}
	}
	return on.Remove(ctx, c.ID)
}

// action finds the beginning of the action that a container was made for, nil when
// the log has none, and reports whether it has an end.
func (r *Run) action(ctx context.Context, c engine.Container) (started *deploylog.Event, ended bool, err error) {
	attempt, _ := strconv.Atoi(c.Labels[invoke.LabelAttempt]) // 0 of what is no number
	target := actionTarget(c.Labels[invoke.LabelResource], c.Labels[invoke.LabelAction])
	for e, err := range r.o.Log.Read(ctx, deploylog.Filter{Deployment: c.Labels[invoke.LabelRun], Target: target}) {
		switch {
		case err != nil:
			return nil, false, err
		case e.Attempt != max(1, attempt):
		case e.Name == target.Started():
			started = &e
		case e.Name == target.Succeeded(), e.Name == target.Failed():
			ended = true
		}
	}
	return started, ended, nil
}

// observing reports whether the container only looks: its type may be asked
// again at any time.
func observing(c engine.Container) bool { return c.Labels[invoke.LabelKind] == invoke.KindObserve }

// serves reports whether the container answered for many resources.
func serves(c engine.Container) bool { return c.Labels[invoke.LabelKind] == invoke.KindServe }
