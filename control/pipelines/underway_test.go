package pipelines_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

func (p *plant) entered(revision string) bool {
	return slices.ContainsFunc(p.story(revision), func(line string) bool { return strings.HasPrefix(line, "stage-started ") })
}

func lenient(s definition.Stage) definition.Stage { s.StopOnFailure = new(bool); return s }

func (p *plant) why(revision string) string {
	require.NoError(p, p.pipelines.Follow(context.Background(), 0))
	var lines []string
	_ = p.pipelines.Ask("p", func(s *pipeline.State) error {
		for _, r := range s.Explain("pipeline/p") {
			if r.Revision == revision {
				lines = append(lines, r.Message())
			}
		}
		return nil
	})
	return strings.Join(lines, "\n")
}

func TestAPipelineThatIsMadeAnewWaitsForTheWorkOfTheDeletedOne(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.fleet(1, "host-deployed")
		results := p.holdWork()
		r := p.start()
		p.do(pipeline.Delete{ID: p.id(), Cancel: true})
		p.define(deployTo("all", "g", steps("host-deployed")))
		p.release("2")
		wait(time.Hour)
		assert.False(t, p.entered("2"), "revision 2 is in the stage in which the deleted pipeline is at work")
		close(results)
		wait(2 * time.Second)
		p.wantStatus("2", deployment.Finished)
		r.End()
	})
}

// died leaves work of a revision that is cancelled then: who had it done is killed.
func (p *plant) died(revision string) {
	p.rollOut(steps("host-deployed"), "a")
	results := p.holdWork()
	r := p.start()
	r.Kill(nil)
	results <- errors.New("killed")
	<-r.Ended
	p.do(pipeline.Cancel{Revision: revision})
	p.release("2")
	p.work = nil
}

func TestWhoTakesOverSettlesWhatWasLeftBeforeTheNextRevisionEnters(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.died("1")
		p.options.By = "scheduler ada@desk"
		settled := make(chan error)
		p.settle = func(context.Context, step.Work) error { return <-settled }
		r := p.start()
		wait(time.Hour)
		assert.False(t, p.entered("2"), "revision 2 has entered, and what was left is not settled")
		settled <- nil
		wait(time.Second)
		p.wantStatus("2", deployment.Finished)
		got := p.tries()
		assert.True(t, slices.Equal(got, []string{"0 of host-deployed by scheduler ada@desk settled: "}), "the log tells of %q", got)
		assert.Len(t, p.Notices("settle 1 host-deployed"), 1, "it was settled")
		r.End()
	})
}

type lostRun struct{ error }

func (lostRun) LeftRun() string { return "R7" }

func TestWhatCannotBeSettledIsNamedWithItsRunAndRecordedOnce(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.died("1")
		p.settle = func(context.Context, step.Work) error { return lostRun{errors.New("no route to host")} }
		r := p.start()
		wait(time.Hour)
		why := p.why("2")
		for _, want := range []string{"revision 1", "run R7 may still be at work (no route to host)", "--abandon R7"} {
			assert.Contains(t, why, want, "it is explained with")
		}
		got := p.tries()
		assert.True(t, !p.entered("2") && slices.Equal(got, []string{"0 of host-deployed by  lost: no route to host"}),
			"the log tells of %q", got)
		n := len(p.Notices("settle 1"))
		assert.True(t, n >= 60 && n <= 70, "in an hour it was tried %d times", n)
		p.mu.Lock()
		p.settle = nil
		p.mu.Unlock()
		wait(2 * time.Minute)
		p.wantStatus("2", deployment.Finished)
		r.End()
	})
}

func TestATryAfterWhichARunMayBeAtWorkKeepsItsPlace(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.members["g"] = []string{"a"}
		p.define(lenient(deployTo("all", "g", steps("host-deployed"))))
		p.release("1")
		p.work = func(step.Step) error { return lostRun{errors.New("the engine was lost")} }
		p.settle = func(context.Context, step.Work) error { return lostRun{errors.New("it does not answer")} }
		r := p.start()
		wait(time.Minute)
		p.wantStatus("1", deployment.Failed)
		p.work = nil
		p.release("2")
		wait(time.Hour)
		assert.False(t, p.entered("2"), "revision 2 has entered while a run of revision 1 may be at work")
		r.End()
	})
}

func TestADrainDoesNotWaitForWhatIsSettled(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.died("1")
		p.settle = func(ctx context.Context, _ step.Work) error { <-ctx.Done(); return ctx.Err() }
		r := p.start()
		before := time.Now()
		r.End()
		took := time.Since(before)
		assert.True(t, took <= 0 && len(p.tries()) <= 0, "it took %v, and the log tells of %q", took, p.tries())
	})
}

// At whichever append the process dies: revision 2 enters when the work of revision 1 has ended, and it does enter.
func TestWhoeverDiesWhereverNobodyEntersBeforeTheWorkHasEnded(t *testing.T) {
	carry := func(t *testing.T, lives int, last bool) (appends int) {
		inPlant(t, func(p *plant) {
			p.members["g"] = []string{"a", "b"}
			p.define(deployTo("all", "g", steps("host-deployed", "host-tested")))
			p.release("1")
			m := &reconciletest.Mortal{Log: p.DeployLog, Lives: lives, Last: last}
			p.options.Log, p.options.UntilIdle = m, true
			cancelled := false
			p.work = func(s step.Step) error {
				if s.Event == "host-tested" && s.Host == "b" && !cancelled {
					cancelled = true
					p.do(pipeline.Cancel{Revision: "1"})
					p.release("2")
				}
				<-time.After(time.Second)
				return nil
			}
			for errors.Is(pipelines.NewScheduler(p.options).Run(p.Context()), reconciletest.ErrDead) {
				p.options.Log = p.takenOver()
			}
			p.wantStatus("2", deployment.Finished)
			p.wantAlone()
			appends = m.Calls()
		})
		return appends
	}
	for lives := range carry(t, 1000, false) {
		carry(t, lives, false)
		carry(t, lives, true)
	}
}

// wantAlone holds that no revision enters while work of another is under way.
func (p *plant) wantAlone() {
	going := map[string]string{} // revision, by its work
	for _, e := range p.Events() {
		switch e.Name {
		case record.StepsBegun, record.StepsEnded:
			for _, s := range workOf(p, e) {
				if going[s.Target+" "+s.Event+" "+s.Revision] = s.Revision; s.Outcome != "" {
					delete(going, s.Target+" "+s.Event+" "+s.Revision)
				}
			}
		case "stage-started":
			for what, revision := range going {
				assert.Equal(p, e.Revision, revision, "revision %s enters with event %d, and %s is under way", e.Revision, e.Seq, what)
			}
		default:
			delete(going, fmt.Sprintf("%s %s %s", e.Target, strings.TrimSuffix(e.Name, "-failed"), e.Revision))
		}
	}
}

func workOf(p *plant, e deploylog.Event) (all []struct{ Target, Event, Revision, Outcome string }) {
	var data struct {
		Steps []struct{ Target, Event, Revision, Outcome string }
	}
	require.NoError(p, json.Unmarshal(e.Data, &data))
	return data.Steps
}

// ending is an engine whose work ends when its context does, and after so long.
type ending struct {
	*plant
	after time.Duration
}

func (w ending) Work(ctx context.Context, s step.Step, _ map[string]string, _ func() error) (map[string]string, error) {
	w.mu.Lock()
	w.begun = append(w.begun, say(s))
	w.mu.Unlock()
	<-ctx.Done()
	<-time.After(w.after)
	return nil, errors.New("killed")
}

func timed(retries int) []definition.HostStep {
	s := steps("host-deployed")
	s[0].Retries, s[0].Timeout = retries, definition.Duration(5*time.Minute)
	return s
}

func TestWorkThatTakesTooLongIsStoppedAndItsTryHasFailed(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(timed(1), "a")
		p.options.Worker = ending{plant: p}
		before := time.Now()
		p.untilIdle()
		took := time.Since(before)
		assert.True(t, took == 10*time.Minute+time.Second, "two tries took %v", took)
		p.wantStatus("1", deployment.Failed)
		for _, try := range p.tries() {
			assert.True(t, strings.HasSuffix(try, "it took longer than its timeout of 5m, and was stopped: killed"),
				"the log tells of the try %q", try)
		}
	})
}

// The engine answers neither when the work is stopped nor when its deployment is cancelled: the slots are free after a
// while, the next revision waits, and the end is recorded when it comes.
func TestWorkThatDoesNotEndGivesItsSlotsBack(t *testing.T) {
	for name, c := range map[string]struct {
		stop   func(p *plant)
		within time.Duration
	}{
		"when its deployment was cancelled": {func(p *plant) { p.do(pipeline.Cancel{Revision: "1"}) }, 65 * time.Second},
		"when its timeout has passed":       {func(*plant) {}, 5*time.Minute + 15*time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.rollOut(timed(1), "a")
				p.options.Parallelism = 1
				result := make(chan error)
				p.work = func(s step.Step) error {
					if s.Host == "a" {
						return <-result
					}
					return nil
				}
				r := p.start()
				c.stop(p)
				p.release("2")
				p.other("1q") // which needs the only slot of the scheduler
				wait(c.within / 2)
				assert.False(t, slices.Contains(p.hasBegun(), "1q stage-manifest-applied"), "the slot is given back too early")
				wait(c.within)
				p.wantFinished("1q")
				assert.True(t, !p.entered("2") && slices.Equal(p.hasBegun(), []string{"1 host-deployed a", "1q stage-manifest-applied"}),
					"begun are %q", p.hasBegun())
				result <- nil
				wait(time.Second)
				assert.True(t, slices.Contains(p.story("1"), "host-deployed p/g/a"), "the late end is not recorded: %q", p.story("1"))
				close(result)
				wait(time.Minute)
				p.wantStatus("2", deployment.Finished)
				r.End()
			})
		})
	}
}

// An engine that did not answer for long answers again: what it has not begun by then is not
// begun any more, since nobody wants it.
func TestWhatHasNotBegunWhenItsDeploymentEndsIsNotBegun(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(p *plant)
		then []string
	}{
		"cancelled":                 {func(p *plant) { p.do(pipeline.Cancel{Revision: "1"}) }, []string{"2 host-deployed a"}},
		"cancelled and tried again": {func(p *plant) { p.do(pipeline.Cancel{Revision: "1"}); p.do(pipeline.Retry{Revision: "1"}) }, []string{"1 host-deployed a", "2 host-deployed a"}},
		"still wanted":              {func(*plant) {}, []string{"1 host-deployed a", "2 host-deployed a"}},
	} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.rollOut(steps("host-deployed"), "a")
				answers, first := make(chan bool), true
				p.before = func(step.Step) {
					if first {
						first = false
						<-answers
					}
				}
				r := p.start()
				c.stop(p)
				p.release("2")
				wait(10 * time.Minute)
				assert.Empty(t, p.hasBegun(), "begun are")
				close(answers)
				wait(time.Minute)
				got := p.hasBegun()
				assert.True(t, slices.Equal(got, c.then), "begun are %q, not %q", got, c.then)
				p.wantStatus("2", deployment.Finished)
				r.End()
			})
		})
	}
}

// refusing is an engine that nobody can connect to: nothing of a run is in the log.
type refusing struct{ *plant }

func (r refusing) Work(context.Context, step.Step, map[string]string, func() error) (map[string]string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = append(r.begun, time.Now().Format(time.TimeOnly))
	return nil, errors.New("host a: connection refused")
}

// tries are what the log tells of tries that failed, as "TRY of EVENT by WHO: ERROR".
func (p *plant) tries() (all []string) {
	for _, e := range p.Events() {
		var data struct {
			By, Error string
			Try       int
			Steps     []struct {
				Event, Outcome, Error string
				Try                   int
			}
		}
		err := json.Unmarshal(e.Data, &data)
		require.True(p, err == nil || len(e.Data) == 0, "%v", err)
		switch {
		case e.Name == record.StepsEnded:
			for _, s := range data.Steps {
				all = append(all, fmt.Sprintf("%d of %s by %s %s: %s", s.Try, s.Event, data.By, s.Outcome, s.Error))
			}
		case data.Try > 0:
			all = append(all, fmt.Sprintf("%d of %s by %s: %s", data.Try, e.Name, data.By, data.Error))
		}
	}
	return all
}

func TestEveryTryThatFailedIsAnEventAlsoOneThatNeverBegan(t *testing.T) {
	inPlant(t, func(p *plant) {
		s := steps("host-deployed")
		s[0].Retries = 2
		p.rollOut(s, "a")
		p.options.Worker, p.options.By = refusing{p}, "scheduler ada@desk"
		p.untilIdle()
		want := []string{
			"1 of host-deployed by scheduler ada@desk failed: host a: connection refused",
			"2 of host-deployed by scheduler ada@desk failed: host a: connection refused",
			"3 of host-deployed-failed by scheduler ada@desk: host a: connection refused",
		}
		assert.Equal(t, want, p.tries(), "the log tells of the tries")
		p.wantStatus("1", deployment.Failed)
		p.do(pipeline.Retry{Revision: "1"})
		p.untilIdle()
		got := p.tries()
		assert.True(t, len(got) == 6 && got[3] == want[0], "after a retry the log tells of the tries %q", got)
	})
}

// The schedulers take turns: each is killed when it has tried once more.
func TestTriesAndTheirPausesAreThoseOfTheLogWhoeverSchedules(t *testing.T) {
	inPlant(t, func(p *plant) {
		s := steps("host-deployed")
		s[0].Retries = 5
		p.rollOut(s, "a")
		p.options.Worker = refusing{p}
		began := time.Now()
		for range 6 {
			before := len(p.hasBegun())
			r := p.start()
			for len(p.hasBegun()) == before {
				wait(100 * time.Millisecond)
			}
			r.Kill(nil)
			<-r.Ended
		}
		var want []string
		for _, after := range []int{0, 1, 3, 7, 15, 31} {
			want = append(want, began.Add(time.Duration(after)*time.Second).Format(time.TimeOnly))
		}
		p.wantBegun(want...)
		p.untilIdle()
		p.wantBegun(want...)
		p.wantStatus("1", deployment.Failed)
	})
}

func TestAStepThatCannotBeginForAnHourWritesFewEvents(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.rollOut(retried("host-deployed"), "a")
		p.options.Worker = refusing{p}
		r := p.start()
		wait(time.Hour)
		n, tries := len(p.Events()), len(p.tries())
		assert.True(t, n <= 150 && tries == 65, "in an hour there are %d events, of %d tries", n, tries)
		r.End()
	})
}

// The work fails as often as the log tells that it did not fail twice yet.
func TestWhoeverDiesWhereverATryIsCountedOnce(t *testing.T) {
	carry := func(t *testing.T, lives int, last bool) (story []string, appends int) {
		inPlant(t, func(p *plant) {
			p.rollOut(retried("host-deployed"), "a")
			m := &reconciletest.Mortal{Log: p.DeployLog, Lives: lives, Last: last}
			p.options.Log, p.options.UntilIdle = m, true
			p.work = func(step.Step) error {
				if n := len(p.tries()); n < 2 {
					return fmt.Errorf("failure %d", n+1)
				}
				return nil
			}
			for errors.Is(pipelines.NewScheduler(p.options).Run(p.Context()), reconciletest.ErrDead) {
				p.options.Log = p.takenOver()
			}
			story, appends = p.told(), m.Calls()
		})
		return story, appends
	}
	sameWhereverItDies(t, 1, carry)
}
