// Package yamlfile reads YAML files that people write, and tells them
// everything that is wrong with one at once, each problem at its place and with
// what was probably meant.
//
// Read parses a file and hands its root to a function, which asks each value
// for what it should be (Fields, List, Text, Integer …). Who is given something
// else need not return an error: the value has told its problem, the reading
// goes on, and Read fails in the end with all of them.
//
//	err := yamlfile.Read("hosts.yaml", data, "it needs a list hosts", func(root *yamlfile.Node) {
//		fields, ok := root.Fields("the file", "hosts")
//		…
//	})
//
// Aliases and merge keys are resolved before, and bounded: a few lines of them
// can stand for more than fits into any machine.
package yamlfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxSize is how large a file may be, in bytes.
const MaxSize = 8 << 20

// The other bounds of a file.
const (
	maxDepth  = 100     // collections within each other
	maxCopied = 500_000 // values that aliases stand for
	maxHints  = 50      // looking for what was meant costs time
)

// Read parses a file and lets read look at its root; it is not called when the
// file is not one YAML document. name is what messages call the file, and needs
// says, after "the file is empty; ", what should be in it. It fails with an
// *Error.
func Read(name string, data []byte, needs string, read func(root *Node)) error {
	f := &file{name: name, data: data}
	if root := f.parse(needs); root != nil {
		read(f.expand(root, &Node{}, nil, 0, false))
	}
	return f.err()
}

// file is a file that is being read, and what was found wrong with it.
type file struct {
	name     string
	data     []byte
	problems []Problem
	more     int   // problems that are only counted
	copied   int   // values that were read through aliases
	hints    int   // how often one was looked for
	starts   []int // of lines, in bytes; made when first needed
}

// parse returns the root, nil when there is none and the problem was told.
func (f *file) parse(needs string) *yaml.Node {
	if len(f.data) > MaxSize {
		f.add(Problem{Message: fmt.Sprintf("has %d bytes; at most %d (8 MiB) are possible", len(f.data), MaxSize)})
		return nil
	}
	if at, what := f.unreadable(); what != "" {
		f.add(Problem{Position: at, Message: what})
		return nil
	}
	root, err := parse(f.data)
	var second errSecond
	switch {
	case errors.As(err, &second):
		f.add(Problem{Position: Position{Line: second.line, Column: second.column}, Message: err.Error()})
	case err != nil:
		f.add(f.syntax(err))
	case root == nil || root.ShortTag() == "!!null":
		f.add(Problem{Position: Position{Line: 1, Column: 1}, Message: "the file is empty; " + needs})
	default:
		return root
	}
	return nil
}

// unreadable finds what no YAML file may contain; the parser would not say
// where it is.
func (f *file) unreadable() (Position, string) {
	if bytes.HasPrefix(f.data, []byte{0xff, 0xfe}) || bytes.HasPrefix(f.data, []byte{0xfe, 0xff}) {
		return Position{Line: 1, Column: 1}, "is UTF-16; save it as UTF-8"
	}
	for i := 0; i < len(f.data); {
		c := f.data[i]
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' || c == 0x7f {
			return f.position(i), fmt.Sprintf("a control character (%#02x) is not possible in YAML", c)
		}
		r, n := utf8.DecodeRune(f.data[i:])
		if r == utf8.RuneError && n == 1 {
			return f.position(i), "is not valid UTF-8"
		}
		i += n
	}
	return Position{}, ""
}

// errSecond is about a second document in a file.
type errSecond struct{ line, column int }

func (errSecond) Error() string { return "a second YAML document begins here; a file holds one" }

func parse(data []byte) (root *yaml.Node, err error) {
	defer func() { // the parser is not ours, and the file anybody's
		if r := recover(); r != nil {
			root, err = nil, fmt.Errorf("it can not be parsed: %v", r)
		}
	}()
	for dec := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var doc yaml.Node
		switch err := dec.Decode(&doc); {
		case errors.Is(err, io.EOF):
			return root, nil
		case err != nil:
			return nil, err
		case len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" && doc.Content[0].Value == "":
			continue // a mere separator
		case root != nil:
			return nil, errSecond{doc.Content[0].Line, doc.Content[0].Column}
		}
		root = doc.Content[0]
	}
}

var (
	yamlLine   = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s)(.*)$`)
	yamlAnchor = regexp.MustCompile(`^yaml: unknown anchor '(.*)' referenced$`)
)

// syntax puts what the parser says at its place. The parser only tells where
// the collection begins in which it gave up, if that, so the shortest beginning
// of the file that it refuses in the same way is looked for.
func (f *file) syntax(err error) Problem {
	if m := yamlAnchor.FindStringSubmatch(err.Error()); m != nil {
		if i := bytes.Index(f.data, []byte("*"+m[1])); i >= 0 {
			return Problem{Position: f.position(i), Message: fmt.Sprintf("there is no anchor &%.60s before this alias", m[1])}
		}
	}
	reason := func(err error) string { return yamlLine.ReplaceAllString(err.Error(), "$2") }
	f.findLines()
	line := 1
	if searched := 1 << 20; len(f.data) <= searched { // beyond, it would take too long
		line += sort.Search(len(f.starts)-1, func(i int) bool {
			_, e := parse(f.data[:f.starts[i+1]])
			return e != nil && reason(e) == reason(err)
		})
	} else if m := yamlLine.FindStringSubmatch(err.Error()); m != nil && m[1] != "" {
		line, _ = strconv.Atoi(m[1])
	}
	if at, message := Malformed(f.data, line); message != "" {
		return Problem{Position: f.position(at), Message: "malformed YAML: " + message}
	}
	text := f.line(line)
	column := 1 + len(text) - len(bytes.TrimLeft(text, " \t"))
	return Problem{Position: Position{Line: line, Column: column}, Message: "malformed YAML: " + reason(err)}
}

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
	return Position{Line: line + 1, Column: 1 + utf8.RuneCount(f.data[f.starts[line]:offset])}
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
