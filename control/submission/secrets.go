package submission

import (
	"fmt"
	"maps"

	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/manifest/vars"
)

// Secrets are the values of the secrets of a recipe, by the names of variables of the
// environment. Those that the group carries only a hash of are read from their files, and
// must be what they were.
func Secrets(i work.Inputs, texts work.Texts, carries record.Carries, r recipe.Recipe) (map[string]string, error) {
	if len(r.Secrets) == 0 {
		return nil, nil
	}
	assigned, err := i.Assignments(texts, carries)
	if err != nil {
		return nil, err
	}
	in, err := i.Evaluate(work.LoadOptions{Included: texts.Files(carries), Assigned: append([]vars.Assignment{}, assigned...)})
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for name, secret := range r.Secrets {
		vars := in.Variables
		if secret.Package != "" {
			vars = with(vars, secret.Package, secret.Version)
		}
		value, err := in.Expressions.Evaluate(secret.Value, vars)
		if err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
		if values[name], err = text(value); err != nil {
			return nil, fmt.Errorf("secret %s: %w", name, err)
		}
		i.Hide(values[name])
	}
	return values, nil
}

// packageVariable is what the values of a job find their package in.
const packageVariable = "package"

// with are variables with those of a package.
func with(vars map[string]any, name, version string) map[string]any {
	all := maps.Clone(vars)
	all[packageVariable] = map[string]any{"name": name, "version": version}
	return all
}
