package work

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/schema"
)

// unresolved stands for a value that only a run knows.
type unresolved struct{}

// early is the configuration of a resource as far as it is known without a run.
type early struct {
	config  map[string]any
	unknown [][]string // where it is not known; unresolved stands there
}

// resolveEarly resolves the expressions of a configuration that wait for no
// dependency. What cannot be resolved is left to the run, which says why.
func (in *Input) resolveEarly(r *manifest.Resource) early {
	var e early
	aliases := make([]string, 0, len(r.Dependencies))
	for alias := range r.Dependencies {
		aliases = append(aliases, alias)
	}
	var resolve func(v any, path []string) any
	resolve = func(v any, path []string) any {
		switch v := v.(type) {
		case string:
			if !expression.IsTemplate(v) {
				return v
			}
			if waits, err := in.Expressions.Reads(v, aliases...); !waits && err == nil {
				if value, err := in.Expressions.Evaluate(v, in.Variables); err == nil {
					return value
				}
			}
			e.unknown = append(e.unknown, path)
			return unresolved{}
		case map[string]any:
			out := make(map[string]any, len(v))
			for name, item := range v {
				out[name] = resolve(item, append(path[:len(path):len(path)], name))
			}
			return out
		case []any:
			out := make([]any, len(v))
			for i, item := range v {
				out[i] = resolve(item, append(path[:len(path):len(path)], strconv.Itoa(i)))
			}
			return out
		default:
			return v
		}
	}
	e.config, _ = resolve(r.Config, nil).(map[string]any)
	return e
}

// shippedType returns the type of a resource if it ships with the program.
func shippedType(r *manifest.Resource) (shipped.Type, bool) {
	name, ok := strings.CutPrefix(r.Type, shippedPrefix)
	if !ok {
		return shipped.Type{}, false
	}
	return shipped.Lookup(name)
}

// misuse finds what is wrong with the resources of types that ship, without
// running them: configurations that break the schema of their type, and plugs
// that are missing or not allowed. It is what a run would say, before it begins.
func (in *Input) misuse() ([]manifest.Problem, error) {
	var problems []manifest.Problem
	schemas := map[string]*schema.Schema{}
	for _, r := range in.Manifest.Resources {
		t, ok := shippedType(r)
		if !ok {
			continue
		}
		s := schemas[t.Name]
		if s == nil {
			var err error
			if s, err = schema.CompileConfig(t.Schema); err != nil {
				return nil, fmt.Errorf("reading the schema of %s: %w", r.Type, err)
			}
			schemas[t.Name] = s
		}
		_, _, plugs := runner.Plug(in.Manifest, r, t.Plugs, "")
		problems = append(problems, plugs...)
		e := in.resolveEarly(r)
		for _, v := range s.ValidatePartly(e.config, e.unknown) {
			problems = append(problems, runner.Broken(r, v))
		}
	}
	return problems, nil
}

// Conflicts finds resources that manage one thing, as far as types that ship and
// configurations tell without a run: each would undo what the other did. A
// readonly one only observes.
func (in *Input) Conflicts() error {
	first := map[string]*manifest.Resource{}
	var problems []manifest.Problem
	for _, r := range in.inOrder() {
		t, ok := shippedType(r)
		if !ok || r.ReadOnly {
			continue
		}
		property, thing := t.Identify(r.Name, in.resolveEarly(r).config)
		if thing == "" {
			continue
		}
		key := t.Name + " " + thing
		other := first[key]
		if other == nil {
			first[key] = r
			continue
		}
		at, path := r.Position, "resources."+r.Name
		if property != "" {
			at, path = r.At(property), path+".config."+property
		}
		problems = append(problems, manifest.Problem{
			Position: at, Path: path,
			Message: fmt.Sprintf("the %s is already managed by the resource %q at %s, and each of the two would undo what the other did: give one of them another %s, or set readonly on the one that only observes",
				thing, other.Name, other.Position, cmp.Or(property, "name")),
		})
	}
	return invalid(problems)
}

// inOrder are the resources as they are written.
func (in *Input) inOrder() []*manifest.Resource {
	return slices.SortedStableFunc(slices.Values(in.Manifest.Resources), func(a, b *manifest.Resource) int {
		return cmp.Or(cmp.Compare(slices.Index(in.Manifest.Files, a.Position.File), slices.Index(in.Manifest.Files, b.Position.File)),
			cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
}

// invalid makes an error of problems; nil of none.
func invalid(problems []manifest.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	return &InputError{&manifest.Error{Problems: problems}}
}

// Check finds all that can be found wrong with the input without running
// anything.
func (in *Input) Check() error {
	problems, err := in.misuse()
	if err != nil {
		return err
	}
	for _, err := range []error{in.Conflicts(), in.Manifest.CheckPlugs()} {
		var found *manifest.Error
		if errors.As(err, &found) {
			problems = append(problems, found.Problems...)
		} else if err != nil {
			return err
		}
	}
	return invalid(manifest.Sorted(problems, in.Manifest.Files))
}
