package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// draft is a version of JSON Schema.
type draft struct {
	name string
	url  string
	lib  *jsonschema.Draft
}

// drafts are all that are understood, the newest first.
func drafts() []draft {
	return []draft{
		{"draft 2020-12", "https://json-schema.org/draft/2020-12/schema", jsonschema.Draft2020},
		{"draft 2019-09", "https://json-schema.org/draft/2019-09/schema", jsonschema.Draft2019},
		{"draft 07", "http://json-schema.org/draft-07/schema", jsonschema.Draft7},
		{"draft 06", "http://json-schema.org/draft-06/schema", jsonschema.Draft6},
		{"draft 04", "http://json-schema.org/draft-04/schema", jsonschema.Draft4},
	}
}

// refStandsAlone reports whether what stands beside a $ref is ignored.
func (d draft) refStandsAlone() bool {
	return d.lib != jsonschema.Draft2020 && d.lib != jsonschema.Draft2019
}

// draftOf returns the draft that a schema names; ok is false when it names none,
// or the latest one of whenever it was written.
func draftOf(doc map[string]any) (d draft, ok bool, err error) {
	named, there := doc["$schema"]
	text, _ := named.(string)
	bare := strings.TrimPrefix(strings.TrimPrefix(strings.TrimSuffix(text, "#"), "https://"), "http://")
	if !there || bare == "json-schema.org/schema" {
		return draft{}, false, nil
	}
	var known []string
	for _, d := range drafts() {
		if _, rest, _ := strings.Cut(d.url, "://"); rest == bare {
			return d, true, nil
		}
		known = append(known, d.url)
	}
	return draft{}, false, fmt.Errorf("$schema is %s; possible are %s", literal(named), strings.Join(known, ", "))
}

// assumed are the drafts that a schema which names none may be written in.
// Draft 2020-12 is tried first. Some forms were given up on the way to it: lists
// of schemas as items, last in 2019-09, names of places as $id ("#name"), last in
// draft 07, and id for $id in draft 04.
func assumed() []draft {
	return slices.DeleteFunc(drafts(), func(d draft) bool { return d.lib == jsonschema.Draft6 })
}

// later are the keywords that a draft does not know yet, and ignores.
func (d draft) later() []string {
	var out []string
	if d.lib == jsonschema.Draft2020 {
		return nil
	}
	out = append(out, "prefixItems", "$dynamicRef", "$dynamicAnchor")
	if d.lib == jsonschema.Draft2019 {
		return out
	}
	out = append(out, "$anchor", "$recursiveRef", "dependentSchemas", "dependentRequired", "minContains", "maxContains",
		"unevaluatedProperties", "unevaluatedItems")
	if d.lib == jsonschema.Draft4 {
		out = append(out, "$id", "const", "contains", "propertyNames", "if", "then", "else", "$defs")
	}
	return out
}
