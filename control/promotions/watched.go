package promotions

import (
	"context"
	"fmt"
	"maps"
	"slices"
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
	if next = s.WatchedAgain(o, c.since[s.Name()], now); next.IsZero() || next.After(now) {
		return nil, next
	}
	return s.Watched(time.Time{}), time.Time{}
}

// leaves notes that a pipeline is released because the controller ends, with what its stages run: other
// controllers let go of them, too.
func (c *Controller) leaves(name string) {
	if s := c.promotions.States[name]; c.Drain.Started() && c.Now().Sub(c.ticked) <= unwatched.Grace {
		c.left[name], _ = c.observe(s)
	}
}

// recordLeft records that pipelines were watched until the controller ended, if a time is running. Without
// that, up to a tenth of its stay is lost.
func (c *Controller) recordLeft(ctx context.Context) {
	if len(c.left) == 0 {
		return
	}
	err := c.promotions.Hold(ctx, func() error {
		var events []deploylog.Event
		for _, name := range slices.Sorted(maps.Keys(c.left)) {
			events = append(events, c.promotions.States[name].WatchedUntil(c.left[name], c.Now())...)
		}
		if len(events) == 0 {
			return nil
		}
		_, err := c.promotions.Append(ctx, events)
		return err
	})
	if err != nil && ctx.Err() == nil {
		c.Observer.Notice(fmt.Sprintf("cannot record until when the pipelines were watched, so a soak may take a little longer: %v", err))
	}
}
