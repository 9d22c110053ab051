package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/deployster-go/deployster/manifest"
)

// maxOutputs is how many bytes of JSON the outputs of a manifest may have together: they
// are recorded with the end of the run.
const maxOutputs = 1 << 20

// Outputs are what a manifest tells whoever applied it.
type Outputs struct {
	Outputs map[string]Output `json:"outputs,omitempty"`
	Unknown []string          `json:"outputs_unknown,omitempty"` // names of those that read what was not applied, sorted

	secrets map[string]any
}

// Secrets are the values of the secret ones. They are for the Recorder alone: nil for others.
func (o Outputs) Secrets() map[string]any { return o.secrets }

// Output is one of them.
type Output struct {
	Value       any    `json:"value"`            // nil of a secret one
	Secret      bool   `json:"secret,omitempty"` // the manifest says so, or it holds what is secret
	Description string `json:"description,omitempty"`
}

// tell evaluates the outputs of the manifest, once all its resources are verified.
func (r *Runner) tell() error {
	m := r.spec.Manifest
	told := Outputs{Outputs: map[string]Output{}, Unknown: m.Unknown, secrets: map[string]any{}}
	var problems []error
	for _, o := range m.Outputs {
		value, err := o.Resolve(r.scope())
		if err != nil {
			problems = append(problems, r.hidden(err))
			continue
		}
		// One that holds a secret is a secret, whatever the manifest says.
		out := Output{Value: value, Description: r.secrets.Mask(o.Description), Secret: o.WriteOnly || !reflect.DeepEqual(r.secrets.MaskValue(value), value)}
		if out.Secret {
			told.secrets[o.Name], out.Value = value, nil
		}
		told.Outputs[o.Name] = out
	}
	if len(problems) > 0 {
		return fmt.Errorf("everything is applied, but not all outputs could be evaluated: %w", errors.Join(problems...))
	}
	if text, err := json.Marshal([]any{told, told.secrets}); err != nil || len(text) > maxOutputs {
		return errors.Join(fmt.Errorf("everything is applied, but its outputs have more than %d MiB, which is too much to record: let them say less", maxOutputs>>20), err)
	}
	r.outputs = told
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
