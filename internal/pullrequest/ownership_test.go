package pullrequest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/pullrequest"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/internal/pullrequest/limit"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
)

func TestABranchOfSomebodyElseIsLeftAlone(t *testing.T) {
	once(t, func(w *world) {
		w.forge.Commit(branch, map[string]string{"notes": "mine"}, "main")
		tip := w.forge.Head(branch)
		w.refused("2", "not by Deployster")
		w.withdraws()
		assert.Equal(w, tip, w.forge.Head(branch), "the branch was changed")
	})
}

func TestPullRequestsFromOtherRepositoriesAreNotOurs(t *testing.T) {
	each(t, func(w *world) {
		w.forge.Fork(branch, "main", "Deployster-Promotion: promotion-2", "closed")
		w.forge.Fork(branch, "main", "Deployster-Promotion: promotion-2", "open")
		w.gives("2", pullrequest.Proposed, 3)
		w.withdraws()
		assert.Equal(w, []string{"open", "closed"}, w.states()[1:])
		assert.Empty(w, w.forge.Head(branch))
	})
}

// A pull request that somebody else opened from the branch keeps its texts.
func TestAPullRequestOfSomebodyElseIsLeftAlone(t *testing.T) {
	each(t, func(w *world) {
		w.forge.Commit(branch, map[string]string{file: after("2")}, "main")
		person, err := provider.New(provider.Options{Kind: w.place.Provider, Repository: w.place.Repository, Token: forgetest.Token, HTTP: http.DefaultClient, Cache: provider.NewCache(&limit.Servers{Now: time.Now}, 1<<20)})
		require.NoError(w, err)
		require.NoError(w, errOf(person.Open(w.Context(), provider.Text{Title: "mine", Body: "mine"}, branch, "main")))
		w.refused("2", "has pull request 1, which is not of Deployster")
		assert.Equal(w, "mine", w.forge.Pulls()[0].Title)
		assert.Equal(w, []string{"open"}, w.states())
	})
}

// Who holds a stage while a process is about to propose to it has it do nothing more, whatever that has
// done already.
func TestNothingMoreIsDoneThatIsHeldInBetween(t *testing.T) {
	each(t, func(w *world) {
		held := errors.New("the stage is held")
		proposes := func(revision string, changes int) {
			_, err := w.client.Propose(w.Context(), w.place, wanted(revision), func(context.Context) error {
				if changes--; changes < 0 {
					return held
				}
				return nil
			})
			assert.ErrorIs(w, err, held)
			assert.ErrorIs(w, err, pullrequest.ErrForbidden)
		}
		proposes("2", 0)
		assert.Empty(w, w.forge.Head(branch), "a branch was pushed")
		proposes("2", 1)
		assert.Empty(w, w.forge.Pulls(), "opened")
		w.propose("2")
		proposes("3", 1)
		p := w.forge.Pulls()
		assert.True(w, len(p) == 1 && strings.HasSuffix(p[0].Title, "revision 2"), "changed: %+v", p)
		assert.ErrorIs(w, w.client.Withdraw(w.Context(), w.place, func(context.Context) error { return held }), held, "withdrawn")
		p = w.forge.Pulls()
		assert.True(w, p[0].State == "open" && w.forge.Head(branch) != "", "withdrawn: %+v", p)
	})
}

// Who edits the text of a pull request may take the line out by which it is known: the commit
// has it, too.
func TestAPullRequestIsKnownAgainWhateverItsTextSays(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Rewrite(1, "please review")
		w.gives("2", pullrequest.Proposed, 1)
		w.propose("3") // says again what it is
		w.has("3", 1)
		assert.Contains(w, w.forge.Pulls()[0].Body, "Deployster-Promotion: promotion-3")
		w.forge.Rewrite(1, "")
		w.forge.Decline(1)
		w.forge.Delete(branch)
		w.again()
		for range 2 {
			w.gives("3", pullrequest.Declined, 1)
		}
		assert.Equal(w, []string{"closed"}, w.states())
		assert.Empty(w, w.forge.Head(branch), "it is proposed again")
	})
}

func TestAPullRequestIsWithdrawnWhateverItsTextSays(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Rewrite(1, "please review")
		w.forge.Commit(branch, map[string]string{"README": "reviewed"}, "")
		w.withdraws()
		assert.Equal(w, []string{"closed"}, w.states())
		assert.True(w, strings.HasPrefix(w.forge.Pulls()[0].Body, "please review\n"), w.forge.Pulls()[0].Body)
		w.forge.Delete(branch)
		w.gives("2", pullrequest.Proposed, 2)
	})
}

// Two that were given one branch would undo what the other one does, without end.
func TestWhatAnotherProposesIsLeftAlone(t *testing.T) {
	once(t, func(w *world) {
		const one, other = "pipeline shop of log A", "pipeline shop of log B"
		w.place.Owner = one
		w.propose("2")
		for name, change := range map[string]func(){
			"as it was proposed":             func() {},
			"after somebody edited its text": func() { w.forge.Rewrite(1, "please review") },
			"after somebody committed":       func() { w.forge.Commit(branch, map[string]string{"README": "reviewed"}, "") },
		} {
			change()
			tip, before := w.forge.Head(branch), w.forge.Pulls()
			w.place.Owner = other
			for _, revision := range []string{"2", "3"} {
				w.refused(revision, "branch deployster/shop/prod is used by another: pipeline shop of log A proposes from it, and not pipeline shop of log B; name a branch for each")
			}
			w.withdraws()
			if w.forge.Head(branch) != tip || w.forge.Pulls()[0] != before[0] || len(w.forge.Pulls()) != 1 {
				w.Errorf("%s: it was changed: %+v", name, w.forge.Pulls())
			}
			w.place.Owner = one
		}
		w.propose("3")
		w.has("3", 1)
		w.place.Owner = other
		w.forge.Commit("main", map[string]string{file: after("4")}, "")
		assert.Equal(w, pullrequest.Taken, w.propose("4").Status)
		assert.Equal(w, []string{"open"}, w.states())
	})
}
