package promotions_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/pullrequest/forgetest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/promotion/object"
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

// proposed is such a world in which revision 1 is proposed to staging by a process that goes on.
func proposed(t *testing.T, test func(w *world, f *forgetest.Forge, p *process)) {
	t.Helper()
	proposing(t, func(w *world, f *forgetest.Forge) {
		p := w.promotes("1")
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		assert.Equal(t, []int{1}, open(f))
		test(w, f, p)
	})
}

// open are the numbers of the pull requests that are open.
func open(f *forgetest.Forge) (numbers []int) {
	for _, p := range f.Pulls() {
		if p.State == "open" {
			numbers = append(numbers, p.Number)
		}
	}
	return numbers
}

// answers has requests of which the path has a part answered with a status, which may ask for a pause.
func answers(f *forgetest.Forge, part string, status int, pause string) {
	f.Before(func(to http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		if pause != "" {
			to.Header().Set("Retry-After", pause)
		}
		http.Error(to, "not now", status)
		return true
	})
}

// asked is how often such requests came.
func asked(f *forgetest.Forge, part string) (n int) {
	for _, r := range f.Requests() {
		if strings.Contains(r, part) {
			n++
		}
	}
	return n
}

func TestAPullRequestPromotesByWhatIsObserved(t *testing.T) {
	proposed(t, func(w *world, f *forgetest.Forge, _ *process) {
		reconciletest.Wait(10 * time.Minute)
		assert.Equal(t, "tag: \"1\" # of staging\n", f.Show("deployster/shop/staging", "staging.yaml"))
		w.says("staging", promotion.AwaitsMerge, "revision 1 is proposed, and waits to be merged: pull request 1: http")
		assert.Equal(t, 1, w.count(promotion.StageStarted, "staging", "1"))
		assert.Zero(t, w.count(promotion.Merged, "staging", ""))
		f.Merge(1)
		reconciletest.Wait(2 * time.Minute)
		assert.Equal(t, 1, w.count(promotion.Merged, "staging", "1"))
		assert.Zero(t, w.count(promotion.StageFinished, "staging", ""), "it is promoted without the environment")
		w.deploys("staging", "1") // by whoever follows the repository
		reconciletest.Wait(2 * time.Minute)
		assert.Equal(t, 1, w.count(promotion.StageFinished, "staging", "1"))
		assert.Equal(t, []int{2}, open(f))
	})
}

func TestAClosedPullRequestDeclinesTheRevisionUntilItIsReleased(t *testing.T) {
	proposed(t, func(w *world, f *forgetest.Forge, _ *process) {
		f.Decline(1)
		reconciletest.Wait(time.Hour)
		w.says("staging", promotion.IsDeclined, "pull request 1 was closed without being merged")
		assert.Contains(t, w.explain("staging").Change, "release-hold shop staging")
		assert.Len(t, f.Pulls(), 1)
		w.commands("shop", promotion.ReleaseHold{Stage: "staging", ID: "release"})
		reconciletest.Wait(2 * time.Minute)
		assert.Equal(t, []int{2}, open(f))
	})
}

// A process that dies at any of its appends is replaced by another one: there is one pull
// request for each stage, and each revision comes to each stage once.
func TestWhicheverProcessDiesThereIsOnePullRequestForAStage(t *testing.T) {
	deaths(t, 12, 3, func(t *testing.T, die func(deploylog.Log) deploylog.Log) {
		proposing(t, func(w *world, f *forgetest.Forge) {
			log := die(w.open())
			w.deploys("dev", "1")
			for range 20 {
				if err := w.untilIdle(log); err != nil {
					log = w.open() // the next process
					continue
				}
				merged := false
				for _, number := range open(f) {
					f.Merge(number)
					w.deploys(strings.TrimPrefix(f.Pulls()[number-1].Branch, "deployster/shop/"), "1")
					merged = true
				}
				if !merged {
					break
				}
			}
			assert.Len(t, f.Pulls(), 2)
			w.finished("1", "staging", "prod")
		})
	})
}

// A server fails nothing that is away for a moment, or wants to be left alone.
func TestAServerThatIsAwayForAMomentFailsNothing(t *testing.T) {
	proposed(t, func(w *world, f *forgetest.Forge, _ *process) {
		answers(f, "", http.StatusBadGateway, "")
		reconciletest.Wait(3 * time.Minute)
		f.Before(nil)
		reconciletest.Wait(2 * time.Minute)
		assert.Zero(t, w.count(promotion.StageFailed, "staging", ""))
		answers(f, "", http.StatusBadGateway, "")
		reconciletest.Wait(20 * time.Minute)
		w.says("staging", promotion.AwaitsRetry, "the server answered 502")
		f.Before(nil)
		reconciletest.Wait(time.Hour)
		w.says("staging", promotion.AwaitsMerge, "")
		assert.Len(t, f.Pulls(), 1)
	})
	proposed(t, func(w *world, f *forgetest.Forge, _ *process) {
		answers(f, "/api/", http.StatusTooManyRequests, "1800")
		f.Requests()
		reconciletest.Wait(25 * time.Minute)
		assert.Equal(t, 1, asked(f, "/api/"))
		assert.Zero(t, w.count(promotion.StageFailed, "staging", ""))
		f.Before(nil)
		f.Merge(1)
		reconciletest.Wait(10 * time.Minute)
		assert.Equal(t, 1, w.count(promotion.Merged, "staging", "1"))
	})
}

func TestWhatCannotBeWithdrawnIsWithdrawnLaterAndOnce(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		w.deploys("staging", "1")
		p := w.promotes("1")
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
		assert.Zero(t, w.count(promotion.Withdrawn, "prod", ""))
		assert.NotEmpty(t, w.notices("is not closed: changing pull request 1: the provider answered 502"))
		f.Before(nil)
		reconciletest.Wait(5 * time.Minute)
		assert.Equal(t, 1, w.count(promotion.Withdrawn, "prod", "1"))
		assert.Equal(t, []int{2}, open(f))
	})
}

func TestNothingIsPushedToWhatIsHeld(t *testing.T) {
	proposed(t, func(w *world, f *forgetest.Forge, _ *process) {
		w.commands("shop", promotion.HoldStage{Stage: "staging", ID: "hold"})
		f.Delete("deployster/shop/staging")
		reconciletest.Wait(10 * time.Minute)
		assert.Empty(t, f.Head("deployster/shop/staging"), "something was pushed")
		assert.Zero(t, w.count(promotion.StageFailed, "staging", ""))
	})
}

// A merge that somebody reverts before the environment took it is proposed again as soon as that
// is seen: the file says what is so.
func TestAMergeThatIsRevertedIsProposedAgain(t *testing.T) {
	proposed(t, func(w *world, f *forgetest.Forge, _ *process) {
		f.Merge(1)
		reconciletest.Wait(2 * time.Minute)
		f.Commit("main", map[string]string{"staging.yaml": "tag: \"0\" # of staging\n"}, "")
		reconciletest.Wait(2 * time.Minute)
		assert.Contains(t, w.story(), "and not revision 1 any more, after pull request 1 is merged: ")
		assert.Equal(t, []int{2}, open(f))
		assert.Equal(t, 1, w.count(promotion.StageFailed, "staging", "1"))
		w.says("staging", promotion.AwaitsMerge, "")
		f.Merge(2)
		reconciletest.Wait(2 * time.Minute)
		w.deploys("staging", "1")
		reconciletest.Wait(2 * time.Minute)
		assert.Equal(t, 1, w.count(promotion.StageFinished, "staging", "1"))
	})
}

// Who has a proposal looked at more often does not wait for the look that was due before.
func TestAnotherDefinitionOfHowOftenIsFollowedAtOnce(t *testing.T) {
	proposed(t, func(w *world, f *forgetest.Forge, _ *process) {
		every := func(period time.Duration) {
			w.define(single(), proposes(f), func(of *definition.Definition) {
				for _, stage := range of.Stages[1:] {
					stage.PullRequest.CheckEvery = definition.Duration(period)
				}
			})
			reconciletest.Wait(3 * time.Minute)
		}
		every(50 * time.Minute)
		f.Merge(1)
		every(time.Minute)
		assert.Equal(t, 1, w.count(promotion.Merged, "staging", "1"))
		assert.Zero(t, w.count(promotion.StageFailed, "", ""))
	})
}

// Where a repository cannot be read after the merge nothing has failed before the time is up.
func TestARepositoryThatIsAwayAfterTheMergeFailsNothing(t *testing.T) {
	proposed(t, func(w *world, f *forgetest.Forge, _ *process) {
		f.Merge(1)
		reconciletest.Wait(2 * time.Minute)
		answers(f, "", http.StatusInternalServerError, "")
		f.Requests()
		reconciletest.Wait(20 * time.Minute)
		n := asked(f, "")
		assert.NotZero(t, n)
		assert.LessOrEqual(t, n, 25)
		assert.Zero(t, w.count(promotion.StageFailed, "", ""))
		f.Before(nil)
		w.deploys("staging", "1")
		reconciletest.Wait(2 * time.Minute)
		assert.Equal(t, 1, w.count(promotion.StageFinished, "staging", "1"))
	})
}

// A server that wants to be left alone when something is proposed for the first time fails
// nothing, whichever of its parts says so.
func TestAFirstTryWaitsUntilTheServerMayBeAsked(t *testing.T) {
	for _, part := range []string{"/api/", "/info/refs", "/git-upload-pack", "/git-receive-pack"} {
		t.Run(part, func(t *testing.T) {
			proposing(t, func(w *world, f *forgetest.Forge) {
				answers(f, part, http.StatusTooManyRequests, "1800")
				p := w.promotes("1")
				<-time.After(25 * time.Minute)
				assert.Equal(t, 1, asked(f, part))
				assert.Equal(t, 1, w.count(promotion.StageStarted, "staging", "1"))
				assert.Zero(t, w.count(promotion.StageFailed, "staging", ""))
				said := w.notices("try 1 of promoting revision 1 to stage/shop/staging waits: ")
				require.Len(t, said, 1)
				assert.Contains(t, said[0], "asked too often, and wants to be left alone until")
				f.Before(nil)
				p.die() // the next one does not know that
				p = w.start()
				defer p.end()
				<-time.After(6 * time.Minute)
				assert.Equal(t, []int{1}, open(f))
				assert.Equal(t, 1, w.count(promotion.StageStarted, "staging", "1"))
			})
		})
	}
}

// Where it may be asked again the try goes on by itself.
func TestATryGoesOnWhenTheServerMayBeAsked(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		f.Before(func(to http.ResponseWriter, _ *http.Request) bool {
			f.Before(nil)
			to.Header().Set("Retry-After", "600")
			to.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		w.deploys("dev", "1")
		assert.NoError(t, w.untilIdle(w.open()))
		assert.Equal(t, []int{1}, open(f))
		assert.Equal(t, 1, w.count(promotion.StageStarted, "staging", "1"))
		assert.Zero(t, w.count(promotion.StageFailed, "", ""))
	})
}

// What is proposed to a server that does not answer keeps nobody else from being promoted.
func TestAServerThatDoesNotAnswerKeepsNobodyElse(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		release := make(chan struct{})
		w.getenv = func(string) string { // whoever asks has a place at the server already
			<-release
			return forgetest.Token
		}
		w.stages = w.stages[:2]
		w.define(single())
		for i := range 10 {
			d := &definition.Definition{Name: fmt.Sprint("slow", i), Promotion: single(), Stages: stagesOf("dev", "prod")}
			proposes(f)(d)
			d.Stages[1].PullRequest.TokenFile, d.Stages[1].PullRequest.TokenEnv, d.Stages[1].PullRequest.Branch = "", "DEPLOYSTER_GIT_TOKEN", d.Name
			w.commands(d.Name, promotion.Define{Definition: d, ID: d.Name})
		}
		p := w.promotes("1")
		<-time.After(time.Minute)
		assert.Equal(t, "1", w.at("staging"))
		close(release)
		<-time.After(time.Minute)
		assert.Len(t, open(f), 10)
		p.end()
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

func TestANewerRevisionTakesThePlaceOfWhatIsProposed(t *testing.T) {
	proposing(t, func(w *world, f *forgetest.Forge) {
		w.deploys("dev", "1")
		w.deploys("staging", "1")
		p := w.start()
		defer p.end()
		reconciletest.Wait(2 * time.Minute)
		w.deploys("dev", "2")
		reconciletest.Wait(2 * time.Minute)
		require.Equal(t, []int{2}, open(f))
		if f.Pulls()[1].Branch != "deployster/shop/staging" || f.Show("deployster/shop/staging", "staging.yaml") != "tag: \"2\" # of staging\n" {
			t.Fatalf("there are %+v\n%s", f.Pulls(), w.story())
		}
		if f.Head("deployster/shop/prod") != "" || w.count(promotion.Withdrawn, "prod", "1") != 1 {
			t.Errorf("what was proposed to prod is still there: %+v\n%s", f.Pulls(), w.story())
		}
		w.deploys("dev", "3")
		reconciletest.Wait(2 * time.Minute)
		require.Equal(t, []int{2}, open(f))
		assert.Len(t, f.Pulls(), 2)
		assert.Equal(t, "Promote staging to revision 3", f.Pulls()[1].Title)
	})
}

// All stages are in one repository, as is usual with Flux: each commit comes to all of them, and what counts
// is the value that the file of a stage has.
func TestAMergeForOneStageIsNoNewRevisionOfTheOthers(t *testing.T) {
	f := forgetest.New(t, "gitea", map[string]string{"dev.yaml": "tag: \"1\"\n", "prod.yaml": "tag: \"0\"\n"})
	workspace := t.TempDir()
	place(t, workspace, "secrets/token", forgetest.Token)
	synctest.Test(t, func(t *testing.T) {
		flux := &fleet{runs: map[string]string{}, unwell: map[string]bool{}, gone: map[string]bool{}, viewers: map[int]func(){}}
		pulls := func() {
			flux.set(func() { flux.runs["dev"], flux.runs["prod"] = "main@sha1:"+f.Head("main"), "main@sha1:"+f.Head("main") })
			reconciletest.Wait(3 * time.Minute)
		}
		w := newWorld(t, reconciletest.InMemory(t))
		w.workspace, w.clusters, w.stages = workspace, flux, []string{"dev", "prod"}
		w.define(single(), proposes(f), func(d *definition.Definition) {
			for i := range d.Stages {
				s := &d.Stages[i]
				s.Environment, s.Objects = "objects:shop/"+s.Name, []object.Object{{Cluster: s.Name, Kind: "Kustomization", Namespace: "flux-system", Name: "shop", Part: object.Path}}
			}
			d.Stages[0].Source = &definition.PullRequest{Repository: f.Address(), File: "dev.yaml", Value: "tag", TokenFile: "secrets/token"}
		})
		p := w.start()
		pulls()
		assert.Equal(t, []int{1}, open(f))
		f.Commit("main", map[string]string{"README": "read me"}, "")
		pulls()
		assert.Zero(t, w.count(promotion.StageFinished, "prod", "1"), "nobody has merged it")
		f.Merge(1)
		pulls()
		w.finished("1", "prod")
		f.Commit("main", map[string]string{"README": "read me again"}, "")
		pulls()
		assert.Equal(t, 1, w.count(promotion.RunStarted, "", ""), "a merge is no new revision")
		f.Commit("main", map[string]string{"dev.yaml": "tag: \"2\"\n"}, "")
		pulls()
		assert.Equal(t, []int{2}, open(f))
		assert.Equal(t, "tag: \"2\"\n", f.Show("deployster/shop/prod", "prod.yaml"))
		p.end()
		synctest.Wait()
	})
}
