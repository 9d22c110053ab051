package main

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/pullrequest/value"
)

// names are keys whose values promotions set.
var names = map[string]bool{
	"tag": true, "newTag": true, "imageTag": true, "image": true, "version": true, "appVersion": true, "targetRevision": true, "revision": true, "semver": true,
}

// scalar is a value of a file that is edited.
type scalar struct {
	name     string
	path     string
	document int
	steps    []any // keys and indexes in the document
	node     *yaml.Node
	image    bool // only the tag of it is edited
}

// rootsOf are the roots of the documents of a file.
func rootsOf(file []byte) (documents []*yaml.Node, err error) {
	for decoder := yaml.NewDecoder(bytes.NewReader(file)); ; {
		document := &yaml.Node{}
		if err := decoder.Decode(document); errors.Is(err, io.EOF) {
			return documents, nil
		} else if err != nil {
			return nil, err
		}
		if len(document.Content) > 0 {
			documents = append(documents, document.Content[0])
		}
	}
}

// valuesOf finds the values of a file to edit.
func valuesOf(file []byte, all bool) (found []scalar, err error) {
	documents, err := rootsOf(file)
	if err != nil {
		return nil, err
	}
	for i, root := range documents {
		begin := ""
		if len(documents) > 1 && root.Kind == yaml.MappingNode {
			begin = "[" + strconv.Itoa(i) + "]"
		}
		var visit func(n *yaml.Node, name, path string, steps []any)
		visit = func(n *yaml.Node, name, path string, steps []any) {
			switch n.Kind {
			case yaml.MappingNode:
				for k := 0; k+1 < len(n.Content); k += 2 {
					if key := n.Content[k]; key.Kind == yaml.ScalarNode && key.Tag != "!!merge" {
						visit(n.Content[k+1], key.Value, join(path, key.Value), append(steps[:len(steps):len(steps)], key.Value))
					}
				}
			case yaml.SequenceNode:
				for k, element := range n.Content {
					visit(element, "", path+"["+strconv.Itoa(k)+"]", append(steps[:len(steps):len(steps)], k))
				}
			case yaml.ScalarNode, yaml.AliasNode:
				if (all || names[name]) && n.Tag != "!!null" {
					if !names[name] {
						name = "(others)"
					}
					found = append(found, scalar{name: name, path: path, document: i, steps: steps, node: n, image: name == "image" && strings.Contains(n.Value, ":")})
				}
			case yaml.DocumentNode: // the root is within one
			}
		}
		visit(root, "", begin, nil)
	}
	return found, nil
}

// join is a path with one more key.
func join(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]\"= ") {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// edit sets the value to another one.
func (v scalar) edit(file []byte) (to string, after []byte, err error) {
	to = "97.98.99"
	path, err := value.Parse(v.path)
	if err != nil {
		return "", nil, err
	}
	if v.image {
		image, err := path.Get(file)
		if err != nil {
			return "", nil, err
		}
		if to, err = value.WithTag(image, to); err != nil {
			return "", nil, err
		}
	}
	after, err = path.Set(file, to)
	return to, after, err
}

// minimal reports whether two files are the same before and behind the text of the value.
func (v scalar) minimal(before, after []byte) bool {
	lines, now := bytes.Split(before, []byte("\n")), bytes.Split(after, []byte("\n"))
	if len(lines) != len(now) {
		return false
	}
	for i := range lines {
		if i != v.node.Line-1 && !bytes.Equal(lines[i], now[i]) {
			return false
		}
	}
	is, was := string(now[v.node.Line-1]), string(lines[v.node.Line-1])
	start := len(string([]rune(was)[:v.node.Column-1]))
	end := start + written(was[start:], v.node)
	return strings.HasPrefix(is, was[:start]) && strings.HasSuffix(is[start:], was[end:])
}

// written is how many bytes of a line the value takes that it begins with.
func written(line string, node *yaml.Node) int {
	if node.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0 {
		return len(node.Value)
	}
	quote := line[0]
	for i := 1; i < len(line); i++ {
		switch {
		case quote == '"' && line[i] == '\\', quote == '\'' && strings.HasPrefix(line[i:], "''"):
			i++
		case line[i] == quote:
			return i + 1
		}
	}
	return len(line)
}
