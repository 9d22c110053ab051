package pipeline

import (
	"time"

	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Preview returns what a definition, nil for the current one, and the members of its
// host groups would change for the revisions in progress, oldest first, and which of these
// do a step with another manifest than later revisions. The state stays as it is.
func (s *State) Preview(d *Define, members map[string][]string) ([]effect.Change, error) {
	next := s.clone()
	var commands []Command
	c := comparison{State: next}
	if d != nil {
		define := *d
		define.ID, c.carries = "preview", d.Carries
		commands = append(commands, define)
	}
	if members != nil {
		commands = append(commands, SetMembers{Members: members, ID: "preview"})
	}
	for _, command := range commands {
		events, err := next.Propose(command, time.Time{})
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			e.Seq = next.head + 1
			next.Apply(e)
		}
	}
	var changes []effect.Change
	before := map[string]snapshot{}
	s.projections(func(d *deployment.Deployment, found []pendingEntry) { before[d.ID] = s.snapshot(d, found) })
	next.projections(func(d *deployment.Deployment, found []pendingEntry) {
		if d.Status == deployment.Running {
			changes = append(changes, c.compare(d, before[d.ID], next.snapshot(d, found))...)
		}
	})
	for i := range changes {
		if changes[i].Reason.Seq > s.head {
			changes[i].Reason.Seq = 0 // the change itself, which has no event yet
		}
	}
	return changes, nil
}

// snapshot is the pending entries of a deployment, to be compared with others.
type snapshot struct {
	keys    []deployment.EntryKey
	entries map[deployment.EntryKey]snapshotEntry
}

type snapshotEntry struct {
	pendingEntry
	stage, group, host string
	manifest           string                 // that the definition names; "" of what applies none
	as                 deployment.Application // how it is applied
}

func (v snapshot) will(k deployment.EntryKey) bool {
	p, ok := v.entries[k]
	return ok && p.disposition != skipped
}

func (s *State) snapshot(d *deployment.Deployment, found []pendingEntry) snapshot {
	v := snapshot{entries: map[deployment.EntryKey]snapshotEntry{}}
	for _, p := range found {
		k := deployment.EntryKey{Target: p.target, Event: p.event}
		if _, ok := v.entries[k]; ok || record.IsFailure(p.event) {
			continue
		}
		n := snapshotEntry{pendingEntry: p}
		if p.Stage != deployment.None {
			stage := &s.layout.Stages[p.Stage]
			n.stage = stage.Name
			n.manifest, n.as = d.Application(stage, p.Host != deployment.None, p.event)
		}
		if p.Group != deployment.None {
			n.group = s.layout.Stages[p.Stage].Groups[p.Group].Name
		}
		if p.Host != deployment.None {
			n.host = s.layout.Stages[p.Stage].Groups[p.Group].Hosts[p.Host].Name
		}
		v.keys, v.entries[k] = append(v.keys, k), n
	}
	return v
}

// comparison finds what a definition changes.
type comparison struct {
	*State               // with it
	carries record.Files // of the definition
}

func (s *comparison) compare(d *deployment.Deployment, before, after snapshot) []effect.Change {
	var changes []effect.Change
	change := func(of effect.Effect, p snapshotEntry, c effect.Change) {
		c.Effect, c.Revision, c.Deployment, c.Target, c.Event = of, d.Revision, d.ID, p.target, p.event
		c.Stage, c.Group, c.Host = p.stage, p.group, p.host
		changes = append(changes, c)
	}
	manifests := map[string]bool{} // all that there are
	for _, of := range []map[string]string{s.manifests, d.Manifests} {
		for _, manifest := range of {
			manifests[manifest] = true
		}
	}
	if p, is := after.entries[deployment.EntryKey{Target: s.target, Event: record.PipelineSuperseded}]; is {
		change(effect.Runs, p, effect.Change{Reason: p.reason})
		return changes
	}
	for _, k := range after.keys {
		p := after.entries[k]
		_, known := before.entries[k]
		switch {
		case after.will(k):
			if !before.will(k) {
				change(effect.Runs, p, effect.Change{})
			}
			if of, c := s.manifest(before, k, p, manifests); of != "" {
				change(of, p, c)
			}
		case known || d.Marks[k.Target].Has(k.Event):
		case p.reason.Code == reason.LeftOut:
			change(effect.Refused, p, effect.Change{Reason: p.reason})
		default:
			change(effect.Skipped, p, effect.Change{Reason: p.reason})
		}
	}
	for _, k := range before.keys {
		if before.will(k) && !after.will(k) && !d.Marks[k.Target].Has(k.Event) {
			change(effect.Ends, before.entries[k], effect.Change{Reason: s.skippedReason(k, after)})
		}
	}
	return changes
}

// manifest is what happens to that of an entry, if it is another one than it would have
// been, or than later revisions apply.
func (s *comparison) manifest(before snapshot, k deployment.EntryKey, p snapshotEntry, manifests map[string]bool) (effect.Effect, effect.Change) {
	was := before.entries[k].as
	switch {
	case p.manifest == "":
	case before.will(k) && was.Manifest != "" && (was.Manifest != p.as.Manifest || was.Differs(p.as.Files, manifests)):
		return effect.Takes, effect.Change{Manifest: p.as.Manifest, Instead: was.Manifest}
	case p.as.Manifest != p.manifest, p.as.Files != nil && s.carries != nil && p.as.Differs(s.carries, manifests):
		return effect.Keeps, effect.Change{Manifest: p.as.Manifest, Instead: p.manifest}
	}
	return "", effect.Change{}
}

// skippedReason is why an entry is skipped by itself or with what it is in.
func (s *State) skippedReason(k deployment.EntryKey, v snapshot) reason.Reason {
	keys := []deployment.EntryKey{k}
	if at, ok := s.layout.Place(k.Target); ok {
		stage := &s.layout.Stages[at.Stage]
		if at.Host != deployment.None {
			keys = append(keys, deployment.EntryKey{Target: k.Target, Event: record.HostStarted})
		}
		if at.Group != deployment.None {
			keys = append(keys, deployment.EntryKey{Target: stage.Groups[at.Group].Target, Event: record.GroupStarted})
		}
		keys = append(keys, deployment.EntryKey{Target: stage.Target, Event: record.StageStarted})
	}
	for _, k := range keys {
		if p, ok := v.entries[k]; ok && p.disposition == skipped {
			return p.reason
		}
	}
	return reason.Reason{}
}
