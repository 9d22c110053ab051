package yamlfile

import (
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/pattern"
)

// Lost says why a value without quotes is not the same for all that read YAML, or is not printed as it is
// written: 0644, 1.10, 1e5, 0x1F, 1_000, 22:30, yes. It is "" of all others, also of 1.0.
func (n *Node) Lost() string {
	const quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle
	if n.style&quotes != 0 {
		return ""
	}
	switch n.Kind {
	case Integer, Number:
		text, short, ok := n.canonical()
		if ok && text != n.Value && text+".0" != n.Value && short != n.Value {
			return fmt.Sprintf("%.40s is the number %s, and its text is lost: put it in quotes for the text, or write %[2]s for the number", n.Value, text)
		}
	case Text:
		switch {
		case isSwitch(n.Value):
			return fmt.Sprintf("%s is true or false for some readers of YAML, and a text for others: put it in quotes for the text, or write true or false", n.Value)
		case isNumber(n.Value):
			return fmt.Sprintf("%.40s is a number for some readers of YAML, and a text for others: put it in quotes", n.Value)
		}
	case Mapping, List, Binary, Boolean, Nothing, broken:
	}
	return ""
}

// canonical is how the number is printed, by people and, where it is very large or small, by programs.
func (n *Node) canonical() (text, short string, ok bool) {
	var i int64
	var f float64
	switch {
	case n.Kind == Integer && n.decode("!!int", &i):
		text = strconv.FormatInt(i, 10)
		return text, text, true
	case n.decode("!!float", &f):
		const most = 25
		short = strconv.FormatFloat(f, 'g', -1, 64)
		if text = strconv.FormatFloat(f, 'f', -1, 64); len(text) > most {
			text = short
		}
		return text, short, true
	}
	return "", "", false
}

// Ambiguous reports whether a text that is written without quotes is something else for some readers of
// YAML.
func Ambiguous(text string) bool { return isSwitch(text) || isNumber(text) }

func isNumber(text string) bool {
	return sexagesimal().MatchString(text) || decimal().MatchString(text)
}

// Plain is the text of a number or a truth value that is written without quotes.
func (n *Node) Plain() (text string, ok bool) {
	switch n.Kind {
	case Integer, Number, Boolean:
		return n.Value, n.style&yaml.TaggedStyle == 0
	default:
		return "", false
	}
}

// Scalars are the values within the value that are no collections.
func (n *Node) Scalars() (all []*Node) {
	if n.Kind != Mapping && n.Kind != List {
		return []*Node{n}
	}
	for _, m := range n.Members {
		all = append(all, m.Scalars()...)
	}
	return all
}

// Within is the node at a path of names and indexes, nil where there is none.
func (n *Node) Within(path []string) *Node {
	for _, key := range path {
		if n == nil {
			return nil
		}
		i := slices.IndexFunc(n.Members, func(m *Node) bool { return n.Kind == Mapping && m.Name == key })
		if at, err := strconv.Atoi(key); n.Kind == List && err == nil && at < len(n.Members) {
			i = at
		}
		if i < 0 {
			return nil
		}
		n = n.Members[i]
	}
	return n
}

// isSwitch reports whether readers of YAML 1.1 read a text as true or false, and those of YAML 1.2 as a text.
// That version has y and n, too, which its readers take for texts.
func isSwitch(text string) bool {
	return slices.Contains([]string{"yes", "Yes", "YES", "no", "No", "NO", "on", "On", "ON", "off", "Off", "OFF"}, text)
}

var (
	sexagesimal = pattern.Lazy(`^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?$`)
	decimal     = pattern.Lazy(`^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`) // too large for a number here
)
