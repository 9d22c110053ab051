package pipeline

import (
	"fmt"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Effect is what a change of the pipeline means for one entry of a deployment.
type Effect string

// The effects.
const (
	Runs    Effect = "runs"           // it would not have
	Skipped Effect = "is skipped"     // it is introduced behind what has happened
	Refused Effect = "is refused"     // it is introduced before it, but the revision skipped it elsewhere: here it would run for the first time
	Ends    Effect = "no longer runs" // it would have
)

// Change is one effect on a revision in progress. What is skipped as a whole, a
// stage, group or host, has one, of the event with which it begins.
type Change struct {
	Effect     Effect           `json:"effect"`
	Revision   string           `json:"revision"`
	Deployment string           `json:"deployment"`
	Target     deploylog.Target `json:"target"`
	Event      string           `json:"event"`
	Stage      string           `json:"stage,omitempty"`
	Group      string           `json:"host_group,omitempty"`
	Host       string           `json:"host,omitempty"`
	Reason     Reason           `json:"why,omitzero"` // of what does not run; zero when it is no longer in the pipeline
}

// Message says it in words.
func (c Change) Message() string {
	text := fmt.Sprintf("%s of %s %s", c.Event, c.Target, c.Effect)
	switch {
	case c.Effect == Runs:
		return text
	case c.Reason.Code == "":
		return text + ": no longer in the pipeline"
	default:
		return text + ": " + c.Reason.Message()
	}
}

// Preview returns what a definition, nil for the current one, and the members of its
// host groups would change for the revisions in progress, oldest first. The state
// stays as it is.
func (s *State) Preview(d *definition.Definition, members map[string][]string) ([]Change, error) {
	next := s.clone()
	var commands []Command
	if d != nil {
		commands = append(commands, Define{Definition: d, ID: "preview"})
	}
	if members != nil {
		commands = append(commands, SetMembers{Members: members, ID: "preview"})
	}
	for _, c := range commands {
		events, err := next.Propose(c, time.Time{})
		if err != nil {
			return nil, err
		}
		for _, e := range events {
			e.Seq = next.head + 1
			next.Apply(e)
		}
	}
	var changes []Change
	before := map[string]snapshot{}
	s.projections(func(d *deployment, found []pendingEntry) { before[d.id] = s.snapshot(found) })
	next.projections(func(d *deployment, found []pendingEntry) {
		if d.status == Running {
			changes = append(changes, next.compare(d, before[d.id], next.snapshot(found))...)
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
	keys    []entryKey
	entries map[entryKey]snapshotEntry
}

type snapshotEntry struct {
	pendingEntry
	stage, group, host string
}

func (v snapshot) will(k entryKey) bool {
	p, ok := v.entries[k]
	return ok && p.disposition != skipped
}

func (s *State) snapshot(found []pendingEntry) snapshot {
	v := snapshot{entries: map[entryKey]snapshotEntry{}}
	for _, p := range found {
		k := entryKey{p.target, p.event}
		if _, ok := v.entries[k]; ok || isFailure(p.event) {
			continue
		}
		n := snapshotEntry{pendingEntry: p}
		if p.stage != none {
			n.stage = s.layout.stages[p.stage].Name
		}
		if p.group != none {
			n.group = s.layout.stages[p.stage].groups[p.group].Name
		}
		if p.host != none {
			n.host = s.layout.stages[p.stage].groups[p.group].hosts[p.host].name
		}
		v.keys, v.entries[k] = append(v.keys, k), n
	}
	return v
}

func (s *State) compare(d *deployment, before, after snapshot) []Change {
	var changes []Change
	change := func(effect Effect, p snapshotEntry, why Reason) {
		changes = append(changes, Change{
			Effect: effect, Revision: d.revision, Deployment: d.id, Target: p.target, Event: p.event,
			Stage: p.stage, Group: p.group, Host: p.host, Reason: why,
		})
	}
	for _, k := range after.keys {
		p := after.entries[k]
		_, known := before.entries[k]
		switch {
		case after.will(k):
			if !before.will(k) {
				change(Runs, p, Reason{})
			}
		case known || d.marks[k.target].has(k.event):
		case p.reason.Code == LeftOut:
			change(Refused, p, p.reason)
		default:
			change(Skipped, p, p.reason)
		}
	}
	for _, k := range before.keys {
		if before.will(k) && !after.will(k) && !d.marks[k.target].has(k.event) {
			change(Ends, before.entries[k], s.skippedReason(k, after))
		}
	}
	return changes
}

// skippedReason is why an entry is skipped by itself or with what it is in.
func (s *State) skippedReason(k entryKey, v snapshot) Reason {
	keys := []entryKey{k}
	if at, ok := s.layout.place(k.target); ok {
		stage := &s.layout.stages[at.stage]
		if at.host != none {
			keys = append(keys, entryKey{k.target, hostStarted})
		}
		if at.group != none {
			keys = append(keys, entryKey{stage.groups[at.group].target, groupStarted})
		}
		keys = append(keys, entryKey{stage.target, stageStarted})
	}
	for _, k := range keys {
		if p, ok := v.entries[k]; ok && p.disposition == skipped {
			return p.reason
		}
	}
	return Reason{}
}
