package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Position is a place in a manifest.
type Position = yamlfile.Position

// Problem is something that the user must mend.
type Problem = yamlfile.Problem

// Error is everything that is wrong with the manifests, in their order.
type Error = yamlfile.Error

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
	list := Sorted(p.list, files)
	if more := len(list) - maxProblems; more > 0 {
		list = append(list[:maxProblems:maxProblems], Problem{Message: fmt.Sprintf("and %d more problems", more)})
	}
	return &Error{Problems: list}
}

// Sorted returns problems in the order of files and positions, each once.
func Sorted(list []Problem, files []string) []Problem {
	order := make(map[string]int, len(files))
	for i, f := range files {
		order[f] = i + 1
	}
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(order[a.Position.File], order[b.Position.File]),
			cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Position.Column, b.Position.Column))
	})
	return slices.Compact(list)
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
