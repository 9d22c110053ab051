// Package walk visits the nodes of a graph in parallel, each once all that it depends on has been
// visited well. A node can turn out to stand for several, which are visited in its place.
package walk

import (
	"sync"

	"github.com/deployster-go/deployster/graph"
)

// Walk is one walk. Why is a reason for which a node is not visited.
type Walk[Why any] struct {
	Graph       *graph.Graph[string]
	Parallelism int

	// Visit visits a node, beside others. members are those for which it stands: they are visited
	// next, and what depends on it waits for them.
	Visit func(name string) (members []string, err error)

	// The rest is called from one goroutine.
	Skip   func(name string, why Why)
	Tries  func(name string) bool            // it is visited whatever has happened; may be nil: none is
	Closed func() *Why                       // asked before anything is begun: why nothing is any more; nil while it goes on
	Failed func(name string, err error) *Why // why what depends on a node is not visited that was not visited well
}

// group is a node that stands for others, while they are visited.
type group[Why any] struct {
	left int
	bad  *Why
}

type visited struct {
	name    string
	members []string
	err     error
}

// Run walks until nothing is left to visit, and returns when no visit goes on any more.
func (w Walk[Why]) Run() {
	var (
		ready  = w.Graph.Ready()
		queue  = ready.Initial()
		done   = make(chan visited, w.Parallelism)
		visits sync.WaitGroup
		active int
		unmet  = map[string]*Why{}        // node → why it is not visited
		groups = map[string]*group[Why]{} // node → what it stands for
		within = map[string]string{}      // member → the node that stands for it
	)
	defer visits.Wait() // also when this panics: nothing goes on unseen
	finish := func(name string, bad *Why) {
		if of, member := within[name]; member {
			g := groups[of]
			if g.left--; bad != nil && g.bad == nil {
				g.bad = bad
			}
			if g.left > 0 {
				return
			}
			name, bad = of, g.bad
		}
		if bad != nil {
			for _, d := range w.Graph.Dependents(name) {
				if unmet[d] == nil {
					unmet[d] = bad
				}
			}
		}
		queue = append(queue, ready.Done(name)...)
	}
	for len(queue) > 0 || active > 0 {
		closed := w.Closed()
		if len(queue) > 0 {
			name := queue[0]
			why := unmet[name]
			if why == nil {
				why = closed
			}
			if why != nil && (w.Tries == nil || !w.Tries(name)) {
				queue = queue[1:]
				w.Skip(name, *why)
				finish(name, why)
				continue
			}
			if active < w.Parallelism {
				queue = queue[1:]
				active++
				visits.Go(func() {
					v := visited{name: name}
					defer func() { done <- v }()
					v.members, v.err = w.Visit(name)
				})
				continue
			}
		}
		v := <-done
		active--
		switch {
		case v.err != nil:
			finish(v.name, w.Failed(v.name, v.err))
		case len(v.members) == 0:
			finish(v.name, nil)
		default:
			groups[v.name] = &group[Why]{left: len(v.members)}
			for _, m := range v.members {
				within[m] = v.name
			}
			queue = append(queue, v.members...)
		}
	}
}
