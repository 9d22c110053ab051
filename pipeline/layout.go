package pipeline

import (
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// layout is a definition together with the members of its host groups, in the form
// in which events are found in it. It is never changed: a change of the pipeline
// makes another.
type layout struct {
	stages  []stageLayout
	batches []span
	stageAt map[deploylog.Target]int
	groupAt map[deploylog.Target]place // host is none
	hostAt  map[deploylog.Target]place
	newest  int  // revisions registered after so many know every step
	timed   bool // a stage waits for artifacts only so long
}

// place is the position of a target in the layout, by index.
type place struct{ stage, group, host int }

const none = -1

// span is a batch: the stages with which it begins and ends, by index.
type span struct{ from, to int }

type stageLayout struct {
	*definition.Stage
	target          deploylog.Target
	before          []int // stages it comes directly after
	ancestors       []int // all stages before it
	groups          []groupLayout
	unit            string         // of what it applies by itself
	chain           []string       // the events of each host, in order
	units           []string       // of the steps of each host, in order
	introduced      []introduction // the events of chain that were introduced later than the pipeline, in order
	introducedKinds []introduction // artifacts, with the same
	opens           []int          // batches that begin with it
}

// introduction is something that was introduced when so many revisions were
// registered.
type introduction struct {
	unit  string
	at    int // index in chain, or in Build.Artifacts
	event string
	after int
}

type groupLayout struct {
	*definition.HostGroup
	target deploylog.Target
	known  bool         // whether its members were ever recorded
	held   *heldMembers // a selection that it did not take over; nil is none
	hosts  []hostLayout
}

type hostLayout struct {
	name   string
	target deploylog.Target
}

// newLayout lays out a definition. Unknown names are ignored: they do not come from
// this program.
func newLayout(d *definition.Definition, members map[string][]string, held map[string]*heldMembers, introduced map[string]int) *layout {
	l := &layout{
		stageAt: map[deploylog.Target]int{}, groupAt: map[deploylog.Target]place{}, hostAt: map[deploylog.Target]place{},
	}
	byName := map[string]int{}
	for i := range d.Stages {
		s := stageLayout{Stage: &d.Stages[i], target: StageTarget(d.Name, d.Stages[i].Name), unit: stageUnit(d.Stages[i].Name)}
		for _, name := range s.After {
			if j, ok := byName[name]; ok {
				s.before = append(s.before, j)
				s.ancestors = append(append(s.ancestors, l.stages[j].ancestors...), j)
			}
		}
		slices.Sort(s.ancestors)
		s.ancestors = slices.Compact(s.ancestors)
		switch {
		case s.Build != nil:
			l.timed = l.timed || s.Build.Timeout > 0
			for k, kind := range s.Build.Artifacts {
				unit := artifactUnit(s.Name, kind)
				if n, ok := introduced[unit]; ok {
					s.introducedKinds = append(s.introducedKinds, introduction{unit: unit, at: k, event: definition.ArtifactReceived(kind), after: n})
				}
			}
		case s.Deploy != nil:
			l.addDeploy(&s, introduced)
			l.addGroups(d.Name, i, &s, members, held)
		}
		byName[s.Name], l.stageAt[s.target] = i, i
		l.stages = append(l.stages, s)
		l.addBatch(span{i, i}) // each stage is a batch by itself
	}
	for _, b := range d.Batches {
		from, ok := byName[b.From]
		to, okay := byName[b.To]
		if ok && okay {
			l.addBatch(span{from, to})
		}
	}
	return l
}

func (l *layout) addBatch(b span) {
	if slices.Contains(l.batches, b) {
		return
	}
	l.stages[b.from].opens = append(l.stages[b.from].opens, len(l.batches))
	l.batches = append(l.batches, b)
}

func (l *layout) addDeploy(s *stageLayout, introduced map[string]int) {
	s.chain = []string{hostStarted}
	for _, step := range s.Deploy.Steps {
		unit := stepUnit(s.Name, step.Event)
		if n, ok := introduced[unit]; ok {
			s.introduced = append(s.introduced, introduction{unit: unit, at: len(s.chain), event: step.Event, after: n})
			l.newest = max(l.newest, n)
		}
		s.chain, s.units = append(s.chain, step.Event), append(s.units, unit)
	}
	s.chain = append(s.chain, hostFinished)
}

func (l *layout) addGroups(pipeline string, i int, s *stageLayout, members map[string][]string, held map[string]*heldMembers) {
	for g := range s.Deploy.HostGroups {
		group := groupLayout{HostGroup: &s.Deploy.HostGroups[g], held: held[s.Deploy.HostGroups[g].Name]}
		group.target = GroupTarget(pipeline, group.Name)
		l.groupAt[group.target] = place{i, g, none}
		names, known := members[group.Name]
		group.known, group.hosts = known, make([]hostLayout, 0, len(names))
		for _, name := range names {
			t := HostTarget(pipeline, group.Name, name)
			if _, twice := l.hostAt[t]; !twice {
				l.hostAt[t] = place{i, g, len(group.hosts)}
				group.hosts = append(group.hosts, hostLayout{name: name, target: t})
			}
		}
		s.groups = append(s.groups, group)
	}
}

// place finds a target; its group and host are none where it is no host.
func (l *layout) place(t deploylog.Target) (place, bool) {
	if i, ok := l.stageAt[t]; ok {
		return place{i, none, none}, true
	}
	if p, ok := l.groupAt[t]; ok {
		return p, true
	}
	p, ok := l.hostAt[t]
	return p, ok
}

// The units of a definition that are introduced: what is in the pipeline from its
// first definition on has no introduction.
func stepUnit(stage, event string) string { return "step/" + stage + "/" + event }

// stageUnit is what a stage applies by itself, which is not introduced but has a manifest.
func stageUnit(stage string) string { return "stage/" + stage }

func artifactUnit(stage, kind string) string { return "artifact/" + stage + "/" + kind }

// units lists what of a definition may be introduced later.
func units(d *definition.Definition) []string {
	var all []string
	for i := range d.Stages {
		s := &d.Stages[i]
		if s.Deploy != nil {
			for _, step := range s.Deploy.Steps {
				all = append(all, stepUnit(s.Name, step.Event))
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
