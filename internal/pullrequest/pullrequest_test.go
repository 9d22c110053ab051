package pullrequest_test

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
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
	path := must.Get(value.Parse("image.tag"))(t)
	w := &world{T: t, forge: forgetest.New(t, kind, map[string]string{file: before, "README": "read me"}), now: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), workspace: t.TempDir()}
	require.NoError(t, os.WriteFile(filepath.Join(w.workspace, "token"), []byte(forgetest.Token+"\n"), 0o600))
	w.place = pullrequest.Place{
		Repository: w.forge.Address(), Values: []pullrequest.Value{{File: file, Path: path}}, Base: "main", Branch: branch, Provider: provider.Kind(kind), TokenFile: "token",
	}
	w.again()
	return w
}

// values are set from now on: FILE:PATH each, and " tag" after it for the tag of an image.
func (w *world) values(all ...string) {
	w.place.Values = nil
	for _, text := range all {
		text, tag := strings.CutSuffix(text, " tag")
		file, at, _ := strings.Cut(text, ":")
		path := must.Get(value.Parse(at))(w)
		w.place.Values = append(w.place.Values, pullrequest.Value{File: file, Path: path, Tag: tag})
	}
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
	o, err := w.client.Propose(w.Context(), w.place, wanted(revision), may)
	require.NoError(w, err, "revision %s", revision)
	return o
}

// gives proposes a revision, which comes to a status, of a pull request with a number.
func (w *world) gives(revision string, status pullrequest.Status, number int) {
	o := w.propose(revision)
	require.Equal(w, status, o.Status)
	assert.Equal(w, number, o.Number, "revision %s gives %+v", revision, o)
}

func (w *world) refused(revision, why string) {
	_, err := w.client.Propose(w.Context(), w.place, wanted(revision), may)
	if assert.ErrorContains(w, err, why, "revision %s", revision) {
		assert.NotContains(w, err.Error(), forgetest.Token)
	}
}

// withdraws withdraws what is proposed.
func (w *world) withdraws() { require.NoError(w, w.client.Withdraw(w.Context(), w.place, may)) }

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
					var asked atomic.Int64
					w.forge.Before(func(to http.ResponseWriter, r *http.Request) bool {
						request := int(asked.Add(1)) - 1
						if request < n {
							return false
						}
						if reaches && request == n {
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
	require.True(t, errors.As(err, &limited) && limited.Until.Equal(w.now.Add(90*time.Second)), "it fails with %v", err)
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
		reads := func(want string) { assert.Equal(w, want, must.Get(w.client.Has(w.Context(), w.place, "2"))(w)) }
		reads("1")
		w.propose("2")
		reads("1")
		w.forge.Merge(1)
		reads("2")
		w.forge.Commit("main", map[string]string{file: before}, "")
		reads("1")
		w.place.Base = "trunk"
		assert.ErrorContains(w, errOf(w.client.Has(w.Context(), w.place, "2")), "no branch trunk")
	})
}

func TestTheValueOfACommitIsRead(t *testing.T) {
	once(t, func(w *world) {
		first := w.forge.Head("main")
		w.forge.Commit("main", map[string]string{file: after("2")}, "")
		w.forge.Commit("main", map[string]string{"README": "read it again"}, "")
		for commit, want := range map[string]string{first: "1", w.forge.Head("main"): "2"} {
			got := must.Get(w.client.ValueIn(w.Context(), w.place, commit))(w)
			assert.Equal(w, want, got)
		}
		_, err := w.client.ValueIn(w.Context(), w.place, strings.Repeat("ab", 20))
		assert.Error(w, err, "of a commit that is not there")
		w.forge.Commit("main", map[string]string{file: "image: {}\n"}, "")
		_, err = w.client.ValueIn(w.Context(), w.place, w.forge.Head("main"))
		assert.ErrorContains(w, err, "of file "+file+" in commit "+w.forge.Head("main")[:10])
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

// The container and its init container, and a chart with its values, are set in one commit.
func TestSeveralValuesAreSetAtOnce(t *testing.T) {
	each(t, func(w *world) {
		w.values("chart.yaml:version", "chart.yaml:appVersion", "pod.yaml:init[0].image tag", "pod.yaml:containers[name=web].image tag")
		const chart, pod = "version: 1.0.0 # of the chart\nappVersion: '1.0.0'\n", "init:\n- image: web:1.0.0\ncontainers:\n- {name: web, image: \"a/web:1.0.0\"}\n"
		w.forge.Commit("main", map[string]string{"chart.yaml": chart, "pod.yaml": pod}, "")
		to := func(text, revision string) string { return strings.ReplaceAll(text, "1.0.0", revision) }
		w.gives("2.0.0", pullrequest.Proposed, 1)
		assert.Equal(w, to(chart, "2.0.0"), w.forge.Show(branch, "chart.yaml"))
		assert.Equal(w, to(pod, "2.0.0"), w.forge.Show(branch, "pod.yaml"))
		assert.Equal(w, "chart.yaml\npod.yaml", w.forge.Changed("main", branch))
		assert.Equal(w, w.forge.Head("main"), w.forge.Parent(branch), "there is more than one commit")
		assert.Contains(w, w.forge.Pulls()[0].Body, "Sets these values to `2.0.0`, which brings that revision to environment `shop/prod` (pipeline `shop`, stage `prod`).\n\n- `version` in `chart.yaml`\n")
		w.forge.Check()

		w.forge.Commit("main", map[string]string{"chart.yaml": to(chart, "2.0.0")}, "") // by hand
		w.gives("2.0.0", pullrequest.Proposed, 1)
		got := must.Get(w.client.Has(w.Context(), w.place, "2.0.0"))(w)
		assert.Equal(w, "1.0.0", got, "the revision counts as there though one file has another one")
		w.forge.Commit("main", map[string]string{"pod.yaml": to(pod, "2.0.0")}, "")
		w.gives("2.0.0", pullrequest.Taken, 0)
		assert.Equal(w, []string{"closed"}, w.states())
	})
}

func TestOfSeveralValuesTheOneIsNamedThatCannotBeSet(t *testing.T) {
	w := newWorld(t, "gitea")
	w.forge.Commit("main", map[string]string{"a.yaml": "tag: '1'\n", "b.yaml": "a: &x 1\nb: *x\n"}, "")
	w.values("a.yaml:tag", "b.yaml:b")
	w.refused("2", "value b of file b.yaml on branch main: b is the alias *x")
	w.values("a.yaml:tag", "c.yaml:b")
	w.refused("2", "value b of file c.yaml on branch main: there is no c.yaml in the repository")
	assert.Empty(t, w.forge.Head(branch), "something was pushed")
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

const ann, ci = "Ann Lee <ann@example.com>", "Shop CI <ci@example.com>"

func TestCommitsAndPullRequestsAreWrittenAsTheDefinitionSays(t *testing.T) {
	w := newWorld(t, "gitea")
	w.place.Owner = "pipeline shop of log 1"
	const mark = "Deployster-Promotion: promotion-2 (pipeline shop of log 1)\n"
	for name, c := range map[string]struct {
		style          pullrequest.Style
		title, message string
	}{
		"the usual way": {pullrequest.Style{}, "Promote shop/prod to revision 2", "Promote shop/prod to revision 2\n\nPipeline shop, stage prod.\n\n" + mark},
		"a title":       {pullrequest.Style{Title: "deploy({{ stage }}): {{ revision }}"}, "deploy(prod): 2", "deploy(prod): 2\n\nPipeline shop, stage prod.\n\n" + mark},
		"a message": {
			pullrequest.Style{Message: "{{ pipeline|upper }}-{{ revision }}\n\nSets {{ value }} of {{ file }} for {{ environment }}.\n"},
			"Promote shop/prod to revision 2", "SHOP-2\n\nSets image.tag of shop/prod.yaml for shop/prod.\n\n" + mark,
		},
		"trailers": {
			pullrequest.Style{Author: ann, SignOff: true, Message: "bump\n\nRefs: OPS-1\nChange-Id: {{ revision }}"},
			"Promote shop/prod to revision 2", "bump\n\nRefs: OPS-1\nChange-Id: 2\nSigned-off-by: " + ann + "\n" + mark,
		},
		"trailers of its own": {
			pullrequest.Style{Author: ann, Committer: ci, SignOff: true, Message: "bump\n\nRefs: OPS-1", Trailers: []string{"Change-Id: I{{ revision }}", "Ticket: {{ revision if revision == '1' else '' }}"}},
			"Promote shop/prod to revision 2", "bump\n\nRefs: OPS-1\nChange-Id: I2\nSigned-off-by: " + ann + "\n" + mark,
		},
		"one line": {pullrequest.Style{Author: ann, SignOff: true, Message: "bump: it"}, "Promote shop/prod to revision 2", "bump: it\n\nSigned-off-by: " + ann + "\n" + mark},
	} {
		w.place.Style = c.style
		w.propose("2")
		pulls := w.forge.Pulls()
		assert.Equal(t, c.title, pulls[len(pulls)-1].Title, name)
		assert.Equal(t, c.message, w.forge.Git("log", "-1", "--format=%B", branch)[:len(c.message)], name)
		if c.style.Author != "" {
			assert.Equal(t, ann+" "+cmp.Or(c.style.Committer, ann), strings.TrimSpace(w.forge.Git("log", "-1", "--format=%an <%ae> %cn <%ce>", branch)), name)
			assert.Contains(t, w.forge.Git("log", "-1", "--format=%(trailers:key=Signed-off-by)", branch), "Signed-off-by: "+ann, name)
		}
		trailers := w.forge.Git("log", "-1", "--format=%(trailers:only,unfold)", branch)
		assert.Contains(t, trailers, mark, name)
		for _, template := range c.style.Trailers {
			key, value, _ := strings.Cut(template, ": ")
			assert.Equal(t, !strings.Contains(value, "if"), strings.Contains(trailers, key+": I2\n"), name)
		}
		w.propose("2") // it is known again
		assert.Len(t, w.forge.Pulls(), len(pulls), name)
		w.withdraws()
	}
	for template, why := range map[string]string{
		"{{ revision[9] }}":                    "commit message: ",
		"x\n\nRefs: {{ revision[9] }}":         "commit message: ",
		"x\n\nDeployster-Promotion: y":         `the line "Deployster-Promotion: y", by which Deployster knows its commits`,
		"{% if revision == '1' %}x{% endif %}": "the commit message is empty",
	} {
		w.place.Style = pullrequest.Style{Message: template}
		w.refused("2", why)
	}
	assert.Empty(t, w.forge.Head(branch), "something was pushed")
}

// Git itself checks the signatures, of keys as ssh-keygen and gpg write them.
func TestCommitsAreSignedWithAKey(t *testing.T) {
	w := newWorld(t, "gitea")
	w.place.Provider, w.place.Style.Author = "", ann
	home, err := os.MkdirTemp("", "gpg") // the path of a socket must be short
	require.NoError(t, err)
	t.Setenv("GNUPGHOME", home)
	run := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).Output()
		require.NoError(t, err, "%s %q", name, args)
		return string(out)
	}
	t.Cleanup(func() {
		run("gpgconf", "--kill", "all")
		assert.NoError(t, os.RemoveAll(home))
	})
	keep := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(w.workspace, name), []byte(text), 0o600))
	}
	keep("passphrase", "open sesame\n")
	keep("wrong", "open barley")

	allowed := filepath.Join(w.workspace, "allowed")
	makers := map[string]func(name, passphrase string){}
	for _, kind := range []string{"ed25519", "rsa", "ecdsa"} {
		makers[kind] = func(name, passphrase string) {
			run("ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", "ann", "-f", filepath.Join(w.workspace, name))
			public := must.Get(os.ReadFile(filepath.Join(w.workspace, name+".pub")))(t)
			require.NoError(t, os.WriteFile(allowed, append([]byte("ann@example.com "), public...), 0o600))
		}
	}
	for name, kind := range map[string]string{"gpg-ed25519": "ed25519", "gpg-rsa": "rsa2048"} {
		makers[name] = func(name, passphrase string) {
			user := name + passphrase + " " + ann
			run("gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", passphrase, "--quick-gen-key", user, kind, "sign")
			keep(name, run("gpg", "--batch", "--quiet", "--pinentry-mode", "loopback", "--passphrase", passphrase, "--armor", "--export-secret-keys", name+passphrase))
		}
	}
	revision := "1"
	for kind, makes := range makers {
		passphrases := []string{""}
		if strings.HasSuffix(kind, "ed25519") {
			passphrases = append(passphrases, "open sesame")
		}
		for _, passphrase := range passphrases {
			key := kind + "-" + strings.ReplaceAll(passphrase, " ", "-")
			makes(key, passphrase)
			revision += "1"
			w.now = time.Now() // a key signs nothing before it was made
			w.place.Style.SigningKey, w.place.Style.SigningPassphrase = key, ""
			if passphrase != "" {
				w.refused(revision, "commits cannot be signed with "+key+": the key has a passphrase: name the file of that")
				w.place.Style.SigningPassphrase = "wrong"
				w.refused(revision, "the passphrase does not open the key")
				w.place.Style.SigningPassphrase = "passphrase"
			}
			w.propose(revision)
			assert.Contains(t, w.forge.Git("-c", "gpg.ssh.allowedSignersFile="+allowed, "log", "-1", "--format=%G? %GS", branch), "G ", key)
			w.forge.Git("-c", "gpg.ssh.allowedSignersFile="+allowed, "verify-commit", branch)
		}
	}
	keep("other", "not a key")
	for key, why := range map[string]string{"other": "commits cannot be signed with other: it holds no private key", "none": "reading the key that signs commits"} {
		w.place.Style.SigningKey = key
		w.refused("2", why)
	}
}
