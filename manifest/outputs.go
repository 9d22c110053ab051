package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Output is a value that a manifest tells whoever applied it. Its expressions see the
// variables and every resource, by its name with dashes as underscores.
type Output struct {
	Name        string
	Description string
	WriteOnly   bool // it is shown to nobody who does not name it
	Value       any  // expressions unresolved
	Position    Position

	node   *yamlfile.Node    // of the value
	module *Module           // that it is of; nil is the manifest
	reads  map[string]stands // names that it reads, and what they stand for
}

// Resources returns the names of the resources that an output reads, sorted.
func (o *Output) Resources() (names []string) {
	for _, s := range o.reads {
		names = append(names, s.resources()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Resolve evaluates an output. It fails with an *Error.
func (o *Output) Resolve(s Scope) (any, error) { return o.value(newEvaluation(s)) }

func (o *Output) value(s *evaluation) (any, error) {
	value, err := s.evaluate(o.module, o.Value, nil, o.reads)
	if err != nil {
		return nil, placed(o.node, err)
	}
	return value, nil
}

// output reads an output: its value alone, or a mapping with it.
func (l *loader) output(n *yamlfile.Node) {
	o := &Output{Name: n.Name, Position: n.NameAt, node: n, module: l.module}
	if i := slices.IndexFunc(l.manifest.Outputs, func(other *Output) bool { return other.Name == n.Name }); i >= 0 {
		n.FailName("the output %q is already defined at %s", n.Name, l.manifest.Outputs[i].Position)
		return
	}
	if !validName().MatchString(n.Name) {
		n.FailName("%q cannot be the name of an output: %s", n.Name, nameRule)
	}
	if n.Kind == yamlfile.Mapping {
		fields, _ := n.Fields("an output", "value", "description", "writeOnly")
		if o.node = fields["value"]; o.node == nil {
			n.FailName("the output has no value; to give it a mapping, write that below value")
			return
		}
		if at := fields["description"]; at != nil {
			o.Description, _ = readText(at, "text")
		}
		if at := fields["writeOnly"]; at != nil {
			var ok bool
			if o.WriteOnly, ok = at.Bool(); !ok && at.Kind != yamlfile.Nothing {
				at.Fail("must be true or false, not %s", KindOf(at))
			}
		}
	}
	o.Value, _ = o.node.Any()
	l.manifest.Outputs = append(l.manifest.Outputs, o)
}

// outputs finds what the names in outputs stand for, and sorts them. When a file could not be
// read, what is missing is not reported.
func (l *loader) outputs(broken bool) {
	slices.SortFunc(l.manifest.Outputs, func(a, b *Output) int { return strings.Compare(a.Name, b.Name) })
	if len(l.manifest.Outputs) == 0 {
		return
	}
	known := map[string][]string{} // names of what is declared, by how expressions call them
	resources := map[string]string{}
	for name := range l.declared {
		known[underscored(name)] = append(known[underscored(name)], name)
		resources[underscored(name)] = name
	}
	for _, o := range l.manifest.Outputs {
		o.reads = map[string]stands{}
		maps.Copy(o.reads, l.module.waiting())
		for text := range o.node.Texts() {
			usage, err := l.opts.Evaluator.Examine(text.Value)
			if err != nil {
				l.found.Add(Failure(text, err))
				continue
			}
			for _, name := range usage.Mentions {
				if len(known[name]) > 0 {
					l.stands(o, text, name, known[name])
				}
			}
			l.opts.Usage.Add(usage, resources)
			var minus []string // what follows the dashes of names that cannot be read
			for _, ref := range usage.Refs {
				if len(known[ref.Name]) > 0 || l.isVariable(ref.Name) || ref.Optional || broken || l.opts.Partly || l.found.Full() || slices.Contains(minus, ref.Name) {
					continue
				}
				p, written := l.unknownTo(ref.Name, text.Value, slices.Collect(maps.Keys(known)))
				minus = append(minus, strings.Split(written, "-")[1:]...)
				p.Position, p.Path = within(text, ref.Line, ref.Column), text.Path()
				l.found.Add(p)
			}
		}
	}
}

func underscored(name string) string { return strings.ReplaceAll(name, "-", "_") }

// stands finds what a name stands for in an output that reads it.
func (l *loader) stands(o *Output, text *yamlfile.Node, name string, declared []string) {
	if len(declared) > 1 {
		slices.Sort(declared)
		text.Fail("%q may be each of %s; rename one of them", name, phrase.List(declared))
		return
	}
	if l.isVariable(name) {
		text.Fail("%q is the name of a resource and of a variable; rename one of them", name)
		return
	}
	x := l.manifest.declared[declared[0]]
	switch {
	case x == nil || x.bad: // it is reported
	case x.many || x.off == "":
		o.reads[name] = x.stands("")
	default:
		l.askWhetherOn(text, name, declared[0], x)
	}
}

// askWhetherOn reports an output that reads what is off without asking whether it is.
func (l *loader) askWhetherOn(text *yamlfile.Node, name, declared string, x *expansion) {
	refs, err := l.opts.Evaluator.Check(text.Value)
	i := slices.IndexFunc(refs, func(r expression.Ref) bool { return r.Name == name })
	if err != nil || i < 0 || refs[i].Optional {
		return
	}
	l.found.Add(Problem{
		Position: within(text, refs[i].Line, refs[i].Column), Path: text.Path(),
		Message: fmt.Sprintf("the resource %q is off: %s; ask whether %q is defined", declared, x.off, name),
	})
}

// unknownTo says that a name in an output is not defined, and what was probably meant, which
// is returned as it is written.
func (l *loader) unknownTo(name, text string, resources []string) (Problem, string) {
	what := fmt.Sprintf("%.60q is not defined", name)
	variables := l.variableNames()
	if written := cmp.Or(dashed(name, text, l.names()), dashed(name, text, variables)); written != "" {
		return Problem{Message: fmt.Sprintf("%s: in an expression the dash of %q is a minus; call it %q", what, written, underscored(written))}, written
	}
	defined := slices.Compact(slices.Sorted(slices.Values(slices.Concat(resources, variables))))
	if len(defined) == 0 {
		return Problem{Message: what + "; nothing is"}, name
	}
	return Problem{Message: what + "; defined are " + phrase.List(defined), Hint: suggest.Closest(name, defined)}, name
}
