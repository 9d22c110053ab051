package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/declaration"
)

// Module is a manifest within a manifest: one instance of what is declared under modules.
// Its resources are resources of the manifest, by their addresses: web.page is the resource
// page of the module web. Their expressions see the variables of the module and nothing of
// whoever calls it.
type Module struct {
	Address string // such as web[a].cache

	parent    *Module // that calls it; nil is the manifest
	call      *call
	dir       string // of its files, below the workspace
	each      *Each
	plugs     map[string]string // its names → those of the caller
	depends   map[string]stands // aliases of the caller
	declared  []*declaration.Variable
	variables map[string]any // those whose values are known
	late      []*late        // the others
	outputs   []*Output
	contains  []string              // resources of it and of modules in it
	names     map[string]*expansion // what became of each name in it
	given     string                // hash of what it is called with
	tells     string                // hash of what its outputs are made of
}

// call is what stands under modules.
type call struct {
	at       *yamlfile.Node
	source   string
	sourceAt *yamlfile.Node
	vars     []*yamlfile.Node
	plugs    map[string]string
	given    []*yamlfile.Node // the same, as they are written
	forEach  any              // as it is written; nil is not given
}

// directory is that of the files of a module; "" is the workspace, where the manifest has them.
func (m *Module) directory() string {
	if m == nil {
		return ""
	}
	return m.dir
}

// within is the evaluator of what stands in a module, nil being the manifest itself.
func (m *Module) within(e *expression.Evaluator) *expression.Evaluator {
	return e.Within(m.directory())
}

// waiting are the variables of a module whose values wait for something.
func (m *Module) waiting() map[string]stands {
	if m == nil {
		return nil
	}
	all := make(map[string]stands, len(m.late))
	for _, v := range m.late {
		all[v.Name] = v
	}
	return all
}

// caller says where a module is called, behind a problem of what is in it.
func (m *Module) caller() string {
	return fmt.Sprintf(" (in module %s, called at %s)", m.Address, m.call.at.NameAt)
}

// Plug returns the plug that a resource calls by a name: in a module, that which it is given.
func (r *Resource) Plug(m *Manifest, name string) *Plug {
	for in := r.module; in != nil; in = in.parent {
		given, ok := in.plugs[name]
		if !ok {
			return nil
		}
		name = given
	}
	return m.plugs[name]
}

// Lacks says what to do about a plug that a resource does not have.
func (r *Resource) Lacks(name string) string {
	for in := r.module; in != nil; in = in.parent {
		given, ok := in.plugs[name]
		if !ok {
			return fmt.Sprintf("the module %s is not given it (add \"plugs: {%s: …}\" to its call at %s)", in.Address, name, in.call.at.NameAt)
		}
		name = given
	}
	return fmt.Sprintf("the manifest defines no such plug (add plugs.%s.path)", name)
}

// aliases are the names in the configuration of a resource that stand for something.
func (r *Resource) aliases() map[string]stands {
	all := make(map[string]stands, len(r.Dependencies)+len(r.Instances)+len(r.called))
	for alias, name := range r.Dependencies {
		all[alias] = single(name)
	}
	for alias, names := range r.Instances {
		all[alias] = instances(names)
	}
	maps.Copy(all, r.called)
	maps.Copy(all, r.module.waiting())
	return all
}

// after are the resources that must be verified before anything in a module is begun.
func (m *Module) after() (names []string) {
	for in := m; in != nil; in = in.parent {
		for _, s := range in.depends {
			names = append(names, s.resources()...)
		}
	}
	return names
}

// after are the resources that must be verified before one, or before one in a module.
func (r *Resource) after() (names []string) {
	for _, s := range r.aliases() {
		names = append(names, s.resources()...)
	}
	names = append(names, r.module.after()...)
	slices.Sort(names)
	return slices.Compact(names)
}

// called is the hash of what a module is called with.
func (m *Module) called() string {
	given, defaults := map[string]any{}, map[string]any{}
	for _, n := range m.call.vars {
		given[n.Name], _ = n.Any()
	}
	for _, d := range m.declared {
		defaults[d.Name] = d.Written
	}
	return hash(map[string]any{
		"given": given, "defaults": defaults, "each": m.each, "depends": definitions(m.depends), "plugs": m.plugs, "parent": m.parent.definedBy(),
	})
}

// told is the hash of what its outputs are made of.
func (m *Module) told() string {
	outputs := map[string]any{}
	for _, o := range m.outputs {
		outputs[o.Name] = []any{o.Value, definitions(o.reads)}
	}
	return hash(map[string]any{"given": m.given, "outputs": outputs})
}

// definedBy is what counts of a module in the hash of what is in it; "" is none.
func (m *Module) definedBy() string {
	if m == nil {
		return ""
	}
	return m.given
}

// definitions are what counts of aliases in a hash.
func definitions(aliases map[string]stands) map[string]any {
	all := make(map[string]any, len(aliases))
	for alias, s := range aliases {
		all[alias] = s.definition()
	}
	return all
}
