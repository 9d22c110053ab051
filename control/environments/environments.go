// Package environments is the tenant of the reconcile loop that keeps environments.
// Environments folds and commands. A Controller brings tasks to hosts, by Tasks. It follows
// the log, observes the Inventory, for hosts come and go, and probes the tasks, for they
// die and drift. It records what has changed, never that it has probed, and depends on
// no notification.
package environments

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// Environments are the environments of a log, folded from its events. It is safe
// for concurrent use.
type Environments struct {
	*reconcile.Fold[*environment.State]
	reservations *reservations
}

// ErrNoEnvironment is wrapped where nothing has the name of an environment.
var ErrNoEnvironment = errors.New("no such environment")

// New knows nothing until it Follows. The subscribers receive every event of the log
// that it folds, one at a time.
func New(log deploylog.Log, now func() time.Time, subscribers ...func(deploylog.Event)) *Environments {
	e := &Environments{Fold: reconcile.NewFold(reconcile.Kind[*environment.State]{
		One: "environment", Many: "environments", NameOf: record.NameOf, Begins: record.EnvironmentCreated, Begin: environment.New, Exists: (*environment.State).Exists,
		Missing: ErrNoEnvironment, Remedy: "deployster env create -f FILE",
	}, log, now, nil)}
	e.reservations = newReservations(e.States)
	e.Subscribers = append([]func(deploylog.Event){e.reservations.receive}, subscribers...)
	e.KeepStates(Snapshots(0))
	return e
}

// Snapshots says how environments are kept in snapshots of a log, made anew after so many
// events; 0 is some thousands.
func Snapshots(after int) reconcile.States[*environment.State] {
	return reconcile.States[*environment.State]{Target: record.Target, Copy: copied, Restore: environment.Restore, Version: environment.SnapshotVersion, After: after}
}

// copied is an environment, which is encoded at once: there are many, of which none is large.
func copied(s *environment.State) func() (json.RawMessage, error) {
	data, err := s.Snapshot()
	return func() (json.RawMessage, error) { return data, err }
}

// Identify sets how to find out what tasks make on their hosts, see Tasks. Environments asks
// once for each task, and again once version returns another number; version may be nil.
// Without things, or if it returns none, two tasks make the same if they apply the same text
// with the same variables.
func (e *Environments) Identify(things func(tasks.Task) []tasks.Thing, version func() int) {
	e.Locked(func() {
		e.reservations.things, e.reservations.version = things, version
		e.reservations.forget()
	})
}

// Command proposes a command and appends what it comes to. It is refused when an
// environment would make on a host what another one makes there: on the hosts that
// a Deploy or Rollback names, or, for a Create or an Update, on those given, which the
// query of its definition selects at present. Hosts that have joined an environment since it
// was deployed are left to the other one instead, see LeftOut, unless those are all. So are all
// hosts of a Rollback: it must not have to wait for another environment.
func (e *Environments) Command(ctx context.Context, name string, c environment.Command, hosts ...string) ([]deploylog.Event, error) {
	return e.CommandIf(ctx, name, c, nil, hosts...)
}

// CommandIf is Command, unless something is wrong with the newest state by then; nil is nothing.
func (e *Environments) CommandIf(ctx context.Context, name string, c environment.Command, wrong func(*environment.State) error, hosts ...string) ([]deploylog.Event, error) {
	if events, sent, err := e.Send(ctx, name, c, 0); sent {
		return events, err
	}
	_, create := c.(environment.Create)
	return e.Change(ctx, name, create, func(s *environment.State) ([]deploylog.Event, error) {
		if wrong != nil {
			if err := wrong(s); err != nil {
				return nil, err
			}
		}
		return e.propose(s, c, hosts)
	})
}

// propose is what a command comes to, see Command.
func (e *Environments) propose(s *environment.State, c environment.Command, hosts []string) ([]deploylog.Event, error) {
	e.reservations.renew()
	switch of := c.(type) {
	case environment.AdoptFrom:
		return e.takeOver(s, of)
	case environment.Clean:
		of.Taken = e.reservations.taken(s)
		c = of
	case environment.ConfirmHosts:
		of.Hosts = e.reservations.without(s, of.Hosts)
		c = of
	case environment.Deploy:
		of.Hosts = e.joined(s, of.Revision, of.Hosts)
		c = of
	case environment.Rollback:
		hosts, of.Hosts = of.Hosts, e.reservations.backTo(s, of.Revision, of.Hosts)
		c = of
	case environment.Update:
		hosts = e.reservations.joined(s, of.Definition, Draft(of.Definition, s), false, hosts)
	case environment.Restart:
		of.Hosts = e.reservations.without(s, of.Hosts)
		c = of
	case environment.Adopt:
		of.Taken = e.reservations.taken(s)
		c = of
	}
	events, err := s.Propose(c, e.Now())
	if err != nil {
		return nil, err
	}
	switch c := c.(type) {
	case environment.Create:
		err = e.reservations.overlaps(Draft(c.Definition, s), false, hosts)
	case environment.Update:
		err = e.reservations.overlaps(Draft(c.Definition, s), false, hosts)
	case environment.Accept:
		err = e.overlapsAsked(s, hosts)
	case environment.Deploy:
		err = e.reservations.overlaps(s.Task(c.Revision, ""), true, c.Hosts)
	case environment.Adopt:
		err = e.reservations.overlaps(s.Task(c.Revision, ""), true, c.Hosts)
	case environment.Rollback:
		all := holds(events) // it keeps also those hosts that it would leave to others
		if !all {
			hosts = c.Hosts
		}
		if err = e.reservations.overlaps(s.Task(c.Revision, ""), true, hosts); err != nil && all {
			err = fmt.Errorf("more hosts would leave at once than instance_group.max_leaving of revision %d lets go, so it would keep them; "+
				"base a new revision on it with a higher one: %w", c.Revision, err)
		}
	}
	return events, err
}

// overlapsAsked is overlaps of the revision that waits to be accepted.
func (e *Environments) overlapsAsked(s *environment.State, hosts []string) error {
	a, waits := s.Asked(e.Now())
	if !waits {
		return nil // the command is refused
	}
	t := Draft(a.Definition, s)
	return e.reservations.overlaps(t, false, e.reservations.joined(s, a.Definition, t, false, hosts))
}

// holds reports whether events begin a deployment that keeps hosts which it was not to have.
func holds(events []deploylog.Event) bool {
	return slices.ContainsFunc(events, func(e deploylog.Event) bool { return e.Name == record.HostsHeld })
}

// joined are the hosts of a revision that is to be deployed, see reservations.
func (e *Environments) joined(s *environment.State, revision int, hosts []string) []string {
	r, err := s.Revision(revision)
	if err != nil {
		return hosts // the command is refused of that
	}
	return e.reservations.joined(s, r.Definition, s.Task(revision, ""), true, hosts)
}

// LeftOut are those of some hosts that the deployment of an environment leaves to other ones; why
// says to which of them.
func (e *Environments) LeftOut(name string, hosts []string) (left []string, why error) {
	e.Locked(func() {
		e.reservations.renew()
		if s := e.States[name]; s != nil {
			_, left, why = e.reservations.divide(s, hosts)
		}
	})
	return left, why
}

// Draft is the task of a definition that is to be the next revision of an environment; nil is one that
// is yet to be created.
func Draft(d *definition.Definition, s *environment.State) tasks.Task {
	next := tasks.Task{Environment: d.Name, Revision: 1, Spec: d.Task}
	if s != nil {
		next.Revision += len(s.Revisions())
	}
	return next
}

// Overlaps fails where another environment makes on some of the hosts what a definition
// would make there, as far as the log is followed.
func (e *Environments) Overlaps(d *definition.Definition, hosts []string) error {
	var err error
	e.Locked(func() {
		e.reservations.renew()
		s := e.States[d.Name]
		if s == nil {
			s = environment.New(d.Name)
		}
		hosts = e.reservations.joined(s, d, Draft(d, s), false, hosts)
		err = e.reservations.overlaps(Draft(d, s), false, hosts)
	})
	return err
}
