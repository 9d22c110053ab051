package pipeline

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Skips are what of the steps of the hosts in a place its end came without: steps that were
// put into the pipeline, or got another name, behind the revision's back.
type Skips struct {
	Steps   []string // events, in the order of the definition
	Nothing bool     // none was done at all
}

// SkipsOf are what the end of a stage, host group or host came without. Ends that former
// versions recorded do not tell.
func SkipsOf(e deploylog.Event) Skips {
	p := read(e.Data)
	return Skips{p.Skipped, p.Nothing}
}

// skipped are those of the hosts of a stage that have finished, of one group or of all.
func (w *walk) skipped(i int, groups ...int) (all Skips) {
	stage, hosts := &w.l.stages[i], 0
	missing := make([]bool, len(stage.chain))
	nothing := true
	for g := range stage.groups {
		if len(groups) > 0 && !slices.Contains(groups, g) {
			continue
		}
		for h := range w.d.stages[i].groups[g].hosts {
			m := w.d.stages[i].groups[g].hosts[h].marks
			if m.has(hostFinished) {
				hosts++
				nothing = stage.missing(m, missing) && nothing
			}
		}
	}
	return stage.skips(missing, nothing && hosts > 0)
}

// missing notes which steps a host has not done, and reports whether it has done nothing.
func (s *stageLayout) missing(m *marks, missing []bool) (nothing bool) {
	for i, event := range s.chain {
		missing[i] = missing[i] || event != hostFinished && !m.has(event)
	}
	_, done := m.first(func(event string) bool { return event != hostStarted && event != hostFinished && !isFailure(event) })
	return !done
}

func (s *stageLayout) skips(missing []bool, nothing bool) (all Skips) {
	for i, event := range s.chain[:len(s.chain)-1] {
		if i > 0 && missing[i] {
			all.Steps = append(all.Steps, event)
		}
	}
	all.Nothing = nothing && len(all.Steps) > 0
	return all
}

// Rename is a step that applies the manifest of one that is gone from its stage. For the
// pipeline it is a new step, whatever was meant by giving its event another name.
type Rename struct {
	Stage    string `json:"stage"`
	From     string `json:"from"`
	To       string `json:"to"`
	Manifest string `json:"manifest"`
}

// Message says what comes of it.
func (r Rename) Message() string {
	return fmt.Sprintf("step %s of stage %s applies %s, as %s did: under another name it is a new step, which revisions under way that are past it anywhere skip", r.To, r.Stage, r.Manifest, r.From)
}

// Renames are those of a definition that is to become the current one.
func (s *State) Renames(d *definition.Definition) (all []Rename) {
	if s.definition == nil {
		return nil
	}
	gone := map[string][]definition.HostStep{} // by stage
	minus := func(of, without *definition.Definition, yield func(stage string, step definition.HostStep)) {
		has := units(without)
		for i := range of.Stages {
			if deploy := of.Stages[i].Deploy; deploy != nil {
				for _, step := range deploy.Steps {
					if !slices.Contains(has, stepUnit(of.Stages[i].Name, step.Event)) {
						yield(of.Stages[i].Name, step)
					}
				}
			}
		}
	}
	minus(s.definition, d, func(stage string, step definition.HostStep) { gone[stage] = append(gone[stage], step) })
	minus(d, s.definition, func(stage string, step definition.HostStep) {
		for _, was := range gone[stage] {
			if was.Manifest == step.Manifest {
				all = append(all, Rename{stage, was.Event, step.Event, step.Manifest})
				return
			}
		}
	})
	return all
}
