package yamlfile

import (
	"iter"
	"math"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/pattern"
)

var (
	digits  = pattern.Lazy(`^[-+]?[0-9_]+$`)
	notZero = pattern.Lazy(`^[^eE]*[1-9]`)
)

// Any returns the value as JSON knows it, made of string, bool, int64, float64,
// nil, []any and map[string]any. ok is false when that is not possible of all of
// it, which has been reported.
func (n *Node) Any() (value any, ok bool) {
	switch n.Kind {
	case Mapping:
		out := make(map[string]any, len(n.Members))
		ok = !n.flawed
		for _, m := range n.Members {
			member, good := m.Any()
			out[m.Name], ok = member, ok && good
		}
		return out, ok
	case List:
		out := make([]any, len(n.Members))
		ok = true
		for i, m := range n.Members {
			member, good := m.Any()
			out[i], ok = member, ok && good
		}
		return out, ok
	case Text, Binary:
		return n.Value, true
	case Nothing:
		return nil, true
	case Boolean:
		var b bool
		if !n.decode("!!bool", &b) {
			n.Fail("%.60q is not a boolean", n.Value)
			return nil, false
		}
		return b, true
	case Integer, Number:
		return n.number()
	default:
		return nil, false
	}
}

func (n *Node) number() (value any, ok bool) {
	var i int64
	var f float64
	switch {
	case n.Kind == Integer && n.decode("!!int", &i):
		return i, true
	case n.Kind == Integer || digits().MatchString(n.Value) && n.style&yaml.TaggedStyle == 0:
		n.Fail("%.40s is not an integer of 64 bits; put it in quotes to have it as text", n.Value)
	case !n.decode("!!float", &f):
		n.Fail("%.60q is not a number", n.Value)
	case math.IsInf(f, 0) || math.IsNaN(f):
		n.Fail("%.60s is not a number that JSON can express", n.Value)
	case f == 0 && notZero().MatchString(n.Value):
		n.Fail("%.40s is nearer to 0 than any number of 64 bits; put it in quotes to have it as text", n.Value)
	default:
		return f, true
	}
	return nil, false
}

// decode reads the value as YAML does where its tag is known.
func (n *Node) decode(tag string, into any) bool {
	node := yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: n.Value, Style: n.style}
	return node.Decode(into) == nil
}

// Bool reads true or false, and what YAML 1.1 called so: yes, no, on and off. It
// reports nothing.
func (n *Node) Bool() (value, ok bool) {
	switch {
	case n.Quoted():
		return false, false
	case n.Kind == Boolean:
		ok = n.decode("!!bool", &value)
	case n.Kind == Text:
		ok = n.decode("!!str", &value)
	}
	return value, ok
}

// Quoted reports whether the value is written in quotes.
func (n *Node) Quoted() bool { return n.style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 }

// InBrackets reports whether the value is a collection that is written in
// brackets or braces.
func (n *Node) InBrackets() bool { return n.style&yaml.FlowStyle != 0 }

// Texts returns the texts within the value, in the order of the file; of a text
// it is the text.
func (n *Node) Texts() iter.Seq[*Node] {
	return func(yield func(*Node) bool) { n.texts(yield) }
}

func (n *Node) texts(yield func(*Node) bool) bool {
	if n.Kind == Text || n.Kind == Binary {
		return yield(n)
	}
	for _, m := range n.Members {
		if !m.texts(yield) {
			return false
		}
	}
	return true
}
