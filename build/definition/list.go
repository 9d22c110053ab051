package definition

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

var listKeys = append([]string{"name", "version", "needs"}, jobKeys...)

// list reads jobs.
func (p *parser) list(n *yamlfile.Node) {
	members := n.List("jobs", maxPackages)
	if n.Kind == yamlfile.List && len(n.Members) == 0 {
		n.Fail("a build group needs a job at least")
	}
	type entry struct {
		node   *yamlfile.Node
		fields map[string]*yamlfile.Node
		name   string
	}
	var all []entry
	for _, m := range members {
		fields, ok := m.Fields("a job", listKeys...)
		if !ok {
			continue
		}
		at := fields["name"]
		if at == nil {
			m.Fail("the job has no name")
			continue
		}
		name, ok := at.Line("the name of a job", maxName)
		before := p.known[name]
		switch {
		case !ok:
		case !validName().MatchString(name):
			at.Fail("%.60q cannot be the name of a job: %s", name, nameRule)
		case before != nil:
			at.Fail("duplicate job %q, first at %s", name, before.Position)
		default:
			p.known[name] = at
			all = append(all, entry{m, fields, name})
		}
	}
	p.names = slices.Sorted(maps.Keys(p.known))
	for _, e := range all {
		one := Package{Name: e.name, At: p.known[e.name].Position}
		if at := e.fields["version"]; at != nil {
			one.Version, _ = at.Line("a text", MaxText)
		}
		if at := e.fields["needs"]; at != nil {
			var needed []*yamlfile.Node
			one.Build = p.needed(at, &needed)
			p.checkPlaces(needed)
			p.needs[e.name] = at
		}
		one.Job = p.defaults.with(e.node, e.fields)
		p.Packages = append(p.Packages, one)
	}
	p.checkOrder()
}

// checkOrder refuses jobs that need themselves, or each other.
func (p *parser) checkOrder() {
	g := graph.New[string]()
	for i := range p.Packages {
		one := &p.Packages[i]
		if slices.Contains(one.Build, one.Name) {
			p.needs[one.Name].Fail("job %s cannot need itself", one.Name)
			one.Build = slices.DeleteFunc(one.Build, func(name string) bool { return name == one.Name })
		}
		g.Add(one.Name, one.Build...)
	}
	var cycle *graph.CycleError[string]
	if _, err := g.Sort(); errors.As(err, &cycle) {
		path, more := cycle.Path, ""
		if len(path) > maxCycle {
			path, more = path[:maxCycle], fmt.Sprintf(" → and %d more", len(path)-maxCycle)
		}
		p.needs[path[0]].Fail("jobs need each other, so none of them could begin: %s%s; a list of jobs is not built in passes, as packages are", strings.Join(path, " → "), more)
	}
}
