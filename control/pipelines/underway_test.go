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
	if err := p.pipelines.Follow(context.Background(), 0); err != nil {
		p.Fatal(err)
	}
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

func TestABatchIsLeftWhenTheWorkInItHasEnded(t *testing.T) {
	for name, end := range map[string]func(p *plant, results chan<- error){
		"of a deployment that was cancelled": func(p *plant, _ chan<- error) { p.do(pipeline.Cancel{Revision: "1"}) },
		"of one that failed elsewhere":       func(_ *plant, results chan<- error) { results <- errors.New("disk full") },
	} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.members["g"] = []string{"a", "b"}
				p.define(lenient(deployTo("all", "g", steps("host-deployed"))))
				p.release("1")
				results := p.holdWork()
				r := p.start()
				end(p, results)
				p.release("2")
				wait(time.Hour)
				if p.entered("2") {
					t.Errorf("revision 2 is in the stage in which revision 1 is still being deployed: %q", p.story("2"))
				}
				if why := p.why("2"); !strings.Contains(why, "host-deployed of host/p/g/") || !strings.Contains(why, "is still being done for revision 1, since ") {
					t.Errorf("that is explained with %q", why)
				}
				close(results)
				p.wantStatus("1", map[bool]deployment.Status{true: deployment.Cancelled, false: deployment.Failed}[strings.Contains(name, "cancelled")])
				wait(time.Second)
				p.wantStatus("2", deployment.Finished)
				r.end()
			})
		})
	}
}

func TestNothingEndsBeforeTheWorkInIt(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *plant)
		until  string // which does not happen yet
	}{
		"the step is removed while it runs": {func(p *plant) { p.define(deployTo("all", "g", steps("host-tested"))) }, "host-tested p/g/a"},
		"its group is removed from it":      {func(p *plant) { p.define(deployTo("all", "g2", steps("host-deployed"))) }, "pipeline-finished-successfully p"},
		"its stage is removed":              {func(p *plant) { p.define(runStage("only")) }, "pipeline-finished-successfully p"},
		"its host leaves the inventory":     {func(p *plant) { p.inventory(nil, "g", "b"); wait(2 * time.Second) }, "host-group-finished-successfully p/g"},
		"its stage does something else":     {func(p *plant) { p.define(runStage("all")) }, "pipeline-finished-successfully p"},
	} {
		t.Run(name, func(t *testing.T) {
			inPlant(t, func(p *plant) {
				p.rollOut(steps("host-deployed"), "a")
				p.members["g2"] = []string{"b"}
				result := make(chan error)
				p.work = func(s step.Step) error {
					if s.Host == "a" && s.Event == "host-deployed" {
						return <-result
					}
					return nil
				}
				r := p.start()
				c.change(p)
				p.release("2")
				wait(time.Hour)
				if slices.Contains(p.story("1"), c.until) || p.entered("2") {
					t.Errorf("the log tells %q, and of the next %q", p.story("1"), p.story("2"))
				}
				if why := p.why("1"); !strings.Contains(why, "host-deployed of host/p/g/a is still being done for revision 1") {
					t.Errorf("that is explained with %q", why)
				}
				close(result)
				wait(2 * time.Second)
				p.wantStatus("1", deployment.Finished)
				p.wantStatus("2", deployment.Finished)
				r.end()
			})
		})
	}
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
		if p.entered("2") {
			t.Error("revision 2 is in the stage in which the deleted pipeline is at work")
		}
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
		if p.entered("2") {
			t.Error("revision 2 has entered, and what was left is not settled")
		}
		settled <- nil
		wait(time.Second)
		p.wantStatus("2", deployment.Finished)
		if got := p.tries(); !slices.Equal(got, []string{"0 of host-deployed by scheduler ada@desk settled: "}) {
			t.Errorf("the log tells of %q", got)
		}
		if got := p.notices("settle 1 host-deployed"); len(got) != 1 {
			t.Errorf("it was settled %d times", len(got))
		}
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
			if !strings.Contains(why, want) {
				t.Errorf("it is explained with %q, without %s", why, want)
			}
		}
		if got := p.tries(); p.entered("2") || !slices.Equal(got, []string{"0 of host-deployed by  lost: no route to host"}) {
			t.Errorf("the log tells of %q", got)
		}
		if n := len(p.notices("settle 1")); n < 60 || n > 70 {
			t.Errorf("in an hour it was tried %d times", n)
		}
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
		if p.entered("2") {
			t.Error("revision 2 has entered while a run of revision 1 may be at work")
		}
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
		if took := time.Since(before); took > 0 || len(p.tries()) > 0 {
			t.Errorf("it took %v, and the log tells of %q", took, p.tries())
		}
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
				if revision != e.Revision {
					p.Errorf("revision %s enters with event %d, and %s is under way", e.Revision, e.Seq, what)
				}
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
	if err := json.Unmarshal(e.Data, &data); err != nil {
		p.Fatal(err)
	}
	return data.Steps
}
