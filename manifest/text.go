package manifest

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// index finds the beginnings of lines, as YAML understands lines.
func (f *file) index() {
	if f.lines != nil {
		return
	}
	f.lines = []int{0}
	for i := 0; i < len(f.data); {
		r, n := utf8.DecodeRune(f.data[i:])
		i += n
		switch r {
		case '\r':
			if i < len(f.data) && f.data[i] == '\n' {
				i++
			}
			f.lines = append(f.lines, i)
		case '\n', '\u0085', '\u2028', '\u2029':
			f.lines = append(f.lines, i)
		}
	}
}

func (f *file) count() int {
	f.index()
	return len(f.lines)
}

// line returns the text of a line, from 1.
func (f *file) line(n int) []byte {
	f.index()
	if n < 1 || n > len(f.lines) {
		return nil
	}
	end := len(f.data)
	if n < len(f.lines) {
		end = f.lines[n]
	}
	return bytes.TrimRight(f.data[f.lines[n-1]:end], "\r\n")
}

// position is that of a byte.
func (f *file) position(offset int) Position {
	f.index()
	line, exact := slices.BinarySearch(f.lines, offset)
	if !exact {
		line--
	}
	return Position{File: f.name, Line: line + 1, Column: 1 + utf8.RuneCount(f.data[f.lines[line]:offset])}
}

// offset is the byte at a position.
func (f *file) offset(line, column int) int {
	f.index()
	if line < 1 || line > len(f.lines) {
		return len(f.data)
	}
	i := f.lines[line-1]
	for ; column > 1 && i < len(f.data); column-- {
		_, n := utf8.DecodeRune(f.data[i:])
		i += n
	}
	return i
}

// within returns where in the file a place within a text is; line and column,
// from 1, are those of the value. A value is written in many ways (quoted, as
// a block, folded) that differ in their spaces and line ends only, so the
// letters before the place are counted off in the file.
func (f *file) within(n *yaml.Node, line, column int) Position {
	if line < 1 || n.Kind != yaml.ScalarNode {
		return f.at(n)
	}
	letters := lettersBefore(n.Value, line, max(1, column))
	i := f.content(n)
	for i < len(f.data) {
		r, size := utf8.DecodeRune(f.data[i:])
		visible := !unicode.IsSpace(r)
		switch {
		case n.Style&yaml.DoubleQuotedStyle != 0 && r == '\\':
			visible, size = escape(f.data[i:])
		case n.Style&yaml.SingleQuotedStyle != 0 && r == '\'':
			size = 2 // '' is one quote
		}
		if visible {
			if letters == 0 {
				return f.position(i)
			}
			letters--
		}
		i += size
	}
	return f.at(n)
}

func lettersBefore(text string, line, column int) int {
	letters := 0
	for _, r := range text {
		if line <= 1 {
			if column--; column <= 0 {
				break
			}
		}
		if r == '\n' {
			line--
		}
		if !unicode.IsSpace(r) {
			letters++
		}
	}
	return letters
}

// content is where the text of a scalar begins: after its anchor, tag, quote
// or block header.
func (f *file) content(n *yaml.Node) int {
	i := f.offset(n.Line, n.Column)
	for i < len(f.data) && (f.data[i] == '&' || f.data[i] == '!') {
		for i < len(f.data) && !unicode.IsSpace(rune(f.data[i])) {
			i++
		}
		for i < len(f.data) && unicode.IsSpace(rune(f.data[i])) {
			i++
		}
	}
	switch {
	case n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		return i + 1
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		if end := bytes.IndexByte(f.data[min(i, len(f.data)):], '\n'); end >= 0 {
			return i + end + 1
		}
	}
	return i
}

// escape reads an escape of a double-quoted text: whether it makes something
// visible, and its length.
func escape(text []byte) (visible bool, size int) {
	if len(text) < 2 {
		return false, len(text)
	}
	switch text[1] {
	case 'x':
		return true, 4
	case 'u':
		return true, 6
	case 'U':
		return true, 10
	default:
		return !strings.ContainsRune("ntrvfNLP_ \t\r\n", rune(text[1])), 2
	}
}

// find walks a path of keys and indexes from a node.
func (f *file) find(n *yaml.Node, path []string, otherwise Position) Position {
	at := otherwise
	for {
		n = target(n)
		if n == nil {
			return at
		}
		if n.Kind == yaml.ScalarNode || len(path) == 0 && n.Style&yaml.FlowStyle != 0 {
			return f.at(n)
		}
		if len(path) == 0 {
			return at
		}
		key, value := step(n, path[0], 0)
		if value == nil {
			return at
		}
		at = f.at(key)
		n, path = value, path[1:]
	}
}

// target is what an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// step returns the member of a collection and what carries its position.
func step(n *yaml.Node, key string, depth int) (at, value *yaml.Node) {
	if n.Kind == yaml.SequenceNode {
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i], n.Content[i]
		}
	}
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if k := target(n.Content[i]); k != nil && k.Kind == yaml.ScalarNode && k.Value == key && !isMerge(n.Content[i]) {
				return n.Content[i], n.Content[i+1]
			}
		}
		if depth > maxDepth {
			return nil, nil
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !isMerge(n.Content[i]) {
				continue
			}
			for _, from := range merged(n.Content[i+1]) {
				if from.Kind != yaml.MappingNode {
					continue
				}
				if at, value = step(from, key, depth+1); value != nil {
					return at, value
				}
			}
		}
	}
	return nil, nil
}
