package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// files draws what an event carries: texts that are no other event's, or, as former
// versions recorded it, nothing.
func (w *world) files(d *definition.Definition, id string) Files {
	if w.n(4, "former version") == 0 {
		return nil
	}
	carries := Files{}
	d.Manifests(func(_ string, path *string) { carries[*path] = id })
	return carries
}

// carriedOracle knows with which files a deployment applies a manifest, from all that
// the log has recorded.
type carriedOracle struct {
	released map[string]Files
	order    []string // of the deployments
	later    []Files  // by definitions
	since    map[string]int
	applied  map[string]Files // by deployment and manifest, for those that have a choice of one
}

func (o *carriedOracle) apply(e deploylog.Event) {
	if o.released == nil {
		o.released, o.since, o.applied = map[string]Files{}, map[string]int{}, map[string]Files{}
	}
	var p payload
	_ = json.Unmarshal(e.Data, &p)
	switch e.Name {
	case EventDefined:
		o.later = append(o.later, p.Carries)
	case pipelineStarted:
		o.released[e.Deployment], o.since[e.Deployment] = p.Carries, len(o.later)
		o.order = append(o.order, e.Deployment)
	}
}

// files are those of the release, or else the first of a later definition.
func (o *carriedOracle) files(deployment, manifest string) Files {
	if o.released[deployment] == nil {
		return nil
	}
	for _, carries := range append([]Files{o.released[deployment]}, o.later[o.since[deployment]:]...) {
		if _, ok := carries[manifest]; ok {
			return carries
		}
	}
	return nil
}

// check finds a step that would not get the bytes that its revision carries, or that
// others of its revision got before it.
func (o *carriedOracle) check(s *State) string {
	for step := range s.Decide(noon, Can{}) {
		if step.Manifest == "" {
			continue
		}
		if want := o.files(step.Deployment, step.Manifest); !maps.Equal(step.Files, want) {
			return fmt.Sprintf("%s of %s would apply %s with %v, its revision carries %v", step.Event, step.Target, step.Manifest, step.Files, want)
		}
		key := step.Deployment + " " + step.Manifest
		if before, begun := o.applied[key]; begun && before != nil && !maps.Equal(step.Files, before) {
			return fmt.Sprintf("%s of %s would apply %s with %v, others of its revision did with %v", step.Event, step.Target, step.Manifest, step.Files, before)
		}
		o.applied[key] = step.Files
	}
	return ""
}

// filesOf are those with which a manifest is to be applied next.
func (w *tale) wantFiles(manifest string, want Files) {
	w.Helper()
	for step := range w.state.Decide(noon, Can{}) {
		if step.Manifest == manifest {
			if !maps.Equal(step.Files, want) || (step.Files == nil) != (want == nil) {
				w.Errorf("%s is applied with %v, want %v", manifest, step.Files, want)
			}
			return
		}
	}
	w.Errorf("no step applies %s, only %q can be done", manifest, w.doable())
}

func TestARevisionKeepsTheFilesThatItWasReleasedWith(t *testing.T) {
	define := func(stages ...definition.Stage) *definition.Definition {
		return &definition.Definition{Name: "p", Stages: stages}
	}
	w := newTale(t, define(run("one"), run("two", "one")), nil)
	carries := Files{"one.yaml": "1", "two.yaml": "1", "lib/x": "1"}
	w.do(Release{Revision: "v1", ID: w.id(), Carries: carries})
	w.complete("v1", stageOf("one"), stageStarted)
	w.wantFiles("one.yaml", carries)

	// At every attempt.
	for s := range w.state.Decide(noon, Can{}) {
		w.append(s.Failed("exit code 3", ""))
		break
	}
	for {
		if _, more := w.step(); !more {
			break
		}
	}
	w.do(Retry{Revision: "v1"})
	w.wantFiles("one.yaml", carries)

	// Also when the pipeline is changed; what is new comes with the first definition that has it.
	later, last := Files{"one.yaml": "2", "new.yaml": "2", "two.yaml": "2"}, Files{"one.yaml": "3", "new.yaml": "3", "two.yaml": "3"}
	w.do(Define{ID: "d2", Definition: define(run("one"), run("new", "one"), run("two", "new")), Carries: later})
	w.wantFiles("one.yaml", carries)
	w.do(Define{ID: "d3", Definition: define(run("one"), run("new", "one"), run("two", "new"), run("three", "two")), Carries: last})
	if _, err := w.state.Preview(define(run("new"), run("two", "new")), nil); err != nil {
		t.Error(err)
	}
	w.until("v1", stageOf("one"), stageFinished)
	w.complete("v1", stageOf("new"), stageStarted)
	w.wantFiles("new.yaml", later)
	w.until("v1", stageOf("new"), stageFinished)
	w.complete("v1", stageOf("two"), stageStarted)
	w.wantFiles("two.yaml", carries)

	w.do(Release{Revision: "v2", ID: w.id(), Carries: carries})
	w.do(Release{Revision: "v3", ID: w.id(), Carries: last})
	for i, want := range []Files{carries, carries, last} {
		if r := w.state.Registrations()[i]; !maps.Equal(r.Carries, want) {
			t.Errorf("revision %s carries %v, want %v", r.Revision, r.Carries, want)
		}
	}
}

func TestARevisionOfAFormerVersionTakesManifestsAsTheyAre(t *testing.T) {
	w := newTale(t, &definition.Definition{Name: "p", Stages: []definition.Stage{run("one"), run("two", "one")}}, nil)
	w.append(deploylog.Event{
		Deployment: "v1", Target: "pipeline/p", Revision: "v1", Name: pipelineStarted, Attempt: 1, Data: json.RawMessage(`{"version":1,"by":"ann"}`),
	})
	w.complete("v1", stageOf("one"), stageStarted)
	w.wantFiles("one.yaml", nil)
	w.do(Define{ID: "d2", Definition: &definition.Definition{Name: "p", Stages: []definition.Stage{run("one"), run("two", "one"), run("three", "two")}}, Carries: Files{"one.yaml": "2"}})
	w.wantFiles("one.yaml", nil)
	if r := w.state.Registrations()[0]; r.Carries != nil {
		t.Errorf("it carries %v", r.Carries)
	}
}
