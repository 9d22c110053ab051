package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/deployster-go/deployster/internal/namedfile"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// CheckPlugs reports which plugs have a path that is not there, as an *Error. It
// is not part of Load because the engine may be on another machine, whose files
// are the ones that count.
func (m *Manifest) CheckPlugs() error {
	var found yamlfile.Report
	for _, p := range m.Plugs {
		if _, err := os.Stat(p.Path); err != nil {
			message := namedfile.Failure(err).Error()
			if errors.Is(err, fs.ErrNotExist) {
				message = "there is no such file or directory"
			}
			found.Add(Problem{Position: p.Position, Path: "plugs." + p.Name + ".path", Message: fmt.Sprintf("%s: %s", p.Path, message)})
		}
	}
	return found.Err()
}

func (l *loader) plug(n *yamlfile.Node) {
	p := &Plug{Name: n.Name, Position: n.NameAt}
	if first := l.manifest.plugs[n.Name]; first != nil {
		n.FailName("the plug %q is already defined at %s", n.Name, first.Position)
	} else {
		l.manifest.plugs[n.Name] = p
		l.manifest.Plugs = append(l.manifest.Plugs, p)
	}
	written := map[string]any{}
	p.written = written
	keys := []string{"path", "read_only", "resource_names", "resource_types"}
	fields, _ := n.Fields("a plug", keys...)
	if fields["path"] == nil {
		n.FailName("the plug has no path")
	}
	for _, key := range keys { // in an order, since all patterns together have a bound
		at := fields[key]
		if at == nil {
			continue
		}
		value, ok := at.Any()
		if !ok {
			continue
		}
		written[key] = value
		switch key {
		case "path":
			p.Path = l.plugPath(at, value)
		case "read_only":
			p.ReadOnly = l.plugReadOnly(at, value)
		case "resource_names":
			p.ResourceNames, p.names = l.plugPatterns(at, value)
		case "resource_types":
			p.ResourceTypes, p.types = l.plugPatterns(at, value)
		}
	}
}

// resolved evaluates the expressions of a value, which can use the variables.
func (l *loader) resolved(n *yamlfile.Node, value any) (any, bool) {
	l.opts.Usage.Examine(l.opts.Evaluator, value)
	value, err := l.opts.Evaluator.Resolve(value, l.opts.Variables)
	if err != nil {
		l.found.Add(Failure(n, err))
		return nil, false
	}
	return value, true
}

// claim begins the path of a plug that is a volume of a cluster, which only its engine knows.
const claim = "persistentvolumeclaim:"

func (l *loader) plugPath(n *yamlfile.Node, value any) string {
	value, ok := l.resolved(n, value)
	if !ok {
		return ""
	}
	text, ok := value.(string)
	if n.Kind == yamlfile.Nothing && n.Value == "~" {
		text, ok = "~", true // to YAML this is null; nobody means that here
	}
	switch {
	case !ok || text == "":
		n.Fail("must be the path of a file or directory, not %s", kindOfValue(value))
		return ""
	case strings.ContainsRune(text, 0):
		n.Fail("must not contain a NUL character")
		return ""
	}
	if home, rest, _ := strings.Cut(text, "/"); strings.HasPrefix(home, "~") {
		switch {
		case home != "~":
			n.Fail("%s is not expanded; only ~ and ~/… are", home)
			return ""
		case l.opts.Home == "":
			n.Fail("~ cannot be expanded: the home directory is not known; set HOME or give the whole path")
			return ""
		}
		return filepath.Join(l.opts.Home, rest)
	}
	if filepath.IsAbs(text) {
		return filepath.Clean(text)
	}
	if strings.HasPrefix(text, claim) {
		return text
	}
	return filepath.Join(l.opts.Workspace, text)
}

func (l *loader) plugReadOnly(n *yamlfile.Node, value any) bool {
	if b, ok := n.Bool(); ok || n.Kind == yamlfile.Nothing {
		return b
	}
	value, ok := l.resolved(n, value)
	if !ok {
		return false
	}
	b, ok := value.(bool)
	if !ok {
		n.Fail("must be true or false, not %s", kindOfValue(value))
	}
	return b
}

func (l *loader) plugPatterns(n *yamlfile.Node, value any) ([]string, []*regexp.Regexp) {
	value, ok := l.resolved(n, value)
	if !ok || value == nil {
		return nil, nil
	}
	list, ok := value.([]any)
	if !ok {
		n.Fail("must be a list of regular expressions, not %s", kindOfValue(value))
		return nil, nil
	}
	patterns := make([]string, 0, len(list))
	compiled := make([]*regexp.Regexp, 0, len(list))
	for i, item := range list {
		pattern, err := l.pattern(item)
		if err != nil {
			at := n.Position // of the expression that made the list
			if n.Kind == yamlfile.List && i < len(n.Members) {
				at = n.Members[i].Position
			}
			l.found.Add(Problem{Position: at, Path: fmt.Sprintf("%s[%d]", n.Path(), i), Message: err.Error()})
			continue
		}
		patterns = append(patterns, item.(string))
		compiled = append(compiled, pattern)
	}
	return patterns, compiled
}

// pattern compiles a regular expression, anchored at the start. It is compiled
// on its own first: "a)(b" would become one by accident only.
func (l *loader) pattern(value any) (*regexp.Regexp, error) {
	text, ok := value.(string)
	if !ok {
		return nil, fmt.Errorf("must be a regular expression, not %s", kindOfValue(value))
	}
	if _, err := l.patterns.Compile(text); err != nil {
		return nil, err
	}
	return regexp.Compile("^(?:" + text + ")")
}
