package promotion_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// verified has some stages verified by smoke.yaml.
func verified(stages ...int) func(*definition.Definition) {
	return func(d *definition.Definition) {
		for _, i := range stages {
			d.Stages[i].Verify, d.Stages[i].VerifyFiles = "smoke.yaml", map[string]string{"smoke.yaml": "1"}
		}
	}
}

// verifies is the one thing that is to be done: a stage is verified.
func (w *world) verifies(stage, revision string) promotion.Step {
	w.Helper()
	s := w.only(stage, revision)
	if !s.Verifies {
		w.Fatalf("it is to be promoted, not verified: %+v", s)
	}
	return s
}

func (w *world) result(s promotion.Step, err error) { w.record(w.state.Verified(s, err)...) }

func (w *world) names() (names []string) {
	for _, e := range w.log {
		names = append(names, e.Name)
	}
	return names
}

func TestARevisionGoesOnWhenItsStageIsVerified(t *testing.T) {
	for name, dies := range map[string]bool{"by one process": false, "by one that dies after each event": true} {
		t.Run(name, func(t *testing.T) { goesOnWhenVerified(t, dies) })
	}
}

func goesOnWhenVerified(t *testing.T, dies bool) {
	w := comingTo(t, "bc", verified(0, 1, 2))
	w.dies = dies
	first := w.verifies("a", "2")
	assert.Equal(t, promotion.AwaitsVerified, w.explain("b").Code)
	w.result(first, nil)
	w.done(w.only("b", "2"), nil)
	w.runs("b", "2")
	s := w.verifies("b", "2")
	w.result(s, errRefused)
	w.nothing("c", promotion.AwaitsVerified)
	if why := w.explain("b"); why.Code != promotion.Verifies || !why.Blocking() {
		t.Errorf("b: %+v", why)
	}
	w.again() // another process waits as long
	w.now = w.now.Add(9 * time.Second)
	w.nothing("c", promotion.AwaitsVerified)
	assert.WithinDuration(t, w.now.Add(time.Second), w.state.Wake(w.seen, w.now), 0)
	w.now = w.now.Add(time.Second)
	if s = w.verifies("b", "2"); s.Attempt != 2 {
		t.Errorf("it is try %d", s.Attempt)
	}
	w.result(s, nil)
	w.done(w.only("c", "2"), nil)
	w.runs("c", "2")
	last := w.verifies("c", "2")
	assert.NotContains(t, w.names(), promotion.RunFinished, "the run has finished before its last stage is verified")
	w.result(last, nil)
	require.Empty(t, w.decide())
	assert.Contains(t, w.names(), promotion.RunFinished, "the run has not finished")
}

func TestATryToVerifyWhoseProcessDiedIsMadeAgain(t *testing.T) {
	w := coming(t, verified(0))
	s := w.verifies("a", "2")
	w.again()
	resumed := w.verifies("a", "2")
	if len(resumed.Events) > 0 || resumed.ID != s.ID || resumed.Attempt != 1 {
		t.Errorf("it is another try: %+v", resumed)
	}
	w.result(resumed, nil)
	w.again()
	if steps := w.decide(); len(steps) != 1 || steps[0].Stage != "b" || w.state.Verified(s, nil) != nil {
		t.Errorf("it is recorded twice, or not at all: %+v", steps)
	}
}

func TestWhatRunsThereByAnotherDeploymentIsVerifiedAnew(t *testing.T) {
	w := coming(t, verified(0))
	old := w.verifies("a", "2")
	o := w.seen["env/a"]
	o.Active.ID = "env/a@other"
	w.see("a", o)
	next := w.verifies("a", "2")
	if next.ID == old.ID || w.state.Verifies(old) || w.state.Verified(old, nil) != nil {
		t.Errorf("the former one still counts: %+v", next)
	}
	assert.Contains(t, w.names(), promotion.VerifyEnded, "the former one has not ended")
	w.result(next, nil)
	w.only("b", "2")
}

func TestAnotherManifestVerifiesAnew(t *testing.T) {
	w := coming(t, verified(0))
	w.result(w.verifies("a", "2"), nil)
	w.redefines(func(d *definition.Definition) { d.Stages[0].VerifyFiles = map[string]string{"smoke.yaml": "2"} })
	w.verifies("a", "2")
}

func TestWhatIsNotWholeIsNotVerified(t *testing.T) {
	w := newWorld(t, 3, usual, verified(1))
	w.runs("ac", "2")
	w.see("b", promotion.Observation{Health: promotion.Partly, Revision: "2", Runs: []string{"2"}})
	w.nothing("b", promotion.Arriving)
	w.see("b", promotion.Observation{Health: promotion.Unknown, Revision: "2", Why: "it does not answer"})
	w.nothing("b", promotion.Unobserved)
}

func TestEachStageByItselfIsVerifiedForWhatItRuns(t *testing.T) {
	soaked := func(d *definition.Definition) { d.Stages[1].KeepUntil = definition.UntilSoaked }
	w := newWorld(t, 3, definition.Promotion{Policy: definition.Concurrent, RetryAfter: dur(time.Second)}, verified(1), soaked)
	w.runs("a", "3")
	w.runs("b", "2")
	w.runs("c", "1")
	steps := w.decide()
	if len(steps) != 2 || steps[0].Verifies || steps[0].Stage != "b" || !steps[1].Verifies || steps[1].Revision != "2" {
		t.Fatalf("it does: %+v", steps)
	}
}

func TestHistoryOfVerificationsIsNeverRefused(t *testing.T) {
	w := newWorld(t, 2, usual, verified(0))
	for i, name := range []string{promotion.Verified, promotion.VerifyFailed, promotion.VerifyEnded} {
		w.record(deploylog.Event{Deployment: "x", Target: promotion.StageTarget("shop", "a"), Revision: "2", Name: name, Attempt: i + 1})
		w.record(deploylog.Event{Deployment: "x", Target: promotion.StageTarget("shop", "gone"), Revision: "2", Name: promotion.Verifying, Attempt: i + 1})
	}
	w.runs("b", "1")
	w.runs("a", "2")
	w.verifies("a", "2")
}

// Its work finds out before it begins that something else is deployed, which nobody has observed.
func TestATryThatIsOfNoUseIsNoFailure(t *testing.T) {
	w := coming(t, verified(0))
	w.result(w.verifies("a", "2"), fmt.Errorf("verifying: %w", promotion.ErrUnwanted))
	w.nothing("b", promotion.AwaitsVerified)
	if names := w.names(); slices.Contains(names, promotion.VerifyFailed) || names[len(names)-1] != promotion.VerifyEnded {
		t.Errorf("it recorded %q", names)
	}
	assert.NotContains(t, w.explain("b").Message, "could not")
	assert.False(t, w.state.Idle(w.seen, w.now), "it is idle, and nothing is verified")
	w.now = w.state.Wake(w.seen, w.now)
	assert.Equal(t, 2, w.verifies("a", "2").Attempt, "it is try")
}
