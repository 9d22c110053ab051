package manifest

import (
	"bytes"
	"slices"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

const severalFiles = ", several files can be given"

var (
	manifestFile = yamlfile.Format{
		Needs: "a manifest needs a mapping resources", Second: severalFiles, Binary: true, Advice: loopAdvice,
		Members: map[string]string{"variables": "variable", "plugs": "plug", "resources": "resource", "modules": "module", "outputs": "output"},
	}
	moduleFile = yamlfile.Format{
		Needs: "a module needs resources, modules or outputs", Binary: true, Advice: loopAdvice, Members: manifestFile.Members,
	}
)

var forLoop = pattern.Lazy(`^\{%-?\s*for\s`)

// loopAdvice explains that a loop cannot make resources, where one begins at the
// byte and its first line would stand in the section of resources.
func loopAdvice(data []byte, at int) string {
	if !forLoop().Match(data[at:]) {
		return ""
	}
	depth := func(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " ")) }
	visible := func(line []byte) bool { return len(bytes.TrimSpace(line)) > 0 }
	lines := bytes.Split(data[at:], []byte("\n"))[1:]
	first := slices.IndexFunc(lines, visible)
	if first < 0 {
		return ""
	}
	for _, line := range slices.Backward(bytes.Split(data[:at], []byte("\n"))) {
		if visible(line) && depth(line) < depth(lines[first]) {
			if bytes.HasPrefix(line, []byte("resources:")) {
				return "; a loop cannot make resources: write each of them (an anchor and << share what they have in common), or have a program write the file"
			}
			break
		}
	}
	return ""
}

// KindOf names what a value of a file is. A number is one, whole or not.
func KindOf(n *yamlfile.Node) yamlfile.Kind {
	if n.Kind == yamlfile.Integer {
		return yamlfile.Number
	}
	return n.Kind
}

// kindOfValue names what a value is that an expression has made.
func kindOfValue(v any) yamlfile.Kind {
	switch v := v.(type) {
	case nil:
		return yamlfile.Nothing
	case bool:
		return yamlfile.Boolean
	case string:
		if v == "" {
			return "empty"
		}
		return yamlfile.Text
	case []any:
		return yamlfile.List
	case map[string]any:
		return yamlfile.Mapping
	default:
		return yamlfile.Number
	}
}
