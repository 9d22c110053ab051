package promotions_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// A merge that somebody reverts before the environment took it is proposed again as soon as that
// is seen: the file says what is so.
func TestAMergeThatIsRevertedIsProposedAgain(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		p := w.promotes("1")
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		f.Merge(1)
		reconciletest.Wait(2 * time.Minute)
		f.Commit("main", map[string]string{"staging.yaml": "tag: \"0\" # of staging\n"}, "")
		reconciletest.Wait(2 * time.Minute)
		assert.Contains(t, w.story(), "and not revision 1 any more, after pull request 1 is merged: ")
		if all := open(f); len(all) != 1 || all[0].Number != 2 || w.count(promotion.StageFailed, "staging", "1") != 1 || w.explain("staging").Code != promotion.AwaitsMerge {
			t.Fatalf("there are %+v", f.Pulls())
		}
		f.Merge(2)
		reconciletest.Wait(2 * time.Minute)
		w.deploys("staging", "1")
		reconciletest.Wait(2 * time.Minute)
		assert.Equal(t, 1, w.count(promotion.StageFinished, "staging", "1"), "it does not go on")
	})
}

// Who has a proposal looked at more often does not wait for the look that was due before.
func TestAnotherDefinitionOfHowOftenIsFollowedAtOnce(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		every := func(d time.Duration) func(*definition.Definition) {
			return func(of *definition.Definition) {
				for _, stage := range of.Stages[1:] {
					stage.PullRequest.CheckEvery = definition.Duration(d)
				}
			}
		}
		w.define(single(), proposes(f), every(50*time.Minute))
		p := w.promotes("1")
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		w.define(single(), proposes(f), every(time.Minute))
		f.Merge(1)
		reconciletest.Wait(3 * time.Minute)
		require.Equal(t, 1, w.count(promotion.Merged, "staging", "1"))
		assert.Equal(t, 0, w.count(promotion.StageFailed, "", ""), "it does not go on")
	})
}

// Where a repository cannot be read after the merge nothing has failed before the time is up.
func TestARepositoryThatIsAwayAfterTheMergeFailsNothing(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		p := w.promotes("1")
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		f.Merge(1)
		reconciletest.Wait(2 * time.Minute)
		f.Before(func(to http.ResponseWriter, _ *http.Request) bool {
			to.WriteHeader(http.StatusInternalServerError)
			return true
		})
		before := len(f.Requests())
		reconciletest.Wait(20 * time.Minute)
		if asked := len(f.Requests()) - before; asked == 0 || asked > 25 || w.count(promotion.StageFailed, "", "") != 0 {
			t.Errorf("it was asked %d times", asked)
		}
		f.Before(nil)
		w.deploys("staging", "1")
		reconciletest.Wait(2 * time.Minute)
		assert.Equal(t, 1, w.count(promotion.StageFinished, "staging", "1"), "it does not go on")
	})
}
