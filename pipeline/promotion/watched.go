package promotion

import (
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/unwatched"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// A soak, a settle time and the time that an environment has to run what was asked for count only time
// in which a controller watched. One that comes back records since when none had watched; while
// something counts, it also records now and then that it watches: silence looks like absence.

const (
	// watchedAtLeast is what is left of a time when a controller comes back, so that what runs there
	// is looked at before anything follows from it.
	watchedAtLeast = time.Minute

	// watchedParts is how often a controller records in a time that it watches, and in its own: one that
	// is restarted often records more often. It does so once in watchedPause at most, and in watchedRest
	// at least.
	watchedParts = 10
	watchedPause = time.Minute
	watchedRest  = 10 * time.Minute
)

// controlled are the events that a controller records, and no person.
var controlled = []string{
	RunStarted, RunFinished, Triggered, Merged, Withdrawn, HostsObserved, Waiting, Verifying, Verified, VerifyFailed, VerifyEnded, StageStarted, StageFinished, PipelineWatched,
}

// hear notes that a controller was there.
func (s *State) hear(e deploylog.Event) {
	if slices.Contains(controlled, e.Name) && e.CreatedAt.After(s.heard) {
		s.heard = e.CreatedAt
	}
}

// applyWatched folds in that no controller had watched for a while.
func (s *State) applyWatched(e deploylog.Event, p Payload) {
	s.heeded = true
	if p.Since.IsZero() {
		return
	}
	if len(s.away) >= unwatched.Most {
		s.away = s.away[1:]
	}
	s.away = s.away.Add(unwatched.Span{From: p.Since, To: e.CreatedAt, Seq: e.Seq})
}

// UnwatchedSince returns when the time began in which no controller watched the pipeline, for one that
// begins to; zero is none. Silence is no absence before a controller has recorded that it watches: earlier
// versions watched without a word.
func (s *State) UnwatchedSince(now time.Time) time.Time {
	if !s.heeded || s.heard.IsZero() {
		return time.Time{}
	}
	return unwatched.Since(s.heard, now)
}

// passed returns when d has passed since a time in which a controller watched.
func (s *State) passed(from time.Time, d time.Duration, now time.Time) time.Time {
	away := s.away.Before(now)
	at := away.After(from, d)
	if n := len(away); n > 0 && away[n-1].To.After(from) {
		if looked := away[n-1].To.Add(min(d, watchedAtLeast)); looked.After(at) {
			return looked
		}
	}
	return at
}

// Concerns reports whether an absence that began at a time concerns one that was running then, or may have
// ended in the minute before. unknown is true if it is not known of a stage whether it has one.
func (s *State) Concerns(o Observed, since time.Time) (does, unknown bool) {
	counted, unknown := s.counting(o, since.Add(-unwatched.Grace))
	return counted > 0, unknown
}

// counting returns the shortest of the times that are running at a moment, 0 if none is.
func (s *State) counting(o Observed, at time.Time) (shortest time.Duration, unknown bool) {
	if s.definition == nil {
		return 0, false
	}
	counts := func(from time.Time, d time.Duration) {
		if s.passed(from, d, at).After(at) && (shortest == 0 || d < shortest) {
			shortest = d
		}
	}
	for i := range s.definition.Stages {
		stage := &s.definition.Stages[i]
		d := time.Duration(stage.Soak)
		if i == 0 {
			d = time.Duration(s.definition.Promotion.SettleFor)
		}
		seen := o.of(stage.Environment)
		switch {
		case d == 0:
		case seen.Health == Unknown && !seen.Deleted:
			unknown = true
		case seen.Health == Whole:
			counts(seen.ran(at), d)
		}
		if p := s.last[stage.Name]; p != nil && p.Status == Running {
			if since, d := s.patience(p); !since.IsZero() {
				counts(since, d)
			}
		}
	}
	return shortest, unknown
}

// Watched returns the event that records that a controller watches the pipeline, and since when none
// had before; zero is that one had.
func (s *State) Watched(since time.Time) []deploylog.Event {
	return []deploylog.Event{{
		Deployment: fmt.Sprintf("%s/watched@%d", s.name, s.head), Target: Target(s.name), Name: PipelineWatched, Attempt: 1, Data: Payload{Since: since}.Data(),
	}}
}

// WatchedAgain returns when a controller that began to watch at a time is to record next that it does: at
// once if none ever has, while such a time is running, and at its end; zero is never. A short time begins
// again after an absence without much harm.
func (s *State) WatchedAgain(o Observed, began, now time.Time) time.Time {
	if !s.heeded && s.mayCount() {
		return now
	}
	counting, _ := s.counting(o, now)
	if counting > watchedPause {
		part := min(counting, s.heard.Sub(began)) / watchedParts
		return s.heard.Add(max(watchedPause, min(part, watchedRest)))
	}
	if counted, _ := s.counting(o, s.heard); counting == 0 && counted > watchedPause {
		return now
	}
	return time.Time{}
}

// WatchedUntil returns the event that records that a controller watched the pipeline until now, for one that
// ends; none if no time is running, or if it has recorded just now that it watches.
func (s *State) WatchedUntil(o Observed, now time.Time) []deploylog.Event {
	if counting, _ := s.counting(o, now); counting <= watchedPause || now.Sub(s.heard) <= unwatched.Grace {
		return nil
	}
	return s.Watched(time.Time{})
}

// mayCount reports whether the pipeline has any time that may run.
func (s *State) mayCount() bool {
	if s.definition == nil {
		return false
	}
	return s.definition.Promotion.SettleFor > 0 || slices.ContainsFunc(s.definition.Stages, func(stage definition.Stage) bool {
		return stage.Soak > 0 || stage.Webhook != nil || stage.PullRequest != nil || stage.Targets != nil
	})
}
