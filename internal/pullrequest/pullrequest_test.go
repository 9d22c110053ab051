package pullrequest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/pullrequest"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/internal/pullrequest/limit"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
	"github.com/deployster-go/deployster/internal/pullrequest/value"
	"github.com/deployster-go/deployster/internal/ringtest"
)

const (
	file   = "shop/prod.yaml"
	branch = "deployster/shop/prod"
	before = "# what prod runs\nimage:\n  name: shop   # of the registry\n  tag: \"1\"\n"
)

func after(revision string) string { return strings.Replace(before, `"1"`, `"`+revision+`"`, 1) }

// world is a repository, its provider, and who proposes there.
type world struct {
	*testing.T
	forge     *forgetest.Forge
	client    *pullrequest.Client
	place     pullrequest.Place
	now       time.Time
	workspace string
}

func newWorld(t *testing.T, kind string) *world {
	t.Helper()
	path, err := value.Parse("image.tag")
	require.NoError(t, err)
	w := &world{T: t, forge: forgetest.New(t, kind, map[string]string{file: before, "README": "read me"}), now: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), workspace: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(w.workspace, "token"), []byte(forgetest.Token+"\n"), 0o600))
	w.place = pullrequest.Place{
		Repository: w.forge.Address(), File: file, Value: path, Base: "main", Branch: branch, Provider: provider.Kind(kind), TokenFile: "token",
	}
	w.again()
	return w
}

// again is another process.
func (w *world) again() {
	w.client = pullrequest.New(pullrequest.Options{Workspace: w.workspace, Getenv: func(string) string { return "" }, Now: func() time.Time { return w.now }})
}

func wanted(revision string) pullrequest.Wanted {
	return pullrequest.Wanted{Key: "promotion-" + revision, Pipeline: "shop", Stage: "prod", Environment: "shop/prod", Revision: revision}
}

func may(context.Context) error { return nil }

func (w *world) propose(revision string) pullrequest.Outcome {
	w.Helper()
	o, err := w.client.Propose(w.Context(), w.place, wanted(revision), may)
	require.NoError(w, err, "revision %s", revision)
	return o
}

// gives proposes a revision, which comes to a status, of a pull request with a number.
func (w *world) gives(revision string, status pullrequest.Status, number int) {
	w.Helper()
	o := w.propose(revision)
	if o.Status != status || o.Number != number {
		w.Errorf("revision %s gives %+v, not %s of pull request %d", revision, o, status, number)
	}
}

func (w *world) refused(revision, why string) {
	w.Helper()
	_, err := w.client.Propose(w.Context(), w.place, wanted(revision), may)
	if assert.ErrorContains(w, err, why, "revision %s", revision) {
		assert.NotContains(w, err.Error(), forgetest.Token)
	}
}

// withdraws withdraws what is proposed.
func (w *world) withdraws() {
	w.Helper()
	require.NoError(w, w.client.Withdraw(w.Context(), w.place, may))
}

// states are those of all pull requests, in the order of their numbers.
func (w *world) states() (all []string) {
	for _, p := range w.forge.Pulls() {
		all = append(all, p.State)
	}
	return all
}

// has fails unless the branch has a revision, and the open pull requests are so many.
func (w *world) has(revision string, open int) {
	w.Helper()
	assert.Equal(w, after(revision), w.forge.Show(branch, file), "the branch")
	n := 0
	for _, p := range w.forge.Pulls() {
		if p.State == "open" {
			n++
			if p.Title != "Promote shop/prod to revision "+revision || p.Branch != branch || p.Base != "main" {
				w.Errorf("the pull request is %+v", p)
			}
		}
	}
	assert.Equal(w, open, n, "open pull requests")
}

// each does a test with each provider.
func each(t *testing.T, test func(w *world)) {
	t.Helper()
	for _, kind := range provider.Kinds() {
		t.Run(string(kind), func(t *testing.T) { test(newWorld(t, string(kind))) })
	}
}

// once does a test of what git does, and not the provider: with one of them, and with each in the
// long run.
func once(t *testing.T, test func(w *world)) {
	t.Helper()
	if ringtest.All() {
		each(t, test)
		return
	}
	test(newWorld(t, "gitea"))
}

func TestAPullRequestIsOpenedUpdatedAndTaken(t *testing.T) {
	each(t, func(w *world) {
		first := w.propose("2")
		assert.Contains(w, first.URL, "/acme/deploy/pulls/1")
		w.has("2", 1)
		w.gives("2", pullrequest.Proposed, 1)
		assert.Equal(w, file, w.forge.Changed("main", branch), "changed")
		tip := w.forge.Head(branch)
		w.again()
		assert.Equal(w, first, w.propose("2"), "asked again")
		assert.Equal(w, tip, w.forge.Head(branch))
		assert.Equal(w, []string{"open"}, w.states())
		assert.Equal(w, 1, w.propose("3").Number)
		w.has("3", 1)
		assert.Equal(w, w.forge.Head("main"), w.forge.Parent(branch), "the commit is not on the base branch")
		w.forge.Check()
		w.forge.Merge(1)
		w.gives("3", pullrequest.Taken, 1)
		w.gives("4", pullrequest.Proposed, 2)
		w.has("4", 1)
	})
}

func TestATitleOfSomebodyStaysUntilThereIsAnotherRevision(t *testing.T) {
	once(t, func(w *world) {
		w.propose("2")
		w.forge.Retitle(1, "Draft: wait for me")
		w.propose("2")
		assert.Equal(w, "Draft: wait for me", w.forge.Pulls()[0].Title)
		w.propose("3")
		w.has("3", 1)
	})
}

func TestWhatIsAsItWasIsNotReadAgain(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.propose("2")
		w.forge.Requests()
		served := w.forge.Served()
		for range 3 {
			w.propose("2")
		}
		requests := strings.Join(w.forge.Requests(), "\n")
		for _, method := range []string{"POST", "PUT", "PATCH"} {
			assert.NotContains(w, requests, method)
		}
		assert.Equal(w, served, w.forge.Served(), "answers with contents")
	})
}

func TestAClosedPullRequestIsNotOpenedAgain(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Decline(1)
		w.forge.Delete(branch)
		for range 2 {
			assert.Contains(w, w.propose("2").Detail, "pull request 1 was closed without being merged")
			w.gives("2", pullrequest.Declined, 1)
			w.again()
		}
		assert.Empty(w, w.forge.Head(branch), "something was pushed")
		assert.Equal(w, []string{"closed"}, w.states())
		w.gives("3", pullrequest.Proposed, 2)
		w.has("3", 1)
	})
}

// A process may die before any of its requests, or after it: the next one ends with one pull
// request and one commit.
func TestWhereverAProcessDiesThereIsOnePullRequest(t *testing.T) {
	each(t, func(w *world) {
		for _, revision := range []string{"2", "3"} { // opened, and updated
			for n := 0; ; n++ {
				for _, reaches := range []bool{false, true} {
					left := n
					w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
						left--
						if left >= 0 {
							return false
						}
						if reaches && left == -1 {
							recorded := httptest.NewRecorder()
							w.forge.Before(nil)
							w.forge.Config.Handler.ServeHTTP(recorded, r)
						}
						panic(http.ErrAbortHandler)
					})
					_, err := w.client.Propose(w.Context(), w.place, wanted(revision), may)
					w.forge.Before(nil)
					w.again()
					if err == nil {
						break
					}
				}
				require.Equal(w, 1, w.propose(revision).Number, "after a death at request %d", n)
				w.has(revision, 1)
				if n > 12 {
					break
				}
			}
		}
		assert.Equal(w, []string{"open"}, w.states())
	})
}

func TestABaseBranchThatMovesIsFollowedWhereTheFileChanges(t *testing.T) {
	w := newWorld(t, "gitea")
	w.propose("2")
	tip := w.forge.Head(branch)
	w.forge.Commit("main", map[string]string{"README": "read me again"}, "")
	w.propose("2")
	assert.Equal(w, tip, w.forge.Head(branch), "it was pushed again though the file is as it was")
	w.forge.Commit("main", map[string]string{file: before + "replicas: 3\n"}, "")
	w.propose("2")
	assert.Equal(w, after("2")+"replicas: 3\n", w.forge.Show(branch, file))
	assert.Equal(w, w.forge.Head("main"), w.forge.Parent(branch))
}

func TestWhatOthersCommitOnTheBranchIsTheirs(t *testing.T) {
	once(t, func(w *world) {
		w.propose("2")
		w.forge.Commit(branch, map[string]string{"README": "reviewed"}, "")
		tip := w.forge.Head(branch)
		w.propose("2") // the value is there
		assert.Equal(w, tip, w.forge.Head(branch), "it was pushed over what somebody committed")
		w.propose("3") // another revision takes the branch, which is that of the pull request
		w.has("3", 1)
		w.forge.Commit(branch, map[string]string{file: after("9")}, "")
		w.refused("3", `has commit `+w.forge.Head(branch)[:10]+` by ada, not by Deployster, with the value "9"`)
		w.forge.Delete(branch)
		w.propose("3")
		w.has("3", 1)
	})
}

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

func TestWithdrawingIsDoneOnce(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		for range 2 {
			w.withdraws()
			w.again()
		}
		assert.Equal(w, []string{"closed"}, w.states())
		assert.Empty(w, w.forge.Head(branch))
	})
}

func TestAnOlderProposalDoesNotOutliveItsValue(t *testing.T) {
	once(t, func(w *world) {
		w.propose("2")
		w.forge.Commit("main", map[string]string{file: after("3")}, "") // by hand
		assert.Equal(w, pullrequest.Taken, w.propose("3").Status)
		assert.Equal(w, []string{"closed"}, w.states())
	})
}

func TestWithoutAProviderABranchIsPushed(t *testing.T) {
	w := newWorld(t, "gitea")
	w.place.Provider = ""
	w.gives("2", pullrequest.Proposed, 0)
	w.has("2", 0)
	w.propose("3")
	w.has("3", 0)
	assert.NotContains(w, strings.Join(w.forge.Requests(), "\n"), "/api/", "a provider is asked")
	w.forge.Commit("main", map[string]string{file: after("4")}, "")
	assert.Equal(w, pullrequest.Taken, w.propose("4").Status)
	assert.Empty(w, w.forge.Head(branch))
}

func TestAProviderThatWantsToBeLeftAloneIs(t *testing.T) {
	w := newWorld(t, "github")
	w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/api/") {
			return false
		}
		to.Header().Set("Retry-After", "90")
		http.Error(to, "slow down", http.StatusTooManyRequests)
		return true
	})
	_, err := w.client.Propose(t.Context(), w.place, wanted("2"), may)
	var limited *limit.Error
	if !errors.As(err, &limited) || !limited.Until.Equal(w.now.Add(90*time.Second)) {
		t.Fatalf("it fails with %v", err)
	}
	w.forge.Before(nil)
	w.forge.Requests()
	w.refused("2", "asked too often")
	assert.NotContains(t, strings.Join(w.forge.Requests(), "\n"), "/api/", "it is asked")
	w.now = w.now.Add(91 * time.Second)
	w.propose("2")
	w.has("2", 1)
}

// What is closed here is no decline: the same may be proposed again.
func TestWhatIsWithdrawnIsNotDeclined(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.withdraws()
		w.gives("2", pullrequest.Proposed, 2)
		w.has("2", 1)
	})
}

// A pull request that somebody else opened from the branch keeps its texts.
func TestAPullRequestOfSomebodyElseIsLeftAlone(t *testing.T) {
	each(t, func(w *world) {
		w.forge.Commit(branch, map[string]string{file: after("2")}, "main")
		person, err := provider.New(provider.Options{Kind: w.place.Provider, Repository: w.place.Repository, Token: forgetest.Token, HTTP: http.DefaultClient, Cache: provider.NewCache(&limit.Servers{Now: time.Now}, 1<<20)})
		require.NoError(w, err)
		_, err = person.Open(w.Context(), provider.Text{Title: "mine", Body: "mine"}, branch, "main")
		require.NoError(w, err)
		w.refused("2", "has pull request 1, which is not of Deployster")
		assert.Equal(w, "mine", w.forge.Pulls()[0].Title)
		assert.Equal(w, []string{"open"}, w.states())
	})
}

// What counts is what the base branch has, and not what was merged once.
func TestWhatWasRevertedIsProposedAgain(t *testing.T) {
	once(t, func(w *world) {
		w.propose("2")
		w.forge.Merge(1)
		w.propose("2")
		w.forge.Commit("main", map[string]string{file: before}, "") // by hand
		for range 2 {
			w.gives("2", pullrequest.Proposed, 2)
			w.again()
		}
		w.has("2", 1)
		assert.Equal(w, w.forge.Head("main"), w.forge.Parent(branch), "the commit is not on the base branch")
		w.forge.Decline(2)
		w.gives("2", pullrequest.Declined, 2)
	})
}

func TestTheValueOfTheBaseBranchIsRead(t *testing.T) {
	once(t, func(w *world) {
		reads := func(want string) {
			w.Helper()
			got, err := w.client.ValueAt(w.Context(), w.place)
			require.NoError(w, err)
			assert.Equal(w, want, got)
		}
		reads("1")
		w.propose("2")
		reads("1")
		w.forge.Merge(1)
		reads("2")
		w.forge.Commit("main", map[string]string{file: before}, "")
		reads("1")
		w.place.Base = "trunk"
		_, err := w.client.ValueAt(w.Context(), w.place)
		assert.ErrorContains(w, err, "no branch trunk")
	})
}

// Who holds a stage while a process is about to propose to it has it do nothing more, whatever that has
// done already.
func TestNothingMoreIsDoneThatIsHeldInBetween(t *testing.T) {
	each(t, func(w *world) {
		held := errors.New("the stage is held")
		proposes := func(revision string, changes int) {
			t.Helper()
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
		if p := w.forge.Pulls(); len(p) != 1 || !strings.HasSuffix(p[0].Title, "revision 2") {
			w.Errorf("changed: %+v", p)
		}
		assert.ErrorIs(w, w.client.Withdraw(w.Context(), w.place, func(context.Context) error { return held }), held, "withdrawn")
		if p := w.forge.Pulls(); p[0].State != "open" || w.forge.Head(branch) == "" {
			w.Errorf("withdrawn: %+v", p)
		}
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

// Somebody merges between the moment at which the branches are read and that at which the pull
// requests are: that is not taken for something reverted.
func TestWhatIsMergedAtTheSameTimeIsNotProposedAgain(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Before(func(_ http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/acme/deploy.git") {
				return false
			}
			w.forge.Before(nil)
			w.forge.Merge(1)
			return false
		})
		w.refused("2", "is merged just now")
		w.gives("2", pullrequest.Taken, 1)
		assert.Len(w, w.forge.Pulls(), 1)
	})
}

// A provider may show a pull request as merged before its branches are: that is not taken for
// something reverted either, whatever became of the branch, and for no longer than it may take.
func TestWhatIsMergedIsWaitedForUntilTheBaseBranchHasIt(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Lag(1, w.now)
		w.now = w.now.Add(30 * time.Second)
		w.refused("2", "pull request 1 is merged just now, and branch main does not have it")
		w.now = w.now.Add(-time.Minute) // as the clock of the provider is ahead
		w.refused("2", "pull request 1 is merged just now")
		require.Equal(w, 1, len(w.forge.Pulls()))
		w.forge.Merge(1)
		w.gives("2", pullrequest.Taken, 1)
	})
	each(t, func(w *world) { // somebody has set the base branch back, in the same moment
		w.propose("2")
		w.forge.Lag(1, w.now)
		w.now = w.now.Add(3 * time.Minute)
		w.gives("2", pullrequest.Proposed, 2)
	})
}

// A provider may give smaller pages than it is asked for.
func TestSmallPagesAreAllRead(t *testing.T) {
	each(t, func(w *world) {
		w.forge.PageSize = 7
		w.propose("2")
		for range 30 {
			w.forge.Fork(branch, "main", "mine", "open")
		}
		assert.Equal(w, 1, w.propose("2").Number)
		assert.Len(w, w.forge.Pulls(), 31)
		w.forge.Decline(1)
		for range 30 {
			w.forge.Fork(branch, "main", "mine", "closed")
		}
		w.again()
		w.gives("2", pullrequest.Declined, 1)
	})
}

// However many pull requests others have closed since, a decline is found.
func TestADeclineIsFoundAmongMany(t *testing.T) {
	w := newWorld(t, "gitea")
	w.propose("2")
	w.forge.Decline(1)
	for range 300 {
		w.forge.Fork("other", "main", "mine", "closed")
	}
	w.gives("2", pullrequest.Declined, 1)
	asked := func() (n int) {
		for _, r := range w.forge.Requests() {
			if strings.HasPrefix(r, "GET /api/") {
				n++
			}
		}
		return n
	}
	asked()
	w.now = w.now.AddDate(0, 1, 0) // what was closed before anybody wanted it is not read
	w.propose("3")
	assert.Equal(t, 2, asked())
	w.propose("3") // and nothing that is closed while something is open
	assert.Equal(t, 1, asked())
	w.forge.Decline(302)
	wanted := wanted("3")
	wanted.Since = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	o, err := w.client.Propose(t.Context(), w.place, wanted, may)
	require.NoError(t, err)
	assert.Equal(t, pullrequest.Declined, o.Status)
}

// What is kept of what servers sent is bounded, however many places there are and however much
// their files hold.
func TestWhatIsKeptIsBounded(t *testing.T) {
	const most = 36 << 20
	w := newWorld(t, "gitea")
	w.place.Provider = ""
	w.forge.Commit("main", map[string]string{file: "image: {tag: " + strings.Repeat("x", 900<<10) + "}\n"}, "")
	before := 0
	for i := range 6 { // each is another view
		w.place.Branch = "b" + strconv.Itoa(i)
		w.propose("2")
		if i == 0 {
			before = w.client.Kept()
		}
	}
	if n := w.client.Kept(); before < 900<<10 || n > 4<<20 {
		t.Errorf("%d bytes are kept, of which the first has %d", n, before)
	}
	w.place.Provider = provider.Gitea
	w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/api/") {
			return false
		}
		to.Header().Set("ETag", "1")
		_, _ = to.Write([]byte("[" + strings.Repeat(" ", 7<<20) + "]"))
		return true
	})
	for i := range 6 {
		w.place.Base = "base" + strconv.Itoa(i)
		w.forge.Commit(w.place.Base, map[string]string{file: "image: {tag: 1}\n"}, "main")
		_, _ = w.client.Propose(t.Context(), w.place, wanted("2"), may) // nothing can be opened
		if n := w.client.Kept(); n < 7<<20 || n > most {
			t.Errorf("%d bytes are kept", n)
		}
	}
}
