// Package graph is a directed acyclic graph of things and what they depend on.
//
// It knows three questions: in which order (Sort), which of them can start now
// given what has finished (Ready, kept incrementally), and which nodes prevent an
// order (CycleError). It starts no goroutines: walking a graph in parallel is for
// the caller.
package graph

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/heap"
)

// Graph holds nodes in the order they were added. It is not safe for
// concurrent change.
type Graph[K cmp.Ordered] struct {
	keys         []K
	dependencies map[K][]K
	dependents   map[K][]K
}

// New returns an empty graph.
func New[K cmp.Ordered]() *Graph[K] {
	return &Graph[K]{dependencies: map[K][]K{}, dependents: map[K][]K{}}
}

// Add adds a node and what it depends on; a dependency that was not added
// itself becomes a node at the place of its first mention. Adding a node again
// adds dependencies.
func (g *Graph[K]) Add(k K, dependencies ...K) {
	g.node(k)
	for _, d := range dependencies {
		g.node(d)
		if slices.Contains(g.dependencies[k], d) {
			continue
		}
		g.dependencies[k] = append(g.dependencies[k], d)
		g.dependents[d] = append(g.dependents[d], k)
	}
}

func (g *Graph[K]) node(k K) {
	if _, ok := g.dependencies[k]; ok {
		return
	}
	g.dependencies[k] = nil
	g.keys = append(g.keys, k)
}

// Dependents are the nodes that directly depend on k, in the order added.
func (g *Graph[K]) Dependents(k K) []K { return slices.Clone(g.dependents[k]) }

// Closure returns the given nodes and all that they depend on, directly or
// not.
func (g *Graph[K]) Closure(keys ...K) map[K]bool { return closure(g.dependencies, keys) }

// Downstream returns all nodes that depend on k, directly or not, without k.
func (g *Graph[K]) Downstream(k K) map[K]bool {
	seen := closure(g.dependents, []K{k})
	delete(seen, k)
	return seen
}

func closure[K cmp.Ordered](edges map[K][]K, from []K) map[K]bool {
	seen := make(map[K]bool, len(from))
	queue := slices.Clone(from)
	for len(queue) > 0 {
		k := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if seen[k] {
			continue
		}
		seen[k] = true
		queue = append(queue, edges[k]...)
	}
	return seen
}

// place is that of a node in the order of adding.
type place int

// Before reports whether the node was added before another.
func (p place) Before(other place) bool { return p < other }

// Sort returns the nodes so that each stands after all it depends on; among
// those that could stand next, the one added first does. It fails with a
// *CycleError.
func (g *Graph[K]) Sort() ([]K, error) {
	index := make(map[K]place, len(g.keys))
	for i, k := range g.keys {
		index[k] = place(i)
	}
	var next heap.Heap[place]
	push := func(keys []K) {
		for _, k := range keys {
			next.Push(index[k])
		}
	}
	ready := g.Ready()
	push(ready.Initial())
	order := make([]K, 0, len(g.keys))
	for len(next) > 0 {
		k := g.keys[next.Pop()]
		order = append(order, k)
		push(ready.Done(k))
	}
	if len(order) < len(g.keys) {
		return nil, &CycleError[K]{Path: g.cycle(order)}
	}
	return order, nil
}

// cycle finds one cycle among the nodes that are not in sorted. Each of them
// has a dependency that is not in sorted either, so following those must come
// back to where it has been.
func (g *Graph[K]) cycle(sorted []K) []K {
	done := make(map[K]bool, len(sorted))
	for _, k := range sorted {
		done[k] = true
	}
	var k K
	for _, candidate := range g.keys {
		if !done[candidate] {
			k = candidate
			break
		}
	}
	at := map[K]int{}
	var path []K
	for {
		if i, ok := at[k]; ok {
			return append(path[i:], k)
		}
		at[k] = len(path)
		path = append(path, k)
		for _, d := range g.dependencies[k] {
			if !done[d] {
				k = d
				break
			}
		}
	}
}

// CycleError reports nodes that depend on themselves.
type CycleError[K cmp.Ordered] struct {
	Path []K // each depends on the next; the first is also the last
}

func (e *CycleError[K]) Error() string {
	parts := make([]string, len(e.Path))
	for i, k := range e.Path {
		parts[i] = fmt.Sprint(k)
	}
	return "dependency cycle: " + strings.Join(parts, " → ")
}

// Ready follows which nodes can start as others finish. Its cost is
// proportional to the edges it passes, whatever the size of the graph.
type Ready[K cmp.Ordered] struct {
	graph   *Graph[K]
	missing map[K]int
}

// Ready starts following the graph, which must not change while it is followed.
func (g *Graph[K]) Ready() *Ready[K] {
	missing := make(map[K]int, len(g.keys))
	for _, k := range g.keys {
		missing[k] = len(g.dependencies[k])
	}
	return &Ready[K]{graph: g, missing: missing}
}

// Initial returns the nodes that depend on nothing, in the order added.
func (r *Ready[K]) Initial() []K {
	var keys []K
	for _, k := range r.graph.keys {
		if len(r.graph.dependencies[k]) == 0 {
			keys = append(keys, k)
		}
	}
	return keys
}

// Done records that k has finished and returns the nodes that can start because
// of it. It must be called once for each node.
func (r *Ready[K]) Done(k K) []K {
	var keys []K
	for _, d := range r.graph.dependents[k] {
		r.missing[d]--
		if r.missing[d] == 0 {
			keys = append(keys, d)
		}
	}
	return keys
}
