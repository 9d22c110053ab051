package manifest

import (
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// validPath is the form in which differences are printed: keys after dots,
// indexes in brackets.
var validPath = pattern.Lazy(`^[^.\[\]\s]+(\.[^.\[\]\s]+|\[[0-9]+\])*$`)

// readPaths reads paths of the configuration.
func readPaths(n *yamlfile.Node) []string {
	switch n.Kind {
	case yamlfile.Nothing:
		return nil
	case yamlfile.List:
	default:
		n.Fail(`must be a list of paths of the config, such as [content, "ports[0].host"], not %s`, KindOf(n))
		return nil
	}
	paths := make([]string, 0, len(n.Members))
	for _, m := range n.Members {
		text, ok := readText(m, `a path of the config, such as content or "ports[0].host"`)
		switch {
		case !ok:
		case expression.IsTemplate(text):
			m.Fail(noExpression)
		case !validPath().MatchString(text):
			m.Fail(`%q is not a path; write keys with dots and indexes in brackets, as in "ports[0].host"`, text)
		default:
			paths = append(paths, text)
		}
	}
	return paths
}
