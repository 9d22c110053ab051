package value

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/suggest"
)

// MaxFile is how many bytes a file may have.
const MaxFile = 4 << 20

// maxDocuments is how many documents a file may have: each takes long for the few bytes that it
// needs in a file.
const maxDocuments = 10_000

// Get returns the value to which the path leads, as it is without its quotes.
func (p Path) Get(file []byte) (string, error) {
	_, target, err := p.find(file)
	if err != nil {
		return "", err
	}
	return target.Value, nil
}

// read returns the documents of a file.
func read(file []byte) (all []*yaml.Node, err error) {
	if len(file) > MaxFile {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", len(file), MaxFile)
	}
	if !utf8.Valid(file) {
		return nil, errors.New("it is not text in UTF-8")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(file))
	for {
		document := &yaml.Node{}
		switch err := decoder.Decode(document); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
		}
		if all = append(all, document); len(all) > maxDocuments {
			return nil, fmt.Errorf("it has more than %d documents of YAML (---): write fewer into one file", maxDocuments)
		}
	}
}

// find returns the documents of a file and the one value to which the path leads.
func (p Path) find(file []byte) (documents []*yaml.Node, target *yaml.Node, err error) {
	documents, err = read(file)
	if err != nil {
		return nil, nil, err
	}
	var missing error
	found := 0
	for _, document := range documents {
		if len(document.Content) == 0 {
			continue
		}
		node, err := p.walk(document.Content[0])
		var absent absentError
		switch {
		case errors.As(err, &absent):
			if missing == nil {
				missing = err
			}
		case err != nil:
			return nil, nil, err
		default:
			target = node
			found++
		}
	}
	switch {
	case found > 1:
		return nil, nil, fmt.Errorf("%d of its documents have %s, and which is meant is not known", found, p.text)
	case found == 0 && missing != nil:
		return nil, nil, missing
	case found == 0:
		return nil, nil, errors.New("it is empty")
	}
	return documents, target, nil
}

// absentError says that a document has nothing where a path leads.
type absentError struct{ text string }

func (e absentError) Error() string { return e.text }

// walk follows the path from the root of a document.
func (p Path) walk(node *yaml.Node) (*yaml.Node, error) {
	at := "the file"
	for _, s := range p.steps {
		if err := plain(node, at); err != nil {
			return nil, err
		}
		next, err := s.from(node, at)
		if err != nil {
			return nil, err
		}
		node, at = next, s.display
	}
	if err := plain(node, at); err != nil {
		return nil, err
	}
	if node.Kind != yaml.ScalarNode {
		return nil, fmt.Errorf("%s is %s, not one value (line %d)", at, kindOf(node), node.Line)
	}
	return node, nil
}

// plain fails for what stands in another place, too: who changes it here changes that.
func plain(node *yaml.Node, at string) error {
	switch {
	case node.Kind == yaml.AliasNode:
		return fmt.Errorf("%s is the alias *%s (line %d): its value is where the anchor is, and others may have it, too; write the value there, or lead the path to the anchor's file alone", at, node.Value, node.Line)
	case node.Anchor != "":
		return fmt.Errorf("%s has the anchor &%s (line %d), so others may have its value, too: write the value without an anchor", at, node.Anchor, node.Line)
	}
	return nil
}

// from is what a step leads to.
func (s step) from(node *yaml.Node, at string) (*yaml.Node, error) {
	switch {
	case s.index >= 0 || s.member != "":
		if node.Kind != yaml.SequenceNode {
			return nil, absentError{fmt.Sprintf("%s is %s, not a list, so it has no %s (line %d)", at, kindOf(node), s.display, node.Line)}
		}
		return s.element(node, at)
	case node.Kind != yaml.MappingNode:
		return nil, absentError{fmt.Sprintf("%s is %s, so it has no key %q (line %d)", at, kindOf(node), s.key, node.Line)}
	default:
		return s.value(node, at)
	}
}

func (s step) element(node *yaml.Node, at string) (found *yaml.Node, err error) {
	if s.member == "" {
		if s.index >= len(node.Content) {
			return nil, absentError{fmt.Sprintf("%s has %d elements, so there is no %s (line %d)", at, len(node.Content), s.display, node.Line)}
		}
		return node.Content[s.index], nil
	}
	for _, element := range node.Content {
		if element.Kind != yaml.MappingNode {
			continue
		}
		for i := 0; i+1 < len(element.Content); i += 2 {
			if element.Content[i].Value != s.member || element.Content[i+1].Value != s.equals {
				continue
			}
			if found != nil && found != element {
				return nil, fmt.Errorf("several elements of %s have %s %s (lines %d and %d)", at, s.member, s.equals, found.Line, element.Line)
			}
			found = element
		}
	}
	if found == nil {
		return nil, absentError{fmt.Sprintf("no element of %s has %s %s (line %d)", at, s.member, s.equals, node.Line)}
	}
	return found, nil
}

func (s step) value(node *yaml.Node, at string) (found *yaml.Node, err error) {
	var keys []string
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value != s.key {
			keys = append(keys, node.Content[i].Value)
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s has the key %q twice (lines %d and %d)", at, s.key, found.Line, node.Content[i].Line)
		}
		found = node.Content[i+1]
	}
	if found == nil {
		meant := ""
		if like := suggest.Closest(s.key, keys); like != "" {
			meant = fmt.Sprintf("; did you mean %q?", like)
		}
		return nil, absentError{fmt.Sprintf("%s has no key %q (line %d)%s", at, s.key, node.Line, meant)}
	}
	return found, nil
}

func kindOf(node *yaml.Node) string {
	switch {
	case node.Kind == yaml.MappingNode:
		return "a mapping"
	case node.Kind == yaml.SequenceNode:
		return "a list"
	case node.Tag == "!!null":
		return "empty"
	default:
		return "one value"
	}
}
