package value

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Set returns the file with another value where the path leads, and the value as it is
// otherwise: a text stays a text, and what is quoted stays quoted. The file itself is not
// changed.
func (p Path) Set(file []byte, to string) ([]byte, error) {
	documents, target, err := p.find(file)
	if err != nil {
		return nil, err
	}
	if has := valueOf(target) == to && target.Tag != "!!null"; has && (target.Value == to || truth(target) == "") {
		return slices.Clone(file), nil
	}
	if strings.Contains(target.Value, "{{") {
		return nil, fmt.Errorf("%s (line %d): %.60q is filled in by a template: set the value that the template reads", p, target.Line, target.Value)
	}
	if err := encrypted(documents, target); err != nil {
		return nil, fmt.Errorf("%s (line %d): %w", p, target.Line, err)
	}
	start, end, err := place(file, target)
	if err != nil {
		return nil, fmt.Errorf("%s (line %d): %w", p, target.Line, err)
	}
	isJSON := json.Valid(file)
	for _, text := range written(target, to) {
		changed := slices.Concat(file[:start], []byte(text), file[end:])
		if isJSON && !json.Valid(changed) {
			continue
		}
		after, now, err := p.find(changed)
		if err == nil && valueOf(now) == to && sameBut(documents, after, target, now) {
			return changed, nil
		}
	}
	return nil, fmt.Errorf("%s (line %d): %q cannot be written there without changing anything else", p, target.Line, to)
}

// written returns the ways to write a value where another one is, the best first.
func written(before *yaml.Node, to string) []string {
	double := doubleQuoted(to)
	switch {
	case before.Style == yaml.DoubleQuotedStyle:
	case before.Style == yaml.SingleQuotedStyle:
		return []string{"'" + strings.ReplaceAll(to, "'", "''") + "'", double}
	case before.Tag == "!!bool" && (to == "true" || to == "false"),
		(before.Tag == "!!int" || before.Tag == "!!float") && plainNumber(to),
		plainText(to):
		return []string{to, double}
	}
	return []string{double}
}

// doubleQuoted is a text as JSON writes it, which YAML reads, too.
func doubleQuoted(text string) string {
	var to bytes.Buffer
	e := json.NewEncoder(&to)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a text has a form in JSON
	return strings.TrimSuffix(to.String(), "\n")
}

// place is where in the file the text of a value begins and ends.
func place(file []byte, node *yaml.Node) (start, end int, err error) {
	start = offset(file, node.Line, node.Column)
	rest := file[min(start, len(file)):]
	elsewhere := errors.New("where it is written is not known for certain: write it on one line, as a value in quotes or without")
	switch node.Style {
	case yaml.DoubleQuotedStyle:
		end = closing(rest, '"')
	case yaml.SingleQuotedStyle:
		end = closing(rest, '\'')
	case 0:
		if node.Value == "" {
			return 0, 0, errors.New("there is no value yet; write a first one, such as \"\"")
		}
		if bytes.HasPrefix(rest, []byte(node.Value)) && !strings.ContainsAny(node.Value, "\r\n") {
			end = len(node.Value)
		}
	case yaml.LiteralStyle, yaml.FoldedStyle:
		return 0, 0, errors.New("it is written as a block (| or >): write it on one line")
	default:
		return 0, 0, errors.New("it has a tag of its own (!): write it without")
	}
	if end == 0 {
		return 0, 0, elsewhere
	}
	return start, start + end, nil
}

// closing is behind the quote that ends a text in quotes, 0 where there is none.
func closing(text []byte, quote byte) int {
	if len(text) == 0 || text[0] != quote {
		return 0
	}
	for i := 1; i < len(text); i++ {
		switch {
		case quote == '"' && text[i] == '\\':
			i++
		case text[i] != quote:
		case quote == '\'' && i+1 < len(text) && text[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return 0
}

// offset is where a line and a column are, which count from 1, in characters. Lines end as in
// YAML.
func offset(file []byte, line, column int) int { return newCursor(file).to(line, column) }

// cursor finds places of a file in order, so that it reads the file once.
type cursor struct {
	file             []byte
	at, line, column int
}

func newCursor(file []byte) *cursor {
	c := &cursor{file: file, line: 1, column: 1}
	if bytes.HasPrefix(file, []byte("\ufeff")) {
		c.at = len("\ufeff")
	}
	return c
}

// to moves on to a place, which is not before the last one.
func (c *cursor) to(line, column int) int {
	const (
		nextLine           = '\u0085'
		lineSeparator      = '\u2028'
		paragraphSeparator = '\u2029'
	)
	for c.at < len(c.file) && (c.line < line || c.column < column) {
		r, size := utf8.DecodeRune(c.file[c.at:])
		c.at += size
		switch {
		case r == '\r' && c.at < len(c.file) && c.file[c.at] == '\n':
		case r == '\n' || r == '\r' || r == nextLine || r == lineSeparator || r == paragraphSeparator:
			c.line, c.column = c.line+1, 1
		default:
			c.column++
		}
	}
	return c.at
}

// sameBut reports whether two files have the same in all places but one.
func sameBut(before, after []*yaml.Node, old, now *yaml.Node) bool {
	if len(before) != len(after) {
		return false
	}
	for i, a := range before {
		b := after[i]
		switch {
		case a == old || b == now:
			if a != old || b != now || a.HeadComment != b.HeadComment || a.LineComment != b.LineComment || a.FootComment != b.FootComment {
				return false
			}
			continue
		case a.Kind != b.Kind || a.Tag != b.Tag || a.Value != b.Value || a.Anchor != b.Anchor || a.Style != b.Style || a.Line != b.Line:
			return false
		case a.HeadComment != b.HeadComment || a.LineComment != b.LineComment || a.FootComment != b.FootComment:
			return false
		case !sameBut(a.Content, b.Content, old, now):
			return false
		}
	}
	return true
}
