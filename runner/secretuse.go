package runner

import (
	"slices"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/schema"
)

// SecretUse is a secret part of a configuration that reads a variable.
type SecretUse struct {
	Variable string
	Path     string // such as resources.db.config.env.PASSWORD
	Position manifest.Position
}

// SecretUses lists, once Removable has succeeded, which secret parts of configurations
// read the variables of these names. Of a configuration that waits for the state of a
// dependency it is taken as it is written. files are all that may be included: by a name
// that is computed each may be that fits.
func (r *Runner) SecretUses(files []string, names ...string) (uses []SecretUse) {
	for _, d := range r.spec.Manifest.Variables {
		if d.Secret && slices.Contains(names, d.Name) {
			uses = append(uses, SecretUse{d.Name, "variables." + d.Name, d.Position})
		}
	}
	for _, m := range r.spec.Manifest.Resources {
		res := r.byNode[m.Name]
		paths := res.target.Secret
		if !res.final && res.schema != nil {
			paths = res.schema.Secrets(map[string]any(res.Config))
		}
		for _, path := range paths {
			part := res.Made(r.spec.Expressions, path...)
			for _, name := range names {
				// What cannot be read was reported before.
				if reads, err := r.spec.Expressions.MayRead(part, files, name); reads && err == nil {
					uses = append(uses, SecretUse{name, res.Path(path...), res.At(path...)})
				}
			}
		}
	}
	return uses
}

// Schemas are what the types of a manifest say of their configurations, by type, once
// Removable has asked them.
func (r *Runner) Schemas() map[string]*schema.Schema {
	all := map[string]*schema.Schema{}
	for _, res := range r.resources {
		if res.schema != nil {
			all[res.Type] = res.schema
		}
	}
	return all
}
