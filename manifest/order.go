package manifest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/manifest/address"
)

// maxCycles is how many cycles of dependencies are reported; nobody reads more.
const maxCycles = 1000

// depend checks the dependencies and sorts the resources by them. When a file
// could not be read, what is not there is no news.
func (l *loader) depend(broken bool) {
	order := make([]string, 0, len(l.pending))
	edges := map[string][]string{}
	for _, r := range l.pending {
		order = append(order, r.Name)
		for _, alias := range r.aliases {
			name, _, _ := address.Written(alias.Value)
			switch {
			case name == r.Name:
				alias.Fail("the resource depends on itself")
			case l.declared[name] != nil:
				edges[r.Name] = append(edges[r.Name], name)
			case !broken:
				l.found.Add(Problem{
					Position: alias.Position, Path: alias.Path(),
					Message: fmt.Sprintf("there is no resource %q", name), Hint: l.found.Closest(name, l.names()),
				})
			}
		}
	}
	for range maxCycles {
		g := graph.New[string]()
		for _, name := range order {
			g.Add(name)
		}
		for _, name := range order {
			g.Add(name, edges[name]...)
		}
		sorted, err := g.Sort()
		var cycle *graph.CycleError[string]
		if errors.As(err, &cycle) {
			l.cycle(cycle.Path, order, edges)
			continue
		}
		for i, name := range sorted {
			l.manifest.Resources[i] = l.declared[name].Resource
		}
		return
	}
}

// cycle reports a cycle, beginning with the resource that was declared first,
// and takes it out of the edges, so that other cycles can be found.
func (l *loader) cycle(path, order []string, edges map[string][]string) {
	path = path[:len(path)-1]
	first := slices.IndexFunc(order, func(name string) bool { return slices.Contains(path, name) })
	start := slices.Index(path, order[first])
	path = slices.Concat(path[start:], path[:start], path[start:start+1])
	from, to := path[0], path[1]
	edges[from] = slices.DeleteFunc(edges[from], func(name string) bool { return name == to })
	r := l.pending[first]
	for _, alias := range r.aliases {
		if name, _, _ := address.Written(alias.Value); name == to {
			alias.Fail("dependency cycle: %s", strings.Join(path, " → "))
			return
		}
	}
}
