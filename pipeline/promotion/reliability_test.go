package promotion_test

import (
	"slices"
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

func TestAPromotionThatWasMissedWhileTheControllerWasDownIsMadeUpFor(t *testing.T) {
	w := newWorld(t, 3, usual)
	w.runs("abc", "1")
	w.decide()
	w.runs("a", "2") // while nobody is at work
	w.runs("a", "3")
	w.again()
	w.only("b", "3")
}

func TestAPromotionThatFailsIsTriedAgainAfterAPauseThatTheLogTells(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.runs("a", "2")
	w.runs("b", "1")
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

func TestAPromotionSucceedsOnce(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.runs("ab", "1")
	w.runs("a", "2")
	w.done(w.only("b", "2"), nil)
	w.runs("b", "2")
	w.decide()
	w.runs("b", "1") // somebody deploys the former one, not as a rollback
	w.nothing("b", promotion.WasPromoted)
	w.again()
	w.nothing("b", promotion.WasPromoted)
	w.runs("a", "3")
	w.runs("a", "2") // it came anew, which is another occasion
	w.only("b", "2")
}

func TestWhatCannotBeObservedBlocksAndNeverCountsAsHealthy(t *testing.T) {
	w := newWorld(t, 3, usual)
	w.runs("ac", "2")
	w.nothing("b", promotion.Unobserved)
	w.see("b", promotion.Observation{Health: promotion.Unknown, Why: "its host does not answer", Revision: "1"})
	w.nothing("b", promotion.Unobserved)
	w.see("a", promotion.Observation{Health: promotion.Unknown, Revision: "2", Runs: []string{"2"}})
	w.runs("b", "1")
	w.nothing("a", promotion.Unobserved)
	w.nothing("b", promotion.AwaitsStage)
}

func TestAnUnhealthyStageThatRunsTheRevisionEndsTheSearch(t *testing.T) {
	w := newWorld(t, 3, usual)
	w.runs("ac", "2")
	w.see("b", promotion.Observation{Health: promotion.Partly, Revision: "2", Runs: []string{"1", "2"}, Why: "h7 is not healthy"})
	w.nothing("b", promotion.Arriving)
	w.nothing("c", promotion.AwaitsStage)
}

func TestANewRevisionInterruptsTheRunAndClosesWhatIsOutstanding(t *testing.T) {
	w := newWorld(t, 3, usual)
	w.runs("bc", "1")
	w.runs("a", "2")
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

func TestATryThatWasRecordedBeforeItsProcessDiedIsResumed(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.runs("b", "1")
	w.runs("a", "2")
	s := w.only("b", "2")
	w.again()
	resumed := w.only("b", "2")
	if len(resumed.Events) > 0 || resumed.ID != s.ID || resumed.Attempt != s.Attempt {
		t.Errorf("it is another try: %+v", resumed)
	}
	w.done(resumed, nil)
	assert.Empty(t, w.decide(), "it is deployed again")
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
			w := newWorld(t, 2, usual, func(d *definition.Definition) {
				d.Stages[1].Calendar = &window.Calendar{Windows: []window.Window{{From: "09:00", To: "11:00", Zone: "UTC"}}}
			})
			w.runs("a", "2")
			w.runs("b", "1")
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
	w := newWorld(t, 2, usual)
	w.runs("a", "2")
	w.runs("b", "1")
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
	d := *w.state.Definition()
	d.Stages = slices.Clone(d.Stages)
	d.Stages[stage].Environment = environment
	w.command(promotion.Define{Definition: &d})
}

func TestWhatWasPromotedToAnEnvironmentStillComesToAnother(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.runs("a", "2")
	w.runs("b", "1")
	w.settle(false)
	w.runs("b", "2")
	w.decide()
	w.moves(1, "env/new")
	w.see("new", promotion.Observation{Health: promotion.Partly, Why: "nothing is deployed", Event: w.tick()})
	w.again()
	assert.Equal(t, "env/new", w.only("b", "2").Environment, "it comes to")
}

func TestAnApprovalIsOfTheEnvironmentThatTheStageHad(t *testing.T) {
	w := newWorld(t, 2, usual, func(d *definition.Definition) { d.Stages[1].Manual = true })
	w.runs("a", "2")
	w.runs("b", "1")
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

func TestADeploymentThatIsStuckFailsTheTry(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.runs("a", "2")
	w.runs("b", "1")
	s := w.only("b", "2")
	w.done(s, nil)
	w.nothing("b", promotion.Promoting)
	w.see("b", promotion.Observation{Health: promotion.Partly, Revision: "2", Event: w.tick(), Why: "stuck", Active: promotion.Deployment{ID: s.ID + "/1", Revision: "2", Status: promotion.Stuck, Cause: "no room"}})
	w.nothing("b", promotion.AwaitsRetry)
	assert.Equal(t, "deployment "+s.ID+"/1 of environment env/b is stuck: no room", w.state.Promotions()[0].Cause)
}

func TestTheFirstStageSettlesBeforeARevisionGoesOn(t *testing.T) {
	p := usual
	p.SettleFor = dur(time.Minute)
	w := newWorld(t, 2, p)
	w.runs("b", "1")
	for _, revision := range []string{"2", "3", "4"} { // many merges
		w.runs("a", revision)
		w.nothing("a", promotion.Settling)
		w.now = w.now.Add(59 * time.Second)
		w.nothing("b", promotion.AwaitsStage)
	}
	w.now = w.now.Add(time.Second)
	w.only("b", "4")
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
	w := newWorld(t, 3, usual, func(d *definition.Definition) { d.Stages[1].Manual, d.Stages[2].Manual = true, true })
	w.runs("bc", "1")
	w.runs("a", "2")
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
	w := newWorld(t, 2, usual, func(d *definition.Definition) {
		d.Stages[1].Calendar = &window.Calendar{Windows: []window.Window{{From: "12:00", To: "13:00", Zone: "UTC"}}}
	})
	w.runs("a", "2")
	w.runs("b", "1")
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

func TestAStoppedLineAndAHeldStageGetNothing(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.runs("a", "2")
	w.runs("b", "1")
	w.command(promotion.StopLine{By: "ann"})
	w.command(promotion.HoldStage{Stage: "b", By: "ann"})
	w.nothing("b", promotion.IsStopped)
	w.command(promotion.ResumeLine{})
	w.nothing("b", promotion.IsHeld)
	w.again()
	w.nothing("b", promotion.IsHeld)
	w.command(promotion.ReleaseHold{Stage: "b"})
	w.only("b", "2")
}

// With the policy concurrent each pair is looked at by itself. A promotion that is under way
// is let finish; one that only waits gives way to a newer revision.
func TestEachPairIsPromotedByItself(t *testing.T) {
	w := newWorld(t, 3, definition.Promotion{Policy: definition.Concurrent, RetryAfter: dur(10 * time.Second)})
	w.runs("a", "3")
	w.runs("b", "2")
	w.runs("c", "1")
	steps := w.decide()
	if len(steps) != 2 || steps[0].Revision != "3" || steps[1].Revision != "2" {
		t.Fatalf("not both pairs are promoted: %+v", steps)
	}
	w.done(steps[0], nil)
	w.done(steps[1], nil)
	w.runs("a", "4")
	w.see("b", promotion.Observation{Health: promotion.Partly, Revision: "3", Runs: []string{"2", "3"}, Event: w.tick(), Active: promotion.Deployment{ID: steps[0].ID + "/1", Revision: "3", Status: promotion.Deploying}})
	w.nothing("b", promotion.AwaitsPromotion)
	w.runs("b", "3")
	s := w.only("b", "4")
	w.done(s, errRefused)
	w.runs("a", "5")
	assert.NotEqual(t, s.ID, w.only("b", "5").ID, "what waited to be tried again does not give way")
}

func TestHistoryIsNeverRefused(t *testing.T) {
	w := newWorld(t, 2, usual)
	w.runs("a", "2")
	w.runs("b", "1")
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
