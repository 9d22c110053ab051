package deployment

import (
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/allow"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Layout is a definition together with the members of its host groups, in the form
// in which events are found in it. It is never changed: a change of the pipeline
// makes another.
type Layout struct {
	Stages  []StageLayout
	Batches []Span
	StageAt map[deploylog.Target]int
	GroupAt map[deploylog.Target]Place // Host is none
	HostAt  map[deploylog.Target]Place
	Allow   *allow.Rules
	newest  int  // revisions registered after so many know every step
	Timed   bool // a stage waits for artifacts, or for approval, only so long
}

// Place is the position of a target in the layout, by index.
type Place struct{ Stage, Group, Host int }

// None is the index of what there is not.
const None = -1

// Span is a batch: the stages with which it begins and ends, by index.
type Span struct{ From, To int }

// StageLayout is a stage with what follows from its definition.
type StageLayout struct {
	*definition.Stage
	Target          deploylog.Target
	Before          []int // stages that must be passed before it
	Ancestors       []int // all stages before it
	Groups          []GroupLayout
	Unit            string         // of what it applies by itself
	Chain           []string       // the events of each host, in order
	Units           []string       // of the steps of each host, in order
	Introduced      []Introduction // the events of chain that were introduced later than the pipeline, in order
	introducedKinds []Introduction // artifacts, with the same
	Opens           []int          // Batches that begin with it
}

// Introduction is something that was introduced when so many revisions were
// registered.
type Introduction struct {
	Unit  string
	At    int // index in chain, or in Build.Artifacts
	event string
	After int
}

// GroupLayout is a host group with its members.
type GroupLayout struct {
	*definition.HostGroup
	Target deploylog.Target
	Known  bool         // whether its members were ever recorded
	Held   *HeldMembers // a selection that it did not take over; nil is none
	Hosts  []hostLayout
}

type hostLayout struct {
	Name   string
	Target deploylog.Target
}

// NewLayout lays out a definition. Unknown names are ignored: they do not come from
// this program.
func NewLayout(d *definition.Definition, members map[string][]string, held map[string]*HeldMembers, introduced map[string]int) *Layout {
	l := &Layout{
		Allow:   d.Allow,
		StageAt: map[deploylog.Target]int{}, GroupAt: map[deploylog.Target]Place{}, HostAt: map[deploylog.Target]Place{},
	}
	byName := map[string]int{}
	for i := range d.Stages {
		s := StageLayout{Stage: &d.Stages[i], Target: record.StageTarget(d.Name, d.Stages[i].Name), Unit: stageUnit(&d.Stages[i])}
		for _, name := range s.After {
			if j, ok := byName[name]; ok {
				if l.Stages[j].When == definition.WhenFailed { // it runs in no revision that goes on
					s.Before = append(s.Before, l.Stages[j].Before...)
				} else {
					s.Before = append(s.Before, j)
				}
				s.Ancestors = append(append(s.Ancestors, l.Stages[j].Ancestors...), j)
			}
		}
		if s.Closing() { // those may have the same before them
			slices.Sort(s.Before)
			s.Before = slices.Compact(s.Before)
		}
		slices.Sort(s.Ancestors)
		s.Ancestors = slices.Compact(s.Ancestors)
		l.Timed = l.Timed || s.Patience() > 0
		switch {
		case s.Build != nil:
			for k, kind := range s.Build.Artifacts {
				unit := artifactUnit(s.Name, kind)
				if n, ok := introduced[unit]; ok {
					s.introducedKinds = append(s.introducedKinds, Introduction{Unit: unit, At: k, event: definition.ArtifactReceived(kind), After: n})
				}
			}
		case s.Deploy != nil:
			l.addDeploy(&s, introduced)
			l.addGroups(d.Name, i, &s, members, held)
		}
		byName[s.Name], l.StageAt[s.Target] = i, i
		l.Stages = append(l.Stages, s)
		l.addBatch(Span{i, i}) // each stage is a batch by itself
	}
	for _, b := range d.Batches {
		from, ok := byName[b.From]
		to, okay := byName[b.To]
		if ok && okay {
			l.addBatch(Span{from, to})
		}
	}
	return l
}

func (l *Layout) addBatch(b Span) {
	if slices.Contains(l.Batches, b) {
		return
	}
	l.Stages[b.From].Opens = append(l.Stages[b.From].Opens, len(l.Batches))
	l.Batches = append(l.Batches, b)
}

func (l *Layout) addDeploy(s *StageLayout, introduced map[string]int) {
	s.Chain = []string{record.HostStarted}
	for _, step := range s.Deploy.Steps {
		unit := StepUnit(s.Name, step.Event)
		if n, ok := introduced[unit]; ok {
			s.Introduced = append(s.Introduced, Introduction{Unit: unit, At: len(s.Chain), event: step.Event, After: n})
			l.newest = max(l.newest, n)
		}
		s.Chain, s.Units = append(s.Chain, step.Event), append(s.Units, unit)
	}
	s.Chain = append(s.Chain, record.HostFinished)
}

func (l *Layout) addGroups(pipeline string, i int, s *StageLayout, members map[string][]string, held map[string]*HeldMembers) {
	for g := range s.Deploy.HostGroups {
		group := GroupLayout{HostGroup: &s.Deploy.HostGroups[g], Held: held[s.Deploy.HostGroups[g].Name]}
		group.Target = record.GroupTarget(pipeline, group.Name)
		l.GroupAt[group.Target] = Place{i, g, None}
		names, known := members[group.Name]
		group.Known, group.Hosts = known, make([]hostLayout, 0, len(names))
		for _, name := range names {
			t := record.HostTarget(pipeline, group.Name, name)
			if _, twice := l.HostAt[t]; !twice {
				l.HostAt[t] = Place{i, g, len(group.Hosts)}
				group.Hosts = append(group.Hosts, hostLayout{Name: name, Target: t})
			}
		}
		s.Groups = append(s.Groups, group)
	}
}

// Place finds a target; its group and host are none where it is no host.
func (l *Layout) Place(t deploylog.Target) (Place, bool) {
	if i, ok := l.StageAt[t]; ok {
		return Place{i, None, None}, true
	}
	if p, ok := l.GroupAt[t]; ok {
		return p, true
	}
	p, ok := l.HostAt[t]
	return p, ok
}

// StepUnit is a step as a unit of a definition that may be introduced later: what is in the pipeline from its
// first definition on has no introduction.
func StepUnit(stage, event string) string { return "step/" + stage + "/" + event }

// stageUnit is what a stage applies by itself, which is not introduced but has a manifest.
// A revision that has a manifest for it has no packages.
func stageUnit(s *definition.Stage) string {
	if s.Build != nil && s.Build.Group != "" {
		return "packages/" + s.Name
	}
	return "stage/" + s.Name
}

func artifactUnit(stage, kind string) string { return "artifact/" + stage + "/" + kind }

// Units lists what of a definition may be introduced later.
func Units(d *definition.Definition) []string {
	var all []string
	for i := range d.Stages {
		s := &d.Stages[i]
		if s.Deploy != nil {
			for _, step := range s.Deploy.Steps {
				all = append(all, StepUnit(s.Name, step.Event))
			}
		}
		if s.Build != nil {
			for _, kind := range s.Build.Artifacts {
				all = append(all, artifactUnit(s.Name, kind))
			}
		}
	}
	return all
}

// Touches reports whether one place is the other, or above or below it.
func (p Place) Touches(o Place) bool {
	same := func(a, b int) bool { return a == None || b == None || a == b }
	return same(p.Stage, o.Stage) && same(p.Group, o.Group) && same(p.Host, o.Host)
}

// HeldMembers is a selection that a group did not take over.
type HeldMembers struct {
	Hosts []string
	Seq   int64
	Cause string
}

// Holds reports whether nothing of a group may begin or finish, because what selects
// its hosts may be a mistake.
func (g *GroupLayout) Holds() bool {
	return g.Held != nil || g.Known && len(g.Hosts) == 0 && !g.AllowEmpty
}

// WaitsForOthers reports whether nothing happens in a stage but that somebody approves,
// or brings artifacts.
func (s *StageLayout) WaitsForOthers() bool {
	return s.Approval != nil || s.Build.Elsewhere()
}

// Missing notes which steps a host has not done, and reports whether it has done nothing.
func (s *StageLayout) Missing(m *record.Marks, missing []bool) (nothing bool) {
	for i, event := range s.Chain {
		missing[i] = missing[i] || event != record.HostFinished && !m.Has(event)
	}
	_, done := m.First(func(event string) bool {
		return event != record.HostStarted && event != record.HostFinished && !record.IsFailure(event)
	})
	return !done
}

// Skips names the steps that are missing.
func (s *StageLayout) Skips(missing []bool, nothing bool) (all record.Skips) {
	for i, event := range s.Chain[:len(s.Chain)-1] {
		if i > 0 && missing[i] {
			all.Steps = append(all.Steps, event)
		}
	}
	all.Nothing = nothing && len(all.Steps) > 0
	return all
}

// Ahead are the batches that begin with a stage, and those that begin in one of these, and
// so on: who enters the stage leaves none of them before it has entered the next.
func (l *Layout) Ahead(stage int) []int {
	batches := slices.Clone(l.Stages[stage].Opens)
	for n := 0; n < len(batches); n++ {
		for j := range l.Stages {
			if !l.Within(j, l.Batches[batches[n]]) {
				continue
			}
			for _, b := range l.Stages[j].Opens {
				if !slices.Contains(batches, b) {
					batches = append(batches, b)
				}
			}
		}
	}
	return batches
}

// Within reports whether a stage belongs to a batch.
func (l *Layout) Within(stage int, b Span) bool {
	after := func(i, j int) bool { return i == j || slices.Contains(l.Stages[i].Ancestors, j) }
	return after(stage, b.From) && after(b.To, stage)
}

// PlaceOfWork is where work at a target is: of a host that has left its group, the group.
func (l *Layout) PlaceOfWork(t deploylog.Target) Place {
	if at, ok := l.Place(t); ok {
		return at
	}
	group, _, _ := record.GroupOf(t)
	if at, ok := l.GroupAt[group]; ok {
		return at
	}
	return Place{None, None, None}
}

// Includes reports whether a stage is in a batch.
func (l *Layout) Includes(b Span, stage int) bool {
	return stage == b.From || stage == b.To ||
		slices.Contains(l.Stages[stage].Ancestors, b.From) && slices.Contains(l.Stages[b.To].Ancestors, stage)
}
