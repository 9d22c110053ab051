// Package order finds in which order things are removed: whatever depends on a thing goes before it,
// also where something that stays stands between them.
//
// Manifests declare what depends on what, without a cycle. Of what they no longer declare it is only
// recorded what it depended on when it was made, and they may have turned that around since. Then
// what was recorded last counts more, and what is declared counts most.
package order

import (
	"slices"
	"time"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/manifest/address"
)

// Thing is something that depends on others.
type Thing struct {
	Node      string    // what the graph calls it
	Name      string    // its address
	DependsOn []string  // addresses of things; one without a key means also all instances of its name; its own means nothing
	Declared  bool      // a manifest says now what it depends on; else that was recorded
	At        time.Time // of the record
}

// Of returns the graph along which things are removed: each node comes after all that depend on what
// it stands for. Some stand for all instances of a name, and for no thing.
func Of(things []Thing) *graph.Graph[string] {
	o := &ordering{things: things}
	o.connect()
	o.sort()
	return o.graph()
}

// edge leads from what depends to what it depends on.
type edge struct {
	from, to int
	dropped  bool
}

// ordering is a graph of things, and behind these of what stands for several, by their places.
type ordering struct {
	things []Thing
	all    []string // names for which several stand
	edges  []*edge
	ends   [][]*edge // the edges that lead to a place
	starts [][]*edge // those that lead from it
}

// connect finds the edges. Of many dependents on many instances there are not all: they lead through a
// place that stands for these instances.
func (o *ordering) connect() {
	meant := map[string][]int{}
	for i, t := range o.things {
		meant[t.Name] = append(meant[t.Name], i)
		if of, _, one := address.Split(t.Name); one {
			meant[of] = append(meant[of], i)
		}
	}
	o.ends, o.starts = make([][]*edge, len(o.things)), make([][]*edge, len(o.things))
	places := map[string]int{}
	for i, t := range o.things {
		for _, name := range slices.Compact(slices.Sorted(slices.Values(t.DependsOn))) {
			behind := meant[name]
			if len(behind) == 0 || name == t.Name || name == address.Declared(t.Name) {
				continue
			}
			if len(behind) == 1 {
				o.connects(i, behind[0])
				continue
			}
			at, known := places[name]
			if !known {
				at = len(o.things) + len(o.all)
				places[name] = at
				o.all, o.ends, o.starts = append(o.all, name), append(o.ends, nil), append(o.starts, nil)
				for _, one := range behind {
					o.connects(at, one)
				}
			}
			o.connects(i, at)
		}
	}
}

func (o *ordering) connects(from, to int) {
	e := &edge{from: from, to: to}
	o.edges, o.ends[to], o.starts[from] = append(o.edges, e), append(o.ends[to], e), append(o.starts[from], e)
}

// sort drops edges until there is no cycle: of each cycle that of the oldest record.
func (o *ordering) sort() {
	left, done := make([]int, len(o.ends)), make([]bool, len(o.ends))
	var ready []int
	for i, ends := range o.ends {
		if left[i] = len(ends); left[i] == 0 {
			ready = append(ready, i)
		}
	}
	for next := 0; next < len(done); {
		for len(ready) > 0 {
			i := ready[len(ready)-1]
			ready, done[i] = ready[:len(ready)-1], true
			for _, e := range o.starts[i] {
				if e.dropped {
					continue
				}
				if left[e.to]--; left[e.to] == 0 {
					ready = append(ready, e.to)
				}
			}
		}
		if done[next] {
			next++
			continue
		}
		e := o.weakest(o.cycle(next, done))
		e.dropped = true
		if left[e.to]--; left[e.to] == 0 {
			ready = append(ready, e.to)
		}
	}
}

// cycle finds a cycle among what is not done, each of which something depends on that is not either.
func (o *ordering) cycle(from int, done []bool) (edges []*edge) {
	at := map[int]int{}
	for i := from; ; {
		if first, seen := at[i]; seen {
			return edges[first:]
		}
		at[i] = len(edges)
		n := slices.IndexFunc(o.ends[i], func(e *edge) bool { return !e.dropped && !done[e.from] })
		edges = append(edges, o.ends[i][n])
		i = o.ends[i][n].from
	}
}

// weakest is the edge of a cycle that is dropped.
func (o *ordering) weakest(cycle []*edge) *edge {
	recorded := slices.DeleteFunc(slices.Clone(cycle), func(e *edge) bool { return e.from >= len(o.things) || o.things[e.from].Declared })
	if len(recorded) == 0 {
		return cycle[0] // manifests declare no cycle
	}
	return slices.MinFunc(recorded, func(a, b *edge) int { return o.things[a.from].At.Compare(o.things[b.from].At) })
}

func (o *ordering) graph() *graph.Graph[string] {
	node := func(i int) string {
		if i < len(o.things) {
			return o.things[i].Node
		}
		return "all " + o.all[i-len(o.things)]
	}
	g := graph.New[string]()
	for _, t := range o.things {
		g.Add(t.Node)
	}
	for _, e := range o.edges {
		if !e.dropped {
			g.Add(node(e.to), node(e.from))
		}
	}
	return g
}
