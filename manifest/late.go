package manifest

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/address"
)

// Late is what the instances of a resource are made from whose for_each reads the state of a
// dependency: they are known only once that is there. Until then the resource is one that stands
// for all of them. Resource.Expand makes them, and has no other effect.
type Late struct {
	forEach, when *yamlfile.Node
	keyed         map[string]keyed // aliases of instances by each.key; the alias of the resource is all of them
	only          []string         // keys of the instances that are selected; nil is all
}

// keyed is the instance of another resource by an expression.
type keyed struct {
	of      *expansion
	written string // its key
	alias   *yamlfile.Node
}

// expanded are all instances of a late resource, of its name. Expressions see a mapping by key.
type expanded string

func (n expanded) value(s *evaluation) (any, error) { return s.State(string(n)), nil }
func (n expanded) follow(s *search) error           { s.found[string(n)] = true; return nil }
func (n expanded) resources() []string              { return []string{string(n)} }
func (n expanded) definition() any                  { return n }

// member is the instance of a late resource that has a key.
type member struct {
	of, key string
	alias   *yamlfile.Node
}

func (m member) value(s *evaluation) (any, error) {
	seen := s.State(m.of)
	all, known := seen.(map[string]any)
	if !known {
		return seen, nil // it stands for what is not known yet
	}
	one, there := all[m.key]
	if !there {
		return nil, &Error{Problems: []Problem{noInstance(m.alias, m.of, m.key, slices.Sorted(maps.Keys(all)))}}
	}
	return one, nil
}

func (m member) follow(s *search) error { s.found[m.of] = true; return nil }
func (m member) resources() []string    { return []string{m.of} }
func (m member) definition() any        { return address.Instance(m.of, m.key) }

// waits reports whether the for_each of a resource reads what is known only late. That of a module
// must not.
func (l *loader) waits(p *pending) bool {
	if p.forEach == nil || p.call != nil {
		return false
	}
	for text := range p.forEach.Texts() {
		usage, err := l.opts.Evaluator.Examine(text.Value)
		if err != nil {
			return false // which is reported
		}
		for _, ref := range usage.Refs {
			if _, alias := p.Dependencies[ref.Name]; alias || l.isLate(ref.Name) {
				return true
			}
		}
	}
	return false
}

// wait adds a late resource.
func (l *loader) wait(p *pending, x *expansion) {
	x.late, x.bad = true, true
	if l.isVariable(eachName) {
		p.forEach.FailName(`where there is for_each, no variable can be called "each"; rename it`)
		return
	}
	r := *p.Resource
	r.Name, r.module, r.Late = l.address(p.Name), l.module, &Late{forEach: p.forEach, when: p.when, keyed: map[string]keyed{}}
	off, ok := l.depends(p, &r)
	if !ok || !l.counted(p) {
		return
	}
	maps.Copy(p.off, off)
	if n := p.when; n != nil && n.Kind != yamlfile.Boolean && (n.Kind != yamlfile.Text || !expression.IsTemplate(n.Value)) {
		n.Fail("must be true or false, or an expression that comes to one of them, not %s", KindOf(n))
		return
	}
	for _, n := range []*yamlfile.Node{p.forEach, p.when} {
		ok = (n == nil || l.known(p, n)) && ok
	}
	if ok {
		x.bad, x.names[""] = false, r.Name
		l.manifest.Resources = append(l.manifest.Resources, &r)
		l.manifest.resources[r.Name] = &r
	}
}

// known reports the names that are not defined in what is evaluated late, and whether there are none.
func (l *loader) known(p *pending, n *yamlfile.Node) (ok bool) {
	ok = true
	for text := range n.Texts() {
		usage, err := l.opts.Evaluator.Examine(text.Value)
		if err != nil {
			l.found.Add(Failure(text, err))
			ok = false
			continue
		}
		l.opts.Usage.Add(usage, p.Dependencies)
		ok = (l.opts.Partly || l.references(p, text, usage.Refs, false)) && ok
	}
	return ok
}

// standsLate reports whether a dependency, as it is written, is a late resource, or an
// instance of one.
func (l *loader) standsLate(written string) bool {
	of, _, _ := address.Written(written)
	x := l.manifest.declared[of]
	return x != nil && x.late
}

// Decides are the expressions, as they are written, that decide which instances a late resource has.
func (r *Resource) Decides() []any {
	written := []any{r.ForEach}
	if r.Late.when != nil {
		on, _ := r.Late.when.Any()
		written = append(written, on)
	}
	for _, k := range r.Late.keyed {
		written = append(written, k.written)
	}
	return written
}

// After are the resources that must be verified before this one, sorted.
func (r *Resource) After() []string { return r.after() }

// Room is how many instances the late resources of a manifest may still have. It is safe for concurrent
// use.
type Room struct{ left atomic.Int64 }

// Room is what the other resources of the manifest leave.
func (m *Manifest) Room() *Room {
	r := &Room{}
	r.left.Store(int64(maxInstances - len(m.Resources)))
	return r
}

// take takes room for instances, if there is enough.
func (r *Room) take(instances int) bool {
	if r.left.Add(-int64(instances)) >= 0 {
		return true
	}
	r.left.Add(int64(instances))
	return false
}

// Expand makes the instances of a late resource, of what its dependencies are. secret reports whether
// a text holds what may not be shown. It fails with an *Error, as where there is no room for them.
func (r *Resource) Expand(s Scope, secret func(text string) bool, room *Room) ([]*Resource, error) {
	from := r.Late.forEach
	s.State = once(s.State)
	resolved, err := r.Resolve(r.ForEach, s)
	if err != nil {
		return nil, placed(from, err)
	}
	if n := size(resolved); !room.take(n) {
		return nil, &Error{Problems: []Problem{*problemAt(from, tooMany, n, maxInstances)}}
	}
	all, wrong := members(from, resolved, secret)
	if wrong != nil {
		return nil, &Error{Problems: []Problem{*wrong}}
	}
	made := make([]*Resource, 0, len(all))
	keys := make([]string, 0, len(all))
	for i := range all {
		one, on, err := r.instance(&all[i], s)
		if err != nil {
			return nil, err
		}
		if on {
			made, keys = append(made, one), append(keys, all[i].Key)
		}
	}
	room.left.Add(int64(len(all) - len(made))) // of those that are off
	for _, key := range r.Late.only {
		if !slices.Contains(keys, key) {
			return nil, &Error{Problems: []Problem{noInstance(from, r.Name, key, keys)}}
		}
	}
	return made, nil
}

// At is where the for_each is written.
func (l *Late) At() Position { return l.forEach.Position }

// NoInstance says that a late resource does not come to an instance of a name, but to others.
func (r *Resource) NoInstance(name string, made []*Resource) error {
	var keys []string
	for _, one := range made {
		keys = append(keys, one.Each.Key)
	}
	_, key, _ := address.Split(name)
	return &Error{Problems: []Problem{noInstance(r.Late.forEach, r.Name, key, keys)}}
}

// Selects reports whether an instance of a late resource is one of those that Manifest.Select named.
func (r *Resource) Selects(key string) bool {
	return r.Late.only == nil || slices.Contains(r.Late.only, key)
}

// instance is one of a late resource, and whether it is on.
func (r *Resource) instance(each *Each, s Scope) (_ *Resource, on bool, err error) {
	one := *r
	one.Late, one.Name, one.Of, one.Each = nil, address.Instance(r.Name, each.Key), r.Name, each
	one.Dependencies, one.Instances, one.called = maps.Clone(r.Dependencies), maps.Clone(r.Instances), maps.Clone(r.called)
	for name, k := range r.Late.keyed {
		if err := one.dependByKey(name, k, s); err != nil {
			return nil, false, err
		}
	}
	if err := one.dependOnMembers(s); err != nil {
		return nil, false, err
	}
	if r.Late.when == nil {
		return &one, true, nil
	}
	written, _ := r.Late.when.Any()
	value, err := one.Resolve(written, s)
	if err != nil {
		return nil, false, placed(r.Late.when, err)
	}
	on, is := value.(bool)
	if !is {
		return nil, false, &Error{Problems: []Problem{
			*problemAt(r.Late.when, "must be true or false, or an expression that comes to one of them, not %s", kindOfValue(value)),
		}}
	}
	return &one, on, nil
}

// dependByKey has an alias stand for the one instance of another resource that it means.
func (r *Resource) dependByKey(name string, k keyed, s Scope) error {
	value, err := r.Resolve(k.written, s)
	if err != nil {
		return placed(k.alias, err)
	}
	of, _, _ := address.Written(k.alias.Value)
	key, ok := address.Key(value)
	if !ok {
		return &Error{Problems: []Problem{*problemAt(k.alias, "%s of %s comes to %s, which is no key", k.written, r.Name, kindOfValue(value))}}
	}
	delete(r.Instances, name)
	delete(r.called, name)
	found, there := k.of.names[key]
	switch {
	case r.depend(k.alias, k.of, key, true):
	case there:
		r.Dependencies[name] = found
	default:
		return &Error{Problems: []Problem{noInstance(k.alias, of, key, k.of.keys)}}
	}
	return nil
}

// dependOnMembers has aliases stand for instances of late resources, where these are known by now.
func (r *Resource) dependOnMembers(s Scope) error {
	for name, behind := range r.called {
		m, is := behind.(member)
		if !is {
			continue
		}
		if _, known := s.State(m.of).(map[string]any); !known {
			continue
		}
		if _, err := m.value(newEvaluation(s)); err != nil {
			return err
		}
		delete(r.called, name)
		r.Dependencies[name] = address.Instance(m.of, m.key)
	}
	return nil
}

// once is a function that is called once for each argument.
func once(of func(string) any) func(string) any {
	known := map[string]any{}
	return func(name string) any {
		value, ok := known[name]
		if !ok {
			value = of(name)
			known[name] = value
		}
		return value
	}
}

func problemAt(n *yamlfile.Node, format string, args ...any) *Problem {
	return &Problem{Position: n.Position, Path: n.Path(), Message: fmt.Sprintf(format, args...)}
}

// definition is what counts in a hash of what makes the instances.
func (l *Late) definition(r *Resource) any {
	if l == nil {
		return nil
	}
	keys := map[string]string{}
	for name, k := range l.keyed {
		keys[name] = k.alias.Value
	}
	decides := []any{r.ForEach, keys}
	if l.when != nil {
		on, _ := l.when.Any()
		decides = append(decides, on)
	}
	return decides
}

// Has reports whether the manifest declares what is called by a name, or may.
func (m *Manifest) Has(name string) bool {
	r := m.Stands(name)
	if r == nil || r.Name == name {
		return r != nil
	}
	_, key, _ := address.Split(name)
	return r.Selects(key)
}

// Stands returns the resource of the manifest that stands for one: itself, or the late one that it
// is an instance of. It is nil where there is none.
func (m *Manifest) Stands(name string) *Resource {
	if r := m.resources[name]; r != nil {
		return r
	}
	if r := m.resources[address.Declared(name)]; r != nil && r.Late != nil {
		return r
	}
	return nil
}
