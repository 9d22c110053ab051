package build

import (
	"time"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
)

func (c Cancel) propose(s *State, _ time.Time) ([]deploylog.Event, error) {
	g, err := s.known(c.Group)
	if err != nil {
		return nil, err
	}
	switch {
	case g.state == transition.Canceling:
		return nil, refusal.New(AlreadyCanceling, "canceling build group %s: it is being canceled already, and waits for what runs: deployster build cancel %s --wait", g.id, g.id)
	case g.state.Ended():
		return nil, refusal.New(HasEnded, "canceling build group %s: it has ended, as %s", g.id, g.state)
	}
	data := record.Canceling{By: c.By, Reason: deploylog.Cause(c.Reason)}
	events := []deploylog.Event{g.event(record.GroupCanceling, g.next(record.GroupCanceling), data)}
	if g.running() == 0 {
		events = append(events, g.event(record.GroupCanceled, g.next(record.GroupCanceled), record.Ended{}))
	}
	return events, nil
}

func (c Retry) propose(s *State, _ time.Time) ([]deploylog.Event, error) {
	g, err := s.known(c.Group)
	if err != nil {
		return nil, err
	}
	failed := g.counts[transition.JobFailed] + g.counts[transition.DependencyFailed]
	switch {
	case g.state == transition.Complete:
		return nil, refusal.New(NothingToRetry, "retrying build group %s: all of it was built", g.id)
	case g.state == transition.Canceling:
		return nil, refusal.New(NotEnded, "retrying build group %s: it is being canceled, and what runs is stopped first, for which deployster build run must be at work; wait for that: deployster build cancel %s --wait", g.id, g.id)
	case !g.state.Ended():
		return nil, refusal.New(NotEnded, "retrying build group %s: it has not ended, it is %s; to begin anew, cancel it first: deployster build cancel %s", g.id, g.state, g.id)
	case len(g.jobs) == 0 || len(g.jobs) < g.created.Jobs:
		return nil, refusal.New(NothingToRetry, "retrying build group %s: it was not submitted whole, it has %d of %d jobs; submit it again", g.id, len(g.jobs), g.created.Jobs)
	case g.left() == 0 && g.counts[transition.Built] == len(g.jobs):
		return nil, refusal.New(NothingToRetry, "retrying build group %s: all of its jobs were built; what cannot be built is listed by deployster build status %s", g.id, g.id)
	case c.FailedOnly && failed == 0:
		return nil, refusal.New(NothingFailed, "retrying what failed of build group %s: nothing has; without --failed-only, what was canceled is built", g.id)
	}
	return []deploylog.Event{
		g.event(record.GroupRetried, g.next(record.GroupRetried), record.Retried{By: c.By, FailedOnly: c.FailedOnly, Step: c.Step}),
		g.event(record.GroupQueued, g.next(record.GroupQueued), struct{}{}),
	}, nil
}
