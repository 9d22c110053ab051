package manifest

import (
	"strings"
	"time"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

var validName = pattern.Lazy(`^[a-zA-Z][a-zA-Z0-9_-]*$`)

const (
	nameRule     = "a name begins with a letter and consists of letters, digits, _ and -"
	noExpression = "cannot be an expression; only the config of a resource and the values of plugs can"
)

var resourceKeys = []string{"type", "for_each", "when", "readonly", "dependencies", "config", "timeout", "ignore_drift", "ignore_changes", "prevent_destroy"}

// resource reads a resource, independently of the others.
func (l *loader) resource(n *yamlfile.Node) {
	r := &pending{
		Resource: &Resource{Name: n.Name, Position: n.NameAt, Dependencies: map[string]string{}, Config: map[string]any{}},
		off:      map[string]string{}, early: map[*yamlfile.Node]bool{},
	}
	l.declare(n, r, "resource")
	fields, _ := n.Fields("a resource", resourceKeys...)
	if fields["type"] == nil {
		n.FailName("the resource has no type; type is the image of its resource type")
	}
	for _, key := range resourceKeys {
		at := fields[key]
		if at == nil {
			continue
		}
		switch key {
		case "type":
			r.Type = readImage(at)
		case "for_each":
			r.readEach(at)
		case "when":
			r.when = at
		case "readonly":
			r.ReadOnly = readSwitch(at)
		case "dependencies":
			l.dependencies(r, at)
		case "config":
			r.configure(at)
		case "timeout":
			r.Timeout = readTimeout(at)
		case "ignore_drift":
			r.IgnoreDrift = readPaths(at)
		case "ignore_changes":
			r.IgnoreChanges = readPaths(at)
		case "prevent_destroy":
			r.PreventDestroy, r.prevented = readSwitch(at), at.NameAt
		}
	}
}

// readSwitch reads true or false; what is left empty is false.
func readSwitch(n *yamlfile.Node) bool {
	on, ok := n.Bool()
	if !ok && n.Kind != yamlfile.Nothing {
		n.Fail("must be true or false, not %s", KindOf(n))
	}
	return on
}

// declare adds what a name stands for, of which there is one.
func (l *loader) declare(n *yamlfile.Node, p *pending, thing string) {
	first := l.declared[n.Name]
	switch {
	case first == nil:
		l.declared[n.Name] = p
		l.manifest.Resources = append(l.manifest.Resources, p.Resource)
		l.pending = append(l.pending, p)
	case (first.call == nil) != (p.call == nil):
		n.FailName("the name %q is taken already at %s; a module and a resource cannot have the same", n.Name, first.Position)
	default:
		n.FailName("the %s %q is already defined at %s", thing, n.Name, first.Position)
	}
}

// readText reads a text that is not empty.
func readText(n *yamlfile.Node, what string) (string, bool) {
	switch {
	case n.Kind != yamlfile.Text:
		n.Fail("must be %s, not %s", what, KindOf(n))
	case n.Value == "":
		n.Fail("must be %s, not empty", what)
	default:
		return n.Value, true
	}
	return "", false
}

func readImage(n *yamlfile.Node) string {
	text, ok := readText(n, "the reference of an image")
	switch {
	case !ok:
	case expression.IsTemplate(text):
		n.Fail(noExpression)
	case strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }):
		n.Fail("%q is not the reference of an image", text)
	}
	return text
}

func readTimeout(n *yamlfile.Node) time.Duration {
	const what = "a duration such as 90s, 5m or 1h30m"
	if n.Kind == yamlfile.Integer || n.Kind == yamlfile.Number {
		n.Fail("%q has no unit; it must be %s", n.Value, what)
		return 0
	}
	text, ok := readText(n, what)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		n.Fail("%q is not %s", text, what)
	case d <= 0:
		n.Fail("%q must be more than nothing", text)
	}
	return d
}

// configure reads the configuration, in which expressions stay as they are.
func (r *pending) configure(n *yamlfile.Node) {
	if n.Kind == yamlfile.Nothing {
		return
	}
	r.config = n
	if n.Kind != yamlfile.Mapping {
		n.Fail("must be a mapping, not %s", KindOf(n))
		return
	}
	value, _ := n.Any()
	r.Config, _ = value.(map[string]any)
	for text := range n.Texts() {
		if expression.IsTemplate(text.Value) {
			r.texts = append(r.texts, text)
		}
	}
}

// dependencies reads the aliases; whether there are such resources is known
// later.
func (l *loader) dependencies(r *pending, n *yamlfile.Node) {
	switch n.Kind {
	case yamlfile.Nothing:
		return
	case yamlfile.Mapping:
	default:
		n.Fail("must be a mapping of aliases to names of resources, not %s", KindOf(n))
		return
	}
	for _, alias := range n.Members {
		if !validName().MatchString(alias.Name) {
			alias.FailName("%q cannot be an alias: %s", alias.Name, nameRule)
		}
		if r.forEach != nil && alias.Name == eachName {
			alias.FailName(`where there is for_each, no alias can be called "each"; choose another`)
		}
		if l.isVariable(alias.Name) {
			alias.FailName("the alias %q is also the name of a variable; choose another", alias.Name)
		}
		name, ok := readText(alias, "the name of a resource")
		switch {
		case !ok:
		case !dependency(alias, name):
		default:
			r.Dependencies[alias.Name] = name
			r.aliases = append(r.aliases, alias)
		}
	}
}
