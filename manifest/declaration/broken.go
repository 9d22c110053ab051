package declaration

import (
	"fmt"

	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/schema"
)

// Place is where a variable gets its value.
type Place struct {
	yamlfile.Position
	Node  *yamlfile.Node // the value; nil where it is in no file, or not known
	Named bool           // the place has the name of the variable, as --var has
}

// Broken is how a value breaks the schema of the variable.
func (d *Variable) Broken(value any, from Place) (problems []yamlfile.Problem) {
	own := from == (Place{}) || from.Node != nil && from.Node == d.Node
	for _, v := range d.Validate(value) {
		p := yamlfile.Problem{Position: from.Position, Path: schema.PathOf(d.Name, v.Path), Message: fmt.Sprintf("%s (rule %q of the variable", v.Message, v.Rule)}
		switch {
		case own:
			p.Path = Key + "." + p.Path
			p.Message += ")"
		case from.Node == nil && len(v.Path) == 0 && from.Named:
			p.Path = ""
			fallthrough
		default:
			p.Message += fmt.Sprintf(" %s at %s)", d.Name, d.Position)
		}
		switch {
		case from.Node != nil:
			p.Position = from.Node.Find(v.Path...)
		case from == (Place{}):
			p.Position = d.Position
		}
		problems = append(problems, p)
	}
	return problems
}
