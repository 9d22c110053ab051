package environment

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/unwatched"
)

// A controller that was away, or comes after one that has died, looks at all tasks before it
// finds that a deadline has passed. Then it records since when nobody had watched, and no
// deadline of the deployment counts that time.

// UnwatchedSince returns when the time began in which nobody watched the environment, for a
// controller that begins to. Zero is that there was none that a deadline could count.
func (s *State) UnwatchedSince(now time.Time) time.Time {
	if !s.timed() {
		return time.Time{}
	}
	return unwatched.Since(latest(s.heard, s.lastProgress), now)
}

// timed reports whether there is a deployment under way, which has deadlines.
func (s *State) timed() bool { return s.active != nil && !s.finished && s.pause == nil }

// hear notes that a controller has recorded an event of the environment, so it was there.
func (s *State) hear(e deploylog.Event, p record.Payload) {
	switch e.Name {
	case record.HostsChanged, record.EnvironmentPromoted:
		if p.By == "" || p.Automatic { // else a person has
			s.heard = latest(s.heard, e.CreatedAt)
		}
	case record.EnvironmentFinished, record.EnvironmentStuck, record.BakeFailed, record.HostsHeld, record.StepReached,
		record.StepVerifying, record.StepVerified, record.StepVerifyFailed, record.StepVerifyEnded, record.HostsZoned, record.EnvironmentWatched:
		s.heard = latest(s.heard, e.CreatedAt)
	}
}

// watchedEvents record that the environment is watched again.
func (s *State) watchedEvents(can Can) []deploylog.Event {
	if can.Unwatched.IsZero() || !can.Disrupt || !s.timed() {
		return nil
	}
	return []deploylog.Event{s.event(record.EnvironmentWatched, record.Payload{Since: can.Unwatched})}
}

// unwatchedTime is how long nobody watched the active deployment.
func (s *State) unwatchedTime() time.Duration {
	return s.unwatched.Between(s.active.Started, s.clock).Round(time.Second)
}

// applyWatched folds in that nobody had watched for a while.
func (s *State) applyWatched(e deploylog.Event, p record.Payload) {
	if f := s.active; !p.Since.IsZero() && f != nil && f.ID == e.Deployment {
		s.unwatched = s.unwatched.Add(unwatched.Span{From: latest(p.Since, f.Started), To: e.CreatedAt, Seq: e.Seq})
		s.refreshAll(e.CreatedAt)
	}
}
