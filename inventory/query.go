package inventory

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Query selects hosts. The zero value selects none.
//
// A query compares what a host has under a subject: its name, its platforms
// (platform), or the values of an attribute (attribute:KEY). An attribute that
// the host lacks has no values, one that is a list may have several. Then
//
//	==         one of the values is this one
//	in (a, b)  one of the values is one of these
//	=~ "re"    the regular expression (Go's) matches somewhere in one of them
//	exists     there is a value
//
// and !=, not_in and not_exists are the opposites. So a host without the
// attribute stack matches attribute:stack != beta, and one with the roles web
// and db matches attribute:roles == web but not attribute:roles != web.
// Comparisons are combined with not, and, or (which bind in this order) and
// parentheses. Values other than letters, digits and ._-/:@+ are in quotes, "
// or ', before which a backslash keeps its quote from ending the text.
type Query struct{ root expr }

// Match reports whether a host is selected.
func (q Query) Match(h Host) bool { return q.root != nil && q.root.match(&h) }

// String writes the query in its canonical form, which ParseQuery reads as a
// query of the same meaning.
func (q Query) String() string {
	if q.root == nil {
		return ""
	}
	var b strings.Builder
	q.root.write(&b)
	return b.String()
}

type expr interface {
	match(*Host) bool
	write(*strings.Builder)
}

type (
	anyOf []expr // "or"
	allOf []expr // "and"
	not   struct{ of expr }

	// test is a comparison. The operators are those without a "not".
	test struct {
		subject  string
		operator operator
		opposite bool
		values   []string
		pattern  *regexp.Regexp
	}
)

type operator string

const (
	equals  operator = "=="
	within  operator = "in"
	matches operator = "=~"
	exists  operator = "exists"
)

// written is the operator as people write it.
func (t test) written() string {
	switch {
	case !t.opposite:
		return string(t.operator)
	case t.operator == equals:
		return "!="
	default:
		return "not_" + string(t.operator)
	}
}

const (
	subjectName      = "name"
	subjectPlatform  = "platform"
	subjectAttribute = "attribute:" // before its key
)

func (e anyOf) match(h *Host) bool {
	return slices.ContainsFunc(e, func(e expr) bool { return e.match(h) })
}

func (e allOf) match(h *Host) bool {
	return !slices.ContainsFunc(e, func(e expr) bool { return !e.match(h) })
}

func (e not) match(h *Host) bool { return !e.of.match(h) }

func (t test) match(h *Host) bool {
	var has []string
	switch t.subject {
	case subjectName:
		has = []string{h.Name}
	case subjectPlatform:
		has = h.Platforms
	default:
		has = h.Attributes[strings.TrimPrefix(t.subject, subjectAttribute)]
	}
	return t.opposite != slices.ContainsFunc(has, t.fits)
}

func (t test) fits(value string) bool {
	switch t.operator {
	case exists:
		return true
	case matches:
		return t.pattern.MatchString(value)
	default:
		return slices.Contains(t.values, value)
	}
}

func (e anyOf) write(b *strings.Builder) {
	for i, part := range e {
		if i > 0 {
			b.WriteString(" or ")
		}
		part.write(b)
	}
}

func (e allOf) write(b *strings.Builder) {
	for i, part := range e {
		if i > 0 {
			b.WriteString(" and ")
		}
		_, loose := part.(anyOf)
		writeWithin(b, part, loose)
	}
}

func (e not) write(b *strings.Builder) {
	b.WriteString("not ")
	switch e.of.(type) {
	case anyOf, allOf:
		writeWithin(b, e.of, true)
	default:
		e.of.write(b)
	}
}

func writeWithin(b *strings.Builder, e expr, parentheses bool) {
	if !parentheses {
		e.write(b)
		return
	}
	b.WriteByte('(')
	e.write(b)
	b.WriteByte(')')
}

func (t test) write(b *strings.Builder) {
	b.WriteString(t.subject + " " + t.written())
	switch t.operator {
	case exists:
	case within:
		b.WriteString(" (")
		for i, v := range t.values {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(quote(v))
		}
		b.WriteByte(')')
	default:
		b.WriteString(" " + quote(t.values[0]))
	}
}

// quote puts a value into quotes if it must be.
func quote(value string) string {
	plain := value != "" && !slices.Contains(keywords, value) && strings.IndexFunc(value, func(r rune) bool { return !isPlain(r) }) < 0
	if plain {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}

// QueryError is what is wrong with a query, and where.
type QueryError struct {
	Column  int // from 1, in characters
	Message string
	Hint    string // what was probably meant; may be empty
}

// Error returns the problem as one line.
func (e *QueryError) Error() string {
	_, problem := e.Place()
	return "the query at character " + strconv.Itoa(e.Column) + ": " + problem
}

// Place returns the column and what is wrong there, for those who can point at
// it in a file.
func (e *QueryError) Place() (column int, problem string) {
	if e.Hint == "" {
		return e.Column, e.Message
	}
	return e.Column, fmt.Sprintf("%s, did you mean %q?", e.Message, e.Hint)
}
