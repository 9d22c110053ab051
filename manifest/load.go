package manifest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/schema"
)

// Options is what a manifest is read with.
type Options struct {
	Variables map[string]any
	Evaluator *expression.Evaluator
	Workspace string // absolute; relative paths of plugs are below it
	Home      string // what ~ stands for; "" is not known
	Usage     *Usage // is told which variables are read; may be nil
}

// Load reads several files as one manifest. It fails with an *Error that holds
// every problem of all of them.
func Load(sources []Source, opts Options) (*Manifest, error) {
	l := &loader{
		opts:     opts,
		patterns: schema.NewPatterns(maxPatterns),
		manifest: &Manifest{plugs: map[string]*Plug{}, resources: map[string]*Resource{}},
	}
	if len(sources) == 0 {
		return nil, &Error{Problems: []Problem{{Message: "no manifest is given"}}}
	}
	explicit := false // somebody wrote "resources:"
	broken := false
	for _, source := range sources {
		l.manifest.Files = append(l.manifest.Files, source.Name)
		f, root, ok := open(source, &l.found)
		if !ok {
			broken = true
			continue
		}
		explicit = l.document(f, root) || explicit
	}
	if len(l.manifest.Resources) == 0 && !explicit && !broken && len(l.found.list) == 0 {
		l.found.add(Problem{Position: Position{File: sources[0].Name}, Message: "there are no resources; a manifest needs a mapping resources"})
	}
	l.depend(broken)
	l.expressions(broken)
	if err := l.found.err(l.manifest.Files); err != nil {
		return nil, err
	}
	return l.manifest, nil
}

// maxPatterns is how many instructions the regular expressions of all plugs may
// have together. Each is matched with every name and type, and matching takes
// at most that many steps for each character.
const maxPatterns = 100_000

type loader struct {
	opts     Options
	patterns *schema.Patterns // the regular expressions of plugs
	found    problems
	manifest *Manifest
	pending  []*pending
	sorted   []string // names of resources
	looked   int      // how often a suggestion was looked for
}

// pending is a resource whose dependencies and expressions are still to be
// checked.
type pending struct {
	*Resource
	aliases []entry // of its dependencies
	texts   []leaf  // of its configuration, those with expressions
}

// known reports an unknown key.
func (f *file) unknown(e entry, path []string, known ...string) {
	p := Problem{Position: f.at(e.key), Path: pathText(path), Message: fmt.Sprintf("unknown key %q", e.name), Hint: suggest.Closest(e.name, known)}
	if p.Hint == "" {
		p.Message += "; possible are " + strings.Join(known, ", ")
	}
	f.found.add(p)
}

// document reads one file and tells whether it has a section of resources.
func (l *loader) document(f *file, root *yaml.Node) (resources bool) {
	if root == nil || isNothing(root) {
		f.found.add(Problem{Position: Position{File: f.name, Line: 1, Column: 1}, Message: "the file is empty; a manifest needs a mapping resources"})
		return false
	}
	if root.Kind != yaml.MappingNode {
		f.fail(root, nil, "a manifest must be a mapping with the keys plugs and resources, not %s", nodeKind(root))
		return false
	}
	for _, section := range f.entries(root, nil, "key") {
		switch section.name {
		case "plugs":
			l.section(f, section, "plug", l.plug)
		case "resources":
			resources = true
			l.section(f, section, "resource", l.resource)
		default:
			f.unknown(section, nil, "plugs", "resources")
		}
	}
	return resources
}

var validName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*$`)

const nameRule = "a name begins with a letter and consists of letters, digits, _ and -"

// section reads a mapping of names to things.
func (l *loader) section(f *file, section entry, thing string, read func(*file, entry, *yaml.Node, []string)) {
	n, leave := f.enter(section)
	defer leave()
	path := []string{section.name}
	if isNothing(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		f.fail(n, path, "must be a mapping of names to %ss, not %s", thing, nodeKind(n))
		return
	}
	for _, e := range f.entries(n, path, thing) {
		n, leave := f.enter(e)
		at := append(path[:1:1], e.name)
		if !validName.MatchString(e.name) {
			f.fail(e.key, at, "%q can not be the name of a %s: %s", e.name, thing, nameRule)
		}
		if n.Kind != yaml.MappingNode {
			f.fail(n, at, "a %s must be a mapping, not %s", thing, nodeKind(n))
		} else {
			read(f, e, n, at)
		}
		leave()
	}
}

func isNothing(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// resource reads a resource, without a look at others.
func (l *loader) resource(f *file, e entry, n *yaml.Node, path []string) {
	r := &pending{Resource: &Resource{
		Name: e.name, Position: f.at(e.key), Dependencies: map[string]string{}, Config: map[string]any{}, file: f,
	}}
	if first := l.manifest.resources[e.name]; first != nil {
		f.fail(e.key, path, "the resource %q is already defined at %s", e.name, first.Position)
	} else {
		l.manifest.resources[e.name] = r.Resource
		l.manifest.Resources = append(l.manifest.Resources, r.Resource)
		l.pending = append(l.pending, r)
	}
	typed := false
	for _, e := range f.entries(n, path, "key") {
		n, leave := f.enter(e)
		at := append(path[:2:2], e.name)
		switch e.name {
		case "type":
			typed = true
			r.Type = f.image(n, at)
		case "readonly":
			var err error
			if r.ReadOnly, err = boolean(n); err != nil {
				f.fail(n, at, "%s", err)
			}
		case "dependencies":
			l.dependencies(f, r, n, at)
		case "config":
			r.configAt = f.at(e.key)
			r.configure(f, n, at)
		case "timeout":
			r.Timeout = f.duration(n, at)
		case "ignore_drift":
			r.IgnoreDrift = f.ignored(n, at)
		default:
			f.unknown(e, path, "type", "readonly", "dependencies", "config", "timeout", "ignore_drift")
		}
		leave()
	}
	if !typed {
		f.fail(e.key, path, "the resource has no type; type is the image of its resource type")
	}
}

// text reads a text that is not empty.
func (f *file) text(n *yaml.Node, path []string, what string) (string, bool) {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" || n.Value == "" {
		kind := nodeKind(n)
		if kind == "text" {
			kind = "empty"
		}
		f.fail(n, path, "must be %s, not %s", what, kind)
		return "", false
	}
	return n.Value, true
}

func (f *file) image(n *yaml.Node, path []string) string {
	text, ok := f.text(n, path, "the reference of an image")
	switch {
	case !ok:
	case expression.IsTemplate(text):
		f.fail(n, path, "can not be an expression; only the config of a resource and the values of plugs can")
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		f.fail(n, path, "%q is not the reference of an image", text)
	}
	return text
}

func (f *file) duration(n *yaml.Node, path []string) time.Duration {
	const what = "a duration such as 90s, 5m or 1h30m"
	if n.Kind == yaml.ScalarNode && (n.ShortTag() == "!!int" || n.ShortTag() == "!!float") {
		f.fail(n, path, "%q has no unit; it must be %s", n.Value, what)
		return 0
	}
	text, ok := f.text(n, path, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		f.fail(n, path, "%q is not %s", text, what)
	case d <= 0:
		f.fail(n, path, "%q must be more than nothing", text)
	}
	return d
}

// validPath is the form in which differences are printed: keys after dots,
// indexes in brackets.
var validPath = regexp.MustCompile(`^[^.\[\]\s]+(\.[^.\[\]\s]+|\[[0-9]+\])*$`)

// ignored reads paths of the configuration.
func (f *file) ignored(n *yaml.Node, path []string) []string {
	const what = `a list of paths of the config, such as [content, "ports[0].host"]`
	if isNothing(n) {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		f.fail(n, path, "must be %s, not %s", what, nodeKind(n))
		return nil
	}
	paths := make([]string, 0, len(n.Content))
	for i, item := range n.Content {
		item = target(item)
		at := append(path[:len(path):len(path)], itoa(i))
		if f.copying > 0 && f.spent(item, at) {
			return paths
		}
		text, ok := f.text(item, at, `a path of the config, such as content or "ports[0].host"`)
		switch {
		case !ok:
		case expression.IsTemplate(text):
			f.fail(item, at, "can not be an expression; only the config of a resource and the values of plugs can")
		case !validPath.MatchString(text):
			f.fail(item, at, `%q is not a path; write keys with dots and indexes in brackets, as in "ports[0].host"`, text)
		default:
			paths = append(paths, text)
		}
	}
	return paths
}

func (r *pending) configure(f *file, n *yaml.Node, path []string) {
	if isNothing(n) {
		return
	}
	r.config = n
	if n.Kind != yaml.MappingNode {
		f.fail(n, path, "must be a mapping, not %s", nodeKind(n))
		return
	}
	c := converter{file: f, keep: expression.IsTemplate}
	if config, ok := c.value(n, path, 0).(map[string]any); ok {
		r.Config = config
	}
	r.texts = c.leaves
}

// dependencies reads the aliases; whether there are such resources is known
// later.
func (l *loader) dependencies(f *file, r *pending, n *yaml.Node, path []string) {
	if isNothing(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		f.fail(n, path, "must be a mapping of aliases to names of resources, not %s", nodeKind(n))
		return
	}
	for _, e := range f.entries(n, path, "alias") {
		at := append(path[:len(path):len(path)], e.name)
		if !validName.MatchString(e.name) {
			f.fail(e.key, at, "%q can not be an alias: %s", e.name, nameRule)
		}
		if _, clash := l.opts.Variables[e.name]; clash {
			f.fail(e.key, at, "the alias %q is also the name of a variable; choose another", e.name)
		}
		e.value = target(e.value)
		name, ok := f.text(e.value, at, "the name of a resource")
		if !ok {
			continue
		}
		if expression.IsTemplate(name) {
			f.fail(e.value, at, "can not be an expression; only the config of a resource and the values of plugs can")
			continue
		}
		r.Dependencies[e.name] = name
		r.aliases = append(r.aliases, e)
	}
}

// names are those of all resources, sorted. It is asked for when all are known.
func (l *loader) names() []string {
	if l.sorted == nil {
		l.sorted = slices.Sorted(maps.Keys(l.manifest.resources))
	}
	return l.sorted
}

// closest is suggest.Closest among the names of resources. A file in which
// everything is wrong gets help for the beginning only: looking costs time.
func (l *loader) closest(name string) string {
	const helped = 50
	if l.looked++; l.looked > helped {
		return ""
	}
	return suggest.Closest(name, l.names())
}
