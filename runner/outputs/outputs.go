// Package outputs evaluates what a manifest tells once all its resources are as configured.
package outputs

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/redact"
	"github.com/deployster-go/deployster/runner/report"
)

// most is how many bytes of JSON the outputs of a manifest may have together: they are recorded with
// the end of the run.
const most = 1 << 20

// Of evaluates the outputs of a manifest. One that holds a secret is a secret, whatever the manifest
// says.
func Of(m *manifest.Manifest, scope manifest.Scope, secrets *invoke.Secrets) (report.Outputs, error) {
	told, hidden := report.Outputs{Outputs: map[string]report.Output{}, Unknown: m.Unknown}, map[string]any{}
	var problems []error
	for _, o := range m.Outputs {
		value, err := o.Resolve(scope)
		if err != nil {
			problems = append(problems, redact.Error(secrets, err))
			continue
		}
		out := report.Output{Value: value, Description: secrets.Mask(o.Description), Secret: o.WriteOnly || !reflect.DeepEqual(secrets.MaskValue(value), value)}
		if out.Secret {
			hidden[o.Name], out.Value = value, nil
		}
		told.Outputs[o.Name] = out
	}
	if len(problems) > 0 {
		return report.Outputs{}, fmt.Errorf("everything is applied, but not all outputs could be evaluated: %w", errors.Join(problems...))
	}
	if text, err := json.Marshal([]any{told, hidden}); err != nil || len(text) > most {
		return report.Outputs{}, errors.Join(fmt.Errorf("everything is applied, but its outputs have more than %d MiB, which is too much to record: let them say less", most>>20), err)
	}
	return told.With(hidden), nil
}

// AfterRemoval returns what a run tells of the outputs that removes resources of a manifest, by name: which
// outputs stay. nil is all resources, after which no output stays.
func AfterRemoval(m *manifest.Manifest, removed []string) report.Outputs {
	gone, told := map[string]bool{}, report.Outputs{Reads: map[string][]string{}}
	for _, name := range removed {
		if gone[name] = true; m.Stands(name) != nil {
			gone[m.Stands(name).Name] = true
		}
	}
	for _, o := range m.Outputs {
		told.Reads[o.Name] = o.Resources()
		if removed != nil && !slices.ContainsFunc(told.Reads[o.Name], func(name string) bool { return gone[name] }) {
			told.Unknown = append(told.Unknown, o.Name)
		}
	}
	return told
}
