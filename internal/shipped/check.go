package shipped

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/repeated"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/inits"
	"github.com/deployster-go/deployster/runner/plugs"
	"github.com/deployster-go/deployster/schema"
)

// Check finds what is wrong with the resources of a manifest whose types ship,
// without running anything.
type Check struct {
	Manifest    *manifest.Manifest
	Variables   map[string]any
	Expressions *expression.Evaluator

	// Answered is what a type that does not ship is known to answer init; nil knows of none.
	Answered func(ref string) (inits.Type, bool)

	// Here is whether the paths of plugs are on this machine, where links in them are seen.
	Here bool
}

// unresolved stands for a value that only a run knows.
type unresolved struct{}

// early is the configuration of a resource as far as it is known without a run.
type early struct {
	config  map[string]any
	unknown [][]string // where it is not known; unresolved stands there
}

// resolveEarly resolves the expressions of a configuration that wait for no
// dependency. What cannot be resolved is left to the run, which says why.
func (c Check) resolveEarly(r *manifest.Resource) early {
	var e early
	var resolve func(v any, path []string) any
	resolve = func(v any, path []string) any {
		switch v := v.(type) {
		case string:
			if !expression.IsTemplate(v) {
				return v
			}
			if waits, err := r.Needs(v, c.Expressions); len(waits) == 0 && err == nil {
				if value, err := r.Resolve(v, manifest.Scope{Expressions: c.Expressions, Variables: c.Variables}); err == nil {
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

// typeOf is the type that a resource names, if it ships.
func typeOf(ref string) (Type, bool) {
	name, ok := strings.CutPrefix(ref, Prefix)
	if !ok {
		return Type{}, false
	}
	return Lookup(name)
}

// UnknownTypes finds types that read like one that ships and are none.
func UnknownTypes(m *manifest.Manifest) []manifest.Problem {
	var problems []manifest.Problem
	for _, r := range m.Resources {
		name, ships := strings.CutPrefix(r.Type, Prefix)
		if !ships {
			continue
		}
		p := manifest.Problem{Position: r.Position, Path: "resources." + r.Name + ".type"}
		if tag := strings.IndexAny(name, ":@"); tag > 0 {
			if _, known := Lookup(name[:tag]); known {
				p.Message = fmt.Sprintf("%q would be an image in a registry; the type that ships with Deployster is of its version and has no tag: write %s%s", r.Type, Prefix, name[:tag])
				problems = append(problems, p)
			}
		}
		if _, known := Lookup(name); known || strings.ContainsAny(name, ":@/") {
			continue
		}
		p.Message = fmt.Sprintf("%q is not a type that ships with this version; those are %s", r.Type, strings.Join(Names(), ", "))
		p.Hint = suggest.Closest(name, Names())
		problems = append(problems, p)
	}
	return problems
}

// Misuse finds configurations that break the schema of their type, and plugs
// that are missing or not allowed. It is what a run would say, before it begins.
func (c Check) Misuse() ([]manifest.Problem, error) {
	var problems []manifest.Problem
	answers := map[string]*inits.Type{} // by type; nil is not known
	for _, r := range c.Manifest.Resources {
		answer, asked := answers[r.Type]
		if !asked {
			var err error
			if answer, err = c.answer(r.Type); err != nil {
				return nil, err
			}
			answers[r.Type] = answer
		}
		if answer == nil {
			continue
		}
		_, _, missing := plugs.Mount(c.Manifest, r, answer.Plugs, "", nil)
		problems = append(problems, missing...)
		if answer.Schema == nil {
			continue
		}
		e := c.resolveEarly(r)
		e.config = r.Fit(e.config, manifest.Scope{Expressions: c.Expressions, Variables: c.Variables}, func(config map[string]any) []schema.Violation {
			return answer.Schema.ValidatePartly(config, e.unknown)
		})
		for _, v := range answer.Schema.ValidatePartly(e.config, e.unknown) {
			problems = append(problems, r.Broken(v))
		}
	}
	return repeated.Once(problems), nil
}

// Unmatched finds paths to ignore that the schemas of types forbid.
func (c Check) Unmatched() ([]diff.Unmatched, error) {
	var all []diff.Ignoring
	for _, r := range c.Manifest.Resources {
		if len(r.IgnoreChanges)+len(r.IgnoreDrift) == 0 {
			continue
		}
		answer, err := c.answer(r.Type)
		if err != nil {
			return nil, err
		}
		if answer != nil {
			one := diff.Ignoring{Resource: r.Name, Config: c.resolveEarly(r).config, Accepts: answer.Schema}
			changes, drift := one, one
			changes.Setting, changes.Paths = "ignore_changes", r.IgnoreChanges
			drift.Setting, drift.Paths = "ignore_drift", r.IgnoreDrift
			all = append(all, changes, drift)
		}
	}
	return diff.FindUnmatched(all), nil
}

// answer is what is known of a type; nil is nothing.
func (c Check) answer(ref string) (*inits.Type, error) {
	if t, ok := typeOf(ref); ok {
		s, err := schema.CompileConfig(t.Schema)
		if err != nil {
			return nil, fmt.Errorf("reading the schema of %s: %w", ref, err)
		}
		return &inits.Type{Plugs: t.Plugs, ConfigSchema: t.Schema, Schema: s}, nil
	}
	if c.Answered == nil {
		return nil, nil
	}
	answer, ok := c.Answered(ref)
	if !ok {
		return nil, nil
	}
	return &answer, nil
}

// Conflicts finds resources that manage one thing, as far as types that ship and
// configurations tell without a run: each would undo what the other did. A
// readonly one only observes.
func (c Check) Conflicts() []manifest.Problem {
	first := map[string]*manifest.Resource{}
	var problems []manifest.Problem
	for _, r := range c.inOrder() {
		t, ok := typeOf(r.Type)
		if !ok || r.ReadOnly {
			continue
		}
		property, thing := t.Identify(r.Name, c.resolveEarly(r).config)
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
	return problems
}

// Thing is what a resource manages of which there is one.
type Thing struct {
	Resource *manifest.Resource
	Key      string // equal for one thing, whatever manifest manages it; "" is not known
	Name     string // such as "container web"
}

// Things are what resources manage, as far as types that ship and configurations tell
// without a run. The same name on the engine of another plug is another thing; a file is
// one thing, below whichever plug it is found. Of types that do not ship it is not known.
func (c Check) Things() (things []Thing) {
	for _, r := range c.inOrder() {
		t, ships := typeOf(r.Type)
		if r.ReadOnly || ships && t.identify == nil {
			continue
		}
		found := Thing{Resource: r}
		if ships {
			config := c.resolveEarly(r).config
			_, found.Name = t.Identify(r.Name, config)
			found.Key = c.key(t, r, found.Name, config)
		}
		things = append(things, found)
	}
	return things
}

// inOrder are the resources as they are written.
func (c Check) inOrder() []*manifest.Resource {
	return slices.SortedStableFunc(slices.Values(c.Manifest.Resources), func(a, b *manifest.Resource) int {
		return cmp.Or(cmp.Compare(slices.Index(c.Manifest.Files, a.Position.File), slices.Index(c.Manifest.Files, b.Position.File)),
			cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
}
