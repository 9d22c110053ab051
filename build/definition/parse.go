package definition

import (
	"maps"
	"regexp"
	"slices"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// The bounds of a definition.
const (
	maxPackages = 200_000
	maxNeeds    = 1000 // packages that one needs
	maxName     = 200  // bytes
	maxText     = 1000 // bytes
	named       = 5    // packages, in a problem
)

// MaxConverge is how often packages that need each other may be built.
const MaxConverge = 10

// validName is the name of a group or a package.
var validName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*$`)

const nameRule = "it has letters, digits and . _ + -, and parts with / between them"

// Parse reads a definition; name is what its messages call the file. It fails with a
// *yamlfile.Error that holds every problem of the file.
func Parse(name string, data []byte) (*Definition, error) {
	p := &parser{known: map[string]bool{}, needs: map[string]*yamlfile.Node{}}
	p.Converge = DefaultConverge
	err := yamlfile.Read(name, data, "a build group needs a name, group, and packages", p.read)
	if err != nil {
		return nil, err
	}
	return &p.Definition, nil
}

type parser struct {
	Definition
	known map[string]bool // packages
	names []string        // of packages, sorted
	needs map[string]*yamlfile.Node
}

func (p *parser) read(root *yamlfile.Node) {
	fields, ok := root.Fields("a build group", "group", "converge", "packages")
	if !ok {
		return
	}
	if n := fields["group"]; n == nil {
		root.Fail("there is no group, the name of what is built")
	} else if text, ok := n.Line("the name of the group", maxName); ok {
		if !validName.MatchString(text) {
			n.Fail("%q cannot be the name of a group: %s", text, nameRule)
		}
		p.Group = text
	}
	if n := fields["converge"]; n != nil {
		p.Converge = n.Integer("how often packages that need each other are built, a number", 1, MaxConverge)
	}
	n := fields["packages"]
	switch {
	case n == nil:
		root.Fail("there are no packages; a build group needs a mapping packages")
	case n.Kind != yamlfile.Mapping:
		n.Fail("must be a mapping of packages by name, not %s", n.Kind)
	case len(n.Members) == 0:
		n.Fail("a build group needs a package at least")
	case len(n.Members) > maxPackages:
		n.Fail("has %d packages; at most %d are possible", len(n.Members), maxPackages)
	default:
		p.packages(n)
	}
}

func (p *parser) packages(n *yamlfile.Node) {
	for _, m := range n.Members {
		if !validName.MatchString(m.Name) || len(m.Name) > maxName {
			m.FailName("%.60q cannot be the name of a package: %s", m.Name, nameRule)
			continue
		}
		p.known[m.Name] = true
	}
	p.names = slices.Sorted(maps.Keys(p.known))
	for _, m := range n.Members {
		if p.known[m.Name] {
			p.one(m)
		}
	}
	p.checkRun()
}

func (p *parser) one(m *yamlfile.Node) {
	one := Package{Name: m.Name}
	fields, ok := m.Fields("a package", "version", "released", "build", "run", "unbuildable")
	if !ok {
		return
	}
	for key, text := range map[string]*string{"version": &one.Version, "released": &one.Released, "unbuildable": &one.Unbuildable} {
		if n := fields[key]; n != nil {
			*text, _ = n.Line("a text", maxText)
		}
	}
	if n := fields["build"]; n != nil {
		one.Build = p.list(n)
	}
	if n := fields["run"]; n != nil {
		one.Run, p.needs[m.Name] = p.list(n), n
		if slices.Contains(one.Run, m.Name) {
			n.Fail("package %s cannot need itself to run; what its own build needs stands under build", m.Name)
		}
	}
	p.Packages = append(p.Packages, one)
}

// list reads the names of packages.
func (p *parser) list(n *yamlfile.Node) []string {
	names := make([]string, 0, len(n.Members))
	taken := make(map[string]bool, len(n.Members))
	for _, one := range n.List("names of packages", maxNeeds) {
		name, ok := one.Line("the name of a package", maxName)
		switch {
		case !ok:
		case !p.known[name]:
			one.FailLike(name, p.names, "there is no package %.60q", name)
		case taken[name]:
			one.Fail("duplicate package %q", name)
		default:
			taken[name] = true
			names = append(names, name)
		}
	}
	return names
}

// checkRun refuses packages that need each other to run: none of them could be used by the
// build of the other.
func (p *parser) checkRun() {
	g := graph.New[string]()
	for i := range p.Packages {
		g.Add(p.Packages[i].Name, p.Packages[i].Run...)
	}
	for _, group := range g.Components() {
		if len(group) > 1 {
			p.needs[group[0]].Fail("packages need each other to run: %s; only builds may need each other", phrase.First(group, named))
		}
	}
}
