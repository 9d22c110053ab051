package pipeline

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// rollout lets things happen by chance, and then whatever can.
func rollout(w *world, each func(steps []step.Step)) {
	w.define(w.pipeline())
	w.setMembers()
	for range 10 + rapid.IntRange(0, 40).Draw(w.T, "length") {
		steps := slices.Collect(w.state.Decide(noon, Can{}))
		each(steps)
		w.act(steps)
	}
	for _, s := range w.running {
		w.complete(s)
	}
	for range 1000 {
		steps := slices.Collect(w.state.Decide(noon, Can{}))
		each(steps)
		if len(steps) == 0 {
			left := w.state.Left(func(step.Work) bool { return false })
			if len(left) == 0 {
				return
			}
			for _, work := range left {
				w.append(work.Settled(w.id(), "somebody"))
			}
			continue
		}
		w.complete(steps[0])
	}
	w.Fatalf("it never comes to rest:\n%s", w.story())
}

func TestEveryDeploymentEndsOrWaitsForSomethingThatExplainNames(t *testing.T) {
	cases(t, 2000, func(t *rapid.T) {
		w := newWorld(t)
		rollout(w, func(steps []step.Step) {
			var ready []string
			for _, r := range w.state.Explain(w.state.target) {
				if r.Code == reason.Ready {
					ready = append(ready, r.Deployment+" "+string(r.Target)+" "+r.Event)
				}
				if r.Seq > int64(len(w.log)) || r.Seq > 0 && (w.log[r.Seq-1].Name != r.ByEvent || w.log[r.Seq-1].Target != r.By) {
					t.Fatalf("%q blames event %d, which is not %s of %s:\n%s", r.Message(), r.Seq, r.ByEvent, r.By, w.story())
				}
			}
			slices.Sort(ready)
			if want := names(steps); !slices.Equal(ready, want) {
				t.Fatalf("Explain finds ready %q, and Steps yields %q", ready, want)
			}
		})
		for _, d := range w.state.deployments {
			named := slices.ContainsFunc(w.state.Explain(w.state.target), func(r reason.Reason) bool {
				return r.Deployment == d.ID && r.Code != reason.NotNew && r.Code != reason.LeftOut && r.Code != reason.CameLater
			})
			if !named {
				t.Fatalf("%s rests, and Explain names nothing but %q:\n%s", d.ID, texts(w.state.Explain(w.state.target)), w.story())
			}
		}
	})
}

func TestARestartAtAnyEventGoesOnInTheSameWay(t *testing.T) {
	cases(t, 500, func(t *rapid.T) {
		w := newWorld(t)
		rollout(w, func(steps []step.Step) {
			if anew := slices.Collect(fold("p", w.log).Decide(noon, Can{})); !reflect.DeepEqual(anew, steps) {
				t.Fatalf("folded anew from %d events it does\n%v, not\n%v", len(w.log), anew, steps)
			}
		})
		if got, want := fold("p", w.log).Status(), w.state.Status(); !reflect.DeepEqual(got, want) {
			t.Fatalf("status %v, not %v", got, want)
		}
	})
}

func TestWhatIsFinishedIsNotKept(t *testing.T) {
	cases(t, 200, func(t *rapid.T) {
		w := newWorld(t)
		rollout(w, func([]step.Step) {})
		for _, r := range w.state.Registrations() {
			if d := w.state.byID[r.Deployment]; (d != nil) && (r.Status == deployment.Finished) {
				t.Fatalf("%s has finished and is kept", r.Revision)
			}
		}
	})
}

// Where the pipeline does not change, what a batch spans is done by one revision
// after the other, as the log alone shows.
func TestOneRevisionAtATimeIsInABatch(t *testing.T) {
	cases(t, 2000, func(t *rapid.T) {
		w := newWorld(t)
		w.steady = true
		rollout(w, func([]step.Step) {})
		d := w.state.Definition()
		batches := slices.Clone(d.Batches)
		for _, s := range d.Stages {
			batches = append(batches, definition.Batch{From: s.Name, To: s.Name})
		}
		for _, b := range batches {
			if problem := w.overlap(d, b); problem != "" {
				t.Fatalf("batch %s to %s: %s\n%s", b.From, b.To, problem, w.story())
			}
		}
	})
}

// overlap finds two revisions that are in a batch at once. What does a stage again is in all
// that the stage belongs to, until it ends.
func (w *world) overlap(d *definition.Definition, b definition.Batch) string {
	from, to := record.StageTarget("p", b.From), record.StageTarget("p", b.To)
	at := func(name string) int {
		return slices.IndexFunc(d.Stages, func(s definition.Stage) bool { return s.Name == name })
	}
	within, over, revisions := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, e := range w.log {
		if e.Name == record.PipelineStarted {
			revisions[e.Deployment] = e.Revision
		}
		redo := record.RedoOf(e)
		switch {
		case redo != nil:
			within[e.Deployment] = follows(d, at(b.From), at(redo.Stage)) && follows(d, at(redo.Stage), at(b.To))
			revisions[e.Deployment] += " again"
		case strings.HasSuffix(revisions[e.Deployment], " again") && e.Name == record.StageFinished:
			within[e.Deployment] = false
		case strings.HasSuffix(revisions[e.Deployment], " again") && e.Target.Kind() == "stage":
		case e.Target == from && e.Name == record.StageStarted:
			within[e.Deployment] = true
		case e.Target == to && e.Name == record.StageFinished:
			within[e.Deployment] = false
		case e.Name == record.PipelineFailed || e.Name == record.PipelineCancelled || e.Name == record.PipelineSkipped || e.Name == record.PipelineSuperseded:
			over[e.Deployment] = true
		case e.Name == record.PipelineRetried:
			over[e.Deployment] = false
		}
		in := inside(b, within, over, revisions)
		if len(in) > 1 {
			slices.Sort(in)
			return fmt.Sprintf("after event %d it holds %v", e.Seq, in)
		}
	}
	return ""
}

// A step that a revision does not know yet, and has not adopted, is never offered when one
// of its hosts has gone by it, as the log alone shows.
func TestANewStepNeverRunsFirstBelowAPointThatTheRevisionPassed(t *testing.T) {
	cases(t, 2000, func(t *rapid.T) {
		w := newWorld(t)
		rollout(w, func(steps []step.Step) {
			for _, s := range steps {
				n, introduced := w.state.introduced[deployment.StepUnit(s.Stage, s.Event)]
				adopted := w.oracle.revisions[order(w.log, s.Deployment)-1].adopted[s.Stage+":deploy:"+s.Event]
				if s.Host == "" || !introduced || adopted || order(w.log, s.Deployment) > n {
					continue
				}
				if problem := goneBy(w.log, w.state, s); problem != "" {
					t.Fatalf("%s is offered on %s: %s\n%s", s.Event, s.Target, problem, w.story())
				}
			}
		})
	})
}

// inside are the revisions that are in a batch. What does a stage of one again may be so beside
// it, but for the stage itself.
func inside(b definition.Batch, within, over map[string]bool, revisions map[string]string) (in []string) {
	for id := range within {
		name := strings.TrimSuffix(revisions[id], " again")
		if within[id] && !over[id] && (b.From == b.To || !slices.Contains(in, name)) {
			in = append(in, name)
		}
	}
	return in
}

func order(log []deploylog.Event, deployment string) int {
	n := 0
	for _, e := range log {
		if e.Name == record.PipelineStarted {
			if n++; e.Deployment == deployment {
				return n
			}
		}
	}
	return n
}

// goneBy finds a host, of a stage into which the step came late, on which
// something behind the step happened without it.
func goneBy(log []deploylog.Event, s *State, step step.Step) string {
	for _, stage := range s.Definition().Stages {
		if _, late := s.introduced[deployment.StepUnit(stage.Name, step.Event)]; !late {
			continue
		}
		events := append(eventsOf(stage.Deploy), record.HostFinished)
		behind := events[slices.Index(events, step.Event)+1:]
		for _, g := range stage.Deploy.HostGroups {
			done := map[deploylog.Target]bool{}
			for _, e := range log {
				if e.Deployment != step.Deployment || !strings.HasPrefix(string(e.Target), "host/p/"+g.Name+"/") {
					continue
				}
				done[e.Target] = done[e.Target] || e.Name == step.Event
				if slices.Contains(behind, e.Name) && !done[e.Target] {
					return fmt.Sprintf("event %d, %s of %s, came without it", e.Seq, e.Name, e.Target)
				}
			}
		}
	}
	return ""
}
