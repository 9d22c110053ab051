package yamlfile

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// expand makes a Node of what the parser found. around are the anchors within
// which it is; copying is whether an alias led here.
func (f *file) expand(from *yaml.Node, to *Node, around []*yaml.Node, depth int, copying bool) *Node {
	to.file, to.Kind, to.Position = f, Nothing, f.at(from)
	for from.Kind == yaml.AliasNode {
		if slices.Contains(around, from.Alias) {
			return to.giveUp("the anchor &%.60s contains itself", from.Value)
		}
		from, copying = from.Alias, true
		around = append(around[:len(around):len(around)], from)
	}
	if copying && !f.spend(to) {
		to.Kind = broken
		return to
	}
	to.Position, to.style = f.at(from), from.Style
	if from.Kind != yaml.ScalarNode && depth >= maxDepth {
		f.add(Problem{Position: to.Position, Path: to.outer(4).Path(), Message: fmt.Sprintf("nested deeper than %d levels", maxDepth)})
		to.Kind = broken
		return to
	}
	switch tag := from.ShortTag(); {
	case from.Kind == yaml.MappingNode && tag == "!!map":
		to.Kind = Mapping
		f.expandMapping(from, to, around, depth, copying)
	case from.Kind == yaml.SequenceNode && tag == "!!seq":
		to.Kind = List
		to.Members = make([]*Node, 0, len(from.Content))
		for i, item := range from.Content {
			to.Members = append(to.Members, f.expand(item, &Node{parent: to, index: i}, around, depth+1, copying))
		}
	case from.Kind == yaml.ScalarNode && scalars[tag] != "":
		to.Kind, to.Value = scalars[tag], from.Value
	case from.Kind == yaml.ScalarNode && tag == "!!binary" && f.format.Binary:
		return to.expandBinary(from.Value)
	default:
		return to.giveUp("the tag %.60s is not known", tag)
	}
	return to
}

func (f *file) at(n *yaml.Node) Position { return Position{f.name, n.Line, n.Column} }

// giveUp reports why a value cannot be read, about which nothing else is
// reported then.
func (n *Node) giveUp(format string, args ...any) *Node {
	n.Fail(format, args...)
	n.Kind = broken
	return n
}

// outer is what is around the value, so many levels below the root.
func (n *Node) outer(level int) *Node {
	around := []*Node{n}
	for ; n.parent != nil; n = n.parent {
		around = append(around, n.parent)
	}
	return around[max(0, len(around)-1-level)]
}

var scalars = map[string]Kind{
	"!!str": Text, "!!timestamp": Text, "!!merge": Text, "!!null": Nothing,
	"!!bool": Boolean, "!!int": Integer, "!!float": Number,
}

// expandBinary reads the text that is written in base64.
func (n *Node) expandBinary(written string) *Node {
	data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(written), ""))
	switch {
	case err != nil:
		return n.giveUp("!!binary must be base64: %s", err)
	case !utf8.Valid(data):
		return n.giveUp("!!binary must be valid UTF-8 once it is decoded: a configuration is JSON")
	}
	n.Kind, n.Value = Binary, string(data)
	return n
}

// spend counts a value that an alias stands for. It returns false, and reports it
// once, when there are too many.
func (f *file) spend(n *Node) bool {
	f.copied++
	if f.copied == maxCopied {
		n.Fail("the aliases of this file stand for more than %d values", maxCopied)
	}
	return f.copied < maxCopied
}

// expandMapping makes the members of a mapping, with those that it merges in:
// what is written in it goes before them.
func (f *file) expandMapping(from *yaml.Node, to *Node, around []*yaml.Node, depth int, copying bool) {
	first := make(map[string]*Node, len(from.Content)/2)
	to.Members = make([]*Node, 0, len(from.Content)/2)
	add := func(key, value *yaml.Node, merged bool) {
		name := key
		for name.Kind == yaml.AliasNode {
			name = name.Alias
		}
		if problem := keyProblem(name); problem != "" {
			to.flawed = true
			to.fail(f.at(key), "%s", problem)
			return
		}
		member := &Node{file: f, parent: to, Name: name.Value, NameAt: f.at(key), Position: f.at(key)}
		switch before := first[name.Value]; {
		case before != nil && merged:
		case before != nil:
			to.flawed = true
			member.Fail("duplicate %s %.60q, first at %s", cmp.Or(f.format.Members[to.Path()], "key"), name.Value, before.NameAt)
		default:
			first[name.Value] = member
			to.Members = append(to.Members, f.expand(value, member, around, depth+1, copying || merged))
		}
	}
	var merges []*yaml.Node
	for i := 0; i+1 < len(from.Content); i += 2 {
		if from.Content[i].ShortTag() == "!!merge" {
			merges = append(merges, from.Content[i+1])
			continue
		}
		add(from.Content[i], from.Content[i+1], false)
	}
	for _, m := range merges {
		f.merge(m, to, depth, add)
	}
}

// scalarKind is the kind of a scalar where none is expected, so that it makes no
// difference whether a number is whole.
func scalarKind(n *yaml.Node) Kind {
	kind := scalars[n.ShortTag()]
	if kind == Integer {
		return Number
	}
	return kind
}

// keyProblem says why something cannot be a key, "" when it can.
func keyProblem(key *yaml.Node) string {
	switch kind := scalarKind(key); {
	case key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0:
		return `a value that begins with an expression must be in quotes: "{{ … }}"`
	case key.Kind == yaml.MappingNode:
		return "a key must be text, not " + string(Mapping)
	case key.Kind != yaml.ScalarNode:
		return "a key must be text, not " + string(List)
	case kind == Text:
		return ""
	case kind == "":
		return fmt.Sprintf("the tag %.60s is not known", key.ShortTag())
	default:
		return fmt.Sprintf("a key must be text, not %s: write it as %.60q", kind, key.Value)
	}
}

// merge adds the members that a merge key brings along.
func (f *file) merge(from *yaml.Node, to *Node, depth int, add func(key, value *yaml.Node, merged bool)) {
	at := f.at(from)
	for from.Kind == yaml.AliasNode {
		from = from.Alias
	}
	switch {
	case depth >= maxDepth:
		to.flawed = true
		to.fail(at, "nested deeper than %d levels", maxDepth)
	case !f.spend(to):
	case from.Kind == yaml.SequenceNode:
		for _, one := range from.Content {
			f.merge(one, to, depth+1, add)
		}
	case from.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(from.Content); i += 2 {
			if key := from.Content[i]; key.ShortTag() != "!!merge" && f.spend(to) {
				add(key, from.Content[i+1], true)
			}
		}
		for i := 0; i+1 < len(from.Content); i += 2 {
			if from.Content[i].ShortTag() == "!!merge" {
				f.merge(from.Content[i+1], to, depth+1, add)
			}
		}
	case scalarKind(from) == "":
		to.flawed = true
		to.fail(at, "the tag %.60s is not known", from.ShortTag())
	default:
		to.flawed = true
		to.fail(at, "a merge key (<<) takes a mapping or a list of mappings, not %s", scalarKind(from))
	}
}
