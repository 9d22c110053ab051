package deployment

import (
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Pruning is what the last step on a host knows of the other steps of its pipeline there, to remove
// what none of them declares any more.
type Pruning struct {
	Done      []string   // events of the earlier steps that the deployment has done on the host
	LeftOut   []string   // events of the steps that it leaves out there
	RollsBack bool       // it deploys an earlier revision, which did not have those
	Elsewhere []EntryKey // the steps of other host groups that have the host

	// Removed and Left are what the work of the step finds: resources that it removed, and those that it
	// could not remove, each with the reason.
	Removed, Left []string
}

// Pruning returns what a step on a host knows of the others if it is the last one that the deployment
// does there, and nil if it is not.
func (d *Deployment) Pruning(l *Layout, step EntryKey) *Pruning {
	own, known := l.HostAt[step.Target]
	if !known {
		return nil
	}
	stage, run := &l.Stages[own.Stage], &d.Stages[own.Stage].Groups[own.Group].Hosts[own.Host]
	at := slices.Index(stage.Chain, step.Event)
	if at <= 0 || d.after(stage, at) != len(stage.Chain)-1 {
		return nil
	}
	p := &Pruning{RollsBack: d.Rollback != nil}
	for _, event := range stage.Chain[1 : len(stage.Chain)-1] {
		switch {
		case event == step.Event:
		case run.Marks.Has(event):
			p.Done = append(p.Done, event)
		default:
			p.LeftOut = append(p.LeftOut, event)
		}
	}
	host := stage.Groups[own.Group].Hosts[own.Host].Name
	for i := range l.Stages {
		for _, group := range l.Stages[i].Groups {
			t := deploylog.Target("host" + strings.TrimPrefix(string(group.Target), "host-group") + "/" + host)
			if place, has := l.HostAt[t]; has && place != own {
				p.addSteps(t, l.Stages[i].Deploy.Steps)
			}
		}
	}
	return p
}

func (p *Pruning) addSteps(host deploylog.Target, steps []definition.HostStep) {
	for _, step := range steps {
		p.Elsewhere = append(p.Elsewhere, EntryKey{Target: host, Event: step.Event})
	}
}
