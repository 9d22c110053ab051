package apply

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/taken"
)

// ManagedError says that there is nothing to adopt, as a run made the resource.
type ManagedError struct {
	Resource string
	*runs.Thing
}

func (e *ManagedError) Error() string {
	return fmt.Sprintf("it is managed already: run %s of %s made or adopted it; if that is not what you adopt, give this another name (a destroy would remove what is there)", e.Run, strings.Join(e.Manifest, " "))
}

// Alone waits until no other run adopts anything, so that of two that adopt one thing under two names
// the second finds what the first did. unlock lets others go on.
func (r *Run) Alone(ctx context.Context) (unlock func(), err error) {
	const lock = "adopt"
	unlock, err = r.Control.Log.TryLock(lock)
	if errors.Is(err, deploylog.ErrLocked) {
		r.Control.Notice("waiting until another run has adopted what it adopts")
		unlock, err = r.Control.Log.Lock(ctx, lock)
	}
	if err != nil {
		return nil, fmt.Errorf("waiting until no other run adopts anything: %w", err)
	}
	return unlock, nil
}

// Managed finds out which resources runs have made or adopted already, and returns what says so
// of an adoption: nil where nothing is in its way. What a run of other manifests made may become
// one of these, as long as it stays the same thing, and has the same name: what has another one is told
// apart when it is adopted.
func (r *Run) Managed(ctx context.Context, list []report.Adoption) (func(report.Adoption) error, error) {
	var last int64
	for e, err := range r.Control.Log.Read(ctx, deploylog.Filter{Last: 1}) {
		if err != nil {
			return nil, fmt.Errorf("reading what runs have made: %w", err)
		}
		last = e.Seq
	}
	if err := r.Identify(ctx); err != nil {
		return nil, err
	}
	history, err := runs.ReadHistory(ctx, r.Control.Log, r.Control.Identify)
	if err != nil {
		return nil, err
	}
	owned, err := r.Owned(ctx, history)
	if err != nil {
		return nil, err
	}
	past := owned.Past
	r.Caller.Owners = owned
	if r.Spec.Managed, err = r.managed(ctx, history, owned, r.images(list)); err != nil {
		return nil, err
	}
	// A run may make it while this one waits for its turn.
	r.Caller.Past = func(ctx context.Context, resource string, keeps bool) (runner.Past, error) {
		made, err := runs.Made(ctx, r.Control.Log, r.Control.Place, []string{resource}, last)
		if err == nil && len(made) > 0 {
			err = errors.New("another run worked on it while this one waited: look at it with plan, and try again")
		}
		if err != nil {
			return runner.Past{}, err
		}
		return past(ctx, resource, keeps)
	}
	return func(a report.Adoption) error {
		thing, err := history.Thing(ctx, r.Control.Owner(), a.Resource)
		if thing == nil {
			return err
		}
		return &ManagedError{a.Resource, thing}
	}, nil
}

// images are those of the types of what is adopted.
func (r *Run) images(list []report.Adoption) map[string]bool {
	images := map[string]bool{}
	for _, one := range list {
		if m := r.Manifest.Stands(one.Resource); m != nil {
			images[taken.Image(m.Type)] = true
		}
	}
	return images
}

// managed is what runs of manifests made by types of these images, and what is declared. Of what cannot be read,
// it is not known what it is: that is not in the way of anything else.
func (r *Run) managed(ctx context.Context, history *runs.History, owned *runs.Owned, images map[string]bool) (all []taken.Thing, err error) {
	of := r.Control.Owner()
	things, err := history.All(ctx)
	if err != nil {
		return nil, err
	}
	for _, thing := range things {
		if len(thing.Manifest) == 0 || thing.Deposed || !images[taken.Image(thing.Type)] {
			continue
		}
		made, err := thing.Open(r.Control.Protected)
		if err != nil {
			continue
		}
		before, err := owned.PastOf(ctx, thing.Undeclared(), true)
		if err != nil {
			continue
		}
		ours := thing.Of(of)
		if !ours {
			if declared, err := owned.Declares(ctx, thing); err != nil || !declared {
				if err != nil {
					return nil, err
				}
				continue // it may be taken over
			}
		}
		all = append(all, taken.Thing{
			Undeclared: report.Undeclared{Name: thing.Name, Run: thing.Run, At: thing.At, Made: made}, Kept: before.Kept, Ours: ours, Elsewhere: !thing.Here(of),
		})
	}
	return all, nil
}

// Adopt has things that exist be resources of the manifests. With dry it is only found out what
// would be adopted, and nothing is recorded.
func (r *Run) Adopt(ctx context.Context, list []report.Adoption, dry bool) ([]report.Adopted, error) {
	r.Control.Whole = false // it says what it adopts, and not what else there is
	begin := r.Begin
	if dry {
		begin = func(context.Context) (*runs.Run, error) { return runs.Watch(r.Control) }
	}
	held, err := begin(ctx)
	if err != nil {
		return nil, err
	}
	defer held.End()
	return runner.New(r.Spec, r.Containers).Adopt(ctx, r.Caller, list)
}
