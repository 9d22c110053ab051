package runner

import (
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/schema"
)

// resource is one resource of the run and what is known of it so far. It is
// touched by one goroutine at a time: first by its initialization, then by its
// visit; those that depend on it read it after that.
type resource struct {
	*manifest.Resource
	dependsOn []string
	first     *resource // of this type, which is initialized before; nil for that one itself

	target invoke.Target // its image and plugs are known once it is initialized
	init   protocol.InitOutput
	schema *schema.Schema // nil when the type accepts any configuration

	config      map[string]any  // resolved
	adjusted    map[string]any  // config with what there is where that is left as it is; nil is config
	left        []Change        // what differs and is left as it is
	final       bool            // config waits for no dependency and is final
	state       map[string]any  // as last seen VALID; by a survey also as seen STALE
	stale       bool            // state is one that a survey saw as STALE
	excluded    bool            // the run has nothing to do with it
	output      []string        // last lines for people of its last state action, masked
	ensure      protocol.Ensure // what is wanted of it; "" is Present
	refused     error           // why it could not be initialized, or is not to be touched
	initialized Event           // the event of its initialization
}

// configured resolves the expressions of the resource's configuration; the
// states of its dependencies must be known where it refers to them.
func (r *Runner) configured(res *resource) (map[string]any, error) {
	scope := res.Scope(r.spec.Variables, r.seen)
	resolved, err := r.spec.Expressions.Resolve(any(res.Config), scope)
	if err != nil {
		return nil, r.misconfigured(res, err)
	}
	config, _ := resolved.(map[string]any)
	if config == nil {
		config = map[string]any{}
	}
	if r.spec.Configure != nil {
		return r.spec.Configure(res.Resource, config)
	}
	return config, nil
}

// seen is what expressions see of a resource.
func (r *Runner) seen(name string) any {
	d := r.byName[name]
	return map[string]any{"name": d.Name, "type": d.Type, "state": d.state}
}
