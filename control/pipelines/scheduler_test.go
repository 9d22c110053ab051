package pipelines_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

func TestTheLogOfTheExampleIsItsTranscript(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.members = map[string][]string{"beta": {"antworker002"}, "prod": {"antworker001"}}
		kinds := []string{"x86", "aarch64", "raspbian"}
		example := func(events ...string) {
			p.define(definition.Stage{Name: "build", Build: &definition.Build{Artifacts: kinds}},
				deployTo("beta", "beta", steps(events...), "build"), deployTo("prod", "prod", steps(events...), "beta"))
		}
		carry := func(revision string) {
			p.release(revision)
			p.untilIdle()
			for _, kind := range kinds {
				p.do(pipeline.ReceiveArtifact{Revision: revision, Kind: kind, Ref: "ref"})
			}
			p.untilIdle()
		}
		transcript := func(tested string) string {
			stage := func(name, host string) string {
				return strings.NewReplacer("NAME", name, "HOST", host, "TESTED", tested).Replace(`
  stage-started p/NAME
    host-group-started p/NAME
      host-started p/NAME/HOST
        host-artifact-replicated p/NAME/HOST
        host-deployed p/NAME/HOST
        TESTED
      host-finished-successfully p/NAME/HOST
    host-group-finished-successfully p/NAME
  stage-finished-successfully p/NAME
`)
			}
			return `
pipeline-started p
  stage-started p/build
    build-stage-received-x86-artifact p/build
    build-stage-received-aarch64-artifact p/build
    build-stage-received-raspbian-artifact p/build
  stage-finished-successfully p/build` + stage("beta", "antworker002") + stage("prod", "antworker001") + `
pipeline-finished-successfully p`
		}
		example("host-artifact-replicated", "host-deployed")
		carry("version-123")
		p.wantStory("version-123", transcript(""))

		example("host-artifact-replicated", "host-deployed", "host-tested")
		carry("version-124")
		p.wantStory("version-123", transcript(""))
		want := transcript("host-tested p/NAME/HOST")
		want = strings.Replace(want, "host-tested p/NAME/HOST", "host-tested p/beta/antworker002", 1)
		p.wantStory("version-124", strings.Replace(want, "host-tested p/NAME/HOST", "host-tested p/prod/antworker001", 1))
	})
}

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
				for _, e := range p.events() {
					if e.Deployment == s.Deployment && e.Target == s.Target && e.Name == s.Event {
						t.Errorf("%s is done again", say(s))
					}
				}
			}
			m := &reconciletest.Mortal{Log: p.log, Lives: lives, Last: last}
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
			for _, e := range p.events() {
				if e.Target.Kind() != "run" && e.Name != record.StepsBegun { // which are as many as tries
					story = append(story, fmt.Sprintf("%s %s %s %d %s", e.Name, e.Target, e.Revision, e.Attempt, e.Data))
				}
			}
			appends = m.Calls()
		})
		return story, appends
	}
	want, appends := carry(t, 1000, false)
	if appends < 15 || !strings.HasPrefix(want[len(want)-1], "pipeline-finished-successfully") {
		t.Fatalf("%d appends lead to %q", appends, want)
	}
	for lives := range appends {
		for _, last := range []bool{false, true} {
			if last && lives%3 > 0 { // the next life begins with the same log
				continue
			}
			if got, _ := carry(t, lives, last); !slices.Equal(got, want) {
				t.Fatalf("after a death at append %d (in the log: %v) it tells\n%s\nnot\n%s", lives+1, last, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}

func TestASchedulerStandsByAndTakesOverAtOnce(t *testing.T) {
	for name, end := range map[string]func(*running){
		"when it is stopped": func(r *running) { close(r.stop); <-r.ended },
		"when it is killed":  func(r *running) { r.kill(); <-r.ended },
	} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.define(runStage("only"))
				first := p.start()
				p.options.Log = p.open()
				second := p.start()
				if len(p.notices("standing by")) != 1 {
					t.Errorf("notified %q", p.notified)
				}
				wait(time.Minute)
				p.release("1")
				wait(time.Second)
				p.wantStatus("1", deployment.Finished)
				if n := len(p.notices("stage-started")); n != 1 {
					t.Errorf("it was started %d times", n)
				}
				end(first)
				p.release("2")
				wait(200 * time.Millisecond)
				p.wantStatus("2", deployment.Finished)
				if len(p.notices("taking over")) != 1 {
					t.Errorf("notified %q", p.notified)
				}
				second.end()
			})
		})
	}
}

func TestAStandbyCanBeStopped(t *testing.T) {
	inPlant(t, func(p *plant) {
		first := p.start()
		second := p.start()
		second.end()
		first.end()
	})
}

func TestAPipelineThatThereIsNotEndsTheScheduler(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.options.Scope = reconcile.Only("q")
		if err := pipelines.NewScheduler(p.options).Run(p.Context()); !errors.Is(err, pipelines.ErrNoPipeline) {
			t.Errorf("it says %v", err)
		}
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
		r.end()
	})
}

func TestAnInventoryThatIsEmptyForASecondLetsNothingBeginOrFinish(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(steps("host-deployed", "host-tested"), "a", "b")
		results := p.holdWork()
		r := p.start()
		p.inventory(nil, "g")
		wait(2 * time.Second)
		results <- nil
		results <- nil
		wait(time.Minute)
		p.wantBegun("1 host-deployed a", "1 host-deployed b")
		p.wantStatus("1", deployment.Running)
		if got := p.notices(record.MembersHeld); len(got) != 1 {
			t.Errorf("that the group holds is recorded as %q", got)
		}
		p.inventory(nil, "g", "a", "b")
		wait(2 * time.Second)
		results <- nil
		results <- nil
		wait(time.Second)
		p.wantBegun("1 host-deployed a", "1 host-deployed b", "1 host-tested a", "1 host-tested b")
		p.wantStatus("1", deployment.Finished)
		r.end()
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
		if got := p.notices("notice"); len(got) != 1 || !strings.Contains(got[0], "pipeline p goes on with the hosts it knows: no such file") {
			t.Errorf("notified %q", got)
		}
		p.inventory(nil, "g", "h000")
		wait(time.Minute)
		p.inventory(errors.New("no such file"), "g")
		wait(time.Minute)
		if got := p.notices("notice"); len(got) != 2 {
			t.Errorf("notified %q", got)
		}
		r.end()
	})
}

func TestAnInventoryThatHangsHoldsNobodyUp(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(approval("ok"))
		p.release("1")
		r := p.start()
		end := p.hang()
		cancelled := make(chan struct{})
		go func() {
			p.do(pipeline.Cancel{Revision: "1"})
			close(cancelled)
		}()
		wait(time.Minute)
		select {
		case <-cancelled:
		default:
			t.Error("nobody can cancel while the hosts are selected")
		}
		end()
		<-cancelled
		r.end()
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
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
		p.wantStatus("1", deployment.Finished)
		p.wantBegun("1 host-deployed h000", "1 host-deployed z")
		r.kill()
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

func TestStopLetsWhatRunsFinishAndBeginsNothing(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(20, "host-deployed", "host-tested")
		p.options.Parallelism = 3
		results := p.holdWork()
		r := p.start()
		p.wantBegun("1 host-deployed h000", "1 host-deployed h001", "1 host-deployed h002")
		close(r.stop)
		wait(time.Minute)
		for range 3 {
			results <- nil
		}
		if err := <-r.ended; err != nil {
			t.Error(err)
		}
		p.wantBegun("1 host-deployed h000", "1 host-deployed h001", "1 host-deployed h002")
		story := p.story("1")
		if want := []string{"host-deployed p/g/h000", "host-deployed p/g/h001", "host-deployed p/g/h002"}; !slices.Equal(slices.Sorted(slices.Values(story[len(story)-3:])), want) {
			t.Errorf("the log tells %q", story)
		}
		p.work = nil
		p.untilIdle()
		p.wantStatus("1", deployment.Finished)
		r.kill()
	})
}

func TestNothingIsRecordedAfterStopButWhatEnds(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("first"), runStage("second", "first"))
		p.release("1")
		stop := make(chan struct{})
		p.options.Drain = stop
		p.recorded = func(e deploylog.Event) {
			if e.Name == "stage-manifest-applied" {
				close(stop)
			}
		}
		if err := pipelines.NewScheduler(p.options).Run(p.Context()); err != nil {
			t.Error(err)
		}
		p.wantStory("1", "pipeline-started p\nstage-started p/first\nstage-manifest-applied p/first")
	})
}

func TestStopDoesNotWaitForWhatRestsAfterAFailure(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(retried("host-deployed"), "a")
		p.work = func(step.Step) error { return errors.New("no") }
		r := p.start()
		wait(3 * time.Minute)
		before := time.Now()
		r.end()
		if took := time.Since(before); took > 0 {
			t.Errorf("it took %v", took)
		}
		p.wantStatus("1", deployment.Running)
	})
}

func TestItIsIdleWhenOnlyAnApprovalIsMissing(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("build"), approval("ok", "build"), runStage("end", "ok"))
		p.release("1")
		p.untilIdle()
		p.wantBegun("1 stage-manifest-applied")
		p.do(pipeline.Approve{Stage: "ok", Revision: "1"})
		p.untilIdle()
		p.wantStatus("1", deployment.Finished)
	})
}

func TestItGoesOnAsSoonAsSomethingComesFromOutside(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(approval("ok"), runStage("end", "ok"))
		r := p.start()
		elsewhere := pipelines.New(p.open(), time.Now)
		for _, c := range []pipeline.Command{pipeline.Release{Revision: "1", ID: p.id()}, pipeline.Approve{Stage: "ok", Revision: "1"}} {
			if _, err := elsewhere.Command(p.Context(), "p", c); err != nil {
				t.Fatal(err)
			}
			wait(60 * time.Millisecond)
		}
		p.wantStatus("1", deployment.Finished)
		r.end()
	})
}

func TestALogThatIsPoisonedEndsTheSchedulerWhenItsWorkHasEnded(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(3, "host-deployed")
		results := p.holdWork()
		m := &reconciletest.Mortal{Log: p.log, Lives: 5}
		p.options.Log = m
		s := pipelines.NewScheduler(p.options)
		ended := make(chan error, 1)
		go func() { ended <- s.Run(p.Context()) }()
		synctest.Wait()
		m.Die()
		results <- nil
		wait(time.Minute)
		if len(ended) > 0 || len(p.notices("the scheduler ends when what it has begun is done")) != 1 {
			t.Errorf("it did not wait, or does not say so: %q", p.notices("notice"))
		}
		results <- nil
		results <- nil
		if err := <-ended; !errors.Is(err, reconciletest.ErrDead) || !strings.Contains(err.Error(), "host-deployed of host/p/g/h00") {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestAMarkerThatSomebodyElseRecordedIsRead(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		p.release("1")
		p.options.Log = &reconciletest.Hooked{Log: p.log, Event: "stage-started", Hook: func(e deploylog.Event) error {
			_, err := p.log.Append(context.Background(), e)
			return err
		}}
		p.untilIdle()
		p.wantStatus("1", deployment.Finished)
	})
}

// An observer may give commands: no lock is held while it is notified.
func TestAnObserverMayGiveCommands(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(approval("ok"))
		p.release("1")
		p.recorded = func(e deploylog.Event) {
			if e.Name == "stage-started" {
				p.do(pipeline.Approve{Stage: "ok", Revision: e.Revision})
			}
		}
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
		if !slices.Equal(p.notified, want) {
			t.Errorf("notified %q, not %q", p.notified, want)
		}
	})
}

func TestWhetherASchedulerControlsAPipeline(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.define(runStage("only"))
		if p.pipelines.Controlled("p") {
			t.Error("there is none")
		}
		r := p.start()
		if !pipelines.New(p.open(), time.Now).Controlled("p") {
			t.Error("there is one")
		}
		r.end()
		if p.pipelines.Controlled("p") {
			t.Error("there is none any more")
		}
	})
}
