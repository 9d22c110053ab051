package pipelines_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/runner"
)

func TestAStepIsTriedAgainThenFailsAllAboveItAndIsRetriedFromTheFrontier(t *testing.T) {
	inPlant(t, func(p *plant) {
		s := steps("host-deployed", "host-tested")
		s[1].Retries = 3
		p.members["g"] = []string{"a", "b"}
		p.define(runStage("build"), deployTo("hosts", "g", s, "build"))
		p.release("1")
		bad := true
		var at []time.Duration
		began := time.Now()
		p.work = func(s step.Step) error {
			if s.Event == "host-tested" && s.Host == "b" {
				at = append(at, time.Since(began))
				if bad {
					return errors.New("exit code 7")
				}
			}
			return nil
		}
		p.untilIdle()
		want := []time.Duration{0, time.Second, 3 * time.Second, 7 * time.Second}
		assert.True(t, slices.Equal(at, want), "it was tried after %v, not %v", at, want)
		got := p.Notices("again 1 host-tested b")
		assert.True(t, len(got) == 3 && strings.HasSuffix(got[1], "after 2s: exit code 7"), "notified %q", got)
		p.wantStatus("1", deployment.Failed)
		story := p.story("1")
		i := slices.Index(story, "host-tested-failed p/g/b")
		if want := []string{"host-tested-failed p/g/b", "host-failed p/g/b", "host-group-failed p/g", "stage-failed p/hosts", "pipeline-failed p"}; i < 0 || !slices.Equal(story[i:], want) {
			t.Errorf("the log tells\n%s", strings.Join(story, "\n"))
		}
		for _, e := range p.Events() {
			if strings.HasSuffix(e.Name, "-failed") && !strings.Contains(record.Cause(e), "exit code 7") {
				t.Errorf("%s is because of %q", e.Name, record.Cause(e))
			}
		}
		bad = false
		p.mu.Lock()
		p.begun = nil
		p.mu.Unlock()
		p.do(pipeline.Retry{Revision: "1"})
		p.untilIdle()
		p.wantStatus("1", deployment.Finished)
		p.wantBegun("1 host-tested b")
	})
}

// Whoever rests after a failure keeps no slot from the others.
func TestAHostThatFailsDoesNotHoldUpTheOthers(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(retried("host-deployed"), "a", "b", "c")
		p.options.Parallelism = 1
		p.work = func(s step.Step) error {
			if s.Host == "a" {
				return errors.New("it does not answer")
			}
			return nil
		}
		r := p.start()
		for _, host := range []string{"b", "c"} {
			assert.True(t, slices.Contains(p.story("1"), "host-finished-successfully p/g/"+host), "%s waits for a", host)
		}
		wait(10 * time.Minute)
		if n := len(p.Notices("again")); n != 15 { // after 0, 1, 3, … 63 s, then each minute
			t.Errorf("in ten minutes it was tried again %d times", n)
		}
		r.End()
	})
}

func TestWhatFailsAfterItsDeploymentEndedIsNotTriedAgain(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(retried("host-deployed"), "a")
		results := p.holdWork()
		r := p.start()
		p.do(pipeline.Cancel{Revision: "1"})
		wait(time.Second)
		results <- errors.New("too bad")
		wait(3 * time.Minute)
		story := p.story("1")
		assert.True(t, story[len(story)-1] == "host-deployed-failed p/g/a" && len(p.Notices("again")) <= 0, "the log tells %q", story)
		r.End()
	})
}

func TestWorkThatOutlivesCancelAndRetryIsNotDoneBesideItself(t *testing.T) {
	for name, c := range map[string]struct {
		fails error
		begun []string
	}{
		"and counts":              {nil, []string{"1 host-deployed h000"}},
		"and is done anew if bad": {errors.New("bad"), []string{"1 host-deployed h000", "1 host-deployed h000"}},
	} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.fleet(1, "host-deployed")
				p.slots = 2
				results := p.holdWork()
				r := p.start()
				p.do(pipeline.Cancel{Revision: "1"})
				p.do(pipeline.Retry{Revision: "1"})
				wait(time.Minute)
				p.wantBegun("1 host-deployed h000")
				results <- c.fails
				if c.fails != nil {
					results <- nil
				}
				wait(time.Second)
				p.wantBegun(c.begun...)
				p.wantStatus("1", deployment.Finished)
				r.End()
			})
		})
	}
}

func TestWhatIsKilledIsNotAFailureUnlessItIsDoneAllTheSame(t *testing.T) {
	for name, result := range map[string]error{"killed": errors.New("killed"), "done all the same": nil} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.fleet(1, "host-deployed")
				results := p.holdWork()
				r := p.start()
				r.Kill(nil)
				results <- result
				assert.ErrorIs(t, <-r.Ended, context.Canceled)
				story := p.story("1")
				assert.Equal(t, result == nil, story[len(story)-1] == "host-deployed p/g/h000", "the log tells %q", story)
				p.work = nil
				p.untilIdle()
				p.wantStatus("1", deployment.Finished)
			})
		})
	}
}

func TestAfterStopWhatGivesUpIsNoFailureAndWhatFailsIs(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(2, "host-deployed")
		results := p.holdWork()
		r := p.start()
		close(r.Stop)
		wait(time.Second)
		results <- fmt.Errorf("applying: %w", runner.ErrInterrupted)
		results <- errors.New("exit code 7")
		assert.NoError(t, <-r.Ended)
		failed := 0
		for _, e := range p.Events() {
			if e.Name == "host-deployed-failed" {
				failed++
				assert.Equal(t, "exit code 7", record.Cause(e), "the cause")
			}
		}
		assert.Equal(t, 1, failed, "failures are recorded")
		r.Kill(nil)
	})
}

func TestAWorkerThatPanicsHasFailed(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(2, "host-deployed")
		p.work = func(s step.Step) error {
			if s.Host == "h001" {
				panic("no such thing")
			}
			return nil
		}
		p.untilIdle()
		p.wantStatus("1", deployment.Failed)
		for _, e := range p.Events() {
			if e.Name == "host-deployed-failed" && !strings.Contains(record.Cause(e), "internal error while working on host/p/g/h001: no such thing, at ") {
				t.Errorf("the cause is %q", record.Cause(e))
			}
		}
	})
}

func TestWhatSomebodyElseRecordedIsLeftOut(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(2, "host-deployed")
		p.work = func(s step.Step) error {
			_, err := p.DeployLog.Append(context.Background(), deploylog.Event{Deployment: s.Deployment, Target: s.Target, Revision: s.Revision, Name: s.Event, Attempt: s.Attempt})
			return err
		}
		p.untilIdle()
		p.wantStatus("1", deployment.Finished)
	})
}

// beginnings are the steps whose work begins, as the log tells in order.
func (p *plant) beginnings() (all []string) {
	for _, e := range p.Events() {
		var data struct {
			Steps []struct{ Revision, Event string }
		}
		if e.Name != record.StepsBegun {
			continue
		}
		require.NoError(p, json.Unmarshal(e.Data, &data))
		for _, s := range data.Steps {
			all = append(all, s.Revision+" "+s.Event)
		}
	}
	return all
}

func TestThatWorkBeginsIsInTheLogBeforeItDoes(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(1, "host-deployed", "host-tested")
		n := 0
		p.before = func(step.Step) {
			n++
			assert.True(t, len(p.beginnings()) == n, "work begins for the %d. time, and the log tells %q", n, p.beginnings())
		}
		p.untilIdle()
		p.wantStatus("1", deployment.Finished)
		got := p.beginnings()
		assert.True(t, slices.Equal(got, []string{"1 host-deployed", "1 host-tested"}), "the log tells of %q", got)
	})
}

func TestWithoutABeginningInTheLogNoWorkBegins(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(1, "host-deployed")
		p.options.Log = &reconciletest.Hooked{Log: p.DeployLog, Event: record.StepsBegun, Hook: reconciletest.Refuse("pipeline/p")}
		r := p.start()
		wait(time.Minute)
		p.wantBegun()
		assert.True(t, len(p.Notices("pipeline p is left out")) == 1, "notified %q", p.Notices(""))
		r.End()
	})
}

func TestWhatHasBegunGoesOnWhenThePipelineChanges(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(1, "host-deployed")
		results := p.holdWork()
		r := p.start()
		p.define(deployTo("all", "g", steps("host-tested")))
		results <- nil
		results <- nil
		wait(time.Second)
		p.wantBegun("1 host-deployed h000", "1 host-tested h000")
		p.wantStatus("1", deployment.Finished)
		r.End()
	})
}

// The race itself, in real time, between two processes on one store.
func TestCancelAndBeginRace(t *testing.T) {
	p := newPlant(t, reconciletest.InFile(t))
	elsewhere := pipelines.New(p.Open(), time.Now)
	p.members["g"] = []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	p.define(deployTo("all", "g", steps("host-1", "host-2", "host-3", "host-4")))
	ctx, kill := context.WithCancel(p.Context())
	ended := make(chan error, 1)
	began := make(chan struct{}, 1000)
	cancelled := map[string]chan struct{}{}
	for i := range 20 {
		cancelled[fmt.Sprint("r", i)] = make(chan struct{})
	}
	p.work = func(s step.Step) error {
		began <- struct{}{}
		if s.Event == "host-4" { // none finishes before
			<-cancelled[s.Revision]
		}
		return nil
	}
	go func() { ended <- pipelines.NewScheduler(p.options).Run(ctx) }()
	for i := range 20 {
		revision := fmt.Sprint("r", i)
		p.release(revision)
		for range i + 1 {
			<-began
		}
		must.Get(elsewhere.Command(ctx, "p", pipeline.Cancel{Revision: revision}))(t)
		close(cancelled[revision])
		for len(began) > 0 {
			<-began
		}
	}
	kill()
	<-ended
	over := map[string]bool{}
	for _, e := range p.Events() {
		switch e.Name {
		case record.PipelineCancelled:
			over[e.Revision] = true
		case "host-group-started", "host-started", "host-finished-successfully":
			assert.False(t, over[e.Revision], "%s of revision %s after its cancellation (event %d)", e.Name, e.Revision, e.Seq)
		case record.StepsBegun:
			for revision := range over {
				assert.False(t, strings.Contains(string(e.Data), `"revision":"`+revision+`"`),
					"work of revision %s begins after its cancellation (event %d)", revision, e.Seq)
			}
		}
	}
	assert.True(t, len(over) == len(cancelled), "only %v were cancelled", slices.Sorted(maps.Keys(over)))
}

func TestWhatWaitsForAnEnvironmentTakesNoSlot(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.options.Parallelism = 1
		p.define(definition.Stage{Name: "prod", After: []string{}, Environment: "gateway/prod"}, runStage("elsewhere"))
		elsewhere := make(chan struct{})
		p.work = func(s step.Step) error {
			if s.Environment == "" {
				close(elsewhere)
			} else {
				<-elsewhere // which never comes if the slot is taken
			}
			return nil
		}
		p.release("1")
		p.untilIdle()
		p.wantBegun("1 stage-environment-deployed", "1 stage-manifest-applied")
	})
}

// idler does no work, watches nothing, and knows no other hosts than one group.
type idler struct{ hosts []string }

func (i *idler) Work(context.Context, step.Step, map[string]string, func() error) (map[string]string, error) {
	return nil, nil
}

func (i *idler) Members(*definition.Definition) (map[string][]string, error) {
	return map[string][]string{"g": i.hosts}, nil
}
func (*idler) Settle(context.Context, step.Work) error { return nil }
func (*idler) Slots(string) int                        { return 1 }
func (*idler) Identity() string                        { return "" }
func (*idler) Recorded(deploylog.Event)                {}
func (*idler) Began(step.Step)                         {}
func (*idler) Again(step.Step, error, time.Duration)   {}
func (*idler) Notice(string)                           {}

func newBench(b *testing.B, hosts int) (*plant, *idler) {
	p := newPlant(b, reconciletest.InFile(b))
	i := &idler{}
	for h := range hosts {
		i.hosts = append(i.hosts, fmt.Sprintf("worker%06d", h))
	}
	p.options.Worker, p.options.Hosts, p.options.Observer = i, i, i
	p.define(deployTo("all", "g", steps("host-artifact-replicated", "host-deployed", "host-restarted", "host-tested", "host-announced")))
	p.do(pipeline.SetMembers{Members: map[string][]string{"g": i.hosts}, ID: p.id()})
	return p, i
}

// Every step is durable before the next one of its host begins. A step is one
// whose work a worker does; the markers come on top.
func BenchmarkDurableSteps(b *testing.B) {
	for _, hosts := range []int{1_000, 10_000} {
		for _, parallelism := range []int{10, 100, 1_000} {
			b.Run(fmt.Sprintf("hosts=%d/parallelism=%d", hosts, parallelism), func(b *testing.B) {
				p, _ := newBench(b, hosts)
				p.options.Parallelism = parallelism
				steps := 0
				for i := 0; b.Loop(); i++ {
					p.release(fmt.Sprint("r", i))
					p.untilIdle()
					steps += 5 * hosts
				}
				b.StopTimer()
				p.wantStatus("r0", deployment.Finished)
				b.ReportMetric(float64(steps)/b.Elapsed().Seconds(), "steps/s")
				b.ReportMetric(float64(steps+2*hosts*b.N)/b.Elapsed().Seconds(), "events/s")
			})
		}
	}
}
