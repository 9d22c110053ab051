package runner

import (
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/schema"
)

// hiding are the places in a configuration that hold secrets of variables, though their type
// does not know them for secrets: the text of a file with a password in it. Of a list it is the
// list. whole are the places of values that are nothing but a secret.
func (r *Runner) hiding(part any, path []string) (places, whole [][]string) {
	if len(r.spec.Secrets) == 0 {
		return nil, nil
	}
	within := func(item any, key string) {
		some, secret := r.hiding(item, append(path[:len(path):len(path)], key))
		places, whole = append(places, some...), append(whole, secret...)
	}
	switch part := part.(type) {
	case map[string]any:
		for key, item := range part {
			within(item, key)
		}
	case []any:
		for i, item := range part {
			within(item, strconv.Itoa(i))
		}
		if len(places) > 0 {
			places = [][]string{path}
		}
	default:
		hidden := r.secrets.MaskValue(part)
		if same(hidden, part) {
			return nil, nil
		}
		places = [][]string{path}
		if hidden == invoke.Masked {
			whole = places
		}
	}
	return places, whole
}

// learnFormer makes secret what a type has found at places where the configuration has
// secrets of variables, and where something else was found: that holds the former ones.
func (r *Runner) learnFormer(res *resource, found map[string]any) {
	for _, path := range res.hiding {
		r.secrets.Add(former(schema.Within(found, path), schema.Within(res.config, path)), [][]string{{}})
	}
}

// former is what of a value is not wanted any more: of a text its lines, of a list its items.
func former(was, wanted any) any {
	switch is := wanted.(type) {
	case string:
		if text, ok := was.(string); ok {
			lines := strings.Split(is, "\n")
			return strings.Join(slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return slices.Contains(lines, line) }), "\n")
		}
	case []any:
		if list, ok := was.([]any); ok {
			return slices.DeleteFunc(slices.Clone(list), func(item any) bool {
				return slices.ContainsFunc(is, func(other any) bool { return same(item, other) })
			})
		}
	}
	if same(was, wanted) {
		return nil
	}
	return was
}
