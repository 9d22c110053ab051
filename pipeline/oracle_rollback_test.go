package pipeline

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// checkMixed holds that a deployment that finishes a stage has left its own on every host
// there on which it did something: nothing that came between is mixed with it.
func (w *world) checkMixed(end deploylog.Event) string {
	if end.Name != "stage-finished-successfully" {
		return ""
	}
	last, did := map[deploylog.Target]string{}, map[deploylog.Target]bool{}
	for _, e := range w.log {
		if e.Target.Kind() == "host" && slices.Contains(someEvents, e.Name) {
			last[e.Target], did[e.Target] = e.Deployment, did[e.Target] || e.Deployment == end.Deployment
		}
	}
	for _, s := range w.oracle.definition.Stages {
		if s.Deploy == nil || end.Target != deploylog.Target("stage/p/"+s.Name) {
			continue
		}
		for _, g := range s.Deploy.HostGroups {
			for _, h := range w.oracle.members[g.Name] {
				if t := deploylog.Target("host/p/" + g.Name + "/" + h); did[t] && last[t] != end.Deployment {
					return fmt.Sprintf("%s finishes the stage with %s of %s", end.Deployment, t, last[t])
				}
			}
		}
	}
	return ""
}

// stagesOf are the stages that a revision goes through: all, or the one that it rolls back.
func (n *naive) stagesOf(r *revision) []definition.Stage {
	if r.only == "" {
		return n.definition.Stages
	}
	for _, s := range n.definition.Stages {
		if s.Name == r.only {
			s.After = nil
			return []definition.Stage{s}
		}
	}
	return nil
}

// hostsOf are the members of a group that a revision is to be done on: a repair those that it
// is of.
func (n *naive) hostsOf(r *revision, group string) (hosts []string, known bool) {
	members, known := n.members[group]
	if len(r.hosts) == 0 {
		return members, known
	}
	for _, h := range members {
		if slices.Contains(r.hosts, "host/"+n.name+"/"+group+"/"+h) {
			hosts = append(hosts, h)
		}
	}
	return hosts, known
}

// touches: a revision is done in a host group, unless it repairs hosts of others.
func (r *revision) touches(group string) bool {
	return len(r.hosts) == 0 || slices.ContainsFunc(r.hosts, func(host string) bool {
		return strings.HasPrefix(host, strings.Replace(group, "host-group/", "host/", 1)+"/")
	})
}

// noteDone: when a stage is finished, the steps that all hosts did which finished in it.
func (n *naive) noteDone(r *revision, at entry) {
	if at.event != "stage-finished-successfully" || len(r.hosts) > 0 {
		return
	}
	for _, s := range n.definition.Stages {
		if s.Deploy == nil || at.target != "stage/"+n.name+"/"+s.Name {
			continue
		}
		did := map[string]bool{}
		for _, event := range eventsOf(s.Deploy) {
			did[event] = true
			for _, g := range s.Deploy.HostGroups {
				for _, h := range n.members[g.Name] {
					t := "host/" + n.name + "/" + g.Name + "/" + h
					if r.completed[entry{t, "host-finished-successfully"}] > 0 && r.completed[entry{t, event}] == 0 {
						did[event] = false
					}
				}
			}
		}
		of := r
		if r.redoes != nil {
			of = r.redoes
		}
		if of.did == nil {
			of.did = map[string]map[string]bool{}
		}
		of.did[s.Name] = did
	}
}

// redoing: what does a stage again is in every batch that the stage belongs to, from its
// registration on to the end of the stage.
func (n *naive) redoing() map[entry]int {
	active := map[entry]int{}
	for _, r := range n.revisions {
		if r.redoes == nil || r.over || n.stagesOf(r) == nil {
			continue
		}
		started, finished := entry{"stage/" + n.name + "/" + r.only, "stage-started"}, entry{"stage/" + n.name + "/" + r.only, "stage-finished-successfully"}
		if !n.passed(r, started) || n.passed(r, finished) {
			continue
		}
		for _, b := range n.definition.Batches {
			if follows(n.definition, n.indexOf(b.From), n.indexOf(r.only)) && follows(n.definition, n.indexOf(r.only), n.indexOf(b.To)) && b.From != r.only {
				active[entry{"stage/" + n.name + "/" + b.From, "stage-started"}]++
			}
		}
	}
	return active
}

func (n *naive) indexOf(stage string) int {
	return slices.IndexFunc(n.definition.Stages, func(s definition.Stage) bool { return s.Name == stage })
}
