package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Position is a place in a file.
type Position struct {
	File         string
	Line, Column int // from 1, in characters; 0 is not known
}

// String writes it as FILE:LINE:COLUMN, as far as it is known.
func (p Position) String() string {
	text := p.File
	if p.Line > 0 {
		text += ":" + strconv.Itoa(p.Line)
		if p.Column > 0 {
			text += ":" + strconv.Itoa(p.Column)
		}
	}
	return strings.TrimPrefix(text, ":")
}

// Problem is something that the user must mend.
type Problem struct {
	Position Position
	Path     string // such as hosts[2].attributes.stack; may be empty
	Message  string
	Hint     string // what was probably meant; may be empty
}

// String returns the problem as one line.
func (p Problem) String() string {
	var b strings.Builder
	if at := p.Position.String(); at != "" {
		b.WriteString(at + ": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(strings.ReplaceAll(p.Message, "\n", " "))
	if p.Hint != "" {
		fmt.Fprintf(&b, ", did you mean %q?", p.Hint)
	}
	return b.String()
}

// Error is everything that is wrong with a file, in its order.
type Error struct{ Problems []Problem }

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// maxProblems is how many problems are told; nobody reads more.
const maxProblems = 1000

// add tells a problem, or only counts it when too many were told.
func (f *file) add(p Problem) {
	if f.full() {
		f.more++
		return
	}
	p.Position.File = f.name
	f.problems = append(f.problems, p)
}

func (f *file) full() bool { return len(f.problems) >= maxProblems }

// err returns the problems in the order of the file, nil if there are none.
func (f *file) err() error {
	if len(f.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(f.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	list := slices.Compact(f.problems)
	if f.more > 0 {
		list = append(list, Problem{Message: fmt.Sprintf("and %d more problems", f.more)})
	}
	return &Error{Problems: list}
}
