package pipelines_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// A scheduler that is killed at any moment is replaced by one that brings the
// same log about, and does nothing again that was finished.
func TestWhoeverDiesWhereverTheLogIsTheSame(t *testing.T) {
	carry := func(t *testing.T, lives int, last bool) (story []string, appends int) {
		inPlant(t, func(p *plant) {
			p.members, p.made = map[string][]string{"g": {"a", "b"}}, map[string]string{"x86": "ref", "arm": "ref"}
			p.define(definition.Stage{Name: "build", Build: &definition.Build{Artifacts: []string{"x86", "arm"}, Manifest: "b.yaml"}},
				deployTo("hosts", "g", steps("host-deployed", "host-tested"), "build"), approval("ok", "hosts"), runStage("end", "ok"))
			p.release("1")
			p.options.Parallelism = 1
			p.before = func(s step.Step) {
				for _, e := range p.Events() {
					if e.Deployment == s.Deployment && e.Target == s.Target && e.Name == s.Event {
						t.Errorf("%s is done again", say(s))
					}
				}
			}
			m := &reconciletest.Mortal{Log: p.DeployLog, Lives: lives, Last: last}
			p.options.Log, p.options.UntilIdle = m, true
			approved := false
			for {
				err := pipelines.NewScheduler(p.options).Run(p.Context())
				switch {
				case errors.Is(err, reconciletest.ErrDead):
					p.options.Log = p.takenOver()
					continue
				case err != nil:
					t.Fatal(err)
				case !approved:
					p.do(pipeline.Approve{Stage: "ok", Revision: "1"})
					approved = true
					continue
				}
				break
			}
			story, appends = p.told(), m.Calls()
		})
		return story, appends
	}
	sameWhereverItDies(t, 15, carry)
}

// sameWhereverItDies wants schedulers that die at any append, which is in the log or is not, to
// bring about what one does that lives on, which takes at least so many appends.
func sameWhereverItDies(t *testing.T, least int, carry func(t *testing.T, lives int, last bool) (story []string, appends int)) {
	t.Helper()
	want, appends := carry(t, 1000, false)
	require.GreaterOrEqual(t, appends, least)
	require.True(t, strings.HasPrefix(want[len(want)-1], "pipeline-finished-successfully"), "it tells %q", want)
	for lives := range appends {
		for _, last := range []bool{false, true} {
			if got, _ := carry(t, lives, last); !slices.Equal(got, want) {
				t.Fatalf("after a death at append %d (in the log: %v) it tells\n%s\nnot\n%s", lives+1, last, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

// told is what the log tells, but for the beginnings of steps, of which there is one for each try.
func (p *plant) told() (story []string) {
	for _, e := range p.Events() {
		if e.Target.Kind() != "run" && e.Name != record.StepsBegun {
			story = append(story, fmt.Sprintf("%s %s %s %d %s", e.Name, e.Target, e.Revision, e.Attempt, e.Data))
		}
	}
	return story
}

func TestAPipelineThatThereIsNotEndsTheScheduler(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.options.Scope = reconcile.Only("q")
		assert.ErrorIs(t, pipelines.NewScheduler(p.options).Run(p.Context()), pipelines.ErrNoPipeline)
	})
}

func TestOtherPipelinesAreLeftAlone(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		p.release("1")
		p.other("1q")
		p.options.Scope = reconcile.Only("p")
		p.untilIdle()
		p.wantStatus("1", deployment.Finished)
		p.wantStory("1q", "pipeline-started q")
	})
}

func TestHostsJoinAndLeaveWhileItRuns(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(steps("host-deployed"), "a", "b")
		p.options.Parallelism = 1
		results := p.holdWork()
		r := p.start()
		p.inventory(nil, "g", "a", "c")
		wait(2 * time.Second)
		results <- nil
		results <- nil
		wait(time.Second)
		p.wantBegun("1 host-deployed a", "1 host-deployed c")
		p.wantStatus("1", deployment.Finished)
		r.End()
	})
}

func TestAnInventoryThatCannotBeReadKeepsTheKnownHosts(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(1, "host-deployed", "host-tested")
		results := p.holdWork()
		r := p.start()
		p.inventory(errors.New("no such file"), "g")
		wait(time.Minute)
		results <- nil
		results <- nil
		wait(time.Minute)
		p.wantStatus("1", deployment.Finished)
		got := p.Notices("notice")
		assert.True(t, len(got) == 1 && strings.Contains(got[0], "pipeline p goes on with the hosts it knows: no such file"),
			"notified %q", got)
		p.inventory(nil, "g", "h000")
		wait(time.Minute)
		p.inventory(errors.New("no such file"), "g")
		wait(time.Minute)
		assert.Len(t, p.Notices("notice"), 2, "notified")
		r.End()
	})
}

func TestAnInventoryThatHangsHoldsNobodyUp(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(approval("ok"))
		p.release("1")
		r := p.start()
		end := p.hang()
		cancelled := make(chan struct{})
		go func() { p.do(pipeline.Cancel{Revision: "1"}); close(cancelled) }()
		wait(time.Minute)
		select {
		case <-cancelled:
		default:
			t.Error("nobody can cancel while the hosts are selected")
		}
		end()
		<-cancelled
		r.End()
	})
}

func TestADefinitionThatComesWhileTheHostsAreLookedAtHasItsOwn(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(1, "host-deployed")
		p.options.UntilIdle = true
		p.hangs = make(chan struct{})
		r := p.start()
		p.define(deployTo("all", "g", steps("host-deployed")), deployTo("more", "g2", steps("host-deployed"), "all"))
		p.inventory(nil, "g2", "z")
		close(p.hangs)
		assert.NoError(t, <-r.Ended)
		p.wantStatus("1", deployment.Finished)
		p.wantBegun("1 host-deployed h000", "1 host-deployed z")
		r.Kill(nil)
	})
}

func TestWithoutAnyInventoryItIsIdle(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(1, "host-deployed")
		p.inventory(errors.New("no such file"), "g")
		p.untilIdle()
		p.wantStory("1", "pipeline-started p\nstage-started p/all\nhost-group-started p/g")
	})
}

func TestStopDoesNotWaitForWhatRestsAfterAFailure(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(retried("host-deployed"), "a")
		p.work = func(step.Step) error { return errors.New("no") }
		r := p.start()
		wait(3 * time.Minute)
		before := time.Now()
		r.End()
		took := time.Since(before)
		assert.True(t, took <= 0, "it took %v", took)
		p.wantStatus("1", deployment.Running)
	})
}

func TestItGoesOnAsSoonAsSomethingComesFromOutside(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(approval("ok"), runStage("end", "ok"))
		r := p.start()
		elsewhere := pipelines.New(p.Open(), time.Now)
		for _, c := range []pipeline.Command{pipeline.Release{Revision: "1", ID: p.id()}, pipeline.Approve{Stage: "ok", Revision: "1"}} {
			must.Get(elsewhere.Command(p.Context(), "p", c))(t)
			wait(60 * time.Millisecond)
		}
		p.wantStatus("1", deployment.Finished)
		r.End()
	})
}

func TestALogThatIsPoisonedEndsTheSchedulerWhenItsWorkHasEnded(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(3, "host-deployed")
		results := p.holdWork()
		m := &reconciletest.Mortal{Log: p.DeployLog, Lives: 5}
		p.options.Log = m
		s := pipelines.NewScheduler(p.options)
		ended := make(chan error, 1)
		go func() { ended <- s.Run(p.Context()) }()
		synctest.Wait()
		m.Die()
		results <- nil
		wait(time.Minute)
		assert.True(t, len(ended) == 0 && len(p.Notices("the scheduler ends when what it has begun is done")) == 1,
			"it did not wait, or does not say so: %q", p.Notices("notice"))
		results <- nil
		results <- nil
		err := <-ended
		assert.True(t, errors.Is(err, reconciletest.ErrDead) && strings.Contains(err.Error(), "host-deployed of host/p/g/h00"),
			"it ended with %v", err)
	})
}

func TestAMarkerThatSomebodyElseRecordedIsRead(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		p.release("1")
		p.options.Log = &reconciletest.Hooked{Log: p.DeployLog, Event: "stage-started", Hook: func(e deploylog.Event) error {
			_, err := p.DeployLog.Append(context.Background(), e)
			return err
		}}
		p.untilIdle()
		p.wantStatus("1", deployment.Finished)
	})
}

func TestTheObserverIsNotifiedOfEverythingOnceAndInOrder(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		p.release("1")
		p.untilIdle()
		want := []string{
			"stage-started stage/p/only", "began 1 stage-manifest-applied", "stage-manifest-applied stage/p/only",
			"stage-finished-successfully stage/p/only", "pipeline-finished-successfully pipeline/p",
		}
		assert.True(t, slices.Equal(p.Notices(""), want), "notified %q, not %q", p.Notices(""), want)
	})
}

func TestWhetherASchedulerControlsAPipeline(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		assert.False(t, p.pipelines.Controlled("p"), "there is none")
		r := p.start()
		assert.True(t, pipelines.New(p.Open(), time.Now).Controlled("p"), "there is one")
		r.End()
		assert.False(t, p.pipelines.Controlled("p"), "there is none any more")
	})
}

func TestAllSeeTheSamePipelinesWhoeverChangesThem(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	const each = 20
	var group sync.WaitGroup
	all := []*pipelines.Pipelines{p.pipelines}
	for range 2 {
		all = append(all, pipelines.New(p.Open(), time.Now))
	}
	for who, q := range all {
		group.Go(func() {
			for i := range each {
				c := pipeline.Release{Revision: fmt.Sprint(i), ID: fmt.Sprintf("%d-%d", who, i)}
				_, err := q.Command(t.Context(), "p", c)
				assert.True(t, err == nil || errors.Is(err, pipeline.ErrRepeated), "%v", err)
			}
		})
	}
	group.Wait()
	events := p.Events()
	assert.True(t, len(events) == 1+each, "there are %d events, not one for each of %d revisions", len(events), each)
	for _, q := range all {
		require.NoError(t, q.Follow(t.Context(), 0))
		err := q.Ask("p", func(s *pipeline.State) error {
			for i, r := range s.Registrations() {
				assert.True(t, r.Deployment == events[i+1].Deployment && r.Seq == events[i+1].Seq, "registration %d is %+v", i, r)
			}
			return nil
		})
		assert.True(t, err == nil && q.Head() == int64(len(events)), "head is %d, %v", q.Head(), err)
	}
}

func TestEveryEventIsPassedOnceAndInOrder(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	var seen []int64
	q := pipelines.New(p.DeployLog, time.Now, func(e deploylog.Event) { seen = append(seen, e.Seq) })
	p.define(runStage("only"))
	for i := range 3 {
		p.release(fmt.Sprint("of another ", i))
		must.Get(q.Command(t.Context(), "p", pipeline.Release{Revision: fmt.Sprint(i), ID: p.id()}))(t)
	}
	must.Get(q.Change(t.Context(), "p", false, func(s *pipeline.State) ([]deploylog.Event, error) {
		if _, err := p.DeployLog.Append(t.Context(), deploylog.Event{Deployment: "run", Target: "run/web.yaml", Name: "run-started"}); err != nil {
			return nil, err
		}
		return s.Propose(pipeline.Release{Revision: "last", ID: p.id()}, time.Time{})
	}))(t)
	want := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9}
	assert.True(t, slices.Equal(seen, want), "passed were %v, not %v", seen, want)
}

func TestPipelinesAreAsTheyWereAtAnEvent(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	p.release("1")
	p.release("2")
	q := pipelines.New(p.DeployLog, time.Now)
	require.NoError(t, q.Follow(t.Context(), 2))
	_ = q.Ask("p", func(s *pipeline.State) error { assert.Len(t, s.Registrations(), 1, "it knows"); return nil })
}

func TestAPipelineThatThereIsNotIsSaidSo(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	ask := func(*pipeline.State) error { return nil }
	refused := func(err error, want string) {
		assert.True(t, errors.Is(err, pipelines.ErrNoPipeline) && strings.Contains(err.Error(), want), "it says %v, not %q", err, want)
	}
	refused(p.pipelines.Ask("q", ask), "there is none yet: deployster pipeline apply -f FILE")
	_, err := p.pipelines.Command(t.Context(), "q", pipeline.Release{Revision: "1", ID: "d"})
	refused(err, "there is none yet")
	p.define(runStage("only"))
	refused(p.pipelines.Ask("q", ask), `"q"; there are p`)
	assert.Len(t, p.Events(), 1, "it recorded")
}

func TestAChangeThatIsRefusedRecordsNothingAndLetsOthersIn(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	no := errors.New("no")
	_, err := p.pipelines.Change(t.Context(), "p", false, func(*pipeline.State) ([]deploylog.Event, error) { return nil, no })
	assert.True(t, errors.Is(err, no) && len(p.Events()) == 1, "it says %v, and recorded %v", err, p.Events())
	p.release("1")
}

func TestWhoWaitsForTheDecideLockCanGiveUp(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	p.define(runStage("only"))
	ctx, cancel := context.WithCancel(t.Context())
	assert.ErrorIs(t, must.Fail(p.pipelines.Change(t.Context(), "p", false, func(*pipeline.State) ([]deploylog.Event, error) {
		cancel()
		_, err := pipelines.New(p.DeployLog, time.Now).Command(ctx, "p", pipeline.Release{Revision: "1", ID: "d"})
		return nil, err
	})), context.Canceled)
}
