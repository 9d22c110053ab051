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

// entered reports whether a revision has entered any stage.
func (p *plant) entered(revision string) bool {
	return slices.ContainsFunc(p.story(revision), func(line string) bool { return strings.HasPrefix(line, "stage-started ") })
}

// lenient is a stage that others enter in which a revision has failed.
func lenient(s definition.Stage) definition.Stage {
	s.StopOnFailure = new(bool)
	return s
}

// why is what a revision waits for.
func (p *plant) why(revision string) string {
	p.Helper()
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
		r.end()
	})
}

// died leaves work of a revision that is cancelled then: who had it done is killed.
func (p *plant) died(revision string) {
	p.Helper()
	p.rollOut(steps("host-deployed"), "a")
	results := p.holdWork()
	r := p.start()
	r.kill()
	results <- errors.New("killed")
	<-r.ended
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
		assert.Len(t, p.notices("settle 1 host-deployed"), 1, "it was settled")
		r.end()
	})
}

// lostRun is a run that nobody can ask about.
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
		n := len(p.notices("settle 1"))
		assert.True(t, n >= 60 && n <= 70, "in an hour it was tried %d times", n)
		p.mu.Lock()
		p.settle = nil
		p.mu.Unlock()
		wait(2 * time.Minute)
		p.wantStatus("2", deployment.Finished)
		r.end()
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
		r.end()
	})
}

func TestADrainDoesNotWaitForWhatIsSettled(t *testing.T) {
	inPlant(t, func(p *plant) {
		p.died("1")
		p.settle = func(ctx context.Context, _ step.Work) error { <-ctx.Done(); return ctx.Err() }
		r := p.start()
		before := time.Now()
		r.end()
		took := time.Since(before)
		assert.True(t, took <= 0 && len(p.tries()) <= 0, "it took %v, and the log tells of %q", took, p.tries())
	})
}

// At whichever append the process dies: revision 2 enters when the work of revision 1 has
// ended, and it does enter.
func TestWhoeverDiesWhereverNobodyEntersBeforeTheWorkHasEnded(t *testing.T) {
	carry := func(t *testing.T, lives int, last bool) (appends int) {
		inPlant(t, func(p *plant) {
			p.members["g"] = []string{"a", "b"}
			p.define(deployTo("all", "g", steps("host-deployed", "host-tested")))
			p.release("1")
			m := &reconciletest.Mortal{Log: p.log, Lives: lives, Last: last}
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
	p.Helper()
	going := map[string]string{} // revision, by its work
	for _, e := range p.events() {
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
	p.Helper()
	var data struct {
		Steps []struct{ Target, Event, Revision, Outcome string }
	}
	require.NoError(p, json.Unmarshal(e.Data, &data))
	return data.Steps
}
