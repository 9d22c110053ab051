package manifest

import (
	"errors"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/schema"
)

// Scope is what expressions see, beside what the manifest itself says.
type Scope struct {
	Expressions *expression.Evaluator
	Variables   map[string]any
	State       func(resource string) any // what they see of a resource; nil is nothing of any
	Hide        func(value any)           // is called with each value that a module is given and that may not be shown, before it is used; may be nil

	// Show is what may be seen of a value that a module is given or tells, which is secret as a whole or may
	// have parts that are; nil shows all to expressions.
	Show func(value any, secret bool) any
}

// Resolve evaluates a part of the configuration of a resource. What is wrong elsewhere, as with
// what a module tells, is an *Error.
func (r *Resource) Resolve(part any, s Scope) (any, error) {
	return newEvaluation(s).evaluate(r.module, part, r.Each, r.aliases())
}

// evaluation evaluates one value, and what that reads of modules, each once.
type evaluation struct {
	Scope
	known   map[stands]result
	instead map[string]any // variables in the place of those of the scope or module; nil is none
}

type result struct {
	value any
	err   error
}

func newEvaluation(s Scope) *evaluation { return &evaluation{Scope: s, known: map[stands]result{}} }

func (s *evaluation) once(of stands, find func() (any, error)) (any, error) {
	if known, ok := s.known[of]; ok {
		return known.value, known.err
	}
	value, err := find()
	s.known[of] = result{value, err}
	return value, err
}

// evaluate evaluates what is written in a module, where aliases stand for something. What it
// does not read is not evaluated: that may wait for what is not there yet.
func (s *evaluation) evaluate(m *Module, written any, each *Each, aliases map[string]stands) (any, error) {
	variables := s.Variables
	if m != nil {
		variables = s.given(m)
	}
	if s.instead != nil {
		variables = s.instead
	}
	names := make(map[string]any, len(variables)+4)
	maps.Copy(names, variables)
	if each != nil {
		names[eachName] = each.seen()
	}
	if s.State != nil {
		var reads func(string) bool // found out only where it matters
		for name, behind := range aliases {
			if _, cheap := behind.(single); !cheap {
				if reads == nil {
					reads = mentions(m.within(s.Expressions), written)
				}
				if !reads(name) {
					continue
				}
			}
			var err error
			if names[name], err = behind.value(s); err != nil {
				return nil, err
			}
		}
	}
	return m.within(s.Expressions).Resolve(written, names)
}

// given are the variables of a module whose values are known.
func (s *evaluation) given(m *Module) map[string]any {
	if s.Show == nil {
		return m.variables
	}
	shown := maps.Clone(m.variables)
	for _, d := range m.declared {
		if value, known := shown[d.Name]; known {
			shown[d.Name] = s.Show(value, d.Secret)
		}
	}
	return shown
}

// show is what may be seen of a value.
func (s *evaluation) show(value any, secret bool) any {
	if s.Show == nil {
		return value
	}
	return s.Show(value, secret)
}

// mentions returns which names something may read. What may include files that are not known
// may read any.
func mentions(e *expression.Evaluator, written any) func(name string) bool {
	names, all, err := e.Names(written, nil)
	possible, failed := e.Possible(written)
	all = all || err != nil || failed != nil || len(possible.Directories) > 0
	return func(name string) bool { return all || names[name] }
}

// Needs returns the resources whose states a part of the configuration reads, sorted.
func (r *Resource) Needs(part any, e *expression.Evaluator) ([]string, error) {
	s := &search{
		found: map[string]bool{}, done: map[stands]bool{},
		reads: func(m *Module, written any, name string) (bool, error) { return m.within(e).Reads(written, name) },
	}
	err := s.follow(r.module, part, r.aliases())
	return slices.Sorted(maps.Keys(s.found)), err
}

// search follows what is read, also of modules and in them, to the resources behind it.
type search struct {
	reads func(m *Module, written any, name string) (bool, error)
	seen  func(m *Module, written any) error // is called with all that is followed; may be nil
	found map[string]bool                    // names of resources
	done  map[stands]bool
}

// follow follows what is written in a module, where aliases stand for something.
func (s *search) follow(m *Module, written any, aliases map[string]stands) error {
	if s.seen != nil {
		if err := s.seen(m, written); err != nil {
			return err
		}
	}
	for name, behind := range aliases {
		reads, err := s.reads(m, written, name)
		if err == nil && reads {
			err = behind.follow(s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *search) once(of stands, follow func() error) error {
	if s.done[of] {
		return nil
	}
	s.done[of] = true
	return follow()
}

// Made returns what the part of the configuration at a path is made of, as it is written in the
// manifest itself: the part, or the expression around it, and, where that reads each, what the
// instances are made from; in a module, what that is given of which they read.
func (r *Resource) Made(e *expression.Evaluator, path ...string) any {
	var part any = r.Config
	for n := len(path); n > 0; n-- {
		if within := schema.Within(r.Config, path[:n]); within != nil {
			part = within
			break
		}
	}
	made := withEach(r.module.within(e), part, r.ForEach)
	for m := r.module; m != nil; m = m.parent {
		made = m.outside(made, e)
	}
	return made
}

// withEach adds to what is written what its for_each says, where it reads each.
func withEach(e *expression.Evaluator, written, forEach any) any {
	if forEach == nil {
		return written
	}
	if reads, err := e.Reads(written, eachName); !reads && err == nil {
		return written
	}
	return []any{written, forEach}
}

// outside is what something in a module is made of, as it is written where the module is called.
func (m *Module) outside(written any, e *expression.Evaluator) any {
	read, parts := map[string]bool{}, []any{written}
	for more := parts; len(more) > 0; { // defaults read other variables
		reads := mentions(m.within(e), more)
		more = nil
		for _, d := range m.declared {
			if reads(d.Name) && !read[d.Name] {
				read[d.Name] = true
				more = append(more, d.Written)
			}
		}
	}
	var given []any
	for _, n := range m.call.vars {
		if read[n.Name] {
			value, _ := n.Any()
			given = append(given, value)
		}
	}
	return withEach(m.parent.within(e), given, m.call.forEach)
}

// Possible is what the configuration of a resource may include, whatever it reads of modules and
// is given in one.
func (r *Resource) Possible(e *expression.Evaluator) (Inclusions, error) {
	all := Inclusions{}
	s := &search{
		found: map[string]bool{}, done: map[stands]bool{},
		reads: func(*Module, any, string) (bool, error) { return true, nil }, // nobody knows what is read in such files
		seen: func(m *Module, written any) error {
			u, err := m.within(e).Possible(written)
			all.add(m.directory(), u)
			return err
		},
	}
	return all, s.follow(r.module, any(r.Config), r.aliases())
}

// placed is an error at its place in the file, where it does not say its own.
func placed(n *yamlfile.Node, err error) error {
	var already *Error
	if errors.As(err, &already) {
		return err
	}
	return &Error{Problems: []Problem{Failure(n, err)}}
}
