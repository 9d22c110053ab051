package work

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
)

// present is a variable that a revision carries, with its present value where it is secret.
type present struct {
	vars.Assignment
	other error // why that is not certainly the value that the revision has; nil where it is
	gone  bool  // it has no value at present
}

// present are the variables that a revision carries, as they are at present; nil of one
// that carries none.
func (i Inputs) present(t Texts, files map[string]string) ([]present, error) {
	carried, ok, err := t.variables(files)
	if err != nil || !ok {
		return nil, err
	}
	r := references{inputs: i, texts: t, salt: carried.Salt, files: map[string]secretFile{}}
	return i.resolved(carried.Variables, func(p *present, v revision.Variable) { p.gone, p.other = r.present(&p.Assignment, v) })
}

// supposed are the variables that a revision carries, with a text of their own for each that is secret: what follows
// from them tells nothing of a secret.
func (i Inputs) supposed(t Texts, files map[string]string, instead func(name string) string) ([]present, error) {
	carried, ok, err := t.variables(files)
	if err != nil || !ok {
		return nil, err
	}
	return i.resolved(carried.Variables, func(p *present, v revision.Variable) { p.Value = instead(v.Name) })
}

// resolved are variables as a revision carries them; secret resolves those of which it carries only a hash.
func (i Inputs) resolved(carried []revision.Variable, secret func(*present, revision.Variable)) (all []present, err error) {
	all = []present{}
	for _, v := range carried {
		p := present{Assignment: vars.Assignment{Name: v.Name, File: v.File, Whole: v.Whole, From: v.From, At: manifest.Position{File: v.File}}}
		switch {
		case v.Secret != "":
			secret(&p, v)
		case v.Text != nil:
			p.Value, p.At.File = *v.Text, cmp.Or(v.From, "--var "+v.Name)
		case v.YAML != "":
			p.Assignment, err = p.Rewritten(v.YAML)
		default:
			p.Value, err = revision.Value(v.Value)
		}
		if err != nil {
			return nil, &InputError{fmt.Errorf("variable %s: %w", v.Name, err)}
		}
		if p.other != nil {
			p.other = &InputError{fmt.Errorf("variable %s: %w", v.Name, p.other)}
		}
		all = append(all, p)
	}
	return all, nil
}

// different is why the first variable is not certainly what it was; nil where all are.
func different(all []present) error {
	for _, p := range all {
		if p.other != nil {
			return p.other
		}
	}
	return nil
}

func assignments(all []present) []vars.Assignment {
	if all == nil {
		return nil
	}
	out := []vars.Assignment{}
	for _, p := range all {
		out = append(out, p.Assignment)
	}
	return out
}

func isGone(p present) bool      { return p.gone }
func isDifferent(p present) bool { return p.other != nil }

// without are the variables whose values do not depend on some, and the names of the others.
// Each value is evaluated with what is assigned before it.
func without(all []present, files expression.Files, names []string, some func(present) bool) (rest []vars.Assignment, others []string) {
	evaluator, depend := expression.Over(files), map[string]bool{}
	rest = []vars.Assignment{}
	for _, p := range all {
		dropped := some(p) || depend[p.Name] && mayMerge(p.Value)
		if !dropped && len(depend) > 0 {
			reads, err := evaluator.MayRead(p.Value, names, slices.Collect(maps.Keys(depend))...)
			dropped = reads || err != nil
		}
		if !dropped {
			delete(depend, p.Name)
			rest = append(rest, p.Assignment)
			continue
		}
		depend[p.Name] = true
		rest = slices.DeleteFunc(rest, func(a vars.Assignment) bool { return a.Name == p.Name })
	}
	return rest, slices.Sorted(maps.Keys(depend))
}

// mayMerge reports whether a value may be a mapping, of which the variable keeps what it had before.
func mayMerge(value any) bool {
	text, is := value.(string)
	_, mapping := value.(map[string]any)
	return mapping || is && strings.HasPrefix(strings.TrimSpace(text), "{")
}

// presently are the variables for a task that is not applied but only observed, or removed:
// a secret may have another value since, or it could be neither seen nor stopped after its
// secret was changed. Which things are its own must not depend on that: they would be others. What is gone is no hindrance to removing what is found by its name alone.
func (w *TaskWorker) presently(t tasks.Task, source manifest.Source, o LoadOptions, removing bool) (_ LoadOptions, err error) {
	all, err := w.present(w.Texts, t.Spec.Includes)
	if err != nil {
		return o, err
	}
	cause := different(all)
	if cause == nil {
		o.Assigned = assignments(all)
		return o, nil
	}
	o.Partly = true
	names := slices.Sorted(maps.Keys(TaskFiles(t.Spec)))
	o.Assigned, o.doubtful = without(all, o.Included, names, isDifferent)
	certain, err := w.load(t, source, o)
	if err != nil {
		return o, cause
	}
	for i := range all {
		if all[i].gone {
			all[i].Value = ""
		}
	}
	// What is said of a value that is none might show a part of it.
	o.Assigned = assignments(all)
	in, err := w.load(t, source, o)
	same := func(a, b shipped.Thing) bool { return a.Key == b.Key }
	if err != nil || !slices.EqualFunc(certain.shipped().Things(), in.shipped().Things(), same) {
		return o, cause
	}
	_, gone := without(all, o.Included, names, isGone)
	if len(gone) > 0 && (!removing || in.needs(gone, names)) {
		return o, cause
	}
	o.Partly = false
	return o, nil
}

// needs reports whether removing what is in the manifest may need variables: not where it
// is found by the name that its type gives it.
func (in *Input) needs(variables, files []string) bool {
	found := in.shipped().Things()
	return slices.ContainsFunc(in.Manifest.Resources, func(r *manifest.Resource) bool {
		named := func(t shipped.Thing) bool { return t.Resource == r && t.Key != "" }
		return in.reads(r, files, variables) && !slices.ContainsFunc(found, named)
	})
}

// reads reports whether the configuration of a resource may read variables, if only by the
// defaults of others.
func (in *Input) reads(r *manifest.Resource, files, variables []string) bool {
	variables = slices.Clone(variables)
	for before := -1; before < len(variables); {
		before = len(variables)
		for _, d := range in.Manifest.Variables {
			written, _ := d.Default()
			reads, err := in.Expressions.MayRead(written, files, variables...)
			if (reads || err != nil) && !slices.Contains(variables, d.Name) {
				variables = append(variables, d.Name)
			}
		}
	}
	reads, err := in.Expressions.MayRead(r.Made(in.Expressions), files, variables...)
	return reads || err != nil
}

// doubts reports whether a resource of a task may be desired to be something else than its
// revision says, as it reads a secret that has another value since.
func (in *Input) doubts(t tasks.Task, resource string) bool {
	r := in.Manifest.Stands(resource)
	return len(in.doubtful) > 0 && r != nil && in.reads(r, slices.Sorted(maps.Keys(TaskFiles(t.Spec))), in.doubtful)
}
