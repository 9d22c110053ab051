package yamlfile

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// expand makes a Node of what the parser found. around are the anchors within
// which it is; copying is whether an alias led here.
func (f *file) expand(from *yaml.Node, to *Node, around []*yaml.Node, depth int, copying bool) *Node {
	to.file, to.Position, to.Kind = f, Position{f.name, from.Line, from.Column}, Nothing
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
	if from.Kind != yaml.ScalarNode && depth >= maxDepth {
		return to.giveUp("nested deeper than %d levels", maxDepth)
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
		to.Kind, to.Value, to.style = scalars[tag], from.Value, from.Style
	default:
		return to.giveUp("the tag %.60s is not known", tag)
	}
	return to
}

// giveUp tells why a value can not be read, of which nothing more will be
// told about it.
func (n *Node) giveUp(format string, args ...any) *Node {
	n.Fail(format, args...)
	n.Kind = broken
	return n
}

var scalars = map[string]Kind{
	"!!str": Text, "!!timestamp": Text, "!!merge": Text, "!!null": Nothing,
	"!!bool": Boolean, "!!int": Integer, "!!float": Number,
}

// spend counts a value that an alias stands for. It returns false, and tells it
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
	add := func(key, value *yaml.Node, merged bool) {
		name := key
		for name.Kind == yaml.AliasNode {
			name = name.Alias
		}
		at := Position{f.name, key.Line, key.Column}
		member := &Node{file: f, parent: to, Name: name.Value, NameAt: at, Position: at}
		switch before := first[name.Value]; {
		case name.Kind != yaml.ScalarNode:
			to.fail(at, "a key must be text")
		case scalars[name.ShortTag()] != Text:
			to.fail(at, "a key must be text: write it as %.60q", name.Value)
		case before != nil && merged:
		case before != nil:
			member.Fail("the key %.60q is there twice, first at %d:%d", name.Value, before.NameAt.Line, before.NameAt.Column)
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

// merge adds the members that a merge key brings along.
func (f *file) merge(from *yaml.Node, to *Node, depth int, add func(key, value *yaml.Node, merged bool)) {
	at := Position{f.name, from.Line, from.Column}
	for from.Kind == yaml.AliasNode {
		from = from.Alias
	}
	switch {
	case depth >= maxDepth:
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
	default:
		to.fail(at, "a merge key (<<) takes a mapping or a list of mappings")
	}
}
