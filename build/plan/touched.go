package plan

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

// Touched returns those of the names that packages of a definition have, each once. It fails with
// a *yamlfile.Error, which has no positions, where others are among them: with all of these, and
// what was probably meant.
func Touched(d *definition.Definition, names []string) (known []string, err error) {
	if len(names) == 0 {
		return nil, nil
	}
	all, there := make([]string, len(d.Packages)), make(map[string]bool, len(d.Packages))
	for i := range d.Packages {
		all[i] = d.Packages[i].Name
		there[all[i]] = true
	}
	what := "package"
	if d.List {
		what = "job"
	}
	var unknown yamlfile.Report
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		switch {
		case seen[name]:
		case there[name]:
			known = append(known, name)
		case unknown.Full():
			unknown.Add(yamlfile.Problem{}) // which is only counted
		default:
			p := yamlfile.Problem{Message: fmt.Sprintf("there is no %s %.60q", what, name), Hint: unknown.Closest(name, all)}
			if listed := 12; p.Hint == "" && len(all) > 0 && len(all) <= listed {
				p.Message += "; possible are " + strings.Join(all, ", ")
			}
			unknown.Add(p)
		}
		seen[name] = true
	}
	return known, unknown.Err()
}
