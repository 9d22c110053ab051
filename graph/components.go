package graph

import (
	"cmp"
	"slices"

	"github.com/deployster-go/deployster/internal/heap"
)

// Components returns the nodes in groups: nodes that depend on each other, directly or
// not, are together, and each group stands after all that its nodes depend on. Among the
// groups that could stand next, the one with the node that was added first does; in a group,
// nodes are in the order added. A graph without cycles has groups of one.
func (g *Graph[K]) Components() [][]K {
	of, groups := g.strong()
	index := make(map[K]place, len(g.keys))
	for i, k := range g.keys {
		index[k] = place(i)
	}
	missing, dependents := make([]int, len(groups)), make([][]int, len(groups))
	for _, k := range g.keys {
		for _, d := range g.dependencies[k] {
			if of[k] != of[d] {
				missing[of[k]]++
				dependents[of[d]] = append(dependents[of[d]], of[k])
			}
		}
	}
	for _, group := range groups {
		slices.SortFunc(group, func(a, b K) int { return cmp.Compare(index[a], index[b]) })
	}
	var next heap.Heap[place] // of the first node of each group
	for i, group := range groups {
		if missing[i] == 0 {
			next.Push(index[group[0]])
		}
	}
	sorted := make([][]K, 0, len(groups))
	for len(next) > 0 {
		at := of[g.keys[next.Pop()]]
		sorted = append(sorted, groups[at])
		for _, i := range dependents[at] {
			if missing[i]--; missing[i] == 0 {
				next.Push(index[groups[i][0]])
			}
		}
	}
	return sorted
}

// strong finds the groups of nodes that depend on each other (Tarjan's algorithm, without
// recursion: a chain may be as long as the graph), and which group a node is in.
func (g *Graph[K]) strong() (of map[K]int, groups [][]K) {
	of = make(map[K]int, len(g.keys))
	number, low := make(map[K]int, len(g.keys)), make(map[K]int, len(g.keys)) // from 1
	var stack []K
	type visit struct {
		k    K
		next int // dependency
	}
	for _, root := range g.keys {
		if number[root] > 0 {
			continue
		}
		visits := []visit{{k: root}}
		for len(visits) > 0 {
			v := &visits[len(visits)-1]
			if number[v.k] == 0 {
				number[v.k] = len(number) + 1
				low[v.k] = number[v.k]
				stack = append(stack, v.k)
			}
			if v.next < len(g.dependencies[v.k]) {
				d := g.dependencies[v.k][v.next]
				v.next++
				if _, placed := of[d]; number[d] == 0 {
					visits = append(visits, visit{k: d})
				} else if !placed {
					low[v.k] = min(low[v.k], number[d])
				}
				continue
			}
			k := v.k
			visits = visits[:len(visits)-1]
			if len(visits) > 0 {
				above := visits[len(visits)-1].k
				low[above] = min(low[above], low[k])
			}
			if low[k] < number[k] {
				continue
			}
			from := len(stack) - 1
			for stack[from] != k {
				from--
			}
			group := slices.Clone(stack[from:])
			for _, member := range group {
				of[member] = len(groups)
			}
			groups, stack = append(groups, group), stack[:from]
		}
	}
	return of, groups
}
