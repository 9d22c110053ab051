package promotions

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/unwatched"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// noticeAbsence notes that the process was stopped for a while.
func (c *Controller) noticeAbsence() {
	now, last := c.Now().Round(0), c.ticked // by the clock on the wall, as in the log
	c.ticked = now
	if last.IsZero() || now.Sub(last) <= unwatched.Grace {
		return
	}
	for name := range c.since {
		c.wasAbsent(name, last)
		c.loop.Enqueue(name)
	}
}

// wasAbsent notes since when no controller had watched a pipeline; zero is that one had.
func (c *Controller) wasAbsent(name string, since time.Time) {
	if had := c.absent[name]; !since.IsZero() && (had.IsZero() || since.Before(had)) {
		c.absent[name] = since
	}
}

// returned is the event that records since when no controller had watched the pipeline, if a time was
// running then.
func (c *Controller) returned(name string, s *promotion.State, o promotion.Observed) []deploylog.Event {
	since := c.absent[name]
	if since.IsZero() {
		return nil
	}
	concerns, unknown := s.Concerns(o, since)
	switch {
	case concerns:
		return s.Watched(since)
	case !unknown:
		delete(c.absent, name)
	}
	return nil
}

// watches is the event that records that the pipeline is watched, if it is time for one, and when the next
// is due.
func (c *Controller) watches(s *promotion.State, o promotion.Observed, now time.Time) (events []deploylog.Event, next time.Time) {
	if next = s.WatchedAgain(o, now); next.IsZero() || next.After(now) {
		return nil, next
	}
	return s.Watched(time.Time{}), time.Time{}
}
