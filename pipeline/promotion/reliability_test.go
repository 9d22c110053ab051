package promotion_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/window"
)

var usual = definition.Promotion{Policy: definition.Single, RetryAfter: dur(10 * time.Second)}

// only is the one promotion that is to begin.
func (w *world) only(stage, revision string) promotion.Step {
	w.Helper()
	steps := w.decide()
	if len(steps) != 1 || steps[0].Stage != stage || steps[0].Revision != revision {
		w.Fatalf("not only revision %s is to be promoted to %s: %+v; %+v", revision, stage, steps, w.reasons())
	}
	return steps[0]
}

// nothing is promoted, because of what a stage waits for.
func (w *world) nothing(stage string, because promotion.Code) {
	w.Helper()
	if steps := w.decide(); len(steps) > 0 {
		w.Fatalf("promoted: %+v", steps)
	}
	if why := w.explain(stage); why.Code != because {
		w.Fatalf("stage %s is %s, not %s: %s", stage, why.Code, because, why.Message)
	}
}

func TestAPromotionThatFailsIsTriedAgainAfterAPauseThatTheLogTells(t *testing.T) {
	w := coming(t)
	w.done(w.only("b", "2"), errRefused)
	w.nothing("b", promotion.AwaitsRetry)
	w.now = w.now.Add(9 * time.Second)
	w.again() // another process counts from the same moment
	w.nothing("b", promotion.AwaitsRetry)
	assert.WithinDuration(t, w.now.Add(time.Second), w.state.Wake(w.seen, w.now), 0)
	w.now = w.now.Add(time.Second)
	s := w.only("b", "2")
	assert.Equal(t, 2, s.Attempt, "it is try")
	w.done(s, errRefused)
	w.now = w.now.Add(19 * time.Second)
	w.nothing("b", promotion.AwaitsRetry)
	w.now = w.now.Add(-time.Hour) // a clock that is set back keeps nothing waiting
	w.only("b", "2")
}

func TestANewRevisionInterruptsTheRunAndClosesWhatIsOutstanding(t *testing.T) {
	w := comingTo(t, "bc")
	old := w.only("b", "2")
	w.runs("a", "3") // before its deployment has begun
	next := w.only("b", "3")
	assert.NotEqual(t, old.ID, next.ID, "it is the same promotion")
	require.False(t, w.state.Wanted(old.ID, old.Attempt))
	assert.Nil(t, w.state.Completed(old, promotion.Begun{Deployment: "late"}, nil), "the former one is still wanted")
	if p := w.state.Promotions()[0]; p.Status != promotion.Superseded || p.SupersededBy != "3" {
		t.Errorf("the former one is %+v", p)
	}
	assert.Equal(t, "3", w.state.Runs()[0].SupersededBy, "the former run")
}

func TestATryWhoseProcessDiedDoesNotBeginWhereThatWasForbiddenSince(t *testing.T) {
	rolledBack := func(w *world) {
		o := w.seen["env/b"]
		o.RolledBack = promotion.Rollback{Event: w.tick(), By: "ann"}
		w.see("b", o)
	}
	for name, forbids := range map[promotion.Code]func(*world){
		promotion.IsStopped:    func(w *world) { w.command(promotion.StopLine{Reason: "orders are lost"}) },
		promotion.IsHeld:       func(w *world) { w.command(promotion.HoldStage{Stage: "b"}) },
		promotion.IsRolledBack: rolledBack,
		promotion.AwaitsWindow: func(w *world) { w.now = w.now.Add(2 * time.Hour) },
	} {
		t.Run(string(name), func(t *testing.T) {
			w := coming(t, func(d *definition.Definition) {
				d.Stages[1].Calendar = &window.Calendar{Windows: []window.Window{{From: "09:00", To: "11:00", Zone: "UTC"}}}
			})
			s := w.only("b", "2")
			w.again()
			forbids(w)
			w.nothing("b", name)
			if p := w.state.Promotions()[0]; p.Status != promotion.Failed || p.Cause == "" {
				t.Errorf("the try is %+v", p)
			}
			assert.False(t, w.state.Wanted(s.ID, s.Attempt), "the try is still wanted")
		})
	}
}

func TestATryWhoseProcessDiedAfterItDeployedIsNotFailed(t *testing.T) {
	w := coming(t)
	s := w.only("b", "2")
	w.again()
	w.command(promotion.StopLine{})
	unseen := w.seen
	w.seen = promotion.Observed{"env/a": unseen["env/a"]}
	w.nothing("b", promotion.Unobserved) // nothing is said of it before its environment is observed
	assert.True(t, w.state.Wanted(s.ID, s.Attempt), "the try ended unseen")
	w.seen = unseen
	o := w.seen["env/b"]
	o.Begun = map[string]promotion.Begun{s.Key(): {Deployment: "env/b@7", Event: o.Event}}
	w.see("b", o)
	w.decide()
	assert.Equal(t, "env/b@7", w.state.Promotions()[0].Deployment, "what it began is not found")
}

// moves has a stage promote to another environment.
func (w *world) moves(stage int, environment string) {
	w.redefines(func(d *definition.Definition) { d.Stages[stage].Environment = environment })
}

func TestWhatWasPromotedToAnEnvironmentStillComesToAnother(t *testing.T) {
	w := coming(t)
	w.settle(false)
	w.runs("b", "2")
	w.decide()
	w.moves(1, "env/new")
	w.see("new", promotion.Observation{Health: promotion.Partly, Why: "nothing is deployed", Event: w.tick()})
	w.again()
	assert.Equal(t, "env/new", w.only("b", "2").Environment, "it comes to")
}

func TestAnApprovalIsOfTheEnvironmentThatTheStageHad(t *testing.T) {
	w := coming(t, func(d *definition.Definition) { d.Stages[1].Manual = true })
	w.decide()
	w.command(promotion.HoldStage{Stage: "b"})
	w.command(promotion.Approve{Stage: "b", Revision: "2", By: "ann"})
	w.moves(1, "env/new")
	w.command(promotion.ReleaseHold{Stage: "b"})
	w.see("new", promotion.Observation{Health: promotion.Partly, Event: w.tick()})
	w.nothing("b", promotion.AwaitsApproval)
	w.moves(1, "env/b") // nor does it come back with that
	w.nothing("b", promotion.AwaitsApproval)
	w.command(promotion.Approve{Stage: "b", Revision: "2", By: "ann"})
	w.only("b", "2")
}

func TestADeploymentThatComesToNothingFailsTheTry(t *testing.T) {
	for name, since := range map[string]func(w *world, began string) (cause string){
		"it is stuck": func(w *world, began string) string {
			w.see("b", promotion.Observation{Health: promotion.Partly, Revision: "2", Event: w.tick(), Why: "stuck", Active: promotion.Deployment{ID: began, Revision: "2", Status: promotion.Stuck, Cause: "no room"}})
			return "deployment " + began + " of environment env/b is stuck: no room"
		},
		"somebody deploys something else meanwhile": func(w *world, began string) string {
			w.runs("b", "hotfix")
			return "deployment " + w.seen["env/b"].Active.ID + " of environment env/b came before " + began + " had finished"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := coming(t)
			s := w.only("b", "2")
			w.done(s, nil)
			w.nothing("b", promotion.Promoting)
			cause := since(w, s.ID+"/1")
			w.nothing("b", promotion.AwaitsRetry)
			p := w.state.Promotions()[0]
			assert.Equal(t, promotion.Failed, p.Status)
			assert.Equal(t, cause, p.Cause)
		})
	}
}

func TestARevisionSoaksBeforeItLeavesAStage(t *testing.T) {
	w := newWorld(t, 3, usual, func(d *definition.Definition) { d.Stages[1].Soak = dur(10 * time.Minute) })
	w.runs("ab", "2")
	w.runs("c", "1")
	w.now = w.now.Add(10*time.Minute - time.Second)
	w.nothing("c", promotion.AwaitsSoak)
	w.now = w.now.Add(time.Second)
	w.only("c", "2")
}

func TestAnApprovalIsOfOneStageAndRevision(t *testing.T) {
	w := comingTo(t, "bc", func(d *definition.Definition) { d.Stages[1].Manual, d.Stages[2].Manual = true, true })
	w.nothing("b", promotion.AwaitsApproval)
	for _, c := range []promotion.Approve{{Stage: "b", Revision: "3"}, {Stage: "c", Revision: "2"}, {Stage: "a", Revision: "2"}, {Stage: "x", Revision: "2"}} {
		if _, err := w.state.Propose(c, w.seen, w.now); err == nil {
			t.Errorf("%+v is not refused", c)
		}
	}
	w.command(promotion.Approve{Stage: "b", Revision: "2", By: "ann"})
	w.runs("a", "3") // the approval is not of this one
	w.nothing("b", promotion.AwaitsApproval)
	w.runs("a", "2") // nor of this one as it came later
	w.nothing("b", promotion.AwaitsApproval)
	w.command(promotion.Approve{Stage: "b", Revision: "2", By: "ann"})
	w.again()
	w.only("b", "2")
}

func TestNothingIsPromotedOutsideOfAWindow(t *testing.T) {
	w := coming(t, func(d *definition.Definition) {
		d.Stages[1].Calendar = &window.Calendar{Windows: []window.Window{{From: "12:00", To: "13:00", Zone: "UTC"}}}
	})
	w.nothing("b", promotion.AwaitsWindow)
	assert.True(t, w.state.Idle(w.seen, w.now), "a window is waited for")
	w.now = w.now.Add(2 * time.Hour)
	w.only("b", "2")
}

func TestARollbackByHandHoldsUntilItIsReleased(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.runs("ab", "2")
	w.decide()
	w.runs("b", "1")
	back := w.seen["env/b"]
	back.RolledBack = promotion.Rollback{Event: back.Came, By: "ann", Reason: "slow"}
	w.see("b", back)
	w.nothing("b", promotion.IsRolledBack)
	w.runs("a", "3")
	w.nothing("b", promotion.IsRolledBack)
	w.command(promotion.ReleaseHold{Stage: "b"})
	w.only("b", "3")
}

// Who is told of what is held is told of each rollback that holds, and of none twice.
func TestARollbackThatHoldsIsInTheLogOnce(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.dies = true
	w.runs("ab", "2")
	w.decide()
	said := func() (n int) {
		for _, e := range w.log {
			if e.Name == promotion.RolledBackHolds {
				n++
			}
		}
		return n
	}
	for round, stage := range []string{"a", "b", "b"} {
		w.runs(stage, "1")
		back := w.seen["env/"+stage]
		back.RolledBack = promotion.Rollback{Event: back.Came, By: "ann", Reason: "slow"}
		w.see(stage, back)
		w.decide()
		w.decide()
		if got := said(); got != round { // nothing is promoted to the first stage
			t.Fatalf("after rollback %d of stage %s: said %d times", round, stage, got)
		}
		w.runs("a", "2")
	}
	last := w.log[len(w.log)-1]
	for _, e := range w.log {
		if e.Name == promotion.RolledBackHolds {
			last = e
		}
	}
	if p := promotion.PayloadOf(last); last.Target != "stage/shop/b" || p.By != "ann" || p.Reason != "slow" || p.Cause != "environment env/b was rolled back by ann: slow" {
		t.Errorf("%+v: %s", last, last.Data)
	}
	w.command(promotion.ReleaseHold{Stage: "b"})
	before := said()
	w.decide()
	assert.Equal(t, before, said(), "what is released is said to hold")
}

func TestHistoryIsNeverRefused(t *testing.T) {
	w := coming(t)
	w.done(w.only("b", "2"), nil)
	for _, e := range w.log {
		for _, s := range []*promotion.State{promotion.New("shop"), promotion.New("other"), w.state} {
			e.Data = nil
			s.Apply(e)
			e.Data = []byte(`{"definition":{"stages":1}}`)
			s.Apply(e)
			s.Report(w.seen, w.now)
			s.Idle(nil, w.now)
		}
	}
}

// However often a promotion fails, it is tried again within an hour.
func TestAPromotionThatFailsForeverIsTriedAgainWithinAnHour(t *testing.T) {
	w := coming(t)
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
	w := coming(t, func(d *definition.Definition) {
		d.Stages[1].Calendar = &window.Calendar{
			Windows: []window.Window{{From: "00:00", To: "24:00", Zone: "UTC"}},
			Freezes: []window.Freeze{{From: "2026-11-20", To: "2026-11-24", Zone: "Europe/Berlin", Reason: "inventory"}},
		}
	})
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
			w := coming(t)
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

// A promotion whose environment is deleted meanwhile has failed, and keeps nobody from deleting
// the pipeline.
func TestAPromotionToWhatIsDeletedFails(t *testing.T) {
	for _, change := range []func(*definition.Definition){func(*definition.Definition) {}, asks} { // a webhook
		w := coming(t, change)
		if s := w.only("b", "2"); w.state.Definition().Stages[1].Webhook != nil {
			w.answered(s)
		} else {
			w.done(s, nil)
		}
		w.see("b", promotion.Observation{Health: promotion.Unknown, Why: "it was deleted", Deleted: true, Event: w.tick()})
		w.decide()
		last := w.log[len(w.log)-1]
		assert.Equal(t, promotion.StageFailed, last.Name)
		assert.Equal(t, "environment env/b was deleted", promotion.PayloadOf(last).Cause)
		w.command(promotion.Delete{ID: "delete"})
	}
}

// Who renames a stage that is held is told that the hold would end with that.
func TestADefinitionDoesNotDropAHold(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.command(promotion.HoldStage{Stage: "b", ID: "hold"})
	renamed := *w.state.Definition()
	renamed.Stages = slices.Clone(renamed.Stages)
	renamed.Stages[1].Name = "prod"
	w.refused(promotion.Define{Definition: &renamed, ID: "rename"}, promotion.DropsHold, "")
	w.command(promotion.ReleaseHold{Stage: "b", ID: "release"})
	w.command(promotion.Define{Definition: &renamed, ID: "rename"})
}

// Revisions that come faster than a stage proves them still get beyond it.
func TestAStageKeepsARevisionUntilItIsProven(t *testing.T) {
	const soak = 10 * time.Minute
	start := func(t *testing.T, keep definition.KeepUntil, change ...func(*definition.Definition)) *world {
		p := definition.Promotion{Policy: definition.Concurrent, RetryAfter: dur(time.Second)}
		w := newWorld(t, 3, p, append(change, func(d *definition.Definition) { d.Stages[1].Soak, d.Stages[1].KeepUntil = dur(soak), keep })...)
		w.runs("c", "1")
		w.runs("ab", "2")
		w.runs("a", "3")
		return w
	}
	for _, keep := range []definition.KeepUntil{"", definition.UntilSoaked, definition.UntilVerified, definition.UntilPromoted} {
		t.Run("soaked/"+string(keep), func(t *testing.T) {
			w := start(t, keep)
			w.nothing("b", promotion.AwaitsProof)
			assert.Equal(t, "revision 3 waits: the stage keeps revision 2 until that has soaked", w.explain("b").Message)
			assert.Equal(t, w.now.Add(soak), w.state.Wake(w.seen, w.now))
			assert.False(t, w.state.Idle(w.seen, w.now))
			w.runs("a", "4") // the newest wins
			w.now = w.now.Add(soak)
			begun := map[string]string{}
			for _, s := range w.decide() {
				begun[s.Stage] = s.Revision
			}
			want := map[string]string{"b": "4", "c": "2"}
			if keep == definition.UntilPromoted {
				delete(want, "b")
			}
			assert.Equal(t, want, begun)
		})
	}
	t.Run("promoted", func(t *testing.T) {
		w := start(t, definition.UntilPromoted)
		w.now = w.now.Add(soak)
		w.only("c", "2")
		assert.Equal(t, "revision 3 waits: the stage keeps revision 2 until that runs in stage c", w.explain("b").Message)
		w.runs("c", "2")
		assert.Equal(t, promotion.Ready, w.explain("b").Code)
	})
	t.Run("verified", func(t *testing.T) {
		w := start(t, definition.UntilVerified, func(d *definition.Definition) { d.Stages[1].Verify = "smoke.yaml" })
		w.now = w.now.Add(soak)
		step := w.verifies("b", "2")
		assert.Equal(t, "revision 3 waits: the stage keeps revision 2 until that is verified", w.explain("b").Message)
		w.result(step, errRefused) // a newer revision may be the remedy
		w.only("b", "3")
	})
	t.Run("rejected", func(t *testing.T) {
		w := start(t, "", func(d *definition.Definition) { d.Stages[2].Manual = true })
		w.command(promotion.Reject{Stage: "c", Revision: "2", By: "ann"})
		w.only("b", "3")
	})
	t.Run("not well", func(t *testing.T) {
		w := start(t, "")
		o := w.seen["env/b"]
		o.Health, o.Runs = promotion.Partly, []string{"2"}
		w.see("b", o)
		w.only("b", "3")
	})
	t.Run("the last stage", func(t *testing.T) {
		w := newWorld(t, 2, definition.Promotion{Policy: definition.Concurrent}, func(d *definition.Definition) { d.Stages[1].Soak = dur(soak) })
		w.runs("ab", "2")
		w.runs("a", "3")
		w.only("b", "3")
	})
}
