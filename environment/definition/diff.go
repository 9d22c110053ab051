package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/internal/pattern"
)

// Difference is a setting that two definitions do not have in common. Before
// and After are nil where it is absent, and a null is json.RawMessage("null").
type Difference struct {
	Path   string `json:"path"` // such as task.vars.image
	Before any    `json:"before,omitempty"`
	After  any    `json:"after,omitempty"`
}

// Diff returns what is different in b, sorted by path. Mappings are compared
// member by member, lists as a whole.
func Diff(a, b *Definition) []Difference {
	before, after := map[string]any{}, map[string]any{}
	leaves("", a.tree(), before)
	leaves("", b.tree(), after)
	all := maps.Clone(before)
	maps.Copy(all, after)
	var found []Difference
	for _, path := range slices.Sorted(maps.Keys(all)) {
		if !reflect.DeepEqual(before[path], after[path]) {
			found = append(found, Difference{path, before[path], after[path]})
		}
	}
	return found
}

var plainKey = pattern.Lazy(`^[a-zA-Z0-9_-]+$`)

// leaves collects what is in a value, by path.
func leaves(path string, value any, into map[string]any) {
	members, _ := value.(map[string]any)
	for key, item := range members {
		if plainKey().MatchString(key) {
			leaves(join(path, key), item, into)
		} else {
			leaves(path+"["+strconv.Quote(key)+"]", item, into)
		}
	}
	switch {
	case len(members) > 0:
	case value == nil:
		into[path] = json.RawMessage("null")
	default:
		into[path] = value
	}
}

// String is the difference in one line.
func (d Difference) String() string {
	return d.Path + ": " + shown(d.Before) + " → " + shown(d.After)
}

// shown is a value as Set reads it, with what cannot be printed escaped.
func shown(value any) string {
	if value == nil {
		return "nothing"
	}
	if text, ok := value.(string); ok {
		if same, err := typed(text); err == nil && same == text && printable(text) && strings.TrimSpace(text) == text && text != "" && text != "nothing" {
			return text
		}
		return strconv.Quote(text)
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprintf("%.60q", fmt.Sprint(value))
	}
	text := strings.TrimSuffix(out.String(), "\n")
	if !printable(text) {
		return strconv.Quote(text)
	}
	return text
}

// SameTask reports whether two definitions have the same task: the same manifest with the
// same variables and all else that it carries.
func SameTask(a, b *Definition) bool {
	if a.Task.Manifest != b.Task.Manifest || a.Task.Digest != b.Task.Digest {
		return false
	}
	texts := [2][]byte{}
	for i, t := range []TaskSpec{a.Task, b.Task} {
		if len(t.Includes) == 0 { // nil of one that former versions made: the same text includes nothing
			t.Includes = nil
		}
		var err error
		if texts[i], err = json.Marshal(t); err != nil {
			return false
		}
	}
	return bytes.Equal(texts[0], texts[1])
}
