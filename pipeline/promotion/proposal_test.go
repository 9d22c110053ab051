package promotion_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// proposes has the stages but the first propose to a repository.
func proposes(d *definition.Definition) {
	for i := range d.Stages[1:] {
		stage := &d.Stages[i+1]
		stage.Strategy = definition.WithPullRequest
		stage.PullRequest = &definition.PullRequest{
			Repository: "https://git.example/acme/deploy.git", File: stage.Name, Value: "tag", Base: "main", Branch: "deployster/" + stage.Name, Timeout: dur(30 * time.Minute), CheckEvery: dur(time.Minute),
		}
	}
}

func (w *world) proposed(s promotion.Step) {
	w.record(w.state.Completed(s, promotion.Begun{Answer: "pull request 7"}, nil)...)
}

// looked is that the only open proposal was looked at.
func (w *world) looked(begun promotion.Begun, err error) {
	w.Helper()
	open := w.state.Open()
	if len(open) != 1 {
		w.Fatalf("open are %+v", open)
	}
	w.record(w.state.Looked(open[0], begun, err)...)
}

func (w *world) unwanted(t *testing.T, branches ...string) (all []promotion.Proposal) {
	t.Helper()
	all = w.state.Unwanted(w.seen, w.now)
	var got []string
	for _, p := range all {
		got = append(got, p.Pull.Branch)
	}
	assert.Equal(t, strings.Join(branches, " "), strings.Join(got, " "), "to be withdrawn are %q, not %q", got, branches)
	return all
}

func TestAProposalWaitsForPeopleAndThenForTheEnvironment(t *testing.T) {
	w := comingTo(t, "bc", proposes)
	w.dies = true
	w.proposed(w.only("b", "2"))
	w.now = w.now.Add(1000 * time.Hour)
	w.nothing("b", promotion.AwaitsMerge)
	if r := w.explain("b"); !r.Blocking() || !strings.Contains(r.Message, "pull request 7") {
		t.Errorf("it says %+v", r)
	}
	w.looked(promotion.Begun{}, nil)
	w.looked(promotion.Begun{Taken: true, Answer: "pull request 7 is merged"}, nil)
	w.nothing("b", promotion.Promoting)
	assert.Contains(t, w.explain("b").Message, " is being promoted, try 1: it is merged since ")
	w.nothing("c", promotion.AwaitsStage)
	assert.Empty(t, w.state.Open())
	w.now = w.now.Add(30 * time.Minute)
	w.nothing("b", promotion.AwaitsRetry)
	assert.Contains(t, w.explain("b").Message, "does not run revision 2, healthy, as a whole, 30m after pull request 7 is merged")
	w.runs("b", "2")
	w.only("c", "2")
	w.unwanted(t)
}

func TestWhoClosesAProposalDeclinesItUntilItIsReleased(t *testing.T) {
	w := coming(t, proposes)
	w.dies = true
	first := w.only("b", "2")
	w.proposed(first)
	w.looked(promotion.Begun{Declined: true, Answer: "pull request 7 was closed"}, nil)
	w.now = w.now.Add(1000 * time.Hour)
	w.nothing("b", promotion.IsDeclined)
	assert.True(t, w.state.Idle(w.seen, w.now), "it waits for something")
	w.unwanted(t)
	w.command(promotion.ReleaseHold{Stage: "b"})
	assert.NotEqual(t, first.ID, w.only("b", "2").ID, "it is known by what was declined")
}

func TestWhatWasDeclinedIsNotWhatComesAfterIt(t *testing.T) {
	w := coming(t, proposes)
	w.record(w.state.Completed(w.only("b", "2"), promotion.Begun{Declined: true, Answer: "closed"}, nil)...)
	w.nothing("b", promotion.IsDeclined)
	w.runs("a", "3")
	w.only("b", "3")
}

func TestANewerRevisionWithdrawsWhatItDoesNotReplace(t *testing.T) {
	w := newWorld(t, 3, usual, proposes)
	w.dies = true
	w.runs("ab", "2")
	w.runs("c", "1")
	w.proposed(w.only("c", "2"))
	w.unwanted(t)
	w.runs("a", "3")
	w.only("b", "3")
	for _, p := range w.unwanted(t, "deployster/c") {
		w.record(w.state.Withdrew(p)...)
		assert.Empty(t, w.state.Withdrew(p), "it is withdrawn twice")
	}
	w.unwanted(t)
}

// Somebody else may bring the revision while what is proposed is open: it is of no use then.
func TestWhatComesWithoutItsProposalWithdrawsIt(t *testing.T) {
	w := coming(t, proposes)
	w.dies = true
	w.proposed(w.only("b", "2"))
	w.runs("b", "2")
	w.nothing("b", promotion.There)
	for _, p := range w.unwanted(t, "deployster/b") {
		w.record(w.state.Withdrew(p)...)
	}
	w.unwanted(t)
}

func TestANewerRevisionAtTheSameStageTakesThePlace(t *testing.T) {
	w := coming(t, proposes)
	w.proposed(w.only("b", "2"))
	w.runs("a", "3")
	w.record(firstOf(w)...) // that it is current
	w.unwanted(t)           // for it is about to come
	w.only("b", "3")
	w.unwanted(t)
}

// firstOf are the events of the first step.
func firstOf(w *world) (events []deploylog.Event) {
	for s := range w.state.Decide(w.seen, w.now) {
		return s.Events
	}
	return nil
}

func TestWithThePolicyConcurrentAProposalGivesWay(t *testing.T) {
	policy := usual
	policy.Policy = definition.Concurrent
	w := newWorld(t, 2, policy, proposes)
	w.dies = true
	w.runs("b", "1")
	w.runs("a", "2")
	first := w.only("b", "2")
	w.runs("a", "3")
	if code := w.explain("b").Code; code != promotion.AwaitsPromotion { // it is being pushed
		t.Errorf("it is %s", code)
	}
	w.proposed(first)
	second := w.only("b", "3")
	require.False(t, w.state.Wanted(first.ID, first.Attempt))
	assert.True(t, w.state.Wanted(second.ID, second.Attempt), "both are wanted")
	w.proposed(second)
	w.looked(promotion.Begun{Taken: true}, nil)
	w.runs("a", "4")
	w.nothing("b", promotion.AwaitsPromotion) // what is merged is let finish
}

func TestAnotherPlaceWithdrawsWhatIsAtTheOld(t *testing.T) {
	w := coming(t, proposes)
	w.proposed(w.only("b", "2"))
	for _, change := range []func(*definition.Stage){
		func(s *definition.Stage) { s.PullRequest.Branch = "promote/b" },
		func(s *definition.Stage) { s.Strategy, s.PullRequest = "", nil },
	} {
		before := w.state.Definition().Stages[1].PullRequest.Branch
		w.redefines(func(d *definition.Definition) { change(&d.Stages[1]) })
		for _, p := range w.unwanted(t, before) {
			w.record(w.state.Withdrew(p)...)
		}
		w.now = w.now.Add(time.Hour)
		if s := w.only("b", "2"); w.state.Definition().Stages[1].PullRequest != nil {
			w.proposed(s)
		}
	}
	w.unwanted(t)
}

func TestALookThatFailsIsATryThatFailed(t *testing.T) {
	w := coming(t, proposes)
	s := w.only("b", "2")
	w.proposed(s)
	w.looked(promotion.Begun{}, errors.New("no answer"))
	w.nothing("b", promotion.AwaitsRetry)
	w.now = w.now.Add(time.Minute)
	if again := w.only("b", "2"); again.ID != s.ID || again.Attempt != 2 {
		t.Errorf("it is %+v", again)
	}
}

// How what is proposed is looked after may change while it waits; what is proposed, and where,
// may not.
func TestHowAProposalIsLookedAfterMayChange(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*definition.PullRequest)
		same   bool
	}{
		"how often":    {func(p *definition.PullRequest) { p.CheckEvery = dur(time.Hour) }, true},
		"for how long": {func(p *definition.PullRequest) { p.Timeout = dur(time.Hour) }, true},
		"by which token": {func(p *definition.PullRequest) {
			p.TokenFile, p.User, p.API = "other", "bot", "https://git.example/api"
		}, true},
		"written otherwise": {func(p *definition.PullRequest) { p.Repository = "https://GIT.example/acme/deploy/" }, true},
		"another file":      {func(p *definition.PullRequest) { p.File = "other" }, false},
		"another value":     {func(p *definition.PullRequest) { p.Value = "other" }, false},
		"more values":       {func(p *definition.PullRequest) { p.Set = []definition.Value{{File: "more", Path: "tag"}} }, false},
		"as a list":         {func(p *definition.PullRequest) { p.Set, p.File, p.Value = p.Values(), "", "" }, true},
		"another base":      {func(p *definition.PullRequest) { p.Base = "trunk" }, false},
		"another branch":    {func(p *definition.PullRequest) { p.Branch = "other" }, false},
		"another server":    {func(p *definition.PullRequest) { p.Repository = "https://git.example.org/acme/deploy" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := coming(t, proposes)
			step := w.only("b", "2")
			w.proposed(step)
			w.redefines(func(d *definition.Definition) { c.change(d.Stages[1].PullRequest) })
			pull := *w.state.Definition().Stages[1].PullRequest
			assert.Equal(t, c.same, w.state.Wanted(step.ID, step.Attempt))
			if all := w.state.Open(); c.same && (len(all) != 1 || !assert.ObjectsAreEqual(*all[0].Pull, pull)) {
				t.Errorf("it is looked after by %+v", all)
			}
			w.runs("a", "3")
			w.record(firstOf(w)...)
			w.redefines(func(d *definition.Definition) { d.Stages[1] = definition.Stage{Name: "c", Environment: "c"} })
			if all := w.state.Unwanted(w.seen, w.now); len(all) != 1 || c.same && !assert.ObjectsAreEqual(*all[0].Pull, pull) {
				t.Errorf("it is withdrawn by %+v", all)
			}
		})
	}
}

func TestAMergeThatIsRevertedIsATryThatFailed(t *testing.T) {
	w := coming(t, proposes)
	w.proposed(w.only("b", "2"))
	require.Empty(t, w.state.Taken())
	w.looked(promotion.Begun{Taken: true, Answer: "pull request 7 is merged"}, nil)
	taken := w.state.Taken()
	require.Len(t, taken, 1)
	require.Nil(t, w.state.Reverted(taken[0], "2"), "taken are %+v", taken)
	w.record(w.state.Reverted(taken[0], "1")...)
	w.nothing("b", promotion.AwaitsRetry)
	assert.Contains(t, w.explain("b").Message, `branch main has "1" and not revision 2 any more, after pull request 7 is merged`)
	assert.Nil(t, w.state.Reverted(taken[0], "1"), "a try that has failed fails again")
}

// Who looks for long may see that something was reverted when the environment runs it already.
func TestWhatIsRevertedOnceItIsThereFailsNothing(t *testing.T) {
	w := coming(t, proposes)
	w.proposed(w.only("b", "2"))
	w.looked(promotion.Begun{Taken: true}, nil)
	taken := w.state.Taken()
	w.runs("b", "2")
	w.decide()
	require.Nil(t, w.state.Reverted(taken[0], "1"))
	assert.Empty(t, w.state.Taken())
}
