// Package manifest reads what should be deployed.
//
// A manifest is YAML with the sections variables, plugs and resources; several files
// together are one manifest (Load). Variables come from files and from the
// command line, and are what the manifest declares of them (LoadVariables). What comes out is plain values that have been
// checked as far as is possible without running anything: form, names,
// dependencies, and the syntax and the names of expressions. The expressions of
// a configuration are left as they are, since they may need the state of what
// the resource depends on.
//
// Reading never stops at the first problem. All of them are reported together,
// each with its place in the file, as an *Error.
package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/address"
	"github.com/deployster-go/deployster/manifest/declaration"
	"github.com/deployster-go/deployster/schema"
)

// Manifest is one or several files, checked.
type Manifest struct {
	Name      string // that it says it has, by which it is known whatever its files are called; "" is none
	Files     []string
	Variables []*declaration.Variable // that are declared, sorted by name
	Plugs     []*Plug                 // in the order of declaration
	Resources []*Resource             // each after all it depends on, else in the order of declaration
	Outputs   []*Output               // by name
	Unknown   []string                // names of outputs that read what is not selected, sorted
	Secret    []Given                 // of an Outline: what secret variables of modules are given

	Moved []Move // what was made by other names
	Takes []Move // what was made of other manifests

	plugs     map[string]*Plug
	resources map[string]*Resource
	declared  map[string]*expansion // what became of each name under resources
	absent    []*Resource           // what is declared and comes to no resource
}

// Given is what a variable of a module is given, as it is written in the manifest itself.
type Given struct {
	Position
	Path    string
	Written any
}

// Plug is a path of the user's machine that resources may ask for.
type Plug struct {
	Name     string
	Path     string // absolute, or persistentvolumeclaim:NAME
	ReadOnly bool

	// Who may have it: regular expressions, anchored at the start. nil is not
	// given.
	ResourceNames []string
	ResourceTypes []string

	Position Position

	names, types []*regexp.Regexp
	written      any // as in the file, for Hash
}

// Allows reports whether a resource may have the plug: a plug without patterns is
// open to all; otherwise one match of either kind admits. Of an instance it may also be
// the name of the resource that it is one of.
func (p *Plug) Allows(name, typ string) bool {
	if p.ResourceNames == nil && p.ResourceTypes == nil {
		return true
	}
	of := address.WithoutKeys(name)
	return slices.ContainsFunc(p.names, func(r *regexp.Regexp) bool { return r.MatchString(name) || r.MatchString(of) }) ||
		slices.ContainsFunc(p.types, func(r *regexp.Regexp) bool { return r.MatchString(typ) })
}

// Resource is something that should be as it is configured.
type Resource struct {
	Name         string
	Type         string                       // image reference
	ReadOnly     bool                         // observe it, never change it
	Dependencies map[string]string            // alias → name of a resource
	Instances    map[string]map[string]string // alias → key → name of an instance, of dependencies that have for_each
	Of           string                       // the name under which it is declared, where it is an instance; else ""
	Each         *Each                        // which instance it is; nil is none
	ForEach      any                          // of an instance, or a late resource: what its for_each says, expressions unresolved
	Late         *Late                        // its for_each reads the state of a dependency, and it stands for all its instances; nil is known
	Config       map[string]any               // expressions unresolved; made of string, bool, int64, float64, nil, []any, map[string]any
	Timeout      time.Duration                // of one container; 0 is not given
	IgnoreDrift  []string                     // paths of the configuration, such as ports[0].host, whose differences are no drift
	Position     Position

	IgnoreChanges  []string // paths of the configuration at which what there is stays as it is
	PreventDestroy bool     // nothing removes it

	texts     map[string]any    // variables whose type nobody declares, with their numbers and truth values as they are written
	module    *Module           // that it is in; nil is none
	called    map[string]stands // aliases of modules that it depends on
	config    *yamlfile.Node    // nil when there is none
	prevented Position          // of prevent_destroy
}

// PreventedAt is where the manifest says that nothing removes the resource.
func (r *Resource) PreventedAt() Position { return r.prevented }

// At returns the position of a part of the configuration, or of the nearest
// part around it that is in the file.
func (r *Resource) At(path ...string) Position {
	if r.config == nil {
		return r.Position
	}
	return r.config.Find(path...)
}

// Path writes the path of a part of the configuration as people do.
func (r *Resource) Path(path ...string) string {
	return schema.PathOf("resources", append([]string{r.Name, "config"}, path...))
}

// Broken says where the configuration breaks the schema of its type.
func (r *Resource) Broken(v schema.Violation) Problem {
	return Problem{Position: r.At(v.Path...), Path: r.Path(v.Path...), Message: fmt.Sprintf("%s (rule %q of %s)", v.Message, v.Rule, r.Type)}
}

// Resource returns the resource of this name, nil if there is none.
func (m *Manifest) Resource(name string) *Resource { return m.resources[name] }

// Plug returns the plug of this name, nil if there is none.
func (m *Manifest) Plug(name string) *Plug { return m.plugs[name] }

// Dependencies returns the names of the resources that a resource directly
// depends on, sorted, each once.
func (m *Manifest) Dependencies(name string) []string {
	r := m.resources[name]
	if r == nil {
		return nil
	}
	return r.after()
}

// Select returns a manifest of the named resources and all they depend on.
func (m *Manifest) Select(targets []string) (*Manifest, error) {
	targets, err := m.named(targets)
	if err != nil {
		return nil, err
	}
	nodes, keys := m.behind(targets)
	wanted := m.graph().Closure(nodes...)
	selected := &Manifest{Name: m.Name, Files: slices.Clone(m.Files), Moved: m.Moved, Takes: m.Takes, Variables: m.Variables, Plugs: slices.Clone(m.Plugs), plugs: m.plugs, resources: map[string]*Resource{}, declared: m.declared, absent: m.absent}
	for _, r := range m.Resources {
		if wanted[r.Name] && r.Late != nil && len(keys[r.Name]) > 0 && !m.needsAll(r.Name, wanted) {
			some, late := *r, *r.Late
			late.only, some.Late, r = keys[r.Name], &late, &some
		}
		if wanted[r.Name] {
			selected.Resources = append(selected.Resources, r)
			selected.resources[r.Name] = r
		}
	}
	for _, o := range m.Outputs {
		if slices.ContainsFunc(o.Resources(), func(name string) bool { return !wanted[name] }) {
			selected.Unknown = append(selected.Unknown, o.Name)
		} else {
			selected.Outputs = append(selected.Outputs, o)
		}
	}
	return selected, nil
}

// Kin is the resource that is declared by a name, or, of one that there is not any more, another one of
// the same declaration, or else that declaration, which comes to nothing; nil where nothing is declared.
func (m *Manifest) Kin(name string) *Resource {
	of := address.Declared(name)
	for _, list := range [][]*Resource{m.Resources, m.absent} {
		for _, r := range list {
			if r.Name == name || r.Of != "" && r.Of == of || r.Late != nil && r.Name == of {
				return r
			}
		}
	}
	return nil
}

// Dependents returns the names of the given resources and of all that depend on
// them, directly or not, each after all it depends on.
func (m *Manifest) Dependents(targets []string) ([]string, error) {
	targets, err := m.named(targets)
	if err != nil {
		return nil, err
	}
	g := m.graph()
	nodes, keys := m.behind(targets)
	wanted := map[string]bool{}
	for _, name := range nodes {
		wanted[name] = len(keys[name]) == 0
		maps.Copy(wanted, g.Downstream(name))
	}
	var names []string
	for _, r := range m.Resources {
		if wanted[r.Name] {
			names = append(names, r.Name)
			continue
		}
		for _, key := range keys[r.Name] {
			names = append(names, address.Instance(r.Name, key))
		}
	}
	return names, nil
}

// behind returns the resources of the manifest that stand for targets, and, of late ones of which
// only some instances are targets, the keys of those.
func (m *Manifest) behind(targets []string) (nodes []string, keys map[string][]string) {
	keys = map[string][]string{}
	for _, name := range targets {
		r := m.Stands(name)
		nodes = append(nodes, r.Name)
		if r.Name != name {
			_, key, _ := address.Split(name)
			keys[r.Name] = append(keys[r.Name], key)
		}
	}
	for _, name := range targets {
		delete(keys, name)
	}
	return nodes, keys
}

// needsAll reports whether anything that is wanted depends on a resource.
func (m *Manifest) needsAll(name string, wanted map[string]bool) bool {
	return slices.ContainsFunc(m.Resources, func(r *Resource) bool { return wanted[r.Name] && slices.Contains(r.after(), name) })
}

// named returns the resources that several names mean, as Named does.
func (m *Manifest) named(targets []string) (all []string, err error) {
	for _, name := range targets {
		names, err := m.Named(name)
		if err != nil {
			return nil, err
		}
		all = append(all, names...)
	}
	return all, nil
}

func (m *Manifest) graph() *graph.Graph[string] {
	g := graph.New[string]()
	for _, r := range m.Resources {
		g.Add(r.Name, m.Dependencies(r.Name)...)
	}
	return g
}

// Hash identifies what the manifest says should be, whatever its layout, order
// and distribution over files: the SHA-256 of its content, in hexadecimal. What
// only concerns the search for drift is no part of it: to ignore a difference
// is not to deploy something else.
func (m *Manifest) Hash() string {
	plugs, resources := map[string]any{}, map[string]definition{}
	for _, p := range m.Plugs {
		plugs[p.Name] = p.written
	}
	for _, r := range m.Resources {
		resources[r.Name] = r.definition()
	}
	return hash(map[string]any{"plugs": plugs, "resources": resources})
}

// Hash identifies what the manifest says of the resource, as that of the
// manifest does for all of it.
func (r *Resource) Hash() string { return hash(r.definition()) }

// definition is what counts of a resource in a hash.
type definition struct {
	Type         string            `json:"type"`
	ReadOnly     bool              `json:"readonly"`
	Dependencies map[string]string `json:"dependencies,omitempty"`
	Config       map[string]any    `json:"config"`
	Timeout      time.Duration     `json:"timeout,omitempty"`

	Each      *Each                        `json:"each,omitempty"`
	Late      any                          `json:"late,omitempty"`
	Instances map[string]map[string]string `json:"instances,omitempty"`

	IgnoreChanges  []string `json:"ignore_changes,omitempty"`
	PreventDestroy bool     `json:"prevent_destroy,omitempty"`

	Module string         `json:"module,omitempty"`
	Called map[string]any `json:"called,omitempty"`
}

func (r *Resource) definition() definition {
	return definition{
		r.Type, r.ReadOnly, r.Dependencies, r.Config, r.Timeout, r.Each, r.Late.definition(r), r.Instances, r.IgnoreChanges, r.PreventDestroy,
		r.module.definedBy(), definitions(r.called),
	}
}

func hash(content any) string {
	text, err := json.Marshal(content)
	if err != nil { // Load lets nothing pass that JSON cannot express
		text = []byte(err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
