package console

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/observed"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/invoke"
)

// outputsName is what expressions call the outputs of what was applied last, where nothing
// of the manifest has that name.
const outputsName = "outputs"

// sources are where what expressions see comes from.
type sources struct {
	state   func(ctx context.Context, resource string) (map[string]any, error)
	outputs func(ctx context.Context) (map[string]any, error) // without secrets
	note    func(text string)                                 // tells what is not known
}

// scope is what expressions see. What is secret is masked before they see it: nothing that
// they make of it can show it.
type scope struct {
	sources
	expressions *expression.Evaluator
	secrets     *invoke.Secrets
	values      map[string]any                  // by name, of resources without their states
	resources   map[string][]*manifest.Resource // by name: one, or the instances of one
}

// newScope makes the scope of manifests; their resources may be none.
func newScope(in *work.Input, from sources) *scope {
	s := &scope{sources: from, secrets: &invoke.Secrets{}, resources: map[string][]*manifest.Resource{}}
	for _, value := range in.Secrets {
		s.secrets.Add(value, [][]string{{}})
	}
	files := expression.Workspace(in.Workspace)
	s.expressions = expression.OverAll(func(name string) (string, error) {
		text, err := files(name)
		return s.secrets.Mask(text), err
	})
	s.values, _ = s.secrets.MaskValue(in.Variables).(map[string]any)
	s.values = maps.Clone(s.values)
	for _, d := range in.Unknown {
		delete(s.values, d.Name)
	}
	if in.Manifest == nil {
		return s
	}
	for _, d := range in.Manifest.Variables {
		if _, known := s.values[d.Name]; known && d.Secret {
			s.values[d.Name] = invoke.Masked
		}
	}
	for _, r := range in.Manifest.Resources {
		of := r.Name
		if r.Of != "" {
			of = r.Of
		}
		name := strings.ReplaceAll(of, "-", "_")
		s.resources[name] = append(s.resources[name], r)
	}
	for name, all := range s.resources {
		s.values[name] = s.value(all, func(*manifest.Resource) map[string]any { return nil })
	}
	return s
}

// value is what a name stands for that is of resources.
func (s *scope) value(of []*manifest.Resource, state func(*manifest.Resource) map[string]any) any {
	one := func(r *manifest.Resource) map[string]any {
		value := map[string]any{"name": r.Name, "type": r.Type}
		if state := state(r); state != nil {
			value["state"] = state
		}
		return value
	}
	if of[0].Each == nil {
		return one(of[0])
	}
	all := make(map[string]any, len(of))
	for _, r := range of {
		all[r.Each.Key] = one(r)
	}
	return all
}

// evaluate evaluates a template.
func (s *scope) evaluate(ctx context.Context, template string) (any, error) {
	usage, err := s.expressions.Examine(template)
	if err != nil {
		return nil, err
	}
	reads := func(name string) bool { return usage.Dynamic || slices.Contains(usage.Mentions, name) }
	values := maps.Clone(s.values)
	for name, all := range s.resources {
		if reads(name) {
			values[name] = s.value(all, func(r *manifest.Resource) map[string]any { return s.stateOf(ctx, r) })
		}
	}
	if _, taken := values[outputsName]; !taken && reads(outputsName) {
		outputs, err := s.outputs(ctx)
		if err != nil {
			return nil, err
		}
		values[outputsName] = outputs
	}
	value, err := s.expressions.Evaluate(template, values)
	if err != nil {
		return nil, err
	}
	return s.secrets.MaskValue(value), nil
}

// stateOf is the state of a resource as it was last seen; nil is none, and noted.
func (s *scope) stateOf(ctx context.Context, r *manifest.Resource) map[string]any {
	state, err := s.state(ctx, r.Name)
	if err != nil {
		text := err.Error()
		if !errors.Is(err, observed.ErrUnknown) {
			text = "its state cannot be had: " + text
		}
		s.note(s.secrets.Mask(text))
	}
	return state
}
