package runner

import (
	"context"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/taken"
)

// observeEntered observes a resource, and which thing it is. Until leave is called no other run makes, takes over or
// removes what this one changes, takes over or claims, or what the resource was before.
func (r *Runner) observeEntered(ctx context.Context, res *resource) (out protocol.StateOutput, leave func(), err error) {
	leave = func() {}
	out, err = r.observeOwned(ctx, res)
	if err != nil || res.ReadOnly || out.Status == protocol.Valid && res.past.Made != nil && res.took == nil {
		return out, leave, err
	}
	out, leave, err = r.enterObserved(ctx, res, out)
	return out, leave, err
}

// enterObserved enters the things of a resource that was observed, and observes it again if another run was at work
// on them.
func (r *Runner) enterObserved(ctx context.Context, res *resource, out protocol.StateOutput) (protocol.StateOutput, func(), error) {
	leave, waited, err := r.enterThings(ctx, res)
	if err != nil || !waited {
		return out, leave, err
	}
	if out, err = r.observeAnswered(ctx, res); err != nil {
		leave()
		return out, func() {}, err
	}
	return out, leave, nil
}

// enterThings waits until no other run does anything with the things of a resource, and finds out whether they are
// whose they were before. waited reports whether another run was at work.
func (r *Runner) enterThings(ctx context.Context, res *resource) (leave func(), waited bool, err error) {
	var entered []func()
	leave = func() {
		for _, leave := range slices.Backward(entered) {
			leave()
		}
		entered = nil
	}
	if r.caller.Guard == nil || r.caller.Owners == nil {
		return leave, false, nil
	}
	defer func() {
		if err != nil {
			leave()
		}
	}()
	entering, cancel := r.containers.Stop.Context(ctx)
	defer cancel()
	for _, key := range res.locks() {
		left, err := r.caller.Guard.EnterThing(entering, key, r.thingText(res), func(text string) {
			waited = true
			r.notify(report.Waiting, res.Name, "", text)
		})
		if err != nil {
			return leave, waited, r.containers.Stop.Interrupted(ctx, fmt.Errorf("waiting for its turn: %w", err))
		}
		entered = append(entered, left)
	}
	if len(entered) > 0 {
		if err = r.caller.Owners.Update(ctx); err == nil {
			err = r.asSeen(ctx, res)
		}
	}
	return leave, waited, err
}

// locks are the keys of the locks of all things of a resource, in the order in which all runs take them.
func (res *resource) locks() []string {
	keys := res.identity.Locks()
	of := func(u *report.Undeclared) {
		if u == nil {
			return
		}
		if keys = append(keys, u.Identity.Locks()...); u.Identity.Key == "" { // it is known by its record
			keys = append(keys, hashed("made", u.Name, u.ID))
		}
	}
	of(res.deposes)
	of(res.undeclared)
	if res.undeclared == nil {
		of(res.past.Made)
	}
	if res.took != nil {
		of(&res.took.Undeclared)
	}
	return slices.Compact(slices.Sorted(slices.Values(keys)))
}

// thingText is the thing of a resource, for people who wait for it.
func (r *Runner) thingText(res *resource) string {
	text := taken.Image(res.Type) + " " + res.Name
	if is := res.identity.Text(); is != "" {
		text += " (" + is + ")"
	}
	return r.secrets.Mask(text)
}

// asSeen finds out, once nobody else is at work on the things of a resource, whether they are still whose they were.
func (r *Runner) asSeen(ctx context.Context, res *resource) error {
	switch took := res.took; {
	case res.undeclared != nil:
		by := res.undeclared.Owner
		if took != nil {
			by = &took.By
		}
		still, err := r.caller.Owners.Still(ctx, *res.undeclared, by)
		if err == nil && !still {
			err = report.Skip{Code: report.ReasonOwned, Text: "a run changed, took or removed it since it was listed, so it stays"}
		}
		return err
	case took != nil:
		for _, forms := range res.identity.Forms() {
			if other, err := r.theirs(ctx, forms); err != nil {
				return err
			} else if other != nil && (other.By.String() != took.By.String() || other.Name != took.Name) {
				return r.ownedElsewhere(res, other)
			}
		}
		still, err := r.caller.Owners.Still(ctx, took.Undeclared, &took.By)
		if err == nil && !still {
			err = fmt.Errorf("another run changed or took %s of %s while this run was at work: %s", took.Name, took.By, res.again())
		}
		return err
	}
	err := r.takeOfKey(ctx, res)
	if err == nil && res.took != nil {
		err = fmt.Errorf("%s made it while this run was at work, and no longer declares it: %s, to take it over", res.took.By, res.again())
	}
	if err != nil || res.past.Made == nil {
		return err
	}
	still, err := r.caller.Owners.Still(ctx, *res.past.Made, nil)
	if err == nil && !still {
		err = fmt.Errorf("another run changed, took or removed what run %s made while this run was at work: %s", res.past.Made.Run, res.again())
	}
	return err
}

// again is what people do with a resource once more.
func (res *resource) again() string {
	if res.ensure == protocol.Absent && !res.begun {
		return "destroy again"
	}
	return "apply again"
}
