// Package yamlformat gives YAML files one form: two spaces for each level, one
// after a dash and a colon, no trailing spaces, and one empty line where there
// are several.
//
// It works on the lines of the text and not on what a parser makes of it, so that
// comments, anchors, quotes and blocks of text stay what they are. What comes out
// is parsed and compared with what went in; where that is not the same, the text
// is left as it is.
package yamlformat

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Format returns the text of a file in its form. It fails when the text cannot be
// parsed; what is wrong with it, other packages say better.
func Format(data []byte) ([]byte, error) {
	text := lineEnds.Replace(strings.TrimPrefix(string(data), "\ufeff"))
	before, err := parse([]byte(text))
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if strings.ContainsAny(text, "\u0085\u2028\u2029") {
		return data, nil // line ends to the parser alone
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for _, form := range []func() []string{
		func() []string { return format(lines, before) },
		func() []string { return lines }, // forms that only the parser understands
	} {
		out := []byte(strings.Join(form(), "\n") + "\n")
		after, err := parse(out)
		if err == nil && same(before, after) {
			return out, nil
		}
	}
	return data, nil
}

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// parse parses a text of one document, after which only separators may follow.
func parse(data []byte) (*yaml.Node, error) {
	var doc, more yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch err := dec.Decode(&more); {
	case errors.Is(err, io.EOF):
		return &doc, nil
	case err != nil:
		return nil, err
	case len(more.Content) > 0 && more.Content[0].Tag != "!!null":
		return nil, fmt.Errorf("a second document begins in line %d", more.Content[0].Line)
	}
	return &doc, nil
}
