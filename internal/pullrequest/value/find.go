package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/internal/suggest"
)

// MaxFile is how many bytes a file may have.
const MaxFile = 4 << 20

// maxDocuments is how many documents a file may have: each takes long for the few bytes that it
// needs in a file.
const maxDocuments = 10_000

// Get returns the value to which the path leads, as a program reads it: without quotes, and 1.1 if
// the file has 1.10 without quotes.
func (p Path) Get(file []byte) (string, error) {
	_, target, err := p.find(file)
	if err != nil {
		return "", err
	}
	return valueOf(target), nil
}

// read returns the documents of a file.
func read(file []byte) (all []*yaml.Node, err error) {
	if len(file) > MaxFile {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read: keep the value in a smaller file", len(file), MaxFile)
	}
	if !utf8.Valid(file) {
		return nil, errors.New("it is not text in UTF-8: save it as that")
	}
	if bytes.HasPrefix(file, []byte("version https://git-lfs.github.com/spec/")) {
		return nil, errors.New("it is a pointer of Git LFS, so its contents are elsewhere: keep this file in git itself (git lfs untrack, then git add --renormalize)")
	}
	text, escapes := readable(file)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		document := &yaml.Node{}
		switch err := decoder.Decode(document); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil && bytes.Contains(file, []byte("{{")):
			line := 1 + bytes.Count(file[:bytes.Index(file, []byte("{{"))], []byte("\n"))
			return nil, fmt.Errorf("it is a template ({{ in line %d), and no YAML before it is filled in: name the file that has its values, such as values.yaml", line)
		case err != nil:
			return nil, fmt.Errorf("it is neither YAML nor JSON: %w", err)
		}
		if escapes {
			restore(file, document)
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
	found, number := 0, 0
	for _, document := range documents {
		if len(document.Content) == 0 {
			continue
		}
		node, err := p.in(document.Content[0], number)
		number++
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
		return nil, nil, fmt.Errorf("%d of its documents have %s: begin the path with the document that is meant, such as [1].%s or [kind=Deployment,metadata.name=web].%s", found, p.text, p.text, p.text)
	case found == 0 && missing != nil:
		return nil, nil, missing
	case found == 0:
		return nil, nil, errors.New("it is empty: write a first value there")
	}
	return documents, target, nil
}

// readable returns the file with a version and with escapes that the reader of YAML knows. Every
// byte stays at its place, so what is found there is at the same place of the file. It also reports
// whether texts of JSON have other values than in the file.
func readable(file []byte) (text []byte, escapes bool) {
	if bytes.HasPrefix(file, []byte("%YAML 1.2")) || bytes.Contains(file, []byte("\n%YAML 1.2")) {
		file = versions().ReplaceAll(file, []byte("${1}%YAML 1.1"))
	}
	if !bytes.ContainsRune(file, '\\') || !json.Valid(file) {
		return file, false
	}
	file = bytes.ReplaceAll(file, []byte(`\\`), []byte("\x00\x00"))
	file = bytes.ReplaceAll(file, []byte(`\/`), []byte(`_/`))
	file = surrogates().ReplaceAllFunc(file, func(escape []byte) []byte { return bytes.Repeat([]byte("_"), len(escape)) })
	return bytes.ReplaceAll(file, []byte("\x00\x00"), []byte(`\\`)), true
}

// restore gives the keys and texts of JSON the values that they have in the file.
func restore(file []byte, document *yaml.Node) {
	at := newCursor(file)
	var visit func(*yaml.Node)
	visit = func(n *yaml.Node) {
		if n.Kind == yaml.ScalarNode && n.Style == yaml.DoubleQuotedStyle {
			text := file[at.to(n.Line, n.Column):]
			_ = json.Unmarshal(text[:closing(text, '"')], &n.Value) // the document is valid, so each text is
		}
		for _, child := range n.Content {
			visit(child)
		}
	}
	visit(document)
}

var (
	versions   = pattern.Lazy(`(?m)(^)%YAML 1\.2`)
	surrogates = pattern.Lazy(`\\u[dD][89abAB][0-9a-fA-F]{2}(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
)

// in follows the path in a document, which is the number-th of the file. A path that begins with
// an index or with members selects the document by it, unless the document is a list.
func (p Path) in(root *yaml.Node, number int) (*yaml.Node, error) {
	first := p.steps[0]
	if !first.selects() || root.Kind != yaml.MappingNode || len(p.steps) == 1 {
		return p.walk(root, p.steps, "the file")
	}
	if first.index >= 0 && first.index != number || len(first.members) > 0 && !has(root, first.members) {
		return nil, absentError{fmt.Sprintf("no document is %s", first.display)}
	}
	return p.walk(root, p.steps[1:], first.display)
}

// absentError says that a document has nothing where a path leads.
type absentError struct{ text string }

func (e absentError) Error() string { return e.text }

// walk follows steps from a node.
func (p Path) walk(node *yaml.Node, steps []step, at string) (*yaml.Node, error) {
	for _, s := range steps {
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
	if isTemplate(node) {
		return nil, fmt.Errorf("%s (line %d) is filled in by a template ({{): set the value that the template reads, as in values.yaml", at, node.Line)
	}
	if node.Kind != yaml.ScalarNode {
		return nil, absentError{fmt.Sprintf("%s is %s, not one value (line %d): lead the path further", at, kindOf(node), node.Line)}
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
	case s.selects():
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
	if len(s.members) == 0 {
		if s.index >= len(node.Content) {
			return nil, absentError{fmt.Sprintf("%s has %d elements, so there is no %s (line %d)", at, len(node.Content), s.display, node.Line)}
		}
		return node.Content[s.index], nil
	}
	for _, element := range node.Content {
		if !has(element, s.members) {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("several elements of %s are %s (lines %d and %d): name another member, as in [name=shop,kind=web]", at, s.named(), found.Line, element.Line)
		}
		found = element
	}
	if found == nil {
		return nil, absentError{fmt.Sprintf("no element of %s is %s (line %d)", at, s.named(), node.Line)}
	}
	return found, nil
}

// has reports whether a node has members with these values.
func has(node *yaml.Node, all []match) bool {
	for _, m := range all {
		at := member(node, m.member) // its name may have dots
		if at == nil {
			at = node
			for _, key := range strings.Split(m.member, ".") {
				if at = member(at, key); at == nil {
					return false
				}
			}
		}
		if textOf(at) != m.equals {
			return false
		}
	}
	return true
}

// named returns the brackets of the step.
func (s step) named() string {
	var all []string
	for _, m := range s.members {
		all = append(all, m.member+"="+m.equals)
	}
	return "[" + strings.Join(all, ",") + "]"
}

func (s step) value(node *yaml.Node, at string) (found *yaml.Node, err error) {
	var keys []string
	for i := 0; i+1 < len(node.Content); i += 2 {
		if key := textOf(node.Content[i]); key != s.key {
			keys = append(keys, key)
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("%s has the key %q twice (lines %d and %d): remove one of them", at, s.key, found.Line, node.Content[i].Line)
		}
		found = node.Content[i+1]
	}
	if found == nil {
		meant := ""
		if like := suggest.Closest(s.key, keys); like != "" {
			meant = fmt.Sprintf("; did you mean %q?", like)
		} else if slices.Contains(keys, "<<") {
			meant = fmt.Sprintf(" of its own: others may have it, too, by the merge key <<; write %q into this mapping", s.key)
		}
		return nil, absentError{fmt.Sprintf("%s has no key %q (line %d)%s", at, s.key, node.Line, meant)}
	}
	return found, nil
}

// textOf returns the text of a scalar, also of one that an alias stands for. The Value of an alias
// is the name of its anchor.
func textOf(node *yaml.Node) string {
	if node.Kind == yaml.AliasNode && node.Alias != nil {
		node = node.Alias
	}
	if node.Kind != yaml.ScalarNode {
		return ""
	}
	return node.Value
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

// isTemplate reports whether a value without quotes is a template, which YAML reads as a mapping that
// has a mapping for its key: {{ .Values.tag }}.
func isTemplate(node *yaml.Node) bool {
	return node.Kind == yaml.MappingNode && node.Style == yaml.FlowStyle && len(node.Content) == 2 && node.Content[0].Kind == yaml.MappingNode
}
