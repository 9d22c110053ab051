package promotions

import (
	"fmt"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/pipeline/promotion"
)

// observed is an environment, as those see it for whom a variable has the revision.
type observed struct{ environment, variable string }

// observation is what was seen, until the environment changes.
type observation struct {
	promotion.Observation
	watched bool // it is noticed when it changes
	changed bool
	at      time.Time     // when it was observed
	took    time.Duration // to observe it
}

// observe is what the environments of a pipeline run. One that costs much is not looked at
// again after every event of it. Of one that no pipeline here uses no change is noticed, as
// of those of a pipeline that another process controls, so it is looked at again each time.
// again is when there is more to see, zero where this is all.
func (c *Controller) observe(s *promotion.State) (all promotion.Observed, again time.Time) {
	const part, most, little = 20, time.Second, 100 * time.Microsecond
	all = promotion.Observed{}
	variable := c.variableOf(s)
	for _, e := range s.Environments() {
		of := observed{e, variable}
		o, known := c.seen[of]
		pause := min(part*o.took, most)
		if age := c.Now().Sub(o.at); !known || !o.watched || o.changed && (age < 0 || age >= pause) {
			started, before, took := time.Now(), o.Observation, o.took
			o = observation{Observation: observeNow(c.followed, e, variable), watched: len(c.users[e]) > 0, at: c.Now()}
			// It takes long at once also where the machine is busy with something else.
			o.took = min(time.Since(started), 2*max(took, little))
			if o.Since.Equal(before.Since) {
				o.Ahead = before.Ahead
			}
			c.seen[of] = o
		}
		if now := c.Now(); o.Ahead.IsZero() && o.Since.After(now) {
			o.Ahead = now
			c.seen[of] = o
		}
		if o.changed {
			again = reconcile.Earlier(again, o.at.Add(pause))
		}
		seen := o.Observation
		switch {
		case c.broken != nil:
			seen = promotion.Observation{Health: promotion.Unknown, Why: fmt.Sprintf("its events cannot be read: %v", c.broken)}
		case seen.Health == promotion.Unknown && seen.Event == 0: // there is none
			delete(c.seen, of)
		case !c.keeps(e):
			seen = unkept(seen)
		}
		all[e] = seen
	}
	c.observeSighted(s, all)
	return all, again
}

func (c *Controller) variableOf(s *promotion.State) string {
	if s.Definition() == nil {
		return ""
	}
	return s.Definition().Promotion.Variable
}
