package declaration

import (
	"maps"
	"slices"
	"strconv"
	"strings"

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
	type change struct {
		path []string
		was  any
	}
	var changes []change
	for _, broken := range d.mistyped(value) {
		was := schema.Within(value, broken.Path)
		if text, ok := plain(was, node.Within(broken.Path)); ok {
			if len(changes) == 0 {
				value = copied(value)
			}
			value = put(value, broken.Path, text)
			changes = append(changes, change{broken.Path, was})
		}
	}
	if len(changes) == 0 {
		return value, nil
	}
	still := map[string]bool{}
	for _, broken := range d.mistyped(value) {
		still[strings.Join(broken.Path, "\x00")] = true
	}
	secrets := d.Secrets(value)
	for _, c := range changes {
		n := node.Within(c.path)
		switch {
		case still[strings.Join(c.path, "\x00")]:
			value = put(value, c.path, c.was)
		case n != nil && n.Lost() != "":
			text := "the text " + strconv.Quote(n.Value)
			if slices.ContainsFunc(secrets, func(of []string) bool { return len(of) <= len(c.path) && slices.Equal(of, c.path[:len(of)]) }) {
				text = "a text"
			}
			doubts = append(doubts, yamlfile.Problem{Position: n.Position, Path: n.Path(), Message: "is " + text + ", as it is declared, and a number for others that read the file: put it in quotes"})
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

// Scalar reports whether a value is a number or a truth value.
func Scalar(value any) bool {
	switch value.(type) {
	case bool, int, int64, float64:
		return true
	}
	return false
}

// FitAll is a configuration in which numbers and truth values are texts where the schema wants texts. asText is what a
// part may be instead. broken finds what is wrong with a configuration, which is not changed.
func FitAll(config map[string]any, broken func(map[string]any) []schema.Violation, asText func(path []string) any) map[string]any {
	fitted, was := any(config), map[string]any{}
	for _, v := range broken(config) {
		value := schema.Within(config, v.Path)
		if v.Rule != "type" || len(v.Path) == 0 || !Scalar(value) {
			continue
		}
		if text, ok := asText(v.Path).(string); ok {
			if len(was) == 0 {
				fitted = copied(config)
			}
			was[strings.Join(v.Path, "\x00")] = value
			fitted = put(fitted, v.Path, text)
		}
	}
	whole, _ := fitted.(map[string]any)
	if len(was) == 0 {
		return config
	}
	for _, v := range broken(whole) {
		if value, changed := was[strings.Join(v.Path, "\x00")]; changed && v.Rule == "type" {
			put(fitted, v.Path, value) // no text is wanted there
		}
	}
	return whole
}

// Around is the text in a configuration as it is written that a part of it is, or comes from, with the path of the part
// in what the text comes to. It is nil where there is none.
func Around(written map[string]any, path []string) (text any, within []string) {
	for n := len(path); n > 0; n-- {
		if text, ok := schema.Within(written, path[:n]).(string); ok {
			return text, path[n:]
		}
	}
	return nil, nil
}

// Untyped are the values of variables whose type is not declared, with texts in the place of numbers and truth values.
func Untyped(declared []*Variable, values map[string]any) map[string]any {
	texts := map[string]any{}
	for _, d := range declared {
		if text, changed := Texts(values[d.Name], nil); changed && d.Untyped(values[d.Name], text) {
			texts[d.Name] = text
		}
	}
	return texts
}

// Untyped reports whether nobody declares the type of a value: its schema accepts the text of it, too, or there is no
// declaration, and d is nil. What may not be shown is not untyped.
func (d *Variable) Untyped(value, text any) bool {
	return d == nil || d.Valid() && len(d.Validate(text)) == 0 && len(d.Secrets(value)) == 0
}

// Texts is a value with texts in the place of its numbers and truth values. node is how the value is written, nil
// where nobody knows.
func Texts(value any, node *yamlfile.Node) (text any, changed bool) {
	switch whole := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(whole))
		for name, member := range whole {
			some := false
			out[name], some = Texts(member, node.Within([]string{name}))
			changed = changed || some
		}
		return out, changed
	case []any:
		out := make([]any, len(whole))
		for i, member := range whole {
			some := false
			out[i], some = Texts(member, node.Within([]string{strconv.Itoa(i)}))
			changed = changed || some
		}
		return out, changed
	}
	if text, ok := plain(value, node); ok && Scalar(value) {
		return text, true
	}
	return value, false
}

// copied is a value whose mappings and lists are copies.
func copied(value any) any {
	switch whole := value.(type) {
	case map[string]any:
		out := maps.Clone(whole)
		for name, member := range out {
			out[name] = copied(member)
		}
		return out
	case []any:
		out := slices.Clone(whole)
		for i, member := range out {
			out[i] = copied(member)
		}
		return out
	}
	return value
}

// put changes a part of a value, and returns the value.
func put(value any, path []string, to any) any {
	if len(path) == 0 {
		return to
	}
	switch whole := value.(type) {
	case map[string]any:
		whole[path[0]] = put(whole[path[0]], path[1:], to)
	case []any:
		if i, err := strconv.Atoi(path[0]); err == nil && 0 <= i && i < len(whole) {
			whole[i] = put(whole[i], path[1:], to)
		}
	}
	return value
}
