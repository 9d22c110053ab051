package yamlfile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/suggest"
)

// Position is a place in a file.
type Position struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1; 0 is not known
	Column int    `json:"column"` // from 1, in characters; 0 is not known
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

// Problem is something that the user must repair.
type Problem struct {
	Position
	Path    string `json:"path,omitempty"` // such as hosts[2].attributes.stack; may be empty
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"` // what was probably meant; may be empty
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
	b.WriteString(p.Message)
	if p.Hint != "" {
		fmt.Fprintf(&b, ", did you mean %q?", p.Hint)
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// Error is everything that is wrong with some files, in their order.
type Error struct{ Problems []Problem }

// Error returns one line for each problem.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

const (
	maxProblems = 1000    // that are reported; nobody reads more
	maxHints    = 50      // looking for what was meant costs time
	maxCompared = 500_000 // and so does each word that is compared for it
)

// Report collects what is wrong with one or several files. Its zero value is
// ready for use.
type Report struct {
	problems []Problem
	files    []string // in the order in which they were first mentioned
	more     int      // problems that are only counted
	hints    int      // how often one was looked for
	compared int      // words, for that
}

// about takes note that problems may follow of a file.
func (r *Report) about(file string) {
	if !slices.Contains(r.files, file) {
		r.files = append(r.files, file)
	}
}

// Add reports a problem, or only counts it when there are too many.
func (r *Report) Add(p Problem) {
	if r.Full() {
		r.more++
		return
	}
	r.about(p.File)
	r.problems = append(r.problems, p)
}

// Empty reports whether nothing has been found wrong.
func (r *Report) Empty() bool { return len(r.problems) == 0 }

// Closest returns what was probably meant by a word. A report in which everything
// is wrong gets help for the beginning only.
func (r *Report) Closest(word string, known []string) string {
	if r.hints++; r.hints > maxHints || r.compared > maxCompared {
		return ""
	}
	r.compared += len(known)
	return suggest.Closest(word, known)
}

// Full reports whether further problems are only counted, so that finding out
// more about them is wasted.
func (r *Report) Full() bool { return len(r.problems) >= maxProblems }

// Err returns the problems as an *Error, in the order of files and places, each
// once; nil if there are none.
func (r *Report) Err() error {
	if r.Empty() {
		return nil
	}
	list := Sorted(r.problems, r.files)
	if r.more > 0 {
		list = append(list, Problem{Message: fmt.Sprintf("and %d more problems", r.more)})
	}
	return &Error{Problems: list}
}

// Sorted returns problems in the order of files and places, each once.
func Sorted(problems []Problem, files []string) []Problem {
	order := make(map[string]int, len(files))
	for i, f := range files {
		order[f] = i + 1
	}
	list := slices.Clone(problems)
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(order[a.File], order[b.File]),
			cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return slices.Compact(list)
}
