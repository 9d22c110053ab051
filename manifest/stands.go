package manifest

import (
	"maps"
	"slices"

	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/declaration"
)

// stands is what a name in an expression stands for, other than a variable that is known.
type stands interface {
	value(s *evaluation) (any, error) // what expressions see
	follow(s *search) error           // to the resources whose states that takes
	resources() []string              // those that must be verified before it is used
	definition() any                  // what counts of it in a hash
}

// single is a resource, by its name.
type single string

func (n single) value(s *evaluation) (any, error) { return s.State(string(n)), nil }
func (n single) follow(s *search) error           { s.found[string(n)] = true; return nil }
func (n single) resources() []string              { return []string{string(n)} }
func (n single) definition() any                  { return n }

// instances are all those of a resource that has for_each: their names by key.
type instances map[string]string

func (i instances) value(s *evaluation) (any, error) {
	all := make(map[string]any, len(i))
	for key, name := range i {
		all[key] = s.State(name)
	}
	return all, nil
}

func (i instances) follow(s *search) error {
	for _, name := range i {
		s.found[name] = true
	}
	return nil
}

func (i instances) resources() []string { return slices.Collect(maps.Values(i)) }
func (i instances) definition() any     { return i }

// value is what whoever calls a module sees of it: its outputs.
func (m *Module) value(s *evaluation) (any, error) {
	return s.once(m, func() (any, error) {
		told := make(map[string]any, len(m.outputs))
		for _, o := range m.outputs {
			value, err := o.value(s)
			if err != nil {
				return nil, err
			}
			told[o.Name] = s.show(value, o.WriteOnly)
		}
		return told, nil
	})
}

func (m *Module) follow(s *search) error {
	return s.once(m, func() error {
		for _, o := range m.outputs {
			if err := s.follow(m, o.Value, o.reads); err != nil {
				return err
			}
		}
		return nil
	})
}

// resources are all that are in a module, which wait for what the module waits for. With
// none in it, they are those.
func (m *Module) resources() []string {
	if len(m.contains) == 0 {
		return m.after()
	}
	return m.contains
}

func (m *Module) definition() any { return m.tells }

// modules are all instances of a module that is called with for_each, by key.
type modules map[string]*Module

func (all modules) value(s *evaluation) (any, error) {
	told := make(map[string]any, len(all))
	for key, m := range all {
		var err error
		if told[key], err = m.value(s); err != nil {
			return nil, err
		}
	}
	return told, nil
}

func (all modules) follow(s *search) error {
	for _, m := range all {
		if err := m.follow(s); err != nil {
			return err
		}
	}
	return nil
}

func (all modules) resources() (names []string) {
	for _, m := range all {
		names = append(names, m.resources()...)
	}
	return names
}

func (all modules) definition() any {
	definitions := make(map[string]any, len(all))
	for key, m := range all {
		definitions[key] = m.definition()
	}
	return definitions
}

// late is a variable of a module whose value reads what stands for something.
type late struct {
	*declaration.Variable
	node    *yamlfile.Node // the value, in the call of the module, or the default
	written any
	in      *Module           // in which that is written; nil is the manifest itself
	each    *Each             // of the call
	reads   map[string]stands // names that it may read
}

func (v *late) value(s *evaluation) (any, error) {
	return s.once(v, func() (any, error) {
		value, err := s.evaluate(v.in, v.written, v.each, v.reads)
		if err != nil {
			return nil, placed(v.node, err)
		}
		v.Hide(value, s.Hide)
		if problems := v.Broken(value, declaration.Place{Position: v.node.Position, Node: v.node}); len(problems) > 0 {
			return nil, &Error{Problems: problems}
		}
		return s.show(value, v.Secret), nil
	})
}

func (v *late) follow(s *search) error {
	return s.once(v, func() error { return s.follow(v.in, v.written, v.reads) })
}

func (v *late) resources() []string { return nil } // whatever is in the module waits for all that its call depends on
func (v *late) definition() any     { return v.written }

// stands is what an expansion is for who reads it, or the instance of a key.
func (x *expansion) stands(key string) stands {
	all := x.many && key == ""
	switch {
	case x.late:
		return expanded(x.names[""])
	case x.modules != nil && all:
		return x.modules
	case x.modules != nil:
		return x.modules[key]
	case all:
		return instances(x.names)
	}
	return single(x.names[key])
}
