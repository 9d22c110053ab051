package definition

import (
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// MaxSize is how large a file may be, in bytes: as large as what a group can carry of it.
// It has room for 100,000 packages.
const MaxSize = 16 << 20

// The bounds of a definition.
const (
	maxPackages = 200_000
	MaxNeeds    = 1000 // packages that one needs
	maxName     = 200  // bytes
	MaxText     = 1000 // bytes
	named       = 5    // packages, in a problem
	maxCycle    = 1000 // jobs of a cycle, in a problem
)

// MaxConverge is how often packages that need each other may be built.
const MaxConverge = 10

var (
	// validName is the name of a group, a package or a job.
	validName       = pattern.Lazy(`^[A-Za-z0-9][A-Za-z0-9._+-]*(/[A-Za-z0-9][A-Za-z0-9._+-]*)*$`)
	validRepository = pattern.Lazy(`^[a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+$`)
	validDigest     = pattern.Lazy(`^sha256:[0-9a-f]{64}$`)
)

const nameRule = "it has letters, digits and . _ + -, and parts with / between them"

// Parse reads a definition; name is what its messages call the file. It fails with a
// *yamlfile.Error that holds every problem of the file. Then the definition is what could be
// read of it, without what is wrong, for whoever looks for further problems; it is nil where
// nothing could be read.
func Parse(name string, data []byte) (*Definition, error) {
	p := &parser{known: map[string]*yamlfile.Node{}, needs: map[string]*yamlfile.Node{}}
	p.Converge = DefaultConverge
	var report yamlfile.Report
	format := yamlfile.Format{Needs: "a build group needs a name, group, and packages or jobs", MaxSize: MaxSize}
	root, _ := yamlfile.Open(name, data, format, &report)
	if root == nil {
		return nil, report.Err()
	}
	p.read(root)
	return &p.Definition, report.Err()
}

type parser struct {
	Definition
	what     string                    // "package", or "job" of a list
	known    map[string]*yamlfile.Node // packages
	names    []string                  // of packages, sorted
	needs    map[string]*yamlfile.Node // what packages need to run, or jobs at all
	defaults *Job
}

func (p *parser) read(root *yamlfile.Node) {
	fields, ok := root.Fields("a build group", "group", "converge", "target", "workers", "artifacts", "job", "packages", "jobs")
	if !ok {
		return
	}
	p.what = "package"
	packages, jobs := fields["packages"], fields["jobs"]
	if p.List = packages == nil && jobs != nil; p.List {
		p.what = "job"
	}
	if n := fields["group"]; n == nil {
		root.Fail("there is no group, the name of what is built")
	} else if text, ok := n.Line("the name of the group", maxName); ok {
		if !validName().MatchString(text) {
			n.Fail("%q cannot be the name of a group: %s", text, nameRule)
		}
		p.Group = text
	}
	switch n := fields["converge"]; {
	case n != nil && p.List:
		n.FailName("jobs of a list are in no cycle, and have no converge")
	case n != nil:
		p.Converge = n.Integer("how often packages that need each other are built, a number", 1, MaxConverge)
	}
	if n := fields["artifacts"]; n != nil {
		p.Artifacts = repository(n)
	}
	p.defaults = p.common(fields)
	switch {
	case packages != nil && jobs != nil:
		jobs.FailName("a build group has packages or jobs, not both")
	case packages != nil:
		p.graph(packages)
	case jobs != nil:
		p.list(jobs)
	default:
		root.Fail("there are no packages; a build group needs a mapping packages, or a list jobs")
	}
}

// common reads the defaults of all packages.
func (p *parser) common(fields map[string]*yamlfile.Node) *Job {
	job := &Job{}
	if n := fields["job"]; n != nil {
		if members, ok := n.Fields("the job of all "+p.what+"s", jobKeys...); ok {
			job.read(members)
			if members["env"] != nil || members["secrets"] != nil {
				job.checkNames(n)
			}
		}
	}
	for _, key := range []string{"target", "workers"} {
		n := fields[key]
		if n == nil {
			continue
		}
		if set := map[string]Value{"target": job.Target, "workers": job.Workers}[key]; set.Text != "" {
			n.FailName("%s is also in job, at %s; one of them is enough", key, set.At)
			continue
		}
		job.read(map[string]*yamlfile.Node{key: n})
	}
	return job
}

func repository(n *yamlfile.Node) string {
	text, ok := n.Line("a repository of a registry, such as registry.example/base", MaxText)
	if ok && !validRepository().MatchString(text) {
		n.Fail("%.100q is no repository, as registry.example/base is: a registry, and a path of small letters without tag", text)
	}
	return text
}

// graph reads packages.
func (p *parser) graph(n *yamlfile.Node) {
	switch {
	case n.Kind != yamlfile.Mapping:
		n.Fail("must be a mapping of packages by name, not %s", n.Kind)
		return
	case len(n.Members) == 0:
		n.Fail("a build group needs a package at least")
		return
	case len(n.Members) > maxPackages:
		n.Fail("has %d packages; at most %d are possible", len(n.Members), maxPackages)
		return
	}
	for _, m := range n.Members {
		if !validName().MatchString(m.Name) || len(m.Name) > maxName {
			m.FailName("%.60q cannot be the name of a package: %s", m.Name, nameRule)
			continue
		}
		p.known[m.Name] = m
	}
	p.names = slices.Sorted(maps.Keys(p.known))
	for _, m := range n.Members {
		if p.known[m.Name] == m {
			p.one(m)
		}
	}
	p.checkRun()
}

var packageKeys = append([]string{"version", "released", "build", "run", "unbuildable"}, jobKeys...)

func (p *parser) one(m *yamlfile.Node) {
	one := Package{Name: m.Name, At: m.NameAt, Job: p.defaults}
	fields, ok := m.Fields("a package", packageKeys...)
	if !ok {
		one.At = m.Position // where that has been reported
		p.Packages = append(p.Packages, one)
		return
	}
	for key, text := range map[string]*string{"version": &one.Version, "unbuildable": &one.Unbuildable} {
		if n := fields[key]; n != nil {
			*text, _ = n.Line("a text", MaxText)
		}
	}
	if n := fields["released"]; n != nil {
		one.Released, one.Have = released(n)
	}
	var all []*yamlfile.Node
	if n := fields["build"]; n != nil {
		one.Build = p.needed(n, &all)
	}
	if n := fields["run"]; n != nil {
		one.Run, p.needs[m.Name] = p.needed(n, &all), n
		if slices.Contains(one.Run, m.Name) {
			n.Fail("package %s cannot need itself to run; what its own build needs stands under build", m.Name)
			one.Run = slices.DeleteFunc(one.Run, func(name string) bool { return name == m.Name })
		}
	}
	p.checkPlaces(all)
	one.Job = p.defaults.with(m, fields)
	p.Packages = append(p.Packages, one)
}

// released reads the artifact of a package that exists already.
func released(n *yamlfile.Node) (name string, have *Released) {
	if n.Kind != yamlfile.Mapping {
		name, _ = n.Line("a text, or a mapping with path or artifact", MaxText)
		return name, nil
	}
	fields, _ := n.Fields("what is released", "name", "path", "artifact")
	have = &Released{}
	path, artifact := fields["path"], fields["artifact"]
	switch {
	case path != nil && artifact != nil:
		artifact.FailName("what is released has a path or an artifact, not both")
	case path != nil:
		have.Path = readPath(path)
		name = have.Path.Text
	case artifact != nil:
		have.Artifact, _ = artifact.Line("the digest of an artifact", MaxText)
		if name = have.Artifact; name != "" && !validDigest().MatchString(name) {
			artifact.Fail("%.100q is not the digest of an artifact, sha256: and 64 hexadecimal digits", name)
			have.Artifact = ""
		}
	default:
		n.Fail("what is released needs a path, a directory of the workspace, or the digest of an artifact; where nothing is known but a name, that is a text: released: NAME")
	}
	if fields["name"] != nil {
		name, _ = fields["name"].Line("a text", MaxText)
	}
	return name, have
}

// needed reads the names of packages, and appends where they stand to all.
func (p *parser) needed(n *yamlfile.Node, all *[]*yamlfile.Node) []string {
	names := make([]string, 0, len(n.Members))
	taken := make(map[string]bool, len(n.Members))
	for _, one := range n.List("names of "+p.what+"s", MaxNeeds) {
		name, ok := one.Line("the name of a "+p.what, maxName)
		switch {
		case !ok:
		case p.known[name] == nil:
			one.FailLike(name, p.names, "there is no %s %.60q", p.what, name)
		case taken[name]:
			one.Fail("duplicate %s %q", p.what, name)
		default:
			taken[name] = true
			names, *all = append(names, name), append(*all, one)
		}
	}
	return names
}

// checkPlaces refuses needs of one job whose artifacts would lie within each other: each is
// mounted at its name.
func (p *parser) checkPlaces(all []*yamlfile.Node) {
	if !slices.ContainsFunc(all, func(n *yamlfile.Node) bool { return strings.Contains(n.Value, "/") }) {
		return
	}
	names := make(map[string]bool, len(all))
	for _, n := range all {
		names[n.Value] = true
	}
	for _, n := range all {
		for i, c := range n.Value {
			if c == '/' && names[n.Value[:i]] {
				n.Fail("%s cannot be needed together with %s: a job finds what it needs by its name, and one would lie within the other", n.Value, n.Value[:i])
				break
			}
		}
	}
}

// checkRun refuses packages that need each other to run: none of them could be used by the
// build of the other.
func (p *parser) checkRun() {
	g := graph.New[string]()
	at := make(map[string]int, len(p.Packages))
	for i := range p.Packages {
		g.Add(p.Packages[i].Name, p.Packages[i].Run...)
		at[p.Packages[i].Name] = i
	}
	for _, group := range g.Components() {
		if len(group) < 2 {
			continue
		}
		p.needs[group[0]].Fail("packages need each other to run: %s; only builds may need each other", phrase.First(group, named))
		for _, name := range group {
			p.Packages[at[name]].Run = nil
		}
	}
}
