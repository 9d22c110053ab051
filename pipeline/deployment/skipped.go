package deployment

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Missed is what of the steps of the hosts of a stage that have finished, of one group or of
// all, was not done.
func (d *Deployment) Missed(stage *StageLayout, i int, groups ...int) (all record.Skips) {
	missing, hosts, nothing := make([]bool, len(stage.Chain)), 0, true
	for g := range stage.Groups {
		if len(groups) > 0 && !slices.Contains(groups, g) {
			continue
		}
		for h := range d.Stages[i].Groups[g].Hosts {
			m := d.Stages[i].Groups[g].Hosts[h].Marks
			if m.Has(record.HostFinished) {
				hosts++
				nothing = stage.Missing(m, missing) && nothing
			}
		}
	}
	return stage.Skips(missing, nothing && hosts > 0)
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

// Renames are those of a definition that comes after another one.
func Renames(before, after *definition.Definition) (all []Rename) {
	if before == nil {
		return nil
	}
	gone := map[string][]definition.HostStep{} // by stage
	minus := func(of, without *definition.Definition, yield func(stage string, step definition.HostStep)) {
		has := Units(without)
		for i := range of.Stages {
			if deploy := of.Stages[i].Deploy; deploy != nil {
				for _, step := range deploy.Steps {
					if !slices.Contains(has, StepUnit(of.Stages[i].Name, step.Event)) {
						yield(of.Stages[i].Name, step)
					}
				}
			}
		}
	}
	minus(before, after, func(stage string, step definition.HostStep) { gone[stage] = append(gone[stage], step) })
	minus(after, before, func(stage string, step definition.HostStep) {
		for _, was := range gone[stage] {
			if was.Manifest == step.Manifest {
				all = append(all, Rename{stage, was.Event, step.Event, step.Manifest})
				return
			}
		}
	})
	return all
}
