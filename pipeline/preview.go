package pipeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Effect is what a change of the pipeline means for one entry of a deployment.
type Effect string

// The effects.
const (
	Runs    Effect = "runs"           // it would not have
	Skipped Effect = "is skipped"     // it is introduced behind what has happened
	Refused Effect = "is refused"     // it is introduced before it, but the revision skipped it elsewhere: here it would run for the first time
	Ends    Effect = "no longer runs" // it would have
	Keeps   Effect = "keeps"          // it runs with the manifest that its revision carries, which is another one than later revisions take
	Takes   Effect = "takes"          // it runs with another manifest than it would have
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
	Manifest   string           `json:"manifest,omitempty"` // that is kept or taken
	Instead    string           `json:"instead,omitempty"`  // of which one; the same where only its text or what it includes differs
	Reason     Reason           `json:"why,omitzero"`       // of what does not run; zero when it is no longer in the pipeline
}

// Message says it in words.
func (c Change) Message() string {
	text := fmt.Sprintf("%s of %s %s", c.Event, c.Target, c.Effect)
	switch {
	case c.Event == EventSuperseded:
		return c.Reason.Cause
	case c.Effect == Runs:
		return text
	case c.Effect == Keeps && c.Manifest == c.Instead:
		return fmt.Sprintf("%s %s as its revision carries it, and does not take it as it is now", text, c.Manifest)
	case c.Effect == Keeps:
		return fmt.Sprintf("%s %s, which its revision carries, and does not take %s", text, c.Manifest, c.Instead)
	case c.Effect == Takes && c.Manifest == c.Instead:
		return fmt.Sprintf("%s %s as it is now, and not as its revision carries it", text, c.Manifest)
	case c.Effect == Takes:
		return fmt.Sprintf("%s %s, and not %s", text, c.Manifest, c.Instead)
	case c.Reason.Code == "":
		return text + ": no longer in the pipeline"
	default:
		return text + ": " + c.Reason.Message()
	}
}

// Preview returns what a definition, nil for the current one, and the members of its
// host groups would change for the revisions in progress, oldest first, and which of these
// do a step with another manifest than later revisions. The state stays as it is.
func (s *State) Preview(d *Define, members map[string][]string) ([]Change, error) {
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
	var changes []Change
	before := map[string]snapshot{}
	s.projections(func(d *deployment, found []pendingEntry) { before[d.id] = s.snapshot(d, found) })
	next.projections(func(d *deployment, found []pendingEntry) {
		if d.status == Running {
			changes = append(changes, c.compare(d, before[d.id], next.snapshot(d, found))...)
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
	manifest           string      // that the definition names; "" of what applies none
	as                 application // how it is applied
}

func (v snapshot) will(k entryKey) bool {
	p, ok := v.entries[k]
	return ok && p.disposition != skipped
}

func (s *State) snapshot(d *deployment, found []pendingEntry) snapshot {
	v := snapshot{entries: map[entryKey]snapshotEntry{}}
	for _, p := range found {
		k := entryKey{p.target, p.event}
		if _, ok := v.entries[k]; ok || isFailure(p.event) {
			continue
		}
		n := snapshotEntry{pendingEntry: p}
		if p.stage != none {
			stage := &s.layout.stages[p.stage]
			n.stage = stage.Name
			n.manifest, n.as = d.application(stage, p)
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

// application is the manifest that the definition names for an entry, and how the
// deployment applies it.
func (d *deployment) application(stage *stageLayout, p pendingEntry) (manifest string, as application) {
	unit := stage.unit
	if i := slices.Index(stage.chain, p.event); p.host != none && i > 0 && i < len(stage.chain)-1 {
		manifest, unit = stage.Deploy.Steps[i-1].Manifest, stage.units[i-1]
	} else if p.event == EventApplied {
		manifest, _ = stage.Once()
	}
	if manifest == "" {
		return "", application{}
	}
	return manifest, d.applies(unit, manifest)
}

// comparison finds what a definition changes.
type comparison struct {
	*State        // with it
	carries Files // of the definition
}

func (s *comparison) compare(d *deployment, before, after snapshot) []Change {
	var changes []Change
	change := func(effect Effect, p snapshotEntry, c Change) {
		c.Effect, c.Revision, c.Deployment, c.Target, c.Event = effect, d.revision, d.id, p.target, p.event
		c.Stage, c.Group, c.Host = p.stage, p.group, p.host
		changes = append(changes, c)
	}
	manifests := map[string]bool{} // all that there are
	for _, of := range []map[string]string{s.manifests, d.manifests} {
		for _, manifest := range of {
			manifests[manifest] = true
		}
	}
	if p, is := after.entries[entryKey{s.target, EventSuperseded}]; is {
		change(Runs, p, Change{Reason: p.reason})
		return changes
	}
	for _, k := range after.keys {
		p := after.entries[k]
		_, known := before.entries[k]
		switch {
		case after.will(k):
			if !before.will(k) {
				change(Runs, p, Change{})
			}
			if effect, c := s.manifest(before, k, p, manifests); effect != "" {
				change(effect, p, c)
			}
		case known || d.marks[k.target].has(k.event):
		case p.reason.Code == LeftOut:
			change(Refused, p, Change{Reason: p.reason})
		default:
			change(Skipped, p, Change{Reason: p.reason})
		}
	}
	for _, k := range before.keys {
		if before.will(k) && !after.will(k) && !d.marks[k.target].has(k.event) {
			change(Ends, before.entries[k], Change{Reason: s.skippedReason(k, after)})
		}
	}
	return changes
}

// manifest is what happens to that of an entry, if it is another one than it would have
// been, or than later revisions apply.
func (s *comparison) manifest(before snapshot, k entryKey, p snapshotEntry, manifests map[string]bool) (Effect, Change) {
	was := before.entries[k].as
	switch {
	case p.manifest == "":
	case before.will(k) && was.manifest != "" && (was.manifest != p.as.manifest || was.differs(p.as.files, manifests)):
		return Takes, Change{Manifest: p.as.manifest, Instead: was.manifest}
	case p.as.manifest != p.manifest, p.as.files != nil && s.carries != nil && p.as.differs(s.carries, manifests):
		return Keeps, Change{Manifest: p.as.manifest, Instead: p.manifest}
	}
	return "", Change{}
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
