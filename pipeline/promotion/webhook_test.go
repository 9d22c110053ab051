package promotion_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	w := comingTo(t, "bc", asks)
	w.dies = true
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
	w := coming(t, asks)
	w.only("b", "2")
	w.again()
	w.runs("b", "2")
	require.Empty(t, w.decide())
	assert.Equal(t, promotion.Finished, w.state.Promotions()[0].Status)
}

func TestAWebhookIsAskedAgainWhenNothingComesOfIt(t *testing.T) {
	w := coming(t, asks)
	w.answered(w.only("b", "2"))
	w.nothing("b", promotion.Promoting)
	assert.WithinDuration(t, w.now.Add(30*time.Minute), w.state.Wake(w.seen, w.now), 0)
	w.now = w.now.Add(30*time.Minute - time.Second)
	w.nothing("b", promotion.Promoting)
	w.now = w.now.Add(time.Second)
	w.nothing("b", promotion.AwaitsRetry)
	assert.Contains(t, w.explain("b").Message, "does not run revision 2, healthy, as a whole, 30m after the webhook was asked, which answered 202")
	w.now = w.now.Add(10 * time.Second)
	s := w.only("b", "2")
	w.answered(s)
	w.now = w.now.Add(-48 * time.Hour) // a clock that is set back keeps nothing waiting
	w.decide()
	if p := w.state.Promotions()[0]; p.Status == promotion.Running && p.Attempt == s.Attempt {
		t.Errorf("it still waits: %+v", p)
	}
}

// asked is a pipeline whose second stage was asked for revision 2 just now.
func asked(t *testing.T) *world {
	w := comingTo(t, "bc", asks)
	w.answered(w.only("b", "2"))
	return w
}

// ill has an environment observed that does not run what it is to run.
func (w *world) ill(stage string, health promotion.Health, why string) {
	o := w.seen["env/"+stage]
	o.Health, o.Why, o.Event = health, why, w.tick()
	w.see(stage, o)
}

func TestTheTimeoutOfAWebhookWakesThePipelineWhateverIsSoAtItsStage(t *testing.T) {
	for name, c := range map[string]struct {
		since func(*world)
		code  promotion.Code
	}{
		"it is being promoted":               {func(*world) {}, promotion.Promoting},
		"the stage before is not whole":      {func(w *world) { w.ill("a", promotion.Partly, "one host is down") }, promotion.AwaitsStage},
		"the stage before is not observable": {func(w *world) { w.ill("a", promotion.Unknown, "no answer") }, promotion.AwaitsStage},
		"it is not observable":               {func(w *world) { w.ill("b", promotion.Unknown, "no answer") }, promotion.Unobserved},
		"the line was stopped":               {func(w *world) { w.command(promotion.StopLine{}) }, promotion.Promoting},
	} {
		t.Run(name, func(t *testing.T) {
			w := asked(t)
			until := w.now.Add(30 * time.Minute)
			c.since(w)
			w.nothing("b", c.code)
			require.WithinDuration(t, until, w.state.Wake(w.seen, w.now), 0)
			assert.False(t, w.state.Idle(w.seen, w.now))
			w.now = until
			w.decide()
			failed := w.state.Promotions()[0].Status == promotion.Failed
			assert.Equal(t, c.code != promotion.Unobserved, failed, "it is known what runs there")
		})
	}
}

// The promotions of several stages wait at once where each is by itself.
func TestTheFirstTimeoutOfSeveralWebhooksWakesThePipeline(t *testing.T) {
	w := newWorld(t, 3, definition.Promotion{Policy: definition.Concurrent, RetryAfter: dur(time.Second)}, asks, func(d *definition.Definition) {
		d.Stages[2].Strategy = definition.WithWebhook
		d.Stages[2].Webhook = &definition.Webhook{URL: "https://ci.example/promote", KeyFile: "ci.key", Timeout: dur(20 * time.Minute)}
	})
	w.runs("a", "3")
	w.runs("b", "2")
	w.runs("c", "1")
	steps := w.decide()
	require.Len(t, steps, 2)
	for _, s := range steps {
		w.answered(s)
	}
	first := w.now.Add(20 * time.Minute)
	for _, stage := range w.stages {
		w.ill(stage, promotion.Partly, "one host is down")
	}
	assert.WithinDuration(t, first, w.state.Wake(w.seen, w.now), 0)
	w.now = first
	w.decide()
	assert.WithinDuration(t, first.Add(10*time.Minute), w.state.Wake(w.seen, w.now), 0, "then it wakes")
}

// What runs there when time is up is only known when it is observed again.
func TestAnEnvironmentThatIsUnknownWhenTimeIsUpIsJudgedWhenItIsObserved(t *testing.T) {
	for revision, want := range map[string]promotion.Status{"2": promotion.Finished, "1": promotion.Failed} {
		t.Run("it runs "+revision, func(t *testing.T) {
			w := asked(t)
			w.dies = true
			w.ill("b", promotion.Unknown, "it does not answer")
			w.now = w.now.Add(time.Hour)
			w.nothing("b", promotion.Unobserved)
			r, p := w.explain("b"), w.state.Promotions()[0]
			if p.Status != promotion.Running || !r.Blocking() || r.Message != "what environment env/b runs is not known: it does not answer; so what becomes of try 1 of promoting revision 2 there is not known, either" {
				t.Errorf("the promotion is %+v, and it says %q", p, r.Message)
			}
			assert.True(t, w.state.Idle(w.seen, w.now), "it waits for time to pass, which changes nothing")
			w.runs("b", revision)
			w.decide()
			if p := w.state.Promotions()[0]; p.Status != want || want == promotion.Failed && p.Failures != 1 {
				t.Errorf("the promotion is %+v", p)
			}
		})
	}
}

// What a webhook was asked goes on when another key, or time, is defined, and not when another
// program is to be asked.
func TestHowAWebhookIsAskedMayChange(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*definition.Stage)
		same   bool
	}{
		"another key":      {func(s *definition.Stage) { s.Webhook.KeyFile = "other.key" }, true},
		"another time":     {func(s *definition.Stage) { s.Webhook.Timeout = dur(time.Hour) }, true},
		"another program":  {func(s *definition.Stage) { s.Webhook.URL = "https://ci.example/other" }, false},
		"another strategy": {func(s *definition.Stage) { s.Strategy, s.Webhook = "", nil }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := coming(t, asks)
			step := w.only("b", "2")
			w.answered(step)
			w.redefines(func(d *definition.Definition) { c.change(&d.Stages[1]) })
			assert.Equal(t, c.same, w.state.Wanted(step.ID, step.Attempt))
			if !c.same {
				w.now = w.now.Add(time.Hour)
				w.done(w.only("b", "2"), nil)
			}
		})
	}
}
