package runs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/report"
)

// hostWorld is a host to which two pipelines deploy, with what is there. The steps record what the
// product records; what is there, and who declares it, the test keeps itself.
type hostWorld struct {
	t     *rapid.T
	steps steps
	seq   int64
	runs  int
	there map[string]string // things, with the step that made each
	cut   string            // a run that ended in its midst
	all   map[string][]hostStage
	last  map[Step]map[string]string // what each step declared when it was applied well, by name
	maybe map[Step]map[string]bool   // what it may have made in a run that ended in its midst
}

// hostStage is a stage of a pipeline, which has the host in one group.
type hostStage struct {
	group string
	steps []hostStep
}

type hostStep struct {
	event    string
	keeps    bool
	declares map[string]string // thing by name
}

func (w *hostWorld) append(run string, target deploylog.Target, name, revision string, d Data) {
	w.seq++
	data, err := json.Marshal(d)
	assert.NoError(w.t, err)
	assert.NoError(w.t, w.steps.fold(w.t.Context(), deploylog.Event{Seq: w.seq, Deployment: run, Target: target, Name: name, Revision: revision, Attempt: 1, Data: data}))
}

func stepOf(pipeline string, s hostStage, event string) Step {
	return Step{deploylog.Target("host/" + pipeline + "/" + s.group + "/h"), event}
}

// apply applies what a step declares; cut is after how many resources it ends in its midst, 0 is never.
// The next run records that.
func (w *hostWorld) apply(step Step, of hostStep, cut int, all []Step) bool {
	target := deploylog.Target("run/m.yaml@h")
	if w.cut != "" {
		w.append(w.cut, target, target.Failed(), "r", Data{})
		w.cut = ""
	}
	w.runs++
	run := fmt.Sprint("run", w.runs)
	details := map[string]string{"target": string(step.Target), "event": step.Event}
	if of.keeps {
		details[DetailKeeps] = "true"
	}
	if all != nil {
		details[DetailSteps] = Steps(all)
	}
	w.append(run, target, target.Started(), "r", Data{Details: details})
	if w.maybe[step] == nil {
		w.maybe[step] = map[string]bool{}
	}
	for i, name := range slices.Sorted(maps.Keys(of.declares)) {
		thing := of.declares[name]
		w.maybe[step][thing] = true
		placed := name + "@h"
		if w.there[thing] != "" {
			w.append(run, resourceTarget(placed), string(report.ResourceResolved), "r", Data{Thing: thing})
		} else {
			w.append(run, resourceTarget(placed), string(report.ResourceResolved), "r", Data{})
			w.append(run, actionTarget(placed, "write"), string(report.ActionStarted), "r", Data{Made: &Making{Type: "file", Thing: thing}})
			w.there[thing] = string(step.Target) + " " + step.Event
		}
		if i+1 == cut {
			w.cut = run
			return false
		}
	}
	w.append(run, target, target.Succeeded(), "r", Data{})
	w.last[step], w.maybe[step] = of.declares, map[string]bool{}
	return true
}

// visit is a deployment that passes a stage; cut ends it in the midst of one of its steps.
func (w *hostWorld) visit(pipeline string, stage hostStage, cut int) {
	v := Visit{}
	for _, s := range stage.steps {
		v.Done = append(v.Done, stepOf(pipeline, stage, s.event))
	}
	last := len(v.Done) - 1
	v.Last, v.Done = v.Done[last], v.Done[:last]
	for _, other := range w.all[pipeline] {
		for _, s := range other.steps {
			if other.group != stage.group {
				v.Elsewhere = append(v.Elsewhere, stepOf(pipeline, other, s.event))
			}
		}
	}
	for i, s := range stage.steps {
		var all []Step
		if i == last {
			all = v.Steps()
		}
		if !w.apply(stepOf(pipeline, stage, s.event), s, cut, all) {
			return
		}
	}
	for step := range w.maybe { // what the pipeline no longer has declares nothing any more
		if step.pipeline() == pipeline && !slices.Contains(v.Steps(), step) {
			delete(w.last, step)
			delete(w.maybe, step)
		}
	}
	w.runs++
	run, target := fmt.Sprint("run", w.runs), deploylog.Target("run/m.yaml@h")
	w.append(run, target, target.Started(), "", Data{Details: map[string]string{"target": string(v.Last.Target), "event": v.Last.Event}})
	for _, m := range must.Get(w.steps.at(w.t.Context(), "h"))(w.t).Leftovers(v) {
		w.mayGo(m, pipeline, v)
		delete(w.there, m.Thing)
		w.append(run, resourceTarget(m.Name+"@h"), string(report.ResourceDestroyed), "", Data{Thing: m.Thing})
	}
	w.append(run, target, target.Succeeded(), "", Data{})
}

// mayGo fails the test if something is removed that a step declares which the pipelines have.
func (w *hostWorld) mayGo(m StepMade, pipeline string, v Visit) {
	for name, stages := range w.all {
		for _, stage := range stages {
			for _, s := range stage.steps {
				step := stepOf(name, stage, s.event)
				declares := slices.Contains(slices.Collect(maps.Values(w.last[step])), m.Thing) || w.maybe[step][m.Thing]
				assert.False(w.t, declares, "the last step %v of %s removes %s, which %v declares", v.Last, pipeline, m.Thing, step)
			}
		}
	}
	assert.NotEmpty(w.t, w.there[m.Thing], "%s is removed, and was not there", m.Thing)
}

func drawStages(t *rapid.T) []hostStage {
	groups := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"g1", "g2", "g3"}), 1, 3, rapid.ID).Draw(t, "groups")
	var stages []hostStage
	for _, group := range groups {
		stage := hostStage{group: group}
		for _, event := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"e1", "e2"}), 1, 2, rapid.ID).Draw(t, "steps of "+group) {
			names := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.SampledFrom([]string{"x", "y", "z", "u"}), 0, 3)
			stage.steps = append(stage.steps, hostStep{event, rapid.Bool().Draw(t, "keeps") && rapid.Bool().Draw(t, "so"), names.Draw(t, "declares")})
		}
		stages = append(stages, stage)
	}
	return stages
}

// Whatever is edited, renamed, moved between steps, or cut short: nothing goes that a step declares, and when
// all stages have passed the host has what they declare, and what steps that keep it have made.
func TestAHostHasWhatItsStepsDeclare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &hostWorld{
			t: t, steps: newSteps(&indexed{}), there: map[string]string{}, all: map[string][]hostStage{},
			last: map[Step]map[string]string{}, maybe: map[Step]map[string]bool{},
		}
		pipelines := []string{"p", "q"}
		for _, name := range pipelines {
			w.all[name] = drawStages(t)
		}
		for range rapid.IntRange(1, 12).Draw(t, "acts") {
			name := rapid.SampledFrom(pipelines).Draw(t, "pipeline")
			if rapid.Bool().Draw(t, "edit") {
				w.all[name] = drawStages(t)
				continue
			}
			w.visit(name, rapid.SampledFrom(w.all[name]).Draw(t, "stage"), rapid.IntRange(0, 4).Draw(t, "cut"))
		}
		for range 3 {
			for _, name := range pipelines {
				for _, stage := range w.all[name] {
					w.visit(name, stage, 0)
				}
			}
		}
		want := map[string]bool{}
		for name, stages := range w.all {
			for _, stage := range stages {
				for _, s := range stage.steps {
					for _, thing := range s.declares {
						want[thing] = true
						assert.NotEmpty(t, w.there[thing], "%s of step %s of %s is not there", thing, s.event, name)
					}
				}
			}
		}
		kept := must.Get(w.steps.at(t.Context(), "h"))(t).Declared
		for thing, maker := range w.there {
			var target, event string
			_, err := fmt.Sscan(maker, &target, &event)
			assert.NoError(t, err)
			if !kept[Step{deploylog.Target(target), event}].Keeps {
				assert.True(t, want[thing], "%s, which %s made, is there and no step declares it", thing, maker)
			}
		}
	})
}
