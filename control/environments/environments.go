// Package environments is the tenant of the reconcile loop that keeps environments.
// Environments folds and commands. A Controller brings tasks to hosts, by Tasks. It follows
// the log, observes the Inventory, for hosts come and go, and probes the tasks, for they
// die and drift. It records what has changed, never that it has probed, and depends on
// no notification.
package environments

import (
	"context"
	"errors"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
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
		One: "environment", Many: "environments", NameOf: environment.NameOf, Begins: environment.EventCreated, Begin: environment.New, Exists: (*environment.State).Exists,
		Missing: ErrNoEnvironment, Remedy: "deployster env create -f FILE",
	}, log, now, nil)}
	e.reservations = newReservations(e.States)
	e.Subscribers = append([]func(deploylog.Event){e.reservations.receive}, subscribers...)
	return e
}

// Command proposes a command and appends what it comes to. It is refused when an
// environment would come to hosts that another one occupies with the same task
// manifest: those that a Deploy or Rollback names, or, for a Create or an Update,
// those given, which the query of its definition selects at present.
func (e *Environments) Command(ctx context.Context, name string, c environment.Command, hosts ...string) ([]deploylog.Event, error) {
	_, create := c.(environment.Create)
	return e.Change(ctx, name, create, func(s *environment.State) ([]deploylog.Event, error) {
		events, err := s.Propose(c, e.Now())
		if err != nil {
			return nil, err
		}
		manifest, hosts := wants(s, c, hosts)
		return events, e.reservations.overlaps(name, manifest, hosts)
	})
}

// wants is the manifest that a command brings to hosts, "" is none.
func wants(s *environment.State, c environment.Command, hosts []string) (manifest string, on []string) {
	revision := 0
	switch c := c.(type) {
	case environment.Create:
		return c.Definition.Task.Manifest, hosts
	case environment.Update:
		return c.Definition.Task.Manifest, hosts
	case environment.Deploy:
		revision, hosts = c.Revision, c.Hosts
	case environment.Rollback:
		revision, hosts = c.Revision, c.Hosts
	}
	r, err := s.Revision(revision)
	if err != nil {
		return "", nil
	}
	return r.Definition.Task.Manifest, hosts
}

// Overlaps reports whether another environment than the one named occupies some of
// the hosts with the same task manifest, as far as the log is followed.
func (e *Environments) Overlaps(name, manifest string, hosts []string) error {
	var err error
	e.Locked(func() { err = e.reservations.overlaps(name, manifest, hosts) })
	return err
}
