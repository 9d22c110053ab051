package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// back sets the clock back while a stage runs what it ran; who observes it notes when it first
// saw that.
func (w *world) back(by time.Duration, stages ...string) {
	w.now = w.now.Add(-by)
	for _, stage := range stages {
		o := w.seen["env/"+stage]
		o.Ahead = w.now
		w.see(stage, o)
	}
}

func TestAClockThatIsSetBackBlocksForNoLongerThanASoak(t *testing.T) {
	settling := usual
	settling.SettleFor = dur(time.Minute)
	w := newWorld(t, 3, settling, func(d *definition.Definition) { d.Stages[1].Soak = dur(10 * time.Minute) })
	w.runs("bc", "1")
	w.runs("a", "2")
	w.back(24*time.Hour, "a")
	w.nothing("a", promotion.Settling)
	w.now = w.now.Add(time.Minute - time.Second)
	w.nothing("a", promotion.Settling)
	w.now = w.now.Add(time.Second)
	w.done(w.only("b", "2"), nil)
	w.runs("b", "2")
	w.back(24*time.Hour, "a", "b")
	w.now = w.now.Add(10*time.Minute - time.Second)
	w.nothing("c", promotion.AwaitsSoak)
	w.now = w.now.Add(time.Second)
	w.only("c", "2")
}

func TestWhoHasNotSeenTheClockSetBackSaysHowLongItTakesAtMost(t *testing.T) {
	settling := usual
	settling.SettleFor = dur(time.Minute)
	w := newWorld(t, 2, settling)
	w.runs("a", "2")
	w.now = w.now.Add(-time.Hour)
	if why := w.explain("a"); why.Code != promotion.Settling || !why.Until.Equal(w.now.Add(time.Minute)) {
		t.Errorf("it says %+v at %s", why, w.now)
	}
}

// What is recorded between a decision and its work is looked at again when the environment is
// to be deployed.
func TestWorkThatWasForbiddenSinceItWasDecidedIsNotDone(t *testing.T) {
	for name, c := range map[string]struct {
		since func(*world, *promotion.Observation)
		want  string
	}{
		"nothing":              {func(*world, *promotion.Observation) {}, ""},
		"the line was stopped": {func(w *world, _ *promotion.Observation) { w.command(promotion.StopLine{By: "ann"}) }, "the line is stopped by ann"},
		"the stage is held":    {func(w *world, _ *promotion.Observation) { w.command(promotion.HoldStage{Stage: "b"}) }, "held"},
		"it was rolled back": {func(w *world, o *promotion.Observation) {
			o.RolledBack = promotion.Rollback{Event: w.tick(), By: "ann"}
		}, "was rolled back by ann"},
		"the pipeline is gone": {func(w *world, _ *promotion.Observation) { w.command(promotion.Delete{Cancel: true}) }, "given up"},
		"another environment":  {func(w *world, _ *promotion.Observation) { w.moves(1, "env/x") }, "given up"},
		"a newer one is there": {func(w *world, _ *promotion.Observation) { w.runs("a", "3"); w.decide() }, "given up"},
		"the stage is released": {func(w *world, _ *promotion.Observation) {
			w.command(promotion.StopLine{})
			w.command(promotion.ResumeLine{})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, usual)
			w.runs("b", "1")
			w.runs("a", "2")
			s := w.only("b", "2")
			seen := w.seen["env/b"]
			c.since(w, &seen)
			switch err := w.state.Forbids(s, seen); {
			case c.want == "" && err != nil:
				t.Errorf("it is forbidden: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("it is allowed, or for another reason: %v", err)
			}
		})
	}
}
