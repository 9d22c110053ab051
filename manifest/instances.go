package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/address"
)

// What a manifest declares under one name may be no resource, by its when, or many, by
// its for_each. Both are decided while the manifest is read, of the variables alone, so
// that all that follows knows every resource by its name before anything runs; but for what
// is Late.

// Each tells the instances of a resource that has for_each from each other. Expressions
// call it each.
type Each struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// seen is what expressions see of it.
func (e *Each) seen() map[string]any { return map[string]any{"key": e.Key, "value": e.Value} }

const (
	eachName = "each"

	// maxInstances is how many instances all resources of a manifest may have together.
	maxInstances = 100_000
)

// expansion is what became of what is declared under one name.
type expansion struct {
	many    bool              // it has for_each
	names   map[string]string // of its instances, by key; of a resource without for_each by ""
	keys    []string          // in order
	modules modules           // of a module; nil is a resource
	off     string            // why a resource without for_each is none
	late    bool              // which instances it has is found out once its dependencies are there; names has the one that stands for them by ""
	bad     bool              // it is not known, for reasons that are reported
}

// expand makes the resources of what is declared, which is sorted by dependencies.
func (l *loader) expand() {
	sorted := l.manifest.Resources
	l.manifest.Resources = make([]*Resource, 0, len(sorted))
	l.manifest.resources = make(map[string]*Resource, len(sorted))
	l.manifest.declared = make(map[string]*expansion, len(sorted))
	for _, r := range sorted {
		p := l.declared[r.Name]
		x := &expansion{many: p.forEach != nil, names: map[string]string{}}
		if p.call != nil {
			x.modules = modules{}
		}
		l.manifest.declared[r.Name] = x
		switch {
		case l.waits(p):
			l.wait(p, x)
		case x.many:
			l.instances(p, x)
		default:
			l.add(p, x, nil)
		}
		if len(x.names) == 0 && p.call == nil {
			l.absent(p, x)
		}
	}
}

// absent keeps what is declared and comes to no resource. What was made of it is still subject to it.
func (l *loader) absent(p *pending, x *expansion) {
	r := *p.Resource
	r.Name, r.module = l.address(p.Name), l.module
	if x.many {
		r.Name, r.Of = "", r.Name
	}
	l.manifest.absent = append(l.manifest.absent, &r)
}

// instances adds those of a resource that has for_each.
func (l *loader) instances(p *pending, x *expansion) {
	all, ok := l.each(p)
	if !ok {
		x.bad = true
		return
	}
	for i := 0; i < len(all) && !x.bad; i++ {
		l.add(p, x, &all[i])
	}
}

// add adds a resource, or an instance of one, unless its when says otherwise.
func (l *loader) add(p *pending, x *expansion, each *Each) {
	r := *p.Resource
	r.Name, r.module, r.texts = l.address(p.Name), l.module, l.opts.Texts
	if each != nil {
		r.Name, r.Of, r.Each = address.Instance(r.Name, each.Key), r.Name, each
	}
	off, ok := l.depends(p, &r)
	if !ok {
		x.bad = true
		return
	}
	on, ok := l.on(p, &r)
	switch {
	case !ok:
		x.bad = true
		return
	case !on && each == nil:
		x.off = fmt.Sprintf("its when at %s is false", p.when.Position)
		return
	case !on:
		return
	}
	maps.Copy(p.off, off)
	if !l.counted(p) {
		x.bad = true
		return
	}
	key := ""
	if each != nil {
		key = each.Key
	}
	x.names[key] = r.Name
	x.keys = append(x.keys, key)
	if p.call != nil {
		m, ok := l.instantiate(p, &r)
		x.modules[key], x.bad = m, x.bad || !ok
		return
	}
	l.manifest.Resources = append(l.manifest.Resources, &r)
	l.manifest.resources[r.Name] = &r
}

// depends finds what the aliases of a resource stand for, and which stand for what is off.
func (l *loader) depends(p *pending, r *Resource) (off map[string]string, ok bool) {
	r.Dependencies, r.Instances, r.called, off, ok = map[string]string{}, nil, nil, map[string]string{}, true
	for _, alias := range p.aliases {
		of, written, one := address.Written(alias.Value)
		x := l.manifest.declared[of]
		if x == nil || x.bad || of == p.Name {
			ok = false // it is reported
			continue
		}
		key := written
		if r.Late != nil && x.many && expression.IsTemplate(written) {
			l.opts.Usage.Examine(l.opts.Evaluator, written)
			r.Late.keyed[alias.Name] = keyed{x, written, alias}
			key, one = "", false // all, until it is known which one
		} else if r.Late == nil || !expression.IsTemplate(written) { // else it has no instances, which is reported below
			var found bool
			if key, found = l.key(alias, written, r); !found {
				ok = false
				continue
			}
		}
		name, there := x.names[key]
		switch {
		case r.depend(alias, x, key, one):
		case one && !x.many:
			ok = false
			alias.Fail("%q has no instances, as it has no for_each; write %s", of, of)
		case there:
			r.Dependencies[alias.Name] = name
		case !one:
			off[alias.Name] = fmt.Sprintf("the resource %q is off: %s", of, x.off)
		case l.offInstance(of, key):
			off[alias.Name] = fmt.Sprintf("the resource %q is off: its when at %s is false", address.Instance(of, key), l.declared[of].when.Position)
		default:
			ok = false
			l.found.Add(noInstance(alias, of, key, x.keys))
		}
	}
	return off, ok
}

// depend has an alias stand for all instances of something, for what is late, or for a module. It
// returns false where the alias means one resource.
func (r *Resource) depend(alias *yamlfile.Node, x *expansion, key string, one bool) bool {
	_, there := x.names[key]
	switch {
	case x.late || x.modules != nil && (x.many && !one || there && one == x.many):
		if r.called == nil {
			r.called = map[string]stands{}
		}
		if r.called[alias.Name] = x.stands(key); x.late && one {
			r.called[alias.Name] = member{x.names[""], key, alias}
		}
	case x.many && !one:
		if r.Instances == nil {
			r.Instances = map[string]map[string]string{}
		}
		r.Instances[alias.Name] = x.names
	default:
		return false
	}
	return true
}

// key finds the key of an instance, which may depend on which instance another is.
func (l *loader) key(alias *yamlfile.Node, written string, r *Resource) (string, bool) {
	if !expression.IsTemplate(written) {
		return written, true
	}
	if r.Each == nil {
		alias.Fail("only what has for_each itself can depend on an instance by an expression, such as disks[{{ each.key }}]")
		return "", false
	}
	l.opts.Usage.Examine(l.opts.Evaluator, written)
	value, err := l.opts.Evaluator.Evaluate(written, l.scope(r.Each))
	if err != nil {
		l.found.Add(Problem{Position: alias.Position, Path: alias.Path(), Message: err.Error()})
		return "", false
	}
	key, ok := address.Key(value)
	if !ok {
		alias.Fail("%s of %s comes to %s, which is no key", written, r.Name, kindOfValue(value))
	}
	return key, ok
}

func noInstance(at *yamlfile.Node, of, key string, keys []string) Problem {
	message := fmt.Sprintf("%q has no instance %q", of, key)
	if len(keys) == 0 {
		message += "; it has none"
	} else {
		message += "; there are " + phrase.List(keys)
	}
	return Problem{Position: at.Position, Path: at.Path(), Message: message, Hint: suggest.Closest(key, keys)}
}

// offInstance reports whether an instance would be there but for its when.
func (l *loader) offInstance(of, key string) bool {
	return slices.ContainsFunc(l.declared[of].all, func(e Each) bool { return e.Key == key })
}

// each finds what the instances of a resource are made from.
func (l *loader) each(p *pending) ([]Each, bool) {
	if l.isVariable(eachName) {
		p.forEach.FailName(`where there is for_each, no variable can be called "each"; rename it`)
		return nil, false
	}
	if !l.early(p, p.forEach, "for_each", false) {
		return nil, false
	}
	resolved, err := l.opts.Evaluator.Resolve(p.ForEach, l.opts.Variables)
	if err != nil {
		l.found.Add(Failure(p.forEach, err))
		return nil, false
	}
	if n := size(resolved); *l.count+n > maxInstances {
		p.forEach.Fail(tooMany, n, maxInstances)
		return nil, false
	}
	all, problem := members(p.forEach, resolved, l.opts.Secret)
	if problem != nil {
		l.found.Add(*problem)
		return nil, false
	}
	p.all = all
	return all, true
}

const tooMany = "with its %d instances there would be more than %d resources"

// size is how many instances there are to be of what a for_each comes to.
func size(resolved any) int {
	switch resolved := resolved.(type) {
	case map[string]any:
		return len(resolved)
	case []any:
		return len(resolved)
	}
	return 0
}

// members are what a for_each comes to, which is written at a node. A key that would be secret is
// refused before anything else is said of it.
func members(n *yamlfile.Node, resolved any, secret func(text string) bool) (all []Each, wrong *Problem) {
	fail := func(child, format string, args ...any) ([]Each, *Problem) {
		at := n
		if c := n.Child(child); c != nil {
			at = c
		}
		return nil, &Problem{Position: at.Position, Path: at.Path(), Message: fmt.Sprintf(format, args...)}
	}
	hidden := func(key string) bool { return secret != nil && secret(key) }
	const exposed = "a key would be a secret, or a part of one, and keys are names, which are shown: make them of something else"
	switch resolved := resolved.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(resolved)) {
			switch {
			case hidden(key):
				return fail("", exposed)
			case !address.ValidKey(key):
				return fail(key, "%.120q cannot be the key of an instance: %s", key, address.KeyRule)
			}
			all = append(all, Each{key, resolved[key]})
		}
	case []any:
		seen := map[string]bool{}
		for i, value := range resolved {
			child := strconv.Itoa(i)
			key, ok := address.Key(value)
			switch {
			case !ok:
				return fail(child, "the instances of a list are called by its texts and whole numbers; of %s make a mapping of keys to values", kindOfValue(value))
			case hidden(key):
				return fail("", exposed)
			case !address.ValidKey(key):
				return fail(child, "%.120q cannot be the key of an instance: %s; make a mapping of keys to values", key, address.KeyRule)
			case seen[key]:
				return fail(child, "the list has %q twice", key)
			}
			seen[key] = true
			all = append(all, Each{key, value})
		}
	default:
		return fail("", "must be a list or a mapping, or an expression that comes to one, not %s", kindOfValue(resolved))
	}
	return all, nil
}

// on reports whether the when of a resource is true, if it has one.
func (l *loader) on(p *pending, r *Resource) (on, ok bool) {
	if p.when == nil {
		return true, true
	}
	var value any
	if p.when.Kind == yamlfile.Boolean {
		value, ok = p.when.Any()
	} else if p.when.Kind == yamlfile.Text && expression.IsTemplate(p.when.Value) {
		if !l.early(p, p.when, "when", true) {
			return false, false
		}
		var err error
		scope := l.scope(r.Each)
		for alias, s := range r.aliases() {
			scope[alias] = l.presence(s)
		}
		value, err = l.opts.Evaluator.Evaluate(p.when.Value, scope)
		if err != nil {
			l.found.Add(Failure(p.when, err))
			return false, false
		}
		ok = true
	}
	on, is := value.(bool)
	if !ok || !is {
		got := KindOf(p.when)
		if ok {
			got = kindOfValue(value)
		}
		p.when.Fail("must be true or false, or an expression that comes to one of them, not %s", got)
		return false, false
	}
	return on, true
}

// presence is what a when sees of what a name stands for: which there are is known, and nothing
// else of them.
func (l *loader) presence(s stands) any {
	all := map[string]any{}
	switch s := s.(type) {
	case single:
		return map[string]any{"name": string(s), "type": l.manifest.resources[string(s)].Type}
	case instances:
		for key, name := range s {
			all[key] = l.presence(single(name))
		}
	case modules:
		for key := range s {
			all[key] = map[string]any{}
		}
	}
	return all
}

// scope is what is known to expressions that are evaluated early.
func (l *loader) scope(each *Each) map[string]any {
	scope := make(map[string]any, len(l.opts.Variables)+4)
	maps.Copy(scope, l.opts.Variables)
	if each != nil {
		scope[eachName] = each.seen()
	}
	return scope
}

// early reports what an expression cannot read that is evaluated while the manifest is
// read. It reads variables alone, or also which dependencies there are.
func (l *loader) early(p *pending, n *yamlfile.Node, what string, dependencies bool) bool {
	if ok, known := p.early[n]; known {
		return ok
	}
	ok := true
	fail := func(text *yamlfile.Node, line, column int, format string, args ...any) {
		ok = false
		message := what + " is decided before anything runs, so it cannot read " + fmt.Sprintf(format, args...)
		l.found.Add(Problem{Position: within(text, line, column), Path: text.Path(), Message: message})
	}
	for text := range n.Texts() {
		usage, err := l.opts.Evaluator.Examine(text.Value)
		if err != nil {
			ok = false
			l.found.Add(Failure(text, err))
			continue
		}
		l.opts.Usage.Add(usage, p.Dependencies)
		var variables []expression.Ref
		for _, ref := range usage.Refs {
			if l.isLate(ref.Name) {
				fail(text, ref.Line, ref.Column, "the variable %q, whose value waits for the state of something", ref.Name)
			} else if _, alias := p.Dependencies[ref.Name]; !alias {
				variables = append(variables, ref)
			} else if !dependencies {
				fail(text, ref.Line, ref.Column, "the dependency %q; give what it reads to the module, under vars, and let the resources in it have for_each", ref.Name)
			} else if l.standsLate(p.Dependencies[ref.Name]) {
				fail(text, ref.Line, ref.Column, "%q, of which only a run finds out which instances there are", ref.Name)
			}
		}
		if !l.opts.Partly {
			ok = l.references(p, text, variables, false) && ok
		}
		if paths, err := l.opts.Evaluator.Paths(text.Value, slices.Sorted(maps.Keys(p.Dependencies))...); dependencies && err == nil {
			for _, path := range paths {
				if slices.Contains(path.Keys, "state") || l.isModule(p.Dependencies[path.Name]) {
					fail(text, path.Line, path.Column, "%s", p.instead(path.Name))
				}
			}
		}
	}
	p.early[n] = ok
	return ok
}

// instead says what a when can do that cannot read the state of a dependency.
func (p *pending) instead(alias string) string {
	text := fmt.Sprintf("the state of %q; it can ask whether %s is defined", alias, alias)
	switch {
	case p.call != nil:
		return text + ", or give that to the module, under vars, where the for_each of a resource can read it"
	case p.forEach == nil:
		return text + ", or be a for_each, which can read it: '{{ [\"one\"] if … else [] }}'"
	}
	return text
}

// readEach reads a for_each, whose expressions stay as they are.
func (p *pending) readEach(n *yamlfile.Node) {
	if n.Kind != yamlfile.List && n.Kind != yamlfile.Mapping && (n.Kind != yamlfile.Text || !expression.IsTemplate(n.Value)) {
		n.Fail("must be a list or a mapping, or an expression that comes to one, not %s", KindOf(n))
		return
	}
	value, ok := n.Any()
	if !ok {
		return
	}
	p.forEach, p.ForEach = n, value
	if p.call != nil {
		p.call.forEach = value
	}
}

// dependency reports whether the text can be a dependency, as it is written.
func dependency(alias *yamlfile.Node, text string) bool {
	of, key, one := address.Written(text)
	switch {
	case !one && expression.IsTemplate(text):
		alias.Fail("cannot be an expression, but for the key of an instance, as in disks[{{ each.key }}]")
	case one && (strings.ContainsAny(of, "{}") || key == ""):
		alias.Fail("%q is not the name of a resource or an instance, such as disks[a]", text)
	default:
		return true
	}
	return false
}
