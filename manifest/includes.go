package manifest

import (
	"iter"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/yamlfile"
)

const notCarried = `includes a file whose name is known only when it is evaluated, so a revision cannot carry it: ` +
	`name the file, a list of files, or begin the name with its directory, as in {% include "conf/" ~ name %}, without ".." behind that`

// Includes examines the expressions of a manifest, whatever the variables are, and with
// them every file that they name: the evaluator reads each. What they include by names
// that are known only later is in the usage. It fails with an *Error that holds all
// problems of the file's form and of its expressions, and those of files that could be
// any.
func Includes(source Source, e *expression.Evaluator) (possible expression.Usage, err error) {
	var found yamlfile.Report
	root, _ := yamlfile.Open(source.Name, source.Data, manifestFile, &found)
	for text := range expressionsOf(root) {
		u, err := e.Examine(text.Value)
		switch {
		case err != nil:
			found.Add(failure(text, err))
		case u.Anywhere:
			found.Add(Problem{Position: text.Position, Path: text.Path(), Message: notCarried})
		}
		possible.Candidates = append(possible.Candidates, u.Candidates...)
		possible.Directories = append(possible.Directories, u.Directories...)
	}
	return possible, found.Err()
}

// expressionsOf yields the texts of a manifest that are evaluated.
func expressionsOf(root *yamlfile.Node) iter.Seq[*yamlfile.Node] {
	return func(yield func(*yamlfile.Node) bool) {
		if root == nil {
			return
		}
		var evaluated []*yamlfile.Node
		if declared := root.Child(variablesKey); declared != nil {
			for _, d := range declared.Members {
				if n := d.Child("default"); n != nil {
					evaluated = append(evaluated, n)
				}
			}
		}
		if plugs := root.Child("plugs"); plugs != nil {
			evaluated = append(evaluated, plugs)
		}
		if outputs := root.Child("outputs"); outputs != nil {
			evaluated = append(evaluated, outputs)
		}
		if resources := root.Child("resources"); resources != nil {
			for _, r := range resources.Members {
				for _, key := range []string{"for_each", "when", "dependencies", "config"} {
					if n := r.Child(key); n != nil {
						evaluated = append(evaluated, n)
					}
				}
			}
		}
		for _, n := range evaluated {
			for text := range n.Texts() {
				if expression.IsTemplate(text.Value) && !yield(text) {
					return
				}
			}
		}
	}
}
