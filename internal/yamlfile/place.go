package yamlfile

import (
	"bytes"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// findLines finds the beginnings of lines, as YAML understands lines.
func (f *file) findLines() {
	if f.starts != nil {
		return
	}
	f.starts = []int{0}
	for i := 0; i < len(f.data); {
		r, n := utf8.DecodeRune(f.data[i:])
		i += n
		switch r {
		case '\r':
			if i < len(f.data) && f.data[i] == '\n' {
				i++
			}
			f.starts = append(f.starts, i)
		case '\n', '\u0085', '\u2028', '\u2029':
			f.starts = append(f.starts, i)
		}
	}
}

// position is that of a byte.
func (f *file) position(offset int) Position {
	f.findLines()
	line, exact := slices.BinarySearch(f.starts, offset)
	if !exact {
		line--
	}
	return Position{File: f.name, Line: line + 1, Column: 1 + utf8.RuneCount(f.data[f.starts[line]:offset])}
}

// offset is the byte at a position.
func (f *file) offset(at Position) int {
	f.findLines()
	if at.Line < 1 || at.Line > len(f.starts) {
		return len(f.data)
	}
	i := f.starts[at.Line-1]
	for range at.Column - 1 {
		_, n := utf8.DecodeRune(f.data[i:])
		i += n
	}
	return i
}

// line returns the text of a line, from 1.
func (f *file) line(n int) []byte {
	f.findLines()
	if n < 1 || n > len(f.starts) {
		return nil
	}
	end := len(f.data)
	if n < len(f.starts) {
		end = f.starts[n]
	}
	return bytes.TrimRight(f.data[f.starts[n-1]:end], "\r\n")
}

// Find returns the place of a part of the value, by keys and indexes, or of the
// nearest part around it that is in the file. That of a collection which begins
// on a line of its own is the place of its name.
func (n *Node) Find(path ...string) Position {
	at := n.beginning()
	for {
		switch {
		case n.Kind != Mapping && n.Kind != List:
			return n.Position
		case len(path) == 0 && n.style&yaml.FlowStyle != 0:
			return n.Position
		case len(path) == 0:
			return at
		}
		if n = n.Child(path[0]); n == nil {
			return at
		}
		at, path = n.beginning(), path[1:]
	}
}

// beginning is where the name of a value is, or else the value.
func (n *Node) beginning() Position {
	if n.NameAt != (Position{}) {
		return n.NameAt
	}
	return n.Position
}

// Child returns the member of a mapping with a name, or that of a list with an
// index; nil when there is none.
func (n *Node) Child(key string) *Node {
	switch n.Kind {
	case Mapping:
		for _, m := range n.Members {
			if m.Name == key {
				return m
			}
		}
	case List:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.Members) {
			return n.Members[i]
		}
	default: // it has no members
	}
	return nil
}

// Inside returns the place of a character of a text, counted from 0, which may
// be the end of the text. A text is written in many ways (quoted, as a block,
// folded) that differ in their spaces, line ends and escapes only, so the
// visible characters before the place are counted off in the file. It returns
// false when the text is not found that way.
func (n *Node) Inside(offset int) (Position, bool) {
	if n.Kind != Text || offset < 0 {
		return Position{}, false
	}
	text := []rune(n.Value)
	offset = min(offset, len(text))
	begin := offset // of the space before the place
	for begin > 0 && unicode.IsSpace(text[begin-1]) {
		begin--
	}
	at := n.content()
	for _, want := range text[:begin] {
		if unicode.IsSpace(want) {
			continue
		}
		at = n.skipSpace(at)
		got, size := n.character(at)
		if size == 0 || got != want && got != anyCharacter {
			return Position{}, false
		}
		at += size
	}
	for _, want := range text[begin:offset] {
		if got, size := n.character(at); got == want {
			at += size
		}
	}
	if offset < len(text) && !unicode.IsSpace(text[offset]) {
		at = n.skipSpace(at)
	}
	return n.file.position(at), true
}

func (n *Node) skipSpace(at int) int {
	for {
		got, size := n.character(at)
		if size == 0 || !unicode.IsSpace(got) {
			return at
		}
		at += size
	}
}

// content is where the characters of a text begin: after its anchor, tag, quote
// or block header.
func (n *Node) content() int {
	data, at := n.file.data, n.file.offset(n.Position)
	for at < len(data) && (data[at] == '&' || data[at] == '!') {
		for at < len(data) && !unicode.IsSpace(rune(data[at])) {
			at++
		}
		for at < len(data) && unicode.IsSpace(rune(data[at])) {
			at++
		}
	}
	switch {
	case n.style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		return min(at+1, len(data))
	case n.style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		if end := bytes.IndexByte(data[at:], '\n'); end >= 0 {
			return at + end + 1
		}
	}
	return at
}

// anyCharacter is what an escape stands for that is not spelled out.
const anyCharacter = -1

// character returns what is written at a byte of the file, in the style of the
// text, and how many bytes that takes: 0 at the end of the file.
func (n *Node) character(at int) (rune, int) {
	data := n.file.data[at:]
	r, size := utf8.DecodeRune(data)
	switch {
	case n.style&yaml.SingleQuotedStyle != 0 && r == '\'' && len(data) > 1 && data[1] == '\'':
		return r, 2
	case n.style&yaml.DoubleQuotedStyle == 0 || r != '\\' || len(data) < 2:
		return r, size
	}
	size = map[byte]int{'x': 4, 'u': 6, 'U': 10}[data[1]]
	switch {
	case size > 0 && size <= len(data):
		code, err := strconv.ParseUint(string(data[2:size]), 16, 31)
		if err != nil {
			return anyCharacter, size
		}
		return rune(code), size
	case bytes.IndexByte([]byte("ntrvfNLP_ \t\r\n"), data[1]) >= 0:
		return ' ', 2
	case bytes.IndexByte([]byte(`"\/`), data[1]) >= 0:
		return rune(data[1]), 2
	default:
		return anyCharacter, 2
	}
}
