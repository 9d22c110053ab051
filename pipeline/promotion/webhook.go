package promotion

import (
	"fmt"
	"iter"
	"time"

	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// Where a stage has the strategy webhook, a program is asked to bring a revision to its
// environment. What it answers says that it was asked, and nothing of what became of that: a
// try ends well when the environment is observed to run the revision as a whole.

// triggered reports whether the work of the present try is done, and what becomes of it is
// observed.
func (p *Promotion) triggered() bool { return p.Deployment != "" || !p.Asked.IsZero() }

// asks reports whether somebody else sees to it that the environment runs the revision.
func (p *Promotion) asks() bool {
	return p.Strategy == definition.WithWebhook || p.Strategy == definition.WithPullRequest || p.applies()
}

// patience is since when and for how long an environment may take to run what somebody was
// asked to bring; zero is that nothing is expected yet.
func (s *State) patience(p *Promotion) (since time.Time, timeout time.Duration) {
	i := s.definition.Index(p.Stage)
	switch {
	case i < 0:
	case p.Strategy == definition.WithPullRequest && s.definition.Stages[i].PullRequest != nil:
		return p.Merged, time.Duration(s.definition.Stages[i].PullRequest.Timeout)
	case p.applies() && s.definition.Stages[i].Targets != nil:
		return p.Asked, observedWithin + 2*time.Duration(s.definition.Stages[i].Targets.CheckEvery)
	case s.definition.Stages[i].Webhook != nil:
		return p.Asked, time.Duration(s.definition.Stages[i].Webhook.Timeout)
	}
	return time.Time{}, 0
}

// askedUntil is when a try has failed by which a program was asked, zero where it has not been.
// Where the clock was set back by more than that takes, it is now.
func (s *State) askedUntil(p *Promotion, now time.Time) time.Time {
	since, timeout := s.patience(p)
	if since.IsZero() {
		return time.Time{}
	}
	until := s.passed(since, timeout, now)
	if until.Sub(now) > 2*timeout { // the times in which none watched are over
		return now
	}
	return until
}

// awaited yields when tries have failed by time alone that wait for what a program was asked to
// do. What their stages run, and those before them, makes no difference to that.
func (s *State) awaited(now time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		for _, p := range s.last {
			if p.Status != Running {
				continue
			}
			if until := s.askedUntil(p, now); until.After(now) && !yield(until) {
				return
			}
		}
	}
}

// unanswered is why a try has failed by which a program was asked, "" where it has not, or
// where nobody knows: an environment that cannot be observed may run the revision by now.
func (s *State) unanswered(p *Promotion, seen Observation, now time.Time) string {
	until := s.askedUntil(p, now)
	switch {
	case seen.Deleted:
		return fmt.Sprintf("%s was deleted", definition.PlaceText(p.Environment))
	case until.IsZero():
		return ""
	case seen.Active.Status == Stuck && seen.Active.Revision == p.Revision:
		return fmt.Sprintf("deployment %s of environment %s is stuck: %s", seen.Active.ID, p.Environment, seen.Active.Cause)
	case seen.Health == Unknown:
		return ""
	case !now.Before(until):
		since, _ := s.patience(p)
		asked := "the webhook was asked, which answered " + p.Answer
		if p.Strategy == definition.WithPullRequest || p.applies() {
			asked = p.Answer
		}
		return fmt.Sprintf("%s does not run revision %s, healthy, as a whole, %s after %s", definition.PlaceText(p.Environment), p.Revision, definition.Duration(until.Sub(since)), asked)
	}
	return ""
}

// sameStrategy reports whether a revision comes to two stages in the same way. How long that may
// take, how often is looked, and by which keys and tokens make no difference.
func sameStrategy(a, b *definition.Stage) bool {
	if a.Strategy != b.Strategy || (a.Sighted() || b.Sighted()) && a.Identity() != b.Identity() {
		return false
	}
	if a.PullRequest != nil && b.PullRequest != nil && !a.PullRequest.Same(b.PullRequest) {
		return false
	}
	return a.Webhook == nil || b.Webhook == nil || a.Webhook.URL == b.Webhook.URL
}
