package terraform

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/zclconf/go-cty/cty"

	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

// Bounds of what is said about changes.
const (
	mostChanges = 8
	longestText = 64
	longestPath = 200
)

// changes lists, for people, what differs between two states. What is secret is not
// shown, nor is a part of a text: nobody could tell that it is of a secret.
func changes(b tfplugin.Block, was, planned cty.Value) string {
	var all []string
	secret := secretPaths(b, nil)
	differ(was, planned, nil, func(path cty.Path, old, wanted cty.Value) {
		text := tfplugin.PathText(path)
		if len(text) > longestPath {
			text = tfplugin.PathText(path[:1]) // the keys of a map may be anything
		}
		text += ": "
		if slices.ContainsFunc(secret, func(s []string) bool { return below(path, s) }) {
			text += "another secret value"
		} else {
			text += shown(old) + " → " + shown(wanted)
		}
		all = append(all, text)
	})
	if more := len(all) - mostChanges; more > 1 {
		all = append(all[:mostChanges], fmt.Sprintf("and %d more changes", more))
	}
	return strings.Join(all, ", ")
}

// differ finds where two values of one type differ, as deep as both have the same parts.
func differ(was, planned cty.Value, path cty.Path, found func(path cty.Path, was, planned cty.Value)) {
	if was.RawEquals(planned) {
		return
	}
	whole := was.IsNull() || planned.IsNull() || !was.IsKnown() || !planned.IsKnown()
	switch t := planned.Type(); {
	case whole || !was.Type().Equals(t):
		found(path, was, planned)
	case t.IsObjectType():
		names := make([]string, 0, len(t.AttributeTypes()))
		for name := range t.AttributeTypes() {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			differ(was.GetAttr(name), planned.GetAttr(name), path.Copy().GetAttr(name), found)
		}
	case t.IsMapType():
		old, wanted := was.AsValueMap(), planned.AsValueMap()
		keys := map[string]bool{}
		for key := range old {
			keys[key] = true
		}
		for key := range wanted {
			keys[key] = true
		}
		for _, key := range sortedKeys(keys) {
			none := cty.NullVal(t.ElementType())
			a, b := none, none
			if v, there := old[key]; there {
				a = v
			}
			if v, there := wanted[key]; there {
				b = v
			}
			differ(a, b, path.Copy().IndexString(key), found)
		}
	case (t.IsListType() || t.IsTupleType()) && was.LengthInt() == planned.LengthInt():
		old := was.AsValueSlice()
		for i, wanted := range planned.AsValueSlice() {
			differ(old[i], wanted, path.Copy().IndexInt(i), found)
		}
	default:
		found(path, was, planned)
	}
}

func sortedKeys(set map[string]bool) []string {
	keys := make([]string, 0, len(set))
	for key := range set {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// shown is a value for people, in few words.
func shown(v cty.Value) string {
	t := v.Type()
	switch {
	case !v.IsKnown():
		return "(known after apply)"
	case v.IsNull():
		return "none"
	case t == cty.String:
		s := v.AsString()
		if len(s) > longestText || strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Sprintf("(a text of %d bytes)", len(s))
		}
		return `"` + s + `"`
	case t == cty.Bool:
		return fmt.Sprint(v.True())
	case t == cty.Number:
		return number(v.AsBigFloat()).String()
	case t.IsListType() || t.IsSetType() || t.IsTupleType():
		return fmt.Sprintf("(%d elements)", v.LengthInt())
	default:
		return "(an object)"
	}
}

// secretPaths are the attributes that are secret, as names: all elements of what there
// may be several of are alike.
func secretPaths(b tfplugin.Block, at []string) (all [][]string) {
	all = secretAttributes(b.Attributes, at)
	for _, n := range b.Blocks {
		all = append(all, secretPaths(n.Block, append(slices.Clone(at), n.Name))...)
	}
	return all
}

func secretAttributes(attributes []tfplugin.Attribute, at []string) (all [][]string) {
	for _, a := range attributes {
		path := append(slices.Clone(at), a.Name)
		switch {
		case a.Sensitive || a.WriteOnly:
			all = append(all, path)
		case a.Nested != nil:
			all = append(all, secretAttributes(a.Nested.Attributes, path)...)
		}
	}
	return all
}

// below reports whether a path has something secret in it: it leads to that, into it, or
// to what holds it.
func below(path cty.Path, secret []string) bool {
	i := 0
	for _, step := range path {
		attr, ok := step.(cty.GetAttrStep)
		if !ok {
			continue
		}
		if i == len(secret) {
			return true
		}
		if attr.Name != secret[i] {
			return false
		}
		i++
	}
	return true
}
