package pullrequest_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/internal/pullrequest/limit"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
	"github.com/deployster-go/deployster/internal/pullrequest/value"
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
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, forge: forgetest.New(t, kind, map[string]string{file: before, "README": "read me"}), now: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), workspace: t.TempDir()}
	if err := os.WriteFile(filepath.Join(w.workspace, "token"), []byte(forgetest.Token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		w.Fatalf("revision %s: %v", revision, err)
	}
	return o
}

func (w *world) refused(revision, why string) {
	w.Helper()
	o, err := w.client.Propose(w.Context(), w.place, wanted(revision), may)
	if err == nil || !strings.Contains(err.Error(), why) {
		w.Errorf("revision %s: %+v, %v; it has to say %s", revision, o, err, why)
	}
	if err != nil && strings.Contains(err.Error(), forgetest.Token) {
		w.Errorf("it tells the token: %v", err)
	}
}

// has fails unless the branch has a revision, and the open pull requests are so many.
func (w *world) has(revision string, open int) {
	w.Helper()
	if got := w.forge.Show(branch, file); got != after(revision) {
		w.Errorf("the branch has\n%s", got)
	}
	n := 0
	for _, p := range w.forge.Pulls() {
		if p.State == "open" {
			n++
			if p.Title != "Promote shop/prod to revision "+revision || p.Branch != branch || p.Base != "main" {
				w.Errorf("the pull request is %+v", p)
			}
		}
	}
	if n != open {
		w.Errorf("%d pull requests are open: %+v", n, w.forge.Pulls())
	}
}

// each does a test with each provider.
func each(t *testing.T, test func(w *world)) {
	t.Helper()
	for _, kind := range provider.Kinds() {
		t.Run(string(kind), func(t *testing.T) { test(newWorld(t, string(kind))) })
	}
}

func TestAPullRequestIsOpenedUpdatedAndTaken(t *testing.T) {
	each(t, func(w *world) {
		first := w.propose("2")
		if first.Status != pullrequest.Proposed || first.Number != 1 || !strings.Contains(first.URL, "/acme/deploy/pulls/1") {
			w.Errorf("there is %+v", first)
		}
		w.has("2", 1)
		if files := w.forge.Changed("main", branch); files != file {
			w.Errorf("changed are %s", files)
		}
		tip := w.forge.Head(branch)
		w.again()
		if again := w.propose("2"); again != first || w.forge.Head(branch) != tip || len(w.forge.Pulls()) != 1 {
			w.Errorf("asked again: %+v", again)
		}
		if newer := w.propose("3"); newer.Number != 1 {
			w.Errorf("there is %+v", newer)
		}
		w.has("3", 1)
		if w.forge.Parent(branch) != w.forge.Head("main") {
			w.Error("the commit is not on the base branch")
		}
		w.forge.Check()
		w.forge.Merge(1)
		if taken := w.propose("3"); taken.Status != pullrequest.Taken || taken.Number != 1 {
			w.Errorf("there is %+v", taken)
		}
		if w.propose("4").Number != 2 {
			w.Errorf("there are %+v", w.forge.Pulls())
		}
		w.has("4", 1)
	})
}

func TestATitleOfSomebodyStaysUntilThereIsAnotherRevision(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Retitle(1, "Draft: wait for me")
		w.propose("2")
		if all := w.forge.Pulls(); all[0].Title != "Draft: wait for me" {
			w.Errorf("there is %+v", all)
		}
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
		if strings.Contains(requests, "POST") || strings.Contains(requests, "PUT") || strings.Contains(requests, "PATCH") {
			w.Errorf("it asked\n%s", requests)
		}
		if now := w.forge.Served(); now != served {
			w.Errorf("%d answers had contents", now-served)
		}
	})
}

func TestAClosedPullRequestIsNotOpenedAgain(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Decline(1)
		w.forge.Delete(branch)
		for range 2 {
			if o := w.propose("2"); o.Status != pullrequest.Declined || o.Number != 1 || !strings.Contains(o.Detail, "pull request 1 was closed without being merged") {
				w.Errorf("there is %+v", o)
			}
			w.again()
		}
		if w.forge.Head(branch) != "" || len(w.forge.Pulls()) != 1 {
			w.Errorf("something was pushed, or opened: %+v", w.forge.Pulls())
		}
		if o := w.propose("3"); o.Status != pullrequest.Proposed || o.Number != 2 {
			w.Errorf("there is %+v", o)
		}
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
				if o, err := w.client.Propose(w.Context(), w.place, wanted(revision), may); err != nil || o.Number != 1 {
					w.Fatalf("after a death at request %d: %+v, %v", n, o, err)
				}
				w.has(revision, 1)
				if n > 12 {
					break
				}
			}
		}
		if len(w.forge.Pulls()) != 1 {
			w.Errorf("there are %+v", w.forge.Pulls())
		}
	})
}

func TestABaseBranchThatMovesIsFollowedWhereTheFileChanges(t *testing.T) {
	w := newWorld(t, "gitea")
	w.propose("2")
	tip := w.forge.Head(branch)
	w.forge.Commit("main", map[string]string{"README": "read me again"}, "")
	w.propose("2")
	if w.forge.Head(branch) != tip {
		w.Error("it was pushed again though the file is as it was")
	}
	w.forge.Commit("main", map[string]string{file: before + "replicas: 3\n"}, "")
	w.propose("2")
	if got := w.forge.Show(branch, file); got != after("2")+"replicas: 3\n" || w.forge.Parent(branch) != w.forge.Head("main") {
		w.Errorf("the branch has\n%s", got)
	}
}

func TestWhatOthersCommitOnTheBranchIsTheirs(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Commit(branch, map[string]string{"README": "reviewed"}, "")
		tip := w.forge.Head(branch)
		w.propose("2") // the value is there
		if w.forge.Head(branch) != tip {
			w.Error("it was pushed over what somebody committed")
		}
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
	each(t, func(w *world) {
		w.forge.Commit(branch, map[string]string{"notes": "mine"}, "main")
		tip := w.forge.Head(branch)
		w.refused("2", "not by Deployster")
		if err := w.client.Withdraw(w.Context(), w.place, may); err != nil || w.forge.Head(branch) != tip {
			w.Errorf("the branch was changed: %v", err)
		}
	})
}

func TestPullRequestsFromOtherRepositoriesAreNotOurs(t *testing.T) {
	each(t, func(w *world) {
		w.forge.Fork(branch, "main", "Deployster-Promotion: promotion-2", "closed")
		w.forge.Fork(branch, "main", "Deployster-Promotion: promotion-2", "open")
		if o := w.propose("2"); o.Status != pullrequest.Proposed || o.Number != 3 {
			w.Errorf("there is %+v", o)
		}
		if err := w.client.Withdraw(w.Context(), w.place, may); err != nil {
			w.Error(err)
		}
		if all := w.forge.Pulls(); all[1].State != "open" || all[2].State != "closed" || w.forge.Head(branch) != "" {
			w.Errorf("there are %+v", all)
		}
	})
}

func TestWithdrawingIsDoneOnce(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		for range 2 {
			if err := w.client.Withdraw(w.Context(), w.place, may); err != nil {
				w.Error(err)
			}
			w.again()
		}
		if all := w.forge.Pulls(); len(all) != 1 || all[0].State != "closed" || w.forge.Head(branch) != "" {
			w.Errorf("there are %+v", all)
		}
	})
}

func TestAnOlderProposalDoesNotOutliveItsValue(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Commit("main", map[string]string{file: after("3")}, "") // by hand
		if o := w.propose("3"); o.Status != pullrequest.Taken || w.forge.Pulls()[0].State != "closed" {
			w.Errorf("there is %+v, and %+v", o, w.forge.Pulls())
		}
	})
}

func TestWithoutAProviderABranchIsPushed(t *testing.T) {
	w := newWorld(t, "gitea")
	w.place.Provider = ""
	if o := w.propose("2"); o.Status != pullrequest.Proposed || o.Number != 0 {
		w.Errorf("there is %+v", o)
	}
	w.has("2", 0)
	w.propose("3")
	w.has("3", 0)
	for _, r := range w.forge.Requests() {
		if strings.Contains(r, "/api/") {
			w.Errorf("a provider is asked: %s", r)
		}
	}
	w.forge.Commit("main", map[string]string{file: after("4")}, "")
	if o := w.propose("4"); o.Status != pullrequest.Taken || w.forge.Head(branch) != "" {
		w.Errorf("there is %+v", o)
	}
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
	for _, r := range w.forge.Requests() {
		if strings.Contains(r, "/api/") {
			t.Errorf("it is asked: %s", r)
		}
	}
	w.now = w.now.Add(91 * time.Second)
	w.propose("2")
	w.has("2", 1)
}

// What is closed here is no decline: the same may be proposed again.
func TestWhatIsWithdrawnIsNotDeclined(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		if err := w.client.Withdraw(w.Context(), w.place, may); err != nil {
			w.Fatal(err)
		}
		if o := w.propose("2"); o.Status != pullrequest.Proposed || o.Number != 2 {
			w.Errorf("it is %+v", o)
		}
		w.has("2", 1)
	})
}

// A pull request that somebody else opened from the branch keeps its texts.
func TestAPullRequestOfSomebodyElseIsLeftAlone(t *testing.T) {
	each(t, func(w *world) {
		w.forge.Commit(branch, map[string]string{file: after("2")}, "main")
		person, err := provider.New(provider.Options{Kind: w.place.Provider, Repository: w.place.Repository, Token: forgetest.Token, HTTP: http.DefaultClient, Cache: provider.NewCache(&limit.Servers{Now: time.Now}, 1<<20)})
		if err != nil {
			w.Fatal(err)
		}
		if _, err := person.Open(w.Context(), provider.Text{Title: "mine", Body: "mine"}, branch, "main"); err != nil {
			w.Fatal(err)
		}
		w.refused("2", "has pull request 1, which is not of Deployster")
		if all := w.forge.Pulls(); len(all) != 1 || all[0].Title != "mine" || all[0].State != "open" {
			w.Errorf("there are %+v", all)
		}
	})
}

// What counts is what the base branch has, and not what was merged once.
func TestWhatWasRevertedIsProposedAgain(t *testing.T) {
	each(t, func(w *world) {
		w.propose("2")
		w.forge.Merge(1)
		w.propose("2")
		w.forge.Commit("main", map[string]string{file: before}, "") // by hand
		for range 2 {
			if o := w.propose("2"); o.Status != pullrequest.Proposed || o.Number != 2 {
				w.Errorf("it is %+v", o)
			}
			w.again()
		}
		w.has("2", 1)
		if w.forge.Parent(branch) != w.forge.Head("main") {
			w.Error("the commit is not on the base branch")
		}
		w.forge.Decline(2)
		if o := w.propose("2"); o.Status != pullrequest.Declined || o.Number != 2 {
			w.Errorf("it is %+v", o)
		}
	})
}

func TestTheValueOfTheBaseBranchIsRead(t *testing.T) {
	each(t, func(w *world) {
		reads := func(want string) {
			w.Helper()
			if got, err := w.client.ValueAt(w.Context(), w.place); err != nil || got != want {
				w.Errorf("it is %q, %v, and not %q", got, err, want)
			}
		}
		reads("1")
		w.propose("2")
		reads("1")
		w.forge.Merge(1)
		reads("2")
		w.forge.Commit("main", map[string]string{file: before}, "")
		reads("1")
		w.place.Base = "trunk"
		if got, err := w.client.ValueAt(w.Context(), w.place); err == nil || !strings.Contains(err.Error(), "no branch trunk") {
			w.Errorf("of a branch that does not exist it is %q, %v", got, err)
		}
	})
}
