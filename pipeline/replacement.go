package pipeline

import (
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Replacement is that a revision in progress is to come to hosts of a stage, in place of another one.
type Replacement struct {
	Stage      string
	Revision   string
	Deployment string
	Before     string   // a deployment that finished the hosts last, or has begun there since
	Beside     []string // the stages that have the hosts, itself among them
}

// Replacements returns which revisions are to come to the hosts at or below a target that have another one, or
// a part of it, oldest first.
func (s *State) Replacements(t deploylog.Target) (all []Replacement) {
	at, why := s.find(t)
	if why != nil || s.currentLayout() == nil {
		return nil
	}
	having := s.stagesByHost()
	for _, d := range s.deployments {
		for i := range s.layout.Stages {
			stage := &s.layout.Stages[i]
			only := d.Only()
			if d.Status != deployment.Running || stage.Deploy == nil || d.Stages[i].Passed || only != "" && only != stage.Target {
				continue
			}
			of := len(all)
			for g, group := range stage.Groups {
				for h, host := range group.Hosts {
					if at.Touches(deployment.Place{Stage: i, Group: g, Host: h}) {
						all = s.replaces(all, of, Replacement{Stage: stage.Name, Revision: d.Revision, Deployment: d.ID, Beside: having[host.Name]}, s.on(d, stage.Target, host.Target))
					}
				}
			}
		}
	}
	return all
}

// replaces adds what a revision replaces on a host, unless it is among those from an index on.
func (s *State) replaces(all []Replacement, from int, r Replacement, has []int) []Replacement {
	for _, before := range has {
		if s.revisions[before].Revision == r.Revision {
			continue
		}
		r.Before = s.revisions[before].Deployment
		if !slices.ContainsFunc(all[from:], func(o Replacement) bool { return o.Before == r.Before && slices.Equal(o.Beside, r.Beside) }) {
			all = append(all, r)
		}
	}
	return all
}

// on returns what a host of a stage has that a deployment has not finished there, as a whole or in part, by the
// index of its registration. Of a deployment that is gone it is not known on which hosts it began.
func (s *State) on(d *deployment.Deployment, stage, host deploylog.Target) (has []int) {
	if d.Marks[host].Has(record.HostFinished) {
		return nil
	}
	v, last := s.visits[stage], -1
	if n := len(v.finished); n > 0 {
		last = v.finished[n-1]
		if _, failed := v.ending.Failed[host]; failed && n > 1 {
			has = append(has, v.finished[n-2])
		}
		has = append(has, last)
	}
	for _, o := range s.deployments {
		switch marks := o.Marks[host]; {
		case o == d || o.Order-1 <= last || marks == nil:
		case marks.Has(record.HostFinished):
			has = []int{o.Order - 1}
		default:
			has = append(has, o.Order-1)
		}
	}
	if newest, came := v.newest, v.at > 0; came && newest != last && newest != d.Order-1 && s.byID[s.revisions[newest].Deployment] == nil {
		has = append(has, newest)
	}
	return has
}

// stagesByHost are the stages that have each host.
func (s *State) stagesByHost() map[string][]string {
	having := map[string][]string{}
	for i := range s.layout.Stages {
		stage := &s.layout.Stages[i]
		for _, group := range stage.Groups {
			for _, host := range group.Hosts {
				if !slices.Contains(having[host.Name], stage.Name) {
					having[host.Name] = append(having[host.Name], stage.Name)
				}
			}
		}
	}
	return having
}
