package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// CheckPlugs tells which plugs have a path that is not there, as an *Error. It
// is not part of Load because the engine may be on another machine, whose files
// are the ones that count.
func (m *Manifest) CheckPlugs() error {
	var found problems
	for _, p := range m.Plugs {
		if _, err := os.Stat(p.Path); err != nil {
			message := fileError(err).Error()
			if errors.Is(err, fs.ErrNotExist) {
				message = "there is no such file or directory"
			}
			found.add(Problem{Position: p.Position, Path: "plugs." + p.Name + ".path", Message: fmt.Sprintf("%s: %s", p.Path, message)})
		}
	}
	return found.err(m.Files)
}

func (l *loader) plug(f *file, e entry, n *yaml.Node, path []string) {
	p := &Plug{Name: e.name, Position: f.at(e.key)}
	if first := l.manifest.plugs[e.name]; first != nil {
		f.fail(e.key, path, "the plug %q is already defined at %s", e.name, first.Position)
	} else {
		l.manifest.plugs[e.name] = p
		l.manifest.Plugs = append(l.manifest.Plugs, p)
	}
	written := map[string]any{}
	located := false
	for _, e := range f.entries(n, path, "key") {
		n, leave := f.enter(e)
		at := append(path[:2:2], e.name)
		switch e.name {
		case "path":
			located = true
			p.Path = l.plugPath(f, n, at)
		case "read_only":
			p.ReadOnly = l.plugReadOnly(f, n, at)
		case "resource_names":
			p.ResourceNames, p.names = l.plugPatterns(f, n, at)
		case "resource_types":
			p.ResourceTypes, p.types = l.plugPatterns(f, n, at)
		default:
			f.unknown(e, path, "path", "read_only", "resource_names", "resource_types")
			leave()
			continue
		}
		quiet := converter{file: &file{name: f.name, found: &problems{}}}
		written[e.name] = quiet.value(n, at, 0)
		leave()
	}
	p.written = written
	if !located {
		f.fail(e.key, path, "the plug has no path")
	}
}

// resolved converts a value and evaluates its expressions, which can use the
// variables.
func (l *loader) resolved(f *file, n *yaml.Node, path []string) (any, bool) {
	before := len(f.found.list)
	c := converter{file: f}
	value := c.value(n, path, 0)
	if len(f.found.list) > before {
		return nil, false
	}
	l.opts.Usage.examine(l.opts.Evaluator, value)
	value, err := l.opts.Evaluator.Resolve(value, l.opts.Variables)
	if err != nil {
		f.found.add(f.failure(n, path, err))
		return nil, false
	}
	return value, true
}

func (l *loader) plugPath(f *file, n *yaml.Node, path []string) string {
	value, ok := l.resolved(f, n, path)
	if !ok {
		return ""
	}
	text, ok := value.(string)
	if isNothing(n) && n.Value == "~" {
		text, ok = "~", true // to YAML this is null; nobody means that here
	}
	switch {
	case !ok || text == "":
		f.fail(n, path, "must be the path of a file or directory, not %s", valueKind(value))
		return ""
	case strings.ContainsRune(text, 0):
		f.fail(n, path, "must not contain a NUL character")
		return ""
	}
	if home, rest, _ := strings.Cut(text, "/"); strings.HasPrefix(home, "~") {
		switch {
		case home != "~":
			f.fail(n, path, "%s is not expanded; only ~ and ~/… are", home)
			return ""
		case l.opts.Home == "":
			f.fail(n, path, "~ can not be expanded: the home directory is not known; set HOME or give the whole path")
			return ""
		}
		return filepath.Join(l.opts.Home, rest)
	}
	if filepath.IsAbs(text) {
		return filepath.Clean(text)
	}
	return filepath.Join(l.opts.Workspace, text)
}

func (l *loader) plugReadOnly(f *file, n *yaml.Node, path []string) bool {
	if b, err := boolean(n); err == nil {
		return b
	}
	value, ok := l.resolved(f, n, path)
	if !ok {
		return false
	}
	b, ok := value.(bool)
	if !ok {
		f.fail(n, path, "must be true or false, not %s", valueKind(value))
	}
	return b
}

func (l *loader) plugPatterns(f *file, n *yaml.Node, path []string) ([]string, []*regexp.Regexp) {
	value, ok := l.resolved(f, n, path)
	if !ok || value == nil {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		f.fail(n, path, "must be a list of regular expressions, not %s", valueKind(value))
		return nil, nil
	}
	patterns := make([]string, 0, len(list))
	compiled := make([]*regexp.Regexp, 0, len(list))
	for i, item := range list {
		at := append(path[:len(path):len(path)], itoa(i))
		where := n
		if n.Kind == yaml.SequenceNode && i < len(n.Content) {
			where = target(n.Content[i])
		}
		text, ok := item.(string)
		if !ok {
			f.fail(where, at, "must be a regular expression, not %s", valueKind(item))
			continue
		}
		re, err := l.patterns.Compile(text) // on its own first: "a)(b" becomes one by accident only
		if err == nil {
			re, err = regexp.Compile("^(?:" + text + ")")
		}
		if err != nil {
			f.fail(where, at, "%s", err)
			continue
		}
		patterns = append(patterns, text)
		compiled = append(compiled, re)
	}
	return patterns, compiled
}

// valueKind names what a value is.
func valueKind(v any) string {
	switch v := v.(type) {
	case nil:
		return "nothing"
	case bool:
		return "a boolean"
	case string:
		if v == "" {
			return "empty"
		}
		return "text"
	case []any:
		return "a list"
	case map[string]any:
		return "a mapping"
	default:
		return "a number"
	}
}
