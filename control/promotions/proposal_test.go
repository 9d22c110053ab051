package promotions_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// proposing is a world whose stages but the first propose to a repository. That is outside of
// the time of the world.
func proposing(t *testing.T, test func(w *world, f *forgetest.Forge)) {
	t.Helper()
	f := forgetest.New(t, "gitea", map[string]string{"staging.yaml": "tag: \"0\" # of staging\n", "prod.yaml": "tag: \"0\" # of prod\n"})
	workspace := t.TempDir()
	place(t, workspace, "secrets/token", forgetest.Token)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reconciletest.InMemory(t))
		w.workspace = workspace
		w.define(single(), proposes(f))
		test(w, f)
	})
}

func proposes(f *forgetest.Forge) func(*definition.Definition) {
	return func(d *definition.Definition) {
		for i := range d.Stages[1:] {
			stage := &d.Stages[i+1]
			stage.Strategy = definition.WithPullRequest
			stage.PullRequest = &definition.PullRequest{
				Repository: f.Address(), File: stage.Name + ".yaml", Value: "tag", Base: "main", Branch: "deployster/shop/" + stage.Name,
				Provider: "gitea", TokenFile: "secrets/token", Timeout: definition.Duration(30 * time.Minute), CheckEvery: definition.Duration(time.Minute),
			}
		}
	}
}

func open(f *forgetest.Forge) (all []forgetest.Pull) {
	for _, p := range f.Pulls() {
		if p.State == "open" {
			all = append(all, p)
		}
	}
	return all
}

func TestAPullRequestPromotesByWhatIsObserved(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		p := w.promotes("1")
		defer p.end()
		reconciletest.Wait(10 * time.Minute)
		if all := open(f); len(all) != 1 || f.Show(all[0].Branch, "staging.yaml") != "tag: \"1\" # of staging\n" {
			t.Fatalf("there are %+v", f.Pulls())
		}
		w.says("staging", promotion.AwaitsMerge, "revision 1 is proposed, and waits to be merged: pull request 1: http")
		require.Equal(t, 1, w.count(promotion.StageStarted, "staging", "1"))
		assert.Equal(t, 0, w.count(promotion.Merged, "staging", ""), "it does not go on")
		f.Merge(1)
		reconciletest.Wait(2 * time.Minute)
		require.Equal(t, 1, w.count(promotion.Merged, "staging", "1"))
		require.Equal(t, 0, w.count(promotion.StageFinished, "staging", ""), "it is promoted without the environment")
		w.deploys("staging", "1") // by whoever follows the repository
		reconciletest.Wait(2 * time.Minute)
		if all := open(f); w.count(promotion.StageFinished, "staging", "1") != 1 || len(all) != 1 || all[0].Branch != "deployster/shop/prod" {
			t.Errorf("there are %+v", f.Pulls())
		}
	})
}

func TestANewerRevisionTakesThePlaceOfWhatIsProposed(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		w.deploys("dev", "1")
		w.deploys("staging", "1")
		p := w.start()
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		w.deploys("dev", "2")
		reconciletest.Wait(2 * time.Minute)
		all := open(f)
		if len(all) != 1 || all[0].Branch != "deployster/shop/staging" || f.Show("deployster/shop/staging", "staging.yaml") != "tag: \"2\" # of staging\n" {
			t.Fatalf("there are %+v", f.Pulls())
		}
		require.Empty(t, f.Head("deployster/shop/prod"))
		assert.Equal(t, 1, w.count(promotion.Withdrawn, "prod", "1"), "what was proposed to prod is still")
		w.deploys("dev", "3")
		reconciletest.Wait(2 * time.Minute)
		all = open(f)
		if len(all) != 1 || all[0].Title != "Promote staging to revision 3" || len(f.Pulls()) != 2 {
			t.Errorf("there are %+v", f.Pulls())
		}
	})
}

func TestAClosedPullRequestDeclinesTheRevisionUntilItIsReleased(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		p := w.promotes("1")
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		f.Decline(1)
		reconciletest.Wait(time.Hour)
		r := w.explain("staging")
		if r.Code != promotion.IsDeclined || !strings.Contains(r.Message, "pull request 1 was closed without being merged") || !strings.Contains(r.Change, "release-hold shop staging") {
			t.Errorf("it says %+v", r)
		}
		require.Len(t, f.Pulls(), 1)
		assert.Equal(t, 1, w.count(promotion.StageStarted, "staging", "1"), "it was proposed again")
		seen := observedNow(w)
		if _, err := w.promotions.Change(w.Context(), "shop", true, func(s *promotion.State) ([]deploylog.Event, error) {
			return s.Propose(promotion.ReleaseHold{Stage: "staging", ID: "release"}, seen, time.Now())
		}); err != nil {
			t.Fatal(err)
		}
		reconciletest.Wait(2 * time.Minute)
		if all := open(f); len(all) != 1 || all[0].Number != 2 {
			t.Errorf("it was not proposed again: %+v", f.Pulls())
		}
	})
}

func TestWhatIsNotTakenByTheEnvironmentFailsAfterItsTime(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		p := w.promotes("1")
		defer p.end()
		reconciletest.Wait(2 * time.Hour) // people take the time they need
		require.Equal(t, 0, w.count(promotion.StageFailed, "staging", ""), "it does not go on")
		f.Merge(1)
		reconciletest.Wait(32 * time.Minute)
		require.Equal(t, 1, w.count(promotion.StageFailed, "staging", "1"))
		assert.Contains(t, w.story(), "does not run revision 1, healthy, as a whole, 30m after pull request 1 is merged", "it does not go on")
		w.deploys("staging", "1")
		reconciletest.Wait(2 * time.Minute)
		require.Len(t, f.Pulls(), 2)
		assert.Equal(t, 1, w.count(promotion.StageStarted, "prod", "1"))
	})
}

// A process that dies at any of its appends is replaced by another one: there is one pull
// request for each stage, and each revision comes to each stage once.
func TestWhicheverProcessDiesThereIsOnePullRequestForAStage(t *testing.T) {
	appends := carriedByPulls(t, 1000, false)
	require.GreaterOrEqual(t, appends, 12, "there are only")
	every := ringtest.Cases(5, 1)
	for lives := 0; lives < appends; lives += every {
		for _, last := range []bool{false, true} {
			carriedByPulls(t, lives, last)
		}
	}
}

func carriedByPulls(t *testing.T, lives int, last bool) (appends int) {
	t.Helper()
	proposing(t, func(w *world, f *forgetest.Forge) {
		mortal := &reconciletest.Mortal{Log: w.open(), Lives: lives, Last: last}
		log := deploylog.Log(mortal)
		w.deploys("dev", "1")
		for range 20 {
			if err := w.untilIdle(log); err != nil {
				log = w.open() // the next process
				continue
			}
			merged := false
			for _, p := range open(f) {
				f.Merge(p.Number)
				w.deploys(strings.TrimPrefix(p.Branch, "deployster/shop/"), "1")
				merged = true
			}
			if !merged {
				break
			}
		}
		appends = mortal.Calls()
		require.Len(t, f.Pulls(), 2, "after a death at append %d (in the log: %v)", lives+1, last)
		assert.Equal(t, 1, w.count(promotion.RunFinished, "", "1"), "after a death at append %d (in the log: %v)", lives+1, last)
		for _, stage := range []string{"staging", "prod"} {
			if n := w.count(promotion.StageFinished, stage, "1"); n != 1 {
				t.Errorf("after a death at append %d (in the log: %v) the promotion to %s finished %d times", lives+1, last, stage, n)
			}
		}
	})
	return appends
}

// observedNow is what the environments run.
func observedNow(w *world) promotion.Observed {
	w.Helper()
	require.NoError(w, w.environments.Follow(w.Context(), 0))
	all := promotion.Observed{}
	_ = w.promotions.Ask("shop", func(s *promotion.State) error {
		all = promotions.Observe(w.environments, s, w.environments.Controlled)
		return nil
	})
	return all
}

func TestAServerThatIsAwayForAMomentFailsNothing(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		p := w.promotes("1")
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		away := func(to http.ResponseWriter, _ *http.Request) bool {
			http.Error(to, "away", http.StatusBadGateway)
			return true
		}
		f.Before(away)
		reconciletest.Wait(3 * time.Minute)
		f.Before(nil)
		reconciletest.Wait(2 * time.Minute)
		assert.Equal(t, 0, w.count(promotion.StageFailed, "staging", ""), "it does not go on")
		f.Before(away)
		reconciletest.Wait(20 * time.Minute)
		w.says("staging", promotion.AwaitsRetry, "the server answered 502")
		f.Before(nil)
		reconciletest.Wait(time.Hour)
		require.Equal(t, promotion.AwaitsMerge, w.explain("staging").Code)
		assert.Len(t, f.Pulls(), 1)
	})
}

func TestAProviderThatWantsToBeLeftAloneFailsNothing(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		p := w.promotes("1")
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		f.Before(func(to http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/api/") {
				return false
			}
			to.Header().Set("Retry-After", "1800")
			to.WriteHeader(http.StatusTooManyRequests)
			return true
		})
		f.Requests()
		reconciletest.Wait(25 * time.Minute)
		asked := 0
		for _, r := range f.Requests() {
			if strings.Contains(r, "/api/") {
				asked++
			}
		}
		require.Equal(t, 1, asked, "it was asked")
		assert.Equal(t, 0, w.count(promotion.StageFailed, "staging", ""), "it was asked %d times", asked)
		f.Before(nil)
		f.Merge(1)
		reconciletest.Wait(10 * time.Minute)
		assert.Equal(t, 1, w.count(promotion.Merged, "staging", "1"), "it does not go on")
	})
}

func TestWhatCannotBeWithdrawnIsWithdrawnLaterAndOnce(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		w.deploys("dev", "1")
		w.deploys("staging", "1")
		p := w.start()
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		f.Before(func(to http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPatch {
				return false
			}
			http.Error(to, "not now", http.StatusBadGateway)
			return true
		})
		w.deploys("dev", "2")
		reconciletest.Wait(5 * time.Minute)
		require.Equal(t, 0, w.count(promotion.Withdrawn, "prod", ""))
		assert.NotEmpty(t, w.notices("is not closed: changing pull request 1: the provider answered 502"))
		f.Before(nil)
		reconciletest.Wait(5 * time.Minute)
		if all := open(f); w.count(promotion.Withdrawn, "prod", "1") != 1 || len(all) != 1 || all[0].Branch != "deployster/shop/staging" {
			t.Errorf("there are %+v", all)
		}
	})
}

func TestNothingIsPushedToWhatIsHeld(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		p := w.promotes("1")
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		if _, err := w.promotions.Change(w.Context(), "shop", true, func(s *promotion.State) ([]deploylog.Event, error) {
			return s.Propose(promotion.HoldStage{Stage: "staging", ID: "hold"}, nil, time.Now())
		}); err != nil {
			t.Fatal(err)
		}
		f.Delete("deployster/shop/staging")
		reconciletest.Wait(10 * time.Minute)
		require.Empty(t, f.Head("deployster/shop/staging"))
		assert.Equal(t, 0, w.count(promotion.StageFailed, "staging", ""), "something was pushed")
	})
}

// notices are those with a text in them.
func (w *world) notices(text string) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.notified {
		if strings.Contains(n, text) {
			all = append(all, n)
		}
	}
	return all
}
