package schema

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/deployster-go/deployster/internal/phrase"
)

// explain turns the library's error about a schema into words for its author.
func explain(err error, doc map[string]any) error {
	var mismatch *jsonschema.SchemaValidationError
	var detail *jsonschema.ValidationError
	if errors.As(err, &mismatch) && errors.As(mismatch.Err, &detail) {
		const most = 3
		var said []string
		for _, v := range violations(detail, nil) {
			if len(said) == most {
				break
			}
			said = append(said, fmt.Sprintf("#/%s %s%s", strings.Join(v.Path, "/"), v.Message, shown(Within(doc, v.Path))))
		}
		return fmt.Errorf("it is not a valid JSON Schema: %s", strings.Join(said, "; "))
	}
	var loading *jsonschema.LoadURLError
	if errors.As(err, &loading) {
		return referred(doc, loading.URL, "only references within the schema (#/$defs/…) are possible")
	}
	var nowhere *jsonschema.JSONPointerNotFoundError
	if errors.As(err, &nowhere) {
		return referred(doc, nowhere.URL, "there is nothing at that place of the schema")
	}
	var unnamed *jsonschema.AnchorNotFoundError
	if errors.As(err, &unnamed) {
		return referred(doc, unnamed.Reference, "the schema has no $anchor of that name")
	}
	return errors.New(strings.ReplaceAll(err.Error(), origin+"schema", ""))
}

// referred says of a reference, by the URL that it comes to, what is wrong with it and where it stands.
func referred(doc map[string]any, to, wrong string) error {
	said := fmt.Errorf("a reference to %q: %s", strings.TrimPrefix(strings.TrimPrefix(to, origin+"schema"), origin), wrong)
	const most = 20
	bases := []string{origin + "schema"} // it is relative to one of these, as a rule
	find(doc, "", func(key string, value any) bool {
		if id, named := value.(string); named && (key == "$id" || key == "id") {
			bases = append(bases, id)
		}
		return len(bases) == most
	})
	at := find(doc, "#", func(key string, value any) bool {
		ref, refers := value.(string)
		return refers && (key == "$ref" || key == "$dynamicRef" || key == "$recursiveRef") &&
			slices.ContainsFunc(bases, func(base string) bool { return leads(base, ref, to) })
	})
	if at == "" {
		return said
	}
	return fmt.Errorf("%s: %w", at, said)
}

// leads reports whether a reference within a schema comes to a URL, which may be without what is
// behind #.
func leads(base, ref, to string) bool {
	at, err := url.Parse(base)
	if err != nil {
		return false
	}
	next, err := at.Parse(ref)
	want, wrong := url.Parse(to)
	if err != nil || wrong != nil {
		return false
	}
	if want.Fragment == "" {
		next.Fragment, next.RawFragment = "", ""
	}
	want.RawFragment, next.RawFragment = "", ""
	return next.String() == want.String()
}

// located says where the schema has a regular expression that is refused.
func located(doc map[string]any, refused error) error {
	var broken *brokenPatternError
	if !errors.As(refused, &broken) {
		return refused
	}
	at := find(doc, "#", func(key string, value any) bool {
		if within, ok := value.(map[string]any); ok && key == "patternProperties" {
			_, there := within[broken.text]
			return there
		}
		return key == "pattern" && value == broken.text
	})
	if at == "" {
		return refused
	}
	return fmt.Errorf("%s: %w", at, refused)
}

// find returns where the first member of a document is of which is holds, "" if there is none.
func find(v any, at string, is func(key string, value any) bool) string {
	switch whole := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(whole)) {
			next := at + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
			if is(key, whole[key]) {
				return next
			}
			if found := find(whole[key], next, is); found != "" {
				return found
			}
		}
	case []any:
		for i, item := range whole {
			if found := find(item, fmt.Sprint(at, "/", i), is); found != "" {
				return found
			}
		}
	}
	return ""
}

// shown quotes what is wrong at a place of a schema, when that is no more than a word.
func shown(v any) string {
	switch v.(type) {
	case map[string]any, []any, nil:
		return ""
	}
	return ": " + phrase.Cut(literal(v), 40)
}
