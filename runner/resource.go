package runner

import (
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/address"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/schema"
)

// resource is one resource of the run and what is known of it so far. It is
// touched by one goroutine at a time: first by its initialization, then by its
// visit; those that depend on it read it after that.
type resource struct {
	*manifest.Resource
	dependsOn  []string
	first      *resource          // of this type, which is initialized before; nil for that one itself
	undeclared *report.Undeclared // what a run made and the manifest no longer declares; nil is declared
	orphan     bool               // undeclared: of Spec.Orphans
	shadowed   bool               // undeclared: something else has its name by now
	deposed    string             // undeclared: tells what a resource was before from others of its name; "" is none
	times      int                // shadowed: which attempt of its name it is; 0 is the second
	manifest   *manifest.Manifest // that has its plugs

	target invoke.Target // its image and plugs are known once it is initialized
	init   protocol.InitOutput
	schema *schema.Schema // nil when the type accepts any configuration
	states *schema.Schema // nil when the type says nothing of its states

	config     map[string]any         // resolved
	hiding     [][]string             // where config holds secrets of variables
	adjusted   map[string]any         // config with what there is where that is left as it is; nil is config
	left       []diff.Change          // what differs and is left as it is
	found      map[string]any         // what there is, as its type answered last; nil is nothing, or not known
	final      bool                   // config waits for no dependency and is final
	state      map[string]any         // as last seen VALID; by a survey also as seen STALE
	stale      bool                   // state is one that a survey saw as STALE
	foreseen   map[string]any         // of a Plan: what its state will be; nil where nothing is known
	excluded   bool                   // the run has nothing to do with it
	identity   report.Identity        // which thing in the world it is
	replaced   string                 // what changed of that since runs made it; "" is nothing
	deposes    *report.Undeclared     // what it was before, which is still to be removed; nil is nothing
	deposesOf  *report.Owned          // deposes, where another manifest has it
	early      []string               // the Known of its identity, where its configuration waits for nothing
	took       *report.Owned          // what another manifest had, and it has from now on; nil is nothing
	past       Past                   // what earlier runs left, and this one
	recalled   Past                   // what earlier runs had left of it when it was looked at
	kept       int                    // how often this run has recorded what is kept of it
	question   invoke.Asked           // by which its last state action can be asked again
	output     []string               // last lines for people of its last state action, masked
	ensure     protocol.Ensure        // what is wanted of it; "" is Present
	begun      bool                   // an Apply has begun with it, to remove it so that it is made again
	failure    error                  // why it has failed before it is visited
	without    []string               // of optional plugs, why it has them not
	unprepared bool                   // it is still to be initialized
	plan       *report.ResourcePlan   // of a Plan or PlanDestroy
	result     *report.ResourceResult // of what is recorded

	of          *resource            // the late one that it is an instance of; nil is none
	expanded    bool                 // it is late, and what it stands for is known
	instances   []*resource          // what it stands for, in order
	named       map[string]*resource // the same
	before      map[string]*resource // the same, when it was expanded before in this run
	told        int                  // how often this run has recorded what it stands for
	adopts      bool                 // of an Adopt: of its instances those alone count that are adopted
	gone        bool                 // an instance that its late resource no longer has, of this walk
	made        []report.Undeclared  // of a late one: what runs made of its instances
	adopted     *report.Adoption     // of an Adopt: what it becomes; nil for what is only needed
	differing   []diff.Change        // of an Adopt: where what there is differs
	refused     error                // why it could not be initialized, or is not to be touched
	initialized report.Event         // the event of its initialization
}

func (res *resource) header() report.ResourceHeader {
	return report.ResourceHeader{Name: res.Name, Type: res.Type, DependsOn: res.dependsOn}
}

// node is what walks call it.
func (res *resource) node() string {
	return report.Node(res.Name, res.undeclared != nil && res.of == nil) + res.deposed
}

// attempt is which one of its events and actions of one name are: what is removed and made again
// in one run has two, and so have two of one name.
func (res *resource) attempt() int {
	if res.times > 0 {
		return res.times
	}
	if res.begun && res.ensure != protocol.Absent || res.shadowed {
		return 2
	}
	return 1
}

// configured resolves the expressions of the resource's configuration; the
// states of its dependencies must be known where it refers to them.
func (r *Runner) configured(res *resource) (map[string]any, error) {
	if res.undeclared != nil {
		return res.Config, nil
	}
	resolved, err := res.Resolve(any(res.Config), r.scope())
	if err != nil {
		return nil, r.misconfigured(res, err)
	}
	config, _ := resolved.(map[string]any)
	if config == nil {
		config = map[string]any{}
	}
	if res.schema != nil {
		config = res.Fit(config, r.scope(), func(config map[string]any) []schema.Violation { return res.schema.Validate(config) })
	}
	if r.spec.Configure != nil {
		return r.spec.Configure(res.Resource, config)
	}
	return config, nil
}

// scope is what expressions see.
func (r *Runner) scope() manifest.Scope {
	return manifest.Scope{Expressions: r.spec.Expressions, Variables: r.spec.Variables, State: r.seen, Hide: r.hide}
}

// hide keeps a value of a variable that may not be shown out of everything that is.
func (r *Runner) hide(value any) {
	r.secrets.Add(value, [][]string{{}})
	r.hides.Store(true)
}

// seen is what expressions see of a resource.
func (r *Runner) seen(name string) any {
	d := r.find(name)
	if d.Late != nil {
		return d.byKey(r.seen)
	}
	return map[string]any{"name": d.Name, "type": d.Type, "state": d.state}
}

// byKey is what expressions see of all instances of a late resource.
func (res *resource) byKey(seen func(name string) any) map[string]any {
	all := make(map[string]any, len(res.instances))
	for _, one := range res.instances {
		all[one.key()] = seen(one.Name)
	}
	return all
}

// key is that of an instance.
func (res *resource) key() string {
	_, key, _ := address.Split(res.Name)
	return key
}
