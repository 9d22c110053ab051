package packages_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/packages"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/step"
)

// plant is a log with a pipeline whose first stage builds gcc and then make, and whose second
// one applies a manifest. It is all that a scheduler and a dispatcher need.
type plant struct {
	*testing.T
	log       deploylog.Log
	pipelines *pipelines.Pipelines
	builds    *builds.Builds
	ids       int

	mu    sync.Mutex
	fails map[string]string // packages, and why
	slow  map[string]bool   // packages that never end by themselves
	built []string
	taken map[string]string // artifacts that the second stage got

	dispatches func() // unless nil, is called when a dispatcher asks for its workers
}

func inPlant(t *testing.T, timeout time.Duration, test func(*plant)) {
	synctest.Test(t, func(t *testing.T) {
		log := reconciletest.InMemory(t)()
		p := &plant{T: t, log: log, pipelines: pipelines.New(log, time.Now), builds: builds.New(log, time.Now), fails: map[string]string{}, slow: map[string]bool{}}
		d := &definition.Definition{Name: "gateway", Stages: []definition.Stage{
			{Name: "build", Build: &definition.Build{Group: "packages.yaml", Timeout: definition.Duration(timeout)}},
			{Name: "announce", After: []string{"build"}, Run: &definition.Run{Manifest: "announce.yaml"}},
		}}
		p.do(true, pipeline.Define{Definition: d, ID: "define"})
		p.do(false, pipeline.Release{Revision: "42", ID: "release"})
		test(p)
	})
}

func (p *plant) do(create bool, c pipeline.Command) {
	_, err := p.pipelines.Change(p.Context(), "gateway", create, func(s *pipeline.State) ([]deploylog.Event, error) { return s.Propose(c, time.Now()) })
	require.NoError(p, err)
}

// schedule runs a scheduler until no progress is possible, or ctx ends.
func (p *plant) schedule(ctx context.Context) error {
	o := pipelines.Options{
		Options: reconcile.Options{Log: p.log, Parallelism: 10, UntilIdle: true, Now: time.Now},
		Worker:  p, Hosts: p, Observer: p, NewID: func() string { p.ids++; return fmt.Sprint("id-", p.ids) },
	}
	dispatch := builds.Options{Options: reconcile.Options{Log: p.log, Parallelism: 10, Now: time.Now}, Builder: p, Workers: p, Observer: p}
	return packages.Schedule(ctx, o, dispatch, submission, func(ctx context.Context, o pipelines.Options) error {
		return pipelines.NewScheduler(o).Run(ctx)
	})
}

func submission(_ context.Context, s step.Step) (build.Submit, error) {
	if s.Packages != "packages.yaml" {
		return build.Submit{}, errors.New("these are not the packages of the stage")
	}
	return build.Submit{
		Triggered: record.Triggered{Name: "base", MaxLost: 3}, Places: []record.Place{{Platform: "linux/amd64"}},
		Jobs: []record.JobSpec{{Package: "gcc", Inputs: "a"}, {Package: "make", Inputs: "b", Uses: []record.Use{{Package: "gcc", Job: 1}}}},
	}, nil
}

func (p *plant) Build(ctx context.Context, t build.Task) build.Result {
	p.mu.Lock()
	cause, slow := p.fails[t.Package], p.slow[t.Package]
	p.built = append(p.built, t.Package)
	p.mu.Unlock()
	end := time.After(time.Minute)
	if slow {
		end = nil
	}
	select {
	case <-ctx.Done():
		return build.Result{Canceled: &record.Canceled{}}
	case <-end:
	}
	if cause != "" {
		return build.Result{Failed: &record.Failed{Cause: cause}}
	}
	return build.Result{Finished: &record.Finished{Artifact: "sha256:" + t.Package, Inputs: t.Inputs}}
}

func (p *plant) Resume(context.Context, build.Task) build.Result {
	return build.Result{Lost: &record.Lost{Cause: "its container is gone"}}
}

// Workers and Look implement builds.Workers.
func (p *plant) Workers() ([]inventory.Host, error) {
	if p.dispatches != nil {
		p.dispatches()
	}
	return []inventory.Host{{Name: "a", Engine: inventory.OCI, Slots: 2, Platforms: []string{"linux/amd64"}}}, nil
}

func (p *plant) Look(context.Context, string) ([]string, error) { return []string{"linux/amd64"}, nil }

// Work and Settle implement pipelines.Worker.
func (p *plant) Work(_ context.Context, s step.Step, artifacts map[string]string, _ func() error) (map[string]string, error) {
	if s.Manifest != "announce.yaml" {
		return nil, fmt.Errorf("work of %s is not this worker's", s.Event)
	}
	p.taken = artifacts
	return nil, nil
}

func (p *plant) Settle(context.Context, step.Work) error { return nil }

// Members, Slots and Identity implement pipelines.Hosts.
func (p *plant) Members(*definition.Definition) (map[string][]string, error) { return nil, nil }
func (p *plant) Slots(string) int                                            { return 1 }
func (p *plant) Identity() string                                            { return "" }

// The rest implements pipelines.Observer.
func (p *plant) Recorded(deploylog.Event)              {}
func (p *plant) Notice(text string)                    { p.Log(text) }
func (p *plant) Began(step.Step)                       {}
func (p *plant) Again(step.Step, error, time.Duration) {}

// is wants the revision and its group to be so far.
func (p *plant) is(status deployment.Status, state transition.Group, built string) {
	require.NoError(p, errors.Join(p.pipelines.Follow(p.Context(), 0), p.builds.Follow(p.Context(), 0)))
	_ = p.pipelines.Ask("gateway", func(s *pipeline.State) error {
		assert.Equal(p, status, s.Registrations()[0].Status)
		return nil
	})
	_ = p.builds.State(func(s *build.State) error {
		groups := s.Groups()
		assert.True(p, len(groups) == 1 && groups[0].State == state, "the groups are %+v, want one that is %s", groups, state)
		return nil
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	assert.Equal(p, built, strings.Join(p.built, " "))
}

func (p *plant) must(err error) { require.NoError(p, err) }

func (p *plant) cause() (cause string) {
	_ = p.pipelines.Ask("gateway", func(s *pipeline.State) error { cause = s.Registrations()[0].Cause; return nil })
	return cause
}

func TestAStageBuildsAGroupAndGivesItsArtifactsToLaterOnes(t *testing.T) {
	inPlant(t, 0, func(p *plant) {
		p.must(p.schedule(p.Context()))
		p.is(deployment.Finished, transition.Complete, "gcc make")
		assert.True(t, len(p.taken) == 2 && p.taken["gcc"] == "sha256:gcc" &&
			p.taken["make"] == "sha256:make", "the next stage has %v", p.taken)
	})
}

func TestAStageWhoseGroupFailedIsRetriedWithWhatWasBuilt(t *testing.T) {
	inPlant(t, 0, func(p *plant) {
		p.fails["make"] = "syntax error"
		p.must(p.schedule(p.Context()))
		p.is(deployment.Failed, transition.Failed, "gcc make")
		assert.Contains(t, p.cause(), "build group base-1: Failed", "the revision failed because of")
		p.do(false, pipeline.Retry{Revision: "42"})
		p.must(p.schedule(p.Context()))
		p.is(deployment.Failed, transition.Failed, "gcc make make")
		delete(p.fails, "make")
		p.do(false, pipeline.Retry{Revision: "42"})
		p.must(p.schedule(p.Context()))
		p.is(deployment.Finished, transition.Complete, "gcc make make make")
	})
}

func TestAGroupIsFoundAgainByTheNextScheduler(t *testing.T) {
	inPlant(t, 0, func(p *plant) {
		ctx, kill := context.WithCancel(p.Context())
		time.AfterFunc(90*time.Second, kill) // while make is built
		assert.Error(t, p.schedule(ctx), "a scheduler that was killed ended well")
		p.must(p.schedule(p.Context()))
		p.is(deployment.Finished, transition.Complete, "gcc make make")
	})
}

// slowToCancel is a log to which a cancellation of a group is appended only after a minute.
type slowToCancel struct {
	deploylog.Log
	done atomic.Bool
}

func (l *slowToCancel) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	if slices.ContainsFunc(events, func(e deploylog.Event) bool { return e.Name == record.GroupCanceling }) {
		<-time.After(time.Minute)
		l.done.Store(true)
	}
	return l.Log.Append(ctx, events...)
}

func TestTheGroupOfARevisionThatIsCancelledIsCanceled(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprint("and its scheduler killed: ", killed), func(t *testing.T) {
			inPlant(t, 0, func(p *plant) {
				p.slow["gcc"] = true
				ctx, kill := context.WithCancel(p.Context())
				ended := make(chan error, 1)
				go func() { ended <- p.schedule(ctx) }()
				<-time.After(time.Minute)
				if killed {
					kill()
					<-ended
				}
				p.must(p.pipelines.Follow(p.Context(), 0))
				p.do(false, pipeline.Cancel{Revision: "42"})
				if killed {
					canceling := &slowToCancel{Log: p.log}
					p.log, p.dispatches = canceling, func() {
						assert.True(t, canceling.done.Load(), "jobs are dispatched before their group is canceled")
					}
					p.must(p.schedule(p.Context()))
				} else {
					p.must(<-ended)
				}
				kill()
				p.is(deployment.Cancelled, transition.Canceled, "gcc")
			})
		})
	}
}

// The dispatcher of a scheduler works off all groups, also those that no stage wants, and
// must not leave them when its stage is done.
func TestAGroupThatNoStageWantsIsNotLeftHalfDone(t *testing.T) {
	inPlant(t, 0, func(p *plant) {
		p.slow["slow"] = true
		_, err := p.builds.Command(p.Context(), build.Submit{
			Triggered: record.Triggered{Name: "other", MaxLost: 3}, Places: []record.Place{{Platform: "linux/amd64"}},
			Jobs: []record.JobSpec{{Package: "slow", Inputs: "z"}},
		})
		p.must(err)
		ended := make(chan error, 1)
		go func() { ended <- p.schedule(p.Context()) }()
		<-time.After(time.Hour)
		p.must(p.pipelines.Follow(p.Context(), 0))
		_ = p.pipelines.Ask("gateway", func(s *pipeline.State) error {
			assert.Equal(t, deployment.Finished, s.Registrations()[0].Status)
			return nil
		})
		_, err = p.builds.Command(p.Context(), build.Cancel{Group: "other-1"})
		p.must(err)
		p.must(<-ended)
		p.must(p.builds.Follow(p.Context(), 0))
		_ = p.builds.State(func(s *build.State) error {
			r := must.Get(s.Report("other-1"))(t)
			assert.True(t, r.State == transition.Canceled, "the other group is %s", r.State)
			return nil
		})
	})
}

func TestAGroupThatTakesTooLongIsCanceled(t *testing.T) {
	inPlant(t, 5*time.Minute, func(p *plant) {
		p.slow["gcc"] = true
		p.must(p.schedule(p.Context()))
		p.is(deployment.Failed, transition.Canceled, "gcc")
		assert.Contains(t, p.cause(), "it took longer than its timeout of 5m", "the revision failed because of")
	})
}

func TestAGroupIsCarried(t *testing.T) {
	c := packages.Carried{
		Version: 1, Files: map[string]string{"/recipes/0": "{}", "packages.yaml": "group: base\n"},
		Submit: build.Submit{
			Triggered: record.Triggered{Name: "base", FailFast: true, Carries: record.Carries{"/recipes/0": "hash"}}, Places: []record.Place{{Platform: "linux/amd64"}},
			Jobs:        []record.JobSpec{{Package: "gcc", Pass: 1, Of: 2, Inputs: "a", Waits: record.Numbers{1, 2, 5}, Uses: []record.Use{{Package: "make", Artifact: "sha256:1", Run: true}}}},
			Unbuildable: []record.Unbuildable{{Package: "zlib", Cause: "its plan is gone"}},
		},
	}
	assert.Equal(t, c, must.Get(packages.Decode(must.Get(c.Encode())(t)))(t))
	for text, want := range map[string]string{"": "unexpected end", "[]": "cannot unmarshal", `{"version":2}`: "use a newer one", `{"submit":{"Jobs":[{"waits":"2,1"}]}}`: "do not ascend"} {
		assert.ErrorContains(t, must.Fail(packages.Decode([]byte(text))), want)
	}
}

// Whatever a revision carries, it is read or refused.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"version":1,"submit":{"name":"base","Jobs":[{"package":"a"}]},"files":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := packages.Decode(text)
		if err != nil {
			return
		}
		_, err = c.Encode()
		assert.NoError(t, err)
	})
}
