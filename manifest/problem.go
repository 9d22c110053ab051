package manifest

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
	Path     string // such as resources.web.config.ports[0]; may be empty
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

// Error is everything that is wrong with the input.
type Error struct{ Problems []Problem }

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// maxProblems is how many problems are reported; nobody reads more.
const maxProblems = 1000

// problems collects what is wrong.
type problems struct{ list []Problem }

func (p *problems) add(problem Problem) { p.list = append(p.list, problem) }

// err returns the problems in the order of files and positions, nil if there
// are none.
func (p *problems) err(files []string) error {
	if len(p.list) == 0 {
		return nil
	}
	order := make(map[string]int, len(files))
	for i, f := range files {
		order[f] = i + 1
	}
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(order[a.Position.File], order[b.Position.File]),
			cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	list := slices.Compact(p.list)
	if more := len(list) - maxProblems; more > 0 {
		list = append(list[:maxProblems:maxProblems], Problem{Message: fmt.Sprintf("and %d more problems", more)})
	}
	return &Error{Problems: list}
}

// pathText writes a path for people: resources.web.config.ports[0].
func pathText(path []string) string {
	var b strings.Builder
	for i, key := range path {
		_, err := strconv.ParseUint(key, 10, 32)
		switch {
		case err == nil && i > 0:
			b.WriteString("[" + key + "]")
		case i > 0:
			b.WriteString("." + key)
		default:
			b.WriteString(key)
		}
	}
	return b.String()
}
