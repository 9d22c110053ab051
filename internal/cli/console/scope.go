package console

import (
	"context"
	"errors"
	"maps"
	"slices"

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
	variables   map[string]any // by name
	manifest    *manifest.Manifest
}

// newScope makes the scope of manifests; their resources may be none.
func newScope(in *work.Input, from sources) *scope {
	s := &scope{sources: from, secrets: &invoke.Secrets{}, manifest: in.Manifest}
	for _, value := range in.Secrets {
		s.secrets.Add(value, [][]string{{}})
	}
	files := expression.Workspace(in.Workspace)
	s.expressions = expression.OverAll(func(name string) (string, error) {
		text, err := files(name)
		return s.secrets.Mask(text), err
	})
	s.variables, _ = s.secrets.MaskValue(in.Variables).(map[string]any)
	s.variables = maps.Clone(s.variables)
	for _, d := range in.Unknown {
		delete(s.variables, d.Name)
	}
	if s.manifest == nil {
		s.manifest = &manifest.Manifest{}
	}
	for _, d := range s.manifest.Variables {
		if value, known := s.variables[d.Name]; known {
			s.variables[d.Name] = s.show(value, d.Secret)
		}
	}
	return s
}

// evaluate evaluates a template.
func (s *scope) evaluate(ctx context.Context, template string) (any, error) {
	usage, err := s.expressions.Examine(template)
	if err != nil {
		return nil, err
	}
	variables := maps.Clone(s.variables)
	if _, taken := variables[outputsName]; !taken && (usage.Dynamic || slices.Contains(usage.Mentions, outputsName)) {
		if variables[outputsName], err = s.outputs(ctx); err != nil {
			return nil, err
		}
	}
	value, err := s.manifest.Evaluate(template, manifest.Scope{
		Expressions: s.expressions, Variables: variables, Show: s.show,
		Hide:  func(value any) { s.secrets.Add(value, [][]string{{}}) },
		State: func(resource string) any { return s.seen(ctx, s.manifest.Resource(resource)) },
	})
	if err != nil {
		return nil, err
	}
	return s.secrets.MaskValue(value), nil
}

// show is what expressions see of a value.
func (s *scope) show(value any, secret bool) any {
	if secret {
		return invoke.Masked
	}
	return s.secrets.MaskValue(value)
}

// seen is what expressions see of a resource.
func (s *scope) seen(ctx context.Context, r *manifest.Resource) map[string]any {
	seen := map[string]any{"name": r.Name, "type": r.Type}
	if state := s.stateOf(ctx, r); state != nil {
		seen["state"] = state
	}
	return seen
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
