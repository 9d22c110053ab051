package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/report"
)

// maxOutputs is how many bytes of JSON the outputs of a manifest may have together: they
// are recorded with the end of the run.
const maxOutputs = 1 << 20

// tell evaluates the outputs of the manifest, once all its resources are verified.
func (r *Runner) tell() error {
	m := r.spec.Manifest
	told, secrets := report.Outputs{Outputs: map[string]report.Output{}, Unknown: m.Unknown}, map[string]any{}
	var problems []error
	for _, o := range m.Outputs {
		value, err := o.Resolve(r.scope())
		if err != nil {
			problems = append(problems, r.hidden(err))
			continue
		}
		// One that holds a secret is a secret, whatever the manifest says.
		out := report.Output{Value: value, Description: r.secrets.Mask(o.Description), Secret: o.WriteOnly || !reflect.DeepEqual(r.secrets.MaskValue(value), value)}
		if out.Secret {
			secrets[o.Name], out.Value = value, nil
		}
		told.Outputs[o.Name] = out
	}
	if len(problems) > 0 {
		return fmt.Errorf("everything is applied, but not all outputs could be evaluated: %w", errors.Join(problems...))
	}
	if text, err := json.Marshal([]any{told, secrets}); err != nil || len(text) > maxOutputs {
		return errors.Join(fmt.Errorf("everything is applied, but its outputs have more than %d MiB, which is too much to record: let them say less", maxOutputs>>20), err)
	}
	r.outputs = told.With(secrets)
	return nil
}

// hidden masks the problems of an error.
func (r *Runner) hidden(err error) error {
	var invalid *manifest.Error
	if !errors.As(err, &invalid) {
		return err
	}
	masked := &manifest.Error{}
	for _, p := range invalid.Problems {
		p.Message = r.secrets.Mask(p.Message)
		masked.Problems = append(masked.Problems, p)
	}
	return masked
}
