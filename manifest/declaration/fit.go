package declaration

import (
	"slices"
	"strconv"

	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/schema"
)

// Fit is a value in which numbers and truth values are texts where the schema of the variable wants
// texts: a revision such as 5176135 looks like a number, wherever it is given. node is how the value
// is written, nil where nobody knows. doubts are of texts that others would read as something else.
func (d *Variable) Fit(value any, node *yamlfile.Node) (fitted any, doubts []yamlfile.Problem) {
	if !d.Valid() {
		return value, nil
	}
	for _, broken := range d.mistyped(value) {
		of := node.Within(broken.Path)
		text, ok := plain(schema.Within(value, broken.Path), of)
		if !ok {
			continue
		}
		as := with(value, broken.Path, text)
		if slices.ContainsFunc(d.mistyped(as), func(o schema.Violation) bool { return slices.Equal(o.Path, broken.Path) }) {
			continue
		}
		value = as
		if of != nil && of.Lost() != "" {
			doubts = append(doubts, yamlfile.Problem{Position: of.Position, Path: of.Path(), Message: "is the text " + strconv.Quote(text) + ", as it is declared, and a number for others that read the file: put it in quotes"})
		}
	}
	return value, doubts
}

// mistyped is where a value is of another type than the schema says.
func (d *Variable) mistyped(value any) []schema.Violation {
	return slices.DeleteFunc(d.Validate(value), func(v schema.Violation) bool { return v.Rule != "type" })
}

// plain is the text of a number or a truth value.
func plain(value any, node *yamlfile.Node) (string, bool) {
	if node != nil {
		if text, ok := node.Plain(); ok {
			return text, true
		}
	}
	const exact = 1 << 53
	switch value := value.(type) {
	case bool:
		return strconv.FormatBool(value), true
	case int64:
		return strconv.FormatInt(value, 10), true
	case int:
		return strconv.Itoa(value), true
	case float64:
		return strconv.FormatFloat(value, 'f', -1, 64), -exact < value && value < exact
	}
	return "", false
}

// with is a value that has another one at a path. It changes nothing.
func with(value any, path []string, to any) any {
	if len(path) == 0 {
		return to
	}
	switch whole := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(whole))
		for name, member := range whole {
			out[name] = member
		}
		out[path[0]] = with(whole[path[0]], path[1:], to)
		return out
	case []any:
		out := slices.Clone(whole)
		if i, err := strconv.Atoi(path[0]); err == nil && i < len(out) {
			out[i] = with(out[i], path[1:], to)
		}
		return out
	}
	return value
}
