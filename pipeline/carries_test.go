package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// files draws what an event carries: texts that are no other event's, or, as former
// versions recorded it, nothing.
func (w *world) files(d *definition.Definition, id string) record.Files {
	if w.n(4, "former version") == 0 {
		return nil
	}
	carries := record.Files{}
	d.Manifests(func(_ string, path *string) { carries[*path] = id })
	return carries
}

// carriedOracle knows how a deployment applies a step, from all that the log has recorded.
type carriedOracle struct {
	log     []record.Payload                     // of the definitions, and of what was released
	release map[string]int                       // where in log a deployment was released, or adopted a definition
	names   map[string]string                    // of revisions, by deployment
	applied map[[2]string]deployment.Application // by deployment and step, since then
	missed  map[string]map[int]bool              // definitions of log that came when a deployment had ended
	last    int                                  // definition of log
}

// apply folds in an event. What has ended for good adopts nothing, though a rollback to the
// same revision, under way under the same name, may.
func (o *carriedOracle) apply(e deploylog.Event, under func(deployment string) bool) {
	if o.release == nil {
		o.release, o.names, o.applied, o.missed = map[string]int{}, map[string]string{}, map[[2]string]deployment.Application{}, map[string]map[int]bool{}
	}
	var p record.Payload
	_ = json.Unmarshal(e.Data, &p)
	switch e.Name {
	case record.PipelineDefined:
		o.log, o.last = append(o.log, p), len(o.log)
		for id, revision := range o.names {
			if !under(id) {
				o.missed[id][len(o.log)-1] = true
			}
			if slices.Contains(p.Adopt, revision) && under(id) {
				o.release[id] = len(o.log) - 1
				maps.DeleteFunc(o.applied, func(step [2]string, _ deployment.Application) bool { return step[0] == id })
			}
		}
	case record.PipelineStarted:
		now := record.Payload{Carries: p.Carries}
		for _, before := range o.log {
			now.Definition = cmp.Or(before.Definition, now.Definition)
		}
		o.release[e.Deployment], o.names[e.Deployment], o.missed[e.Deployment] = len(o.log), e.Revision, map[int]bool{}
		if p.Rollback != nil { // which goes on where the revision came to its end
			o.release[e.Deployment], o.missed[e.Deployment] = o.release[p.Rollback.Original], maps.Clone(o.missed[p.Rollback.Original])
			return
		}
		if p.Redo != nil { // so does what does something again
			o.release[e.Deployment], o.missed[e.Deployment] = o.release[p.Redo.Of], maps.Clone(o.missed[p.Redo.Of])
			delete(o.missed[e.Deployment], o.last) // and gets what is new to it in the present definition
			return
		}
		o.log = append(o.log, now)
	}
}

// manifestOf is the manifest of a step in a definition; "" is none.
func manifestOf(d *definition.Definition, step step.Step) string {
	for _, s := range d.Stages {
		if s.Name != step.Stage {
			continue
		}
		group := s.Build != nil && s.Build.Group != ""
		if manifest, _ := s.Once(); step.Event == record.StageApplied && !group || step.Event == record.StageBuilt && group {
			return manifest
		}
		if s.Deploy == nil {
			return ""
		}
		for _, h := range s.Deploy.Steps {
			if h.Event == step.Event {
				return h.Manifest
			}
		}
	}
	return ""
}

// of is how a step is to be applied: with the manifest of the first definition that has
// it, from the one with which its revision was released or which that adopted, and the
// files of the first release or definition since then that has these. What a former version
// released follows the present definition.
func (o *carriedOracle) of(step step.Step) (as deployment.Application) {
	since := slices.Clone(o.log[o.release[step.Deployment]:])
	if since[0].Carries == nil {
		for _, p := range o.log {
			if of := manifestOf(p.Definition, step); of != "" {
				as.Manifest = of
			}
		}
		return as
	}
	for i := range since {
		if o.missed[step.Deployment][o.release[step.Deployment]+i] {
			since[i] = record.Payload{Definition: &definition.Definition{}, Version: 1}
		}
	}
	for _, p := range since {
		as.Manifest = cmp.Or(as.Manifest, manifestOf(p.Definition, step))
	}
	for i, p := range since {
		if _, ok := p.Carries[as.Manifest]; ok && (i == 0 || p.Version > 0) { // not those of other revisions
			return deployment.Application{Manifest: as.Manifest, Files: p.Carries}
		}
	}
	return as
}

// check finds a step that would not get the bytes that its revision carries, or that
// others of its revision got before it.
func (o *carriedOracle) check(steps []step.Step) string {
	for _, step := range steps {
		if step.Manifest == "" && step.Packages == "" {
			continue
		}
		same := func(a, b deployment.Application) bool {
			return a.Manifest == b.Manifest && maps.Equal(a.Files, b.Files)
		}
		is := deployment.Application{Manifest: cmp.Or(step.Manifest, step.Packages), Files: step.Files}
		if want := o.of(step); !same(is, want) {
			return fmt.Sprintf("%s of %s would apply %v, and is to apply %v", step.Event, step.Target, is, want)
		}
		key := [2]string{step.Deployment, step.Stage + " " + step.Event}
		if before, begun := o.applied[key]; begun && before.Files != nil && !same(is, before) {
			return fmt.Sprintf("%s of %s would apply %v, others of its revision did %v", step.Event, step.Target, is, before)
		}
		o.applied[key] = is
	}
	return ""
}

// filesOf are those with which a manifest is to be applied next.
func (w *tale) wantFiles(manifest string, want record.Files) {
	w.Helper()
	for step := range w.state.Decide(noon, Can{}) {
		if step.Manifest == manifest {
			assert.True(w, maps.Equal(step.Files, want) && (step.Files == nil) == (want == nil),
				"%s is applied with %v, want %v", manifest, step.Files, want)
			return
		}
	}
	w.Errorf("no step applies %s, only %q can be done", manifest, w.doable())
}
