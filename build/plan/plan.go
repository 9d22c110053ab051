// Package plan computes the build manifest of a package graph: the jobs that bring all that
// depends on some touched packages up to date, in an order without cycles (seed
// "Implementation of build manifest based builds").
//
// # What is rebuilt
//
// The touched packages, all that needs one of them, to be built or to run, directly or not,
// and what these need that was never released. What else needs such a package was made
// without it, and stays as it is.
//
// # Cycles
//
// Packages that need each other are built in passes, as often as the definition converges:
// in each pass every one of them is built once, in the same order. A package uses of each
// dependency the occurrence that was built last before it, in this pass or the one before;
// in the first pass, before there is one, the released artifact. So make is built with the
// released gcc, gcc with that make, and make again with that gcc.
//
// An occurrence of a package waits for everyone who uses the former one: until these are
// done, that must not be replaced.
package plan

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/internal/heap"
	"github.com/deployster-go/deployster/internal/phrase"
)

// Plan is a build manifest.
type Plan struct {
	Group       string        `json:"group"`
	Converge    int           `json:"converge"`
	Touched     []string      `json:"touched"` // in the order of the definition
	Jobs        []Job         `json:"jobs"`    // each after all that it uses or waits for
	Cycles      [][]string    `json:"cycles"`  // packages that need each other, in the order in which a pass builds them
	Unbuildable []Unbuildable `json:"unbuildable"`
}

// Job builds one occurrence of a package.
type Job struct {
	Number  int    `json:"job"` // from 1, in the order of Jobs
	Package string `json:"package"`
	Version string `json:"version,omitempty"`
	Pass    int    `json:"pass"`   // from 1
	Of      int    `json:"passes"` // 1 of what is in no cycle
	Uses    []Use  `json:"uses"`
	Waits   []int  `json:"waits_for"` // jobs that use the occurrence of the package before this one
}

// Use is what a job uses of one package that it needs directly. What that needs to run it
// brings along, as the job that made it used it, so there may be two occurrences of a package
// side by side.
type Use struct {
	Package  string `json:"package"`
	Job      int    `json:"job,omitempty"`      // that makes it; 0 is none
	Released string `json:"released,omitempty"` // what was made before, where no job does
	Run      bool   `json:"run,omitempty"`      // whoever uses the result needs it, too
}

// Unbuildable is a package that would have to be built, and cannot be.
type Unbuildable struct {
	Package string `json:"package"`
	Cause   string `json:"cause"`
	Needs   string `json:"needs,omitempty"` // the unbuildable package that it needs; "" of one that cannot be built itself
}

// maxJobs is how many jobs a plan may have.
const maxJobs = 1_000_000

// Make computes the plan for touched packages; none are all.
func Make(d *definition.Definition, touched []string) (*Plan, error) {
	m := &maker{
		Plan:  &Plan{Group: d.Group, Converge: d.Converge, Touched: []string{}, Jobs: []Job{}, Cycles: [][]string{}, Unbuildable: []Unbuildable{}},
		all:   make(map[string]*pkg, len(d.Packages)),
		order: make([]*pkg, len(d.Packages)),
	}
	for i := range d.Packages {
		p := &pkg{Package: &d.Packages[i], at: i}
		m.all[p.Name], m.order[i] = p, p
	}
	known, err := Touched(d, touched)
	if err != nil {
		return nil, err
	}
	m.touch(known)
	m.connect()
	m.spread()
	for {
		m.settle()
		groups, stuck := m.components()
		if stuck {
			continue // what was found cannot be built, nor what needs it
		}
		jobs := 0
		for _, group := range groups {
			jobs += len(group) * m.passes(group)
		}
		if jobs > maxJobs {
			return nil, fmt.Errorf("planning build group %s: it would have %d jobs, at most %d are possible: touch fewer packages, or converge less often", d.Group, jobs, maxJobs)
		}
		for _, group := range groups {
			m.build(group)
		}
		return m.Plan, nil
	}
}

// pkg is a package with what follows for it.
type pkg struct {
	*definition.Package
	at      int // in the definition
	needs   []*pkg
	run     []bool // which of needs it needs to run
	needed  []need // who needs it
	rebuilt bool
	cause   string // why it cannot be built
	because *pkg   // that it needs
	last    int    // job that built it last; 0 is none
	users   []int  // jobs that use what that made
	missing int    // while its cycle is put in order: what it needs there and is not placed
	hard    int    // of these, those that must be placed before
	placed  bool
}

// need is that a package needs another, which is in its needs at a place.
type need struct {
	*pkg
	at int
}

// Before reports whether a package is placed before another in a pass: it has fewer needs
// that are not satisfied, or else stands before it in the definition.
func (t turn) Before(o turn) bool {
	if t.missing != o.missing {
		return t.missing < o.missing
	}
	return t.at < o.at
}

// turn is a package that may be placed, as it was when it could be.
type turn struct{ missing, at int }

type maker struct {
	*Plan
	all   map[string]*pkg
	order []*pkg
}

// touch notes what is touched.
func (m *maker) touch(touched []string) {
	for _, name := range touched {
		m.all[name].rebuilt = true
	}
	for _, p := range m.order {
		if p.rebuilt = p.rebuilt || len(touched) == 0; p.rebuilt {
			m.Touched = append(m.Touched, p.Name)
		}
	}
}

// connect fills in who needs whom, each once.
func (m *maker) connect() {
	for _, p := range m.order {
		at := make(map[string]int, len(p.Build)+len(p.Run))
		for i, name := range slices.Concat(p.Build, p.Run) {
			j, twice := at[name]
			if !twice {
				j, at[name] = len(p.needs), len(p.needs)
				p.needs, p.run = append(p.needs, m.all[name]), append(p.run, false)
				m.all[name].needed = append(m.all[name].needed, need{p, j})
			}
			p.run[j] = p.run[j] || i >= len(p.Build)
		}
	}
}

// spread finds what is rebuilt.
func (m *maker) spread() {
	var queue []*pkg
	add := func(p *pkg) {
		if !p.rebuilt {
			p.rebuilt = true
			queue = append(queue, p)
		}
	}
	take := func(next func(p *pkg)) {
		for len(queue) > 0 {
			p := queue[len(queue)-1]
			queue = queue[:len(queue)-1]
			next(p)
		}
	}
	rebuilt := func() (all []*pkg) {
		for _, p := range m.order {
			if p.rebuilt {
				all = append(all, p)
			}
		}
		return all
	}
	queue = rebuilt()
	take(func(p *pkg) {
		for _, user := range p.needed {
			add(user.pkg)
		}
	})
	queue = rebuilt()
	take(func(p *pkg) {
		for _, d := range p.needs {
			if d.Released == "" {
				add(d)
			}
		}
	})
	for _, p := range m.order {
		if p.rebuilt && p.Unbuildable != "" {
			p.cause = p.Unbuildable
		}
	}
}

// settle finds what cannot be built because of what it needs.
func (m *maker) settle() {
	var queue []*pkg
	for _, p := range m.order {
		if p.rebuilt && p.cause != "" {
			queue = append(queue, p)
		}
	}
	for len(queue) > 0 {
		p := queue[0]
		queue = queue[1:]
		for _, user := range p.needed {
			if user.rebuilt && user.cause == "" {
				user.cause, user.because = "it needs "+p.Name+", which cannot be built", p
				queue = append(queue, user.pkg)
			}
		}
	}
	m.Unbuildable = m.Unbuildable[:0]
	for _, p := range m.order {
		if p.rebuilt && p.cause != "" {
			u := Unbuildable{Package: p.Name, Cause: p.cause}
			if p.because != nil {
				u.Needs = p.because.Name
			}
			m.Unbuildable = append(m.Unbuildable, u)
		}
	}
}

func (p *pkg) built() bool { return p.rebuilt && p.cause == "" }

// components are the packages to build, in the order in which they are: those that need
// each other together, in the order of a pass. stuck reports that some of them cannot begin.
func (m *maker) components() (groups [][]*pkg, stuck bool) {
	g := graph.New[int]()
	for _, p := range m.order {
		if p.built() {
			g.Add(p.at)
		}
	}
	for _, p := range m.order {
		for _, d := range p.needs {
			if p.built() && d.built() {
				g.Add(p.at, d.at)
			}
		}
	}
	for _, members := range g.Components() {
		group := make([]*pkg, len(members))
		for i, at := range members {
			group[i] = m.order[at]
		}
		order, ok := m.pass(group)
		groups, stuck = append(groups, order), stuck || !ok
	}
	return groups, stuck
}

// pass puts packages that need each other into the order in which a pass builds them: what
// one needs to run, or what was never released, comes before it, and otherwise as many as
// possible of what it needs. ok is false when there is no such order; those for which there
// is none have a cause then.
func (m *maker) pass(group []*pkg) (order []*pkg, ok bool) {
	in := count(group)
	var next heap.Heap[turn]
	offer := func(p *pkg) {
		if p.hard == 0 && !p.placed {
			next.Push(turn{p.missing, p.at})
		}
	}
	for _, p := range group {
		offer(p)
	}
	for len(next) > 0 {
		t := next.Pop()
		p := m.order[t.at]
		if p.placed || t.missing != p.missing {
			continue // it was offered again since
		}
		p.placed = true
		order = append(order, p)
		for _, user := range p.needed {
			if !in[user.pkg] || user.placed {
				continue
			}
			user.missing--
			if user.run[user.at] || p.Released == "" {
				user.hard--
			}
			offer(user.pkg)
		}
	}
	if len(order) == len(group) {
		return order, true
	}
	m.explainUnplaced(group, in)
	return order, false
}

// count counts what each package of a group needs in it, and returns which are.
func count(group []*pkg) (in map[*pkg]bool) {
	in = make(map[*pkg]bool, len(group))
	for _, p := range group {
		in[p], p.missing, p.hard, p.placed = true, 0, 0, false
	}
	for _, p := range group {
		for i, d := range p.needs {
			if in[d] && (d != p || d.Released == "") {
				p.missing++
				if p.run[i] || d.Released == "" {
					p.hard++
				}
			}
		}
	}
	return in
}

// explainUnplaced says of packages that could not be placed why they cannot be built: they need each
// other, and what they need was never released.
func (m *maker) explainUnplaced(group []*pkg, in map[*pkg]bool) {
	g := graph.New[int]()
	for _, p := range group {
		if p.placed {
			continue
		}
		g.Add(p.at)
		for i, d := range p.needs {
			if in[d] && !d.placed && (p.run[i] || d.Released == "") {
				g.Add(p.at, d.at)
			}
		}
	}
	const named = 5
	for _, members := range g.Components() {
		p := m.order[members[0]]
		if len(members) == 1 && (p.Released != "" || !slices.Contains(p.needs, p)) {
			continue // it only needs one of the others
		}
		names, unreleased := make([]string, len(members)), ""
		for i, at := range members {
			if names[i] = m.order[at].Name; unreleased == "" && m.order[at].Released == "" {
				unreleased = names[i]
			}
		}
		for _, at := range members {
			m.order[at].cause = fmt.Sprintf("%s need each other, and %s was never released, so none can be built first; give one that is released", phrase.First(names, named), unreleased)
			if len(names) == 1 {
				m.order[at].cause = "it needs itself, and was never released; give one that is released"
			}
		}
	}
}

// passes is how often the packages of a group are built.
func (m *maker) passes(group []*pkg) int {
	if cyclic(group) {
		return m.Converge
	}
	return 1
}

// cyclic reports whether the packages of a group need each other, or the only one itself.
func cyclic(group []*pkg) bool {
	return len(group) > 1 || slices.Contains(group[0].needs, group[0])
}

// build adds the jobs of a group.
func (m *maker) build(group []*pkg) {
	passes := m.passes(group)
	if cyclic(group) {
		names := make([]string, len(group))
		for i, p := range group {
			names[i] = p.Name
		}
		m.Cycles = append(m.Cycles, names)
	}
	for pass := 1; pass <= passes; pass++ {
		for _, p := range group {
			m.add(p, pass, passes)
		}
	}
}

// add adds a job.
func (m *maker) add(p *pkg, pass, of int) {
	j := Job{Number: len(m.Jobs) + 1, Package: p.Name, Version: p.Version, Pass: pass, Of: of, Uses: []Use{}, Waits: []int{}}
	uses := make(map[int]bool, len(p.needs))
	for i, d := range p.needs {
		use := Use{Package: d.Name, Job: d.last, Run: p.run[i]}
		if d.last == 0 {
			use.Released = d.Released
		}
		uses[d.last] = true
		if d != p {
			d.users = append(d.users, j.Number)
		}
		j.Uses = append(j.Uses, use)
	}
	for _, user := range p.users {
		if !uses[user] {
			j.Waits = append(j.Waits, user)
		}
	}
	p.last, p.users = j.Number, nil
	m.Jobs = append(m.Jobs, j)
}
