package vars

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/manifest/declaration"
)

// Written is the value as YAML in one line, where the text of a number or truth value in it is lost with the value:
// 1.10, 0644, True. It is "" of all others.
func (a Assignment) Written() string {
	node := cmp.Or(a.node, a.texts)
	if node == nil {
		return ""
	}
	plain, _ := declaration.Texts(a.Value, nil)
	if text, _ := declaration.Texts(a.Value, node); reflect.DeepEqual(plain, text) {
		return ""
	}
	var out strings.Builder
	write(&out, node)
	return out.String()
}

// tag is that of a number or a truth value.
func tag(kind yamlfile.Kind) string {
	switch kind {
	case yamlfile.Integer:
		return "!!int"
	case yamlfile.Number:
		return "!!float"
	default:
		return "!!bool"
	}
}

func write(out *strings.Builder, n *yamlfile.Node) {
	switch n.Kind {
	case yamlfile.Mapping, yamlfile.List:
		open, end := "{", "}"
		if n.Kind == yamlfile.List {
			open, end = "[", "]"
		}
		out.WriteString(open)
		for i, m := range n.Members {
			if i > 0 {
				out.WriteString(", ")
			}
			if n.Kind == yamlfile.Mapping {
				out.WriteString(strconv.QuoteToASCII(m.Name) + ": ")
			}
			write(out, m)
		}
		out.WriteString(end)
	case yamlfile.Integer, yamlfile.Number, yamlfile.Boolean:
		if _, plain := n.Plain(); !plain {
			out.WriteString(tag(n.Kind) + " ")
		}
		out.WriteString(n.Value)
	case yamlfile.Nothing:
		out.WriteString("null")
	default:
		out.WriteString(strconv.QuoteToASCII(n.Value))
	}
}

// Rewritten is the assignment with the value that Written returned.
func (a Assignment) Rewritten(yaml string) (Assignment, error) {
	var found yamlfile.Report
	root, ok := yamlfile.Open(a.At.File, []byte(yaml), typedValue, &found)
	if ok && root != nil {
		a.Value, _ = root.Any()
		a.texts = root
	}
	if err := unplaced(&found); err != nil {
		return a, fmt.Errorf("its value %.60q: %w", yaml, err)
	}
	return a, nil
}

// As gives the assignment the value of another one, as it is written there.
func (a *Assignment) As(other Assignment) {
	a.Value, a.texts = other.Value, cmp.Or(other.node, other.texts)
}
