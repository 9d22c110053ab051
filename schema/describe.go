package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/deployster-go/deployster/internal/phrase"
)

// describe says in one phrase what a value should be.
func describe(k jsonschema.ErrorKind) string {
	for _, describe := range []func(jsonschema.ErrorKind) string{describeValue, describeNumber, describeSize, describeRelation} {
		if text := describe(k); text != "" {
			return text
		}
	}
	return k.LocalizedString(message.NewPrinter(language.English))
}

func describeValue(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		if k.Got == "number" && slices.Equal(k.Want, []string{"integer"}) {
			return "must be an integer, not a fraction"
		}
		return fmt.Sprintf("must be %s, not %s", either(k.Want), article(k.Got))
	case *kind.Enum:
		return "must be " + oneOf(k.Want)
	case *kind.Const:
		return "must be " + literal(k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("must match the pattern %q", k.Want)
	case *kind.Format:
		return fmt.Sprintf("must be a valid %s", k.Want)
	}
	return ""
}

func describeNumber(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	}
	return ""
}

func describeSize(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		if k.Want == 1 {
			return "must not be empty"
		}
		return fmt.Sprintf("must have at least %s", phrase.Count(k.Want, "character"))
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %s", phrase.Count(k.Want, "character"))
	case *kind.MinItems:
		return atLeast(k.Want, "item", k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %s, not %d", phrase.Count(k.Want, "item"), k.Got)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %s too many", phrase.Count(k.Count, "item"))
	case *kind.MinProperties:
		return atLeast(k.Want, "property", k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %s, not %d", phrase.Count(k.Want, "property"), k.Got)
	}
	return ""
}

func atLeast(want int, noun string, got int) string {
	if want == 1 {
		return "must not be empty"
	}
	return fmt.Sprintf("must have at least %s, not %d", phrase.Count(want, noun), got)
}

// describeRelation is about values that depend on each other or on several schemas.
func describeRelation(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.UniqueItems:
		return fmt.Sprintf("must not have an item twice (items %d and %d are equal)", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "has no item of the kind that must be there"
	case *kind.MinContains:
		return fmt.Sprintf("must have at least %d items of a certain kind, not %d", k.Want, len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("must have at most %d items of a certain kind, not %d", k.Want, len(k.Got))
	case *kind.DependentRequired:
		return fmt.Sprintf("missing property %s, which %q asks for", quoted(k.Missing), k.Prop)
	case *kind.Dependency:
		return fmt.Sprintf("missing property %s, which %q asks for", quoted(k.Missing), k.Prop)
	case *kind.OneOf:
		return fmt.Sprintf("matches more than one of the alternatives (%v), of which it must match one", k.Subschemas)
	case *kind.Not:
		return "must not be as it is: the schema excludes this form"
	case *kind.RefCycle:
		return fmt.Sprintf("cannot be checked: a $ref of the schema leads back to itself (#%s)", k.KeywordLocation1)
	}
	return ""
}

var kinds = map[string]string{
	"object": "a mapping", "array": "a list", "string": "a string", "number": "a number",
	"integer": "an integer", "boolean": "true or false", "null": "null",
}

func article(jsonType string) string {
	if jsonType == "boolean" {
		return "a boolean"
	}
	if k, ok := kinds[jsonType]; ok {
		return k
	}
	return jsonType
}

func either(types []string) string {
	var words []string
	for _, t := range types {
		word := kinds[t]
		if len(types) > 1 && t == "boolean" {
			word = "a boolean"
		}
		if word != "" && t != "null" && !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if slices.Contains(types, "null") {
		words = append(words, kinds["null"])
	}
	return list(words, "or")
}

func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = fmt.Sprintf("%q", n)
	}
	return list(out, "and")
}

func oneOf(values []any) string {
	const shown = 20
	if len(values) == 1 {
		return literal(values[0])
	}
	var words []string
	for _, v := range values[:min(shown, len(values))] {
		words = append(words, literal(v))
	}
	text := "one of " + strings.Join(words, ", ")
	if len(values) > shown {
		text += fmt.Sprintf(" and %d more", len(values)-shown)
	}
	return text
}

func literal(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return phrase.Cut(string(text), 100)
}

func number(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return fmt.Sprint(f)
}
