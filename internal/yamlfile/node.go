package yamlfile

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/duration"
)

// Node is a value of a file. What aliases and merge keys stand for has been put
// in their place, so that reading need not think of them.
type Node struct {
	Position Position // of what an alias stands for, where it is one
	Kind     Kind
	Name     string   // in the mapping it is in, "" elsewhere
	NameAt   Position // of the name; zero elsewhere
	Value    string   // as written, of what is no collection
	Members  []*Node  // of a mapping or list, in order

	file   *file
	parent *Node
	index  int        // in the list it is in
	style  yaml.Style // in which it is written
	flawed bool       // a problem with one of the keys has been reported
}

// Kind is what a value is. It can stand in a sentence: "must be text, not a
// list".
type Kind string

// The kinds of values.
const (
	Mapping Kind = "a mapping"
	List    Kind = "a list"
	Text    Kind = "text"
	Binary  Kind = "binary data" // !!binary, whose value is the text that it stands for
	Integer Kind = "an integer"
	Number  Kind = "a number"
	Boolean Kind = "a boolean"
	Nothing Kind = "nothing"

	broken Kind = "broken" // a problem has been reported already
)

// Path is where the value is in the document: hosts[2].attributes.stack, ""
// for the root.
func (n *Node) Path() string {
	switch {
	case n.parent == nil:
		return ""
	case n.NameAt == Position{}:
		return n.parent.Path() + "[" + strconv.Itoa(n.index) + "]"
	default:
		return strings.TrimPrefix(fmt.Sprintf("%s.%.200s", n.parent.Path(), n.Name), ".")
	}
}

// Fail reports what is wrong with the value, at its place.
func (n *Node) Fail(format string, args ...any) {
	if n.Kind != broken {
		n.fail(n.Position, format, args...)
	}
}

// FailName reports what is wrong with having the value at all, at its name.
func (n *Node) FailName(format string, args ...any) { n.fail(n.NameAt, format, args...) }

// FailLike is Fail with what was probably meant by a word, or else what is
// possible.
func (n *Node) FailLike(word string, known []string, format string, args ...any) {
	n.suggest(n.Position, word, known, format, args...)
}

// FailInside is Fail at a character of a text, see Inside. It returns false, and
// reports nothing, where that place in the file is not known.
func (n *Node) FailInside(offset int, format string, args ...any) bool {
	if n.file.report.Full() {
		return false
	}
	at, ok := n.Inside(offset)
	if ok {
		n.fail(at, format, args...)
	}
	return ok
}

func (n *Node) fail(at Position, format string, args ...any) {
	if n.file.report.Full() {
		n.file.report.more++ // without the cost of its text
		return
	}
	n.file.add(Problem{Position: at, Path: n.Path(), Message: fmt.Sprintf(format, args...)})
}

func (n *Node) suggest(at Position, word string, known []string, format string, args ...any) {
	if n.file.report.Full() {
		n.file.report.more++
		return
	}
	p := Problem{Position: at, Path: n.Path(), Message: fmt.Sprintf(format, args...), Hint: n.file.report.Closest(word, known)}
	if listed := 12; p.Hint == "" && len(known) > 0 && len(known) <= listed {
		p.Message += "; possible are " + strings.Join(known, ", ")
	}
	n.file.add(p)
}

// Fields returns the members of a mapping by name; others than the known ones
// are problems. what is the mapping, for messages. ok is false when it is none.
func (n *Node) Fields(what string, known ...string) (fields map[string]*Node, ok bool) {
	if n.Kind != Mapping {
		n.Fail("%s must be a mapping with %s, not %s", what, strings.Join(known, ", "), n.Kind)
		return nil, false
	}
	fields = make(map[string]*Node, len(n.Members))
	for _, m := range n.Members {
		if !slices.Contains(known, m.Name) {
			n.suggest(m.NameAt, m.Name, known, "unknown key %.60q", m.Name)
			continue
		}
		fields[m.Name] = m
	}
	return fields, true
}

// List returns the members of a list, of which there may be no more than most.
func (n *Node) List(what string, most int) []*Node {
	switch {
	case n.Kind != List:
		n.Fail("must be a list of %s, not %s", what, n.Kind)
		return nil
	case len(n.Members) > most:
		n.Fail("has %d %s; at most %d are possible", len(n.Members), what, most)
		return nil
	}
	return n.Members
}

// Text reads a text that is not empty, of at most so many bytes.
func (n *Node) Text(what string, most int) (string, bool) {
	switch {
	case n.Kind == Text && n.Value == "":
		n.Fail("must be %s, not empty", what)
	case n.Kind == Text && len(n.Value) > most:
		n.Fail("has %d bytes; at most %d are possible", len(n.Value), most)
	case n.Kind == Text:
		return n.Value, true
	case n.Kind == Boolean || n.Kind == Integer || n.Kind == Number:
		n.Fail("must be %s, not %s: write it as %.60q", what, n.Kind, n.Value)
	default:
		n.Fail("must be %s, not %s", what, n.Kind)
	}
	return "", false
}

// Line reads a text as Text does, which must fit into one line.
func (n *Node) Line(what string, most int) (string, bool) {
	text, ok := n.Text(what, most)
	if ok && strings.ContainsFunc(text, isControl) {
		n.Fail("holds a control character")
		return "", false
	}
	return text, ok
}

func isControl(r rune) bool {
	return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u2028' || r == '\u2029'
}

// Integer reads a number from least to most; least when it is none.
func (n *Node) Integer(what string, least, most int) int {
	if n.Kind != Integer && n.Kind != Number {
		n.Fail("must be %s from %d to %d, not %s", what, least, most, n.Kind)
		return least
	}
	i, err := strconv.Atoi(n.Value)
	if err != nil || i < least || i > most {
		n.Fail("must be %s from %d to %d, not %.60s", what, least, most, n.Value)
		return least
	}
	return i
}

// Duration reads a time from least to most.
func (n *Node) Duration(least, most duration.Duration) (duration.Duration, bool) {
	const what = "a time such as 90s, 5m or 1h30m"
	text := n.Value
	switch {
	case n.Kind == Text || n.Kind == Integer && text == "0": // which needs no unit
	case n.Kind == Integer || n.Kind == Number:
		n.Fail("must be %s; %.60s has no unit", what, text)
		return 0, false
	default:
		n.Fail("must be %s, not %s", what, n.Kind)
		return 0, false
	}
	d, err := time.ParseDuration(text)
	switch read := duration.Duration(d); {
	case err != nil:
		n.Fail("must be %s, not %.60q", what, text)
	case read < least || read > most:
		n.Fail("must be from %s to %s, not %.60s", least, most, text)
	default:
		return read, true
	}
	return 0, false
}
