package manifest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The bounds of a file. A few lines of aliases that refer to aliases can stand
// for more than fits into any machine.
const (
	maxDepth  = 100     // collections within each other
	maxCopied = 500_000 // nodes that aliases stand for
)

func itoa(i int) string { return strconv.Itoa(i) }

// entry is a member of a mapping.
type entry struct {
	name  string
	key   *yaml.Node
	value *yaml.Node
	copy  bool // merged in from another mapping
}

// enter follows the value of an entry to where it is written; until it is left,
// what is read counts as a copy where it is one.
func (f *file) enter(e entry) (n *yaml.Node, leave func()) {
	if !e.copy && e.value.Kind != yaml.AliasNode {
		return e.value, func() {}
	}
	f.copying++
	return target(e.value), func() { f.copying-- }
}

// spent counts a node that an alias stands for. It returns false, and tells it
// once, when there are too many.
func (f *file) spent(n *yaml.Node, path []string) bool {
	f.copied++
	if f.copied == maxCopied {
		f.fail(n, path, "the aliases of this file stand for more than %d values", maxCopied)
	}
	return f.copied >= maxCopied
}

// entries returns the members of a mapping, with those that it merges in.
// thing is what the members are, for messages.
func (f *file) entries(n *yaml.Node, path []string, thing string) []entry {
	out := make([]entry, 0, len(n.Content)/2)
	index := make(map[string]int, len(n.Content)/2)
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if isMerge(key) {
			merges = append(merges, value)
			continue
		}
		name, problem := keyText(target(key))
		if problem != "" {
			f.fail(key, path, "%s", problem)
			continue
		}
		if first, there := index[name]; there {
			f.fail(key, append(path[:len(path):len(path)], name), "the %s %q is there twice, first at %s", thing, name, f.at(out[first].key))
			continue
		}
		index[name] = len(out)
		out = append(out, entry{name: name, key: key, value: value})
	}
	for _, m := range merges {
		for _, e := range f.merge(m, path, 0) {
			if _, there := index[e.name]; !there {
				index[e.name] = len(out)
				out = append(out, e)
			}
		}
	}
	return out
}

// merge returns the members that a merge key brings along; of two with one
// name the first counts.
func (f *file) merge(n *yaml.Node, path []string, depth int) []entry {
	if depth > maxDepth {
		f.fail(n, path, "the merge keys are nested deeper than %d levels", maxDepth)
		return nil
	}
	var out []entry
	for _, from := range merged(n) {
		if from.Kind != yaml.MappingNode {
			f.fail(n, path, "a merge key (<<) takes a mapping or a list of mappings, not %s", nodeKind(from))
			continue
		}
		for i := 0; i+1 < len(from.Content); i += 2 {
			key, value := from.Content[i], from.Content[i+1]
			if f.spent(n, path) {
				return out
			}
			if isMerge(key) {
				continue
			}
			if name, problem := keyText(target(key)); problem == "" {
				out = append(out, entry{name: name, key: key, value: value, copy: true})
			}
		}
		for i := 0; i+1 < len(from.Content); i += 2 {
			if isMerge(from.Content[i]) {
				out = append(out, f.merge(from.Content[i+1], path, depth+1)...)
			}
		}
	}
	return out
}

// merged are the mappings that the value of a merge key names.
func merged(n *yaml.Node) []*yaml.Node {
	n = target(n)
	if n.Kind != yaml.SequenceNode {
		return []*yaml.Node{n}
	}
	var out []*yaml.Node
	for _, item := range n.Content {
		out = append(out, target(item))
	}
	return out
}

func isMerge(key *yaml.Node) bool {
	return key.Kind == yaml.ScalarNode && key.Value == "<<" && (key.Tag == "" || key.Tag == "!" || key.ShortTag() == "!!merge") && key.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0
}

func keyText(key *yaml.Node) (name, problem string) {
	switch {
	case key == nil:
		return "", "a key must be text"
	case key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0:
		return "", `a value that begins with an expression must be in quotes: "{{ … }}"`
	case key.Kind != yaml.ScalarNode:
		return "", "a key must be text, not " + nodeKind(key)
	case key.ShortTag() == "!!str" || key.ShortTag() == "!!timestamp" || key.ShortTag() == "!!merge":
		return key.Value, ""
	default:
		return "", fmt.Sprintf("a key must be text, not %s: write it as %q", nodeKind(key), key.Value)
	}
}

// leaf is a text within a value, and where it is.
type leaf struct {
	text string
	node *yaml.Node
	path []string
}

// converter turns nodes into values and notes the texts it meets.
type converter struct {
	*file
	open   []*yaml.Node // what aliases stand for, on the way to where it is
	leaves []leaf       // texts, where keep wants them
	keep   func(string) bool
}

// value turns a node into a value made of string, bool, int64, float64, nil,
// []any and map[string]any.
func (c *converter) value(n *yaml.Node, path []string, depth int) any {
	if depth > maxDepth {
		c.fail(n, path[:min(len(path), 4)], "nested deeper than %d levels", maxDepth)
		return nil
	}
	if c.copying > 0 && c.spent(n, path) {
		return nil
	}
	if n.Kind == yaml.AliasNode {
		to := target(n)
		for _, open := range c.open {
			if open == to {
				c.fail(n, path, "the anchor &%s contains itself", n.Value)
				return nil
			}
		}
		c.open = append(c.open, to)
		c.copying++
		defer func() { c.open = c.open[:len(c.open)-1]; c.copying-- }()
		return c.value(to, path, depth)
	}
	switch tag := n.ShortTag(); {
	case n.Kind == yaml.MappingNode && tag != "!!map", n.Kind == yaml.SequenceNode && tag != "!!seq":
		c.fail(n, path, "the tag %s is not known", tag)
		return nil
	}
	switch n.Kind {
	case yaml.MappingNode:
		out := make(map[string]any, len(n.Content)/2)
		for _, e := range c.entries(n, path, "key") {
			if e.copy {
				c.copying++
			}
			out[e.name] = c.value(e.value, append(path[:len(path):len(path)], e.name), depth+1)
			if e.copy {
				c.copying--
			}
		}
		return out
	case yaml.SequenceNode:
		out := make([]any, len(n.Content))
		for i, item := range n.Content {
			out[i] = c.value(item, append(path[:len(path):len(path)], itoa(i)), depth+1)
		}
		return out
	default:
		value, problem := scalar(n)
		if problem != "" {
			c.fail(n, path, "%s", problem)
		}
		if text, ok := value.(string); ok && c.keep != nil && c.keep(text) {
			c.leaves = append(c.leaves, leaf{text, n, path})
		}
		return value
	}
}

var (
	digits  = regexp.MustCompile(`^[-+]?[0-9_]+$`)
	notZero = regexp.MustCompile(`^[^eE]*[1-9]`)
)

// scalar turns a scalar into a value, or says why that is not possible.
func scalar(n *yaml.Node) (value any, problem string) {
	switch tag := n.ShortTag(); tag {
	case "!!str", "!!timestamp", "!!merge":
		return n.Value, ""
	case "!!null":
		return nil, ""
	case "!!bool":
		var b bool
		if n.Decode(&b) != nil {
			return nil, fmt.Sprintf("%q is not a boolean", n.Value)
		}
		return b, ""
	case "!!int":
		var i int64
		if n.Decode(&i) != nil {
			return nil, fmt.Sprintf("%.40s is not an integer of 64 bits; put it in quotes to have it as text", n.Value)
		}
		return i, ""
	case "!!float":
		var f float64
		switch {
		case digits.MatchString(n.Value) && n.Style&yaml.TaggedStyle == 0:
			return nil, fmt.Sprintf("%.40s is not an integer of 64 bits; put it in quotes to have it as text", n.Value)
		case n.Decode(&f) != nil:
			return nil, fmt.Sprintf("%q is not a number", n.Value)
		case math.IsInf(f, 0) || math.IsNaN(f):
			return nil, fmt.Sprintf("%s is not a number that JSON can express", n.Value)
		case f == 0 && notZero.MatchString(n.Value):
			return nil, fmt.Sprintf("%.40s is nearer to 0 than any number of 64 bits; put it in quotes to have it as text", n.Value)
		}
		return f, ""
	case "!!binary":
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), ""))
		if err != nil {
			return nil, "!!binary must be base64: " + err.Error()
		}
		if !utf8.Valid(data) {
			return nil, "!!binary must be valid UTF-8 once it is decoded: a configuration is JSON"
		}
		return string(data), ""
	default:
		return nil, fmt.Sprintf("the tag %s is not known", tag)
	}
}

// nodeKind names what a node is.
func nodeKind(n *yaml.Node) string {
	n = target(n)
	if n.Kind == yaml.MappingNode {
		return "a mapping"
	}
	if n.Kind == yaml.SequenceNode {
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "a boolean"
	case "!!int", "!!float":
		return "a number"
	default:
		return "text"
	}
}

// boolean reads true or false, and what YAML 1.1 knew besides.
func boolean(n *yaml.Node) (bool, error) {
	var b bool
	if n.Kind != yaml.ScalarNode || n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0 || n.Decode(&b) != nil {
		return false, errors.New("must be true or false, not " + nodeKind(n))
	}
	return b, nil
}
