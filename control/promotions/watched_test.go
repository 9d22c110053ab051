package promotions_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// A controller that was away for a weekend looks at what runs in a stage first, and goes on with the soak
// where it was seen last.
func TestAWeekendWithoutAControllerIsNoSoak(t *testing.T) {
	for name, test := range map[string]struct {
		before  time.Duration // the controller leaves
		broken  bool          // meanwhile the stage
		waits   time.Duration // so long after the return it still soaks
		goes    time.Duration // and then it has gone on; 0 is never
		records bool          // that none had watched
	}{
		"half a soak":                    {time.Hour, false, 58 * time.Minute, 15 * time.Minute, true},
		"at its very end":                {119 * time.Minute, false, 50 * time.Second, 15 * time.Minute, true},
		"at its very end, and it broke":  {119 * time.Minute, true, 3 * time.Hour, 0, true},
		"after its end, and it went on":  {121 * time.Minute, false, 0, time.Second, false},
		"right at its begin":             {time.Second, false, 118 * time.Minute, 15 * time.Minute, true},
		"half a soak, and it broke then": {time.Hour, true, 3 * time.Hour, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, single(), func(w *world) {
				w.define(single(), func(d *definition.Definition) { d.Stages[1].Soak = definition.Duration(2 * time.Hour) })
				p := w.promotes("1")
				reconciletest.Wait(test.before)
				p.die()
				if test.broken {
					w.set(func() { w.bad["staging 1"] = true })
				}
				reconciletest.Wait(60 * time.Hour)
				p = w.start()
				if test.waits > 0 {
					reconciletest.Wait(test.waits)
					assert.Zero(t, w.count(promotion.StageStarted, "prod", "1"), "it goes on too early")
				}
				if test.goes > 0 {
					reconciletest.Wait(test.goes)
					w.want("1", "1", "1")
				}
				p.end()
				if test.broken { // it may be seen before that
					return
				}
				absent := 0
				for _, e := range w.events() {
					if e.Name == promotion.PipelineWatched && !promotion.PayloadOf(e).Since.IsZero() {
						absent++
					}
				}
				assert.Equal(t, test.records, absent > 0, "it records %d absences", absent)
			})
		})
	}
}

// A controller that ends in order records until when it watched, so that its restart takes no time of a soak.
func TestAControllerThatEndsRecordsThatItWatched(t *testing.T) {
	for name, test := range map[string]struct {
		soak    time.Duration
		records bool
	}{
		"in a soak": {24 * time.Hour, true},
		"in none":   {0, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, single(), func(w *world) {
				w.define(single(), func(d *definition.Definition) { d.Stages[1].Soak = definition.Duration(test.soak) })
				p := w.promotes("1")
				reconciletest.Wait(105 * time.Minute)
				before := w.count(promotion.PipelineWatched, "", "")
				p.end()
				events := w.events()
				last := events[len(events)-1]
				assert.Equal(t, test.records, w.count(promotion.PipelineWatched, "", "") == before+1)
				assert.Equal(t, test.records, last.Name == promotion.PipelineWatched && time.Since(last.CreatedAt) < time.Minute, "the last is %s", last.Name)
				assert.Equal(t, test.records, before > 0, "it records that it watches")
			})
		})
	}
}

// A stage soaks, and is watched, while another one is busy for hours.
func TestASoakIsWatchedWhileAnotherStageIsBusy(t *testing.T) {
	inWorld(t, single(), func(w *world) {
		w.define(single(), verifiedBy("1"), func(d *definition.Definition) {
			d.Stages[0].VerifyTimeout, d.Stages[1].Soak = definition.Duration(24*time.Hour), definition.Duration(24*time.Hour)
		})
		p := w.promotes("1")
		w.set(func() {
			w.verifies = func(ctx context.Context, _ environment.Verification) error {
				<-ctx.Done()
				return ctx.Err()
			}
		})
		w.deploys("dev", "2")
		reconciletest.Wait(time.Hour)
		began, before := w.count(promotion.Verifying, "dev", "2"), w.count(promotion.PipelineWatched, "", "")
		reconciletest.Wait(3 * time.Hour)
		assert.Equal(t, 1, began, "the stage is busy")
		assert.Greater(t, w.count(promotion.PipelineWatched, "", ""), before+5)
		p.die()
	})
}
