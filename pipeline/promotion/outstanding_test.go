package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/window"
)

// However often a promotion fails, it is tried again within an hour.
func TestAPromotionThatFailsForeverIsTriedAgainWithinAnHour(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.runs("a", "2")
	w.runs("b", "1")
	for try := range 30 {
		s := w.only("b", "2")
		require.Equal(t, try+1, s.Attempt, "it is try")
		w.done(s, errRefused)
		w.nothing("b", promotion.AwaitsRetry)
		if wake := w.state.Wake(w.seen, w.now); try > 10 && !wake.Equal(w.now.Add(time.Hour)) {
			t.Fatalf("after try %d it waits until %s", s.Attempt, wake)
		}
		w.now = w.now.Add(time.Hour)
	}
	started := 0
	for _, e := range w.log {
		if e.Name == promotion.StageStarted || e.Name == promotion.StageFailed {
			started++
		}
	}
	assert.Equal(t, 60, started, "of 30 tries the log")
}

// What failed and waits to be tried again is closed, too, when a newer revision is current: also
// where that has not come to its stage yet.
func TestANewRevisionClosesWhatWaitsToBeTriedAgain(t *testing.T) {
	w := newWorld(t, 3, usual)
	w.runs("ab", "2")
	w.runs("c", "1")
	w.done(w.only("c", "2"), errRefused)
	w.runs("a", "3")
	w.done(w.only("b", "3"), nil)
	if p := w.state.Promotions()[0]; p.Stage != "c" || p.Status != promotion.Superseded || p.SupersededBy != "3" {
		t.Errorf("the former one is %+v", p)
	}
	w.now = w.now.Add(time.Hour)
	w.nothing("c", promotion.AwaitsStage)
}

// Somebody deploys something else to the environment while it is being promoted to.
func TestADeploymentThatComesBeforeItsEndFailsTheTry(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.runs("a", "2")
	w.runs("b", "1")
	s := w.only("b", "2")
	w.done(s, nil)
	w.runs("b", "hotfix")
	other := w.seen["env/b"].Active.ID
	w.nothing("b", promotion.AwaitsRetry)
	if p := w.state.Promotions()[0]; p.Status != promotion.Failed || p.Cause != "deployment "+other+" of environment env/b came before "+p.Deployment+" had finished" {
		t.Errorf("the try is %+v", p)
	}
}

// A rollback from before the pipeline is nothing that its promotions have to respect.
func TestARollbackFromBeforeThePipelineHoldsNothing(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.command(promotion.Delete{ID: "delete"})
	back := w.tick()
	w.command(promotion.Define{ID: "again", Definition: &definition.Definition{
		Name: "shop", Promotion: usual, Stages: []definition.Stage{{Name: "a", Environment: "env/a"}, {Name: "b", Environment: "env/b"}},
	}})
	w.runs("b", "1")
	o := w.seen["env/b"]
	o.RolledBack = promotion.Rollback{Event: back, By: "ann"}
	w.see("b", o)
	w.runs("a", "2")
	w.only("b", "2")
}

// In a freeze nothing comes to a stage, whatever its windows say, and explain says why.
func TestNothingIsPromotedInAFreeze(t *testing.T) {
	w := newWorld(t, 2, usual, func(d *definition.Definition) {
		d.Stages[1].Calendar = &window.Calendar{
			Windows: []window.Window{{From: "00:00", To: "24:00", Zone: "UTC"}},
			Freezes: []window.Freeze{{From: "2026-11-20", To: "2026-11-24", Zone: "Europe/Berlin", Reason: "inventory"}},
		}
	})
	w.runs("a", "2")
	w.runs("b", "1")
	w.nothing("b", promotion.AwaitsFreeze)
	assert.Contains(t, w.explain("b").Message, "inventory")
	ends := time.Date(2026, 11, 23, 23, 0, 0, 0, time.UTC) // midnight in Berlin
	assert.WithinDuration(t, ends, w.state.Wake(w.seen, w.now), 0)
	w.now = ends
	w.only("b", "2")
}

// With the policy concurrent the first stage settles, too, and each of the others waits for the one
// before it, whatever the others are like.
func TestPairsWaitForTheStageBefore(t *testing.T) {
	w := newWorld(t, 4, definition.Promotion{Policy: definition.Concurrent, RetryAfter: dur(time.Second), SettleFor: dur(time.Minute)})
	w.runs("bc", "2")
	w.runs("d", "1")
	w.runs("a", "3")
	w.see("b", promotion.Observation{Health: promotion.Partly, Revision: "2", Runs: []string{"2"}, Why: "h7 is not healthy", Event: w.tick()})
	s := w.only("d", "2")
	w.done(s, nil)
	w.nothing("b", promotion.AwaitsStage)
	for stage, before := range map[string]string{"b": "stage a", "c": "stage b"} {
		if why := w.explain(stage); why.Code != promotion.AwaitsStage || !strings.Contains(why.Message, before) {
			t.Errorf("stage %s is %s: %s", stage, why.Code, why.Message)
		}
	}
	w.now = w.now.Add(time.Minute)
	w.only("b", "3")
}
