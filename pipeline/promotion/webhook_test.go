package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// asks has the second stage ask a program.
func asks(d *definition.Definition) {
	d.Stages[1].Strategy = definition.WithWebhook
	d.Stages[1].Webhook = &definition.Webhook{URL: "https://ci.example/promote", KeyFile: "ci.key", Timeout: dur(30 * time.Minute)}
}

func (w *world) answered(s promotion.Step) {
	w.record(w.state.Completed(s, promotion.Begun{Answer: "202"}, nil)...)
}

func TestWhatAWebhookWasAskedIsJudgedByWhatIsObserved(t *testing.T) {
	w := newWorld(t, 3, usual, asks)
	w.dies = true
	w.runs("bc", "1")
	w.runs("a", "2")
	s := w.only("b", "2")
	if again := w.only("b", "2"); again.Key() != s.Key() || len(again.Events) > 0 {
		t.Errorf("who takes over asks for another try: %+v", again)
	}
	w.answered(s)
	w.nothing("b", promotion.Promoting)
	w.nothing("c", promotion.AwaitsStage)
	w.runs("b", "2")
	w.only("c", "2")
	if p := w.state.Promotions()[0]; p.Status != promotion.Finished || p.Answer != "202" {
		t.Errorf("the promotion is %+v", p)
	}
}

func TestAWebhookWhoseProcessDiedBeforeItsAnswerIsNotAskedAgainOnceItIsThere(t *testing.T) {
	w := newWorld(t, 2, usual, asks)
	w.runs("b", "1")
	w.runs("a", "2")
	w.only("b", "2")
	w.again()
	w.runs("b", "2")
	if steps := w.decide(); len(steps) > 0 || w.state.Promotions()[0].Status != promotion.Finished {
		t.Errorf("%+v, and %+v", steps, w.state.Promotions()[0])
	}
}

func TestAWebhookIsAskedAgainWhenNothingComesOfIt(t *testing.T) {
	w := newWorld(t, 2, usual, asks)
	w.runs("b", "1")
	w.runs("a", "2")
	w.answered(w.only("b", "2"))
	w.nothing("b", promotion.Promoting)
	if wake := w.state.Wake(w.seen, w.now); !wake.Equal(w.now.Add(30 * time.Minute)) {
		t.Errorf("it wakes at %s", wake)
	}
	w.now = w.now.Add(30*time.Minute - time.Second)
	w.nothing("b", promotion.Promoting)
	w.now = w.now.Add(time.Second)
	w.nothing("b", promotion.AwaitsRetry)
	if why := w.explain("b").Message; !strings.Contains(why, "does not run revision 2, healthy, as a whole, 30m after the webhook was asked, which answered 202") {
		t.Errorf("it says %s", why)
	}
	w.now = w.now.Add(10 * time.Second)
	s := w.only("b", "2")
	w.answered(s)
	w.now = w.now.Add(-48 * time.Hour) // a clock that is set back keeps nothing waiting
	w.decide()
	if p := w.state.Promotions()[0]; p.Status == promotion.Running && p.Attempt == s.Attempt {
		t.Errorf("it still waits: %+v", p)
	}
}

func TestAnotherStrategyEndsTheTry(t *testing.T) {
	w := newWorld(t, 2, usual, asks)
	w.runs("b", "1")
	w.runs("a", "2")
	s := w.only("b", "2")
	d := *w.state.Definition()
	d.Stages = append([]definition.Stage{}, d.Stages...)
	d.Stages[1].Strategy, d.Stages[1].Webhook = "", nil
	w.command(promotion.Define{Definition: &d})
	if w.state.Wanted(s.ID, s.Attempt) {
		t.Error("the try is still wanted")
	}
	w.now = w.now.Add(time.Hour)
	w.done(w.only("b", "2"), nil)
}

func TestWhatCannotBeObservedIsNotTakenForWhatTheWebhookWasAsked(t *testing.T) {
	w := newWorld(t, 2, usual, asks)
	w.runs("b", "1")
	w.runs("a", "2")
	w.answered(w.only("b", "2"))
	w.see("b", promotion.Observation{Health: promotion.Unknown, Revision: "2", Runs: []string{"2"}, Why: "it does not answer"})
	w.nothing("b", promotion.Unobserved)
	if p := w.state.Promotions()[0]; p.Status != promotion.Running {
		t.Errorf("the promotion is %+v", p)
	}
}
