package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/schema"
)

// Each draft has forms that the others do not know; each is understood in its
// own sense.
func TestEveryDraftIsUnderstood(t *testing.T) {
	const old = "http://json-schema.org/draft-0%d/schema#"
	for _, test := range []struct{ draft, schema, good, bad, want string }{
		{
			fmt.Sprintf(old, 4), `"id": "http://acme.example/vm", "properties": {
				"cpus": {"type": "integer", "minimum": 0, "exclusiveMinimum": true, "maximum": 64, "exclusiveMaximum": true},
				"ports": {"items": [{"type": "integer"}, {"type": "string"}], "additionalItems": false},
				"zone": {"$ref": "vm#/definitions/zone"}}, "definitions": {"zone": {"enum": ["a", "b"]}}`,
			`{"cpus": 63, "ports": [80, "http"], "zone": "b"}`, `{"cpus": 64, "ports": ["http", 80, 1], "zone": "c"}`,
			"cpus [exclusiveMaximum] must be less than 64\n" +
				"ports [additionalItems] has 1 item too many\nports.0 [type] must be an integer, not a string\nports.1 [type] must be a string, not a number\n" +
				`zone [enum] must be one of "a", "b"`,
		},
		{
			fmt.Sprintf(old, 6), `"properties": {"cpus": {"exclusiveMaximum": 64}, "kind": {"const": "vm"}, "tags": {"contains": {"const": "x"}}, "env": {"propertyNames": {"pattern": "^[A-Z]+$"}}, "no": false}`,
			`{"cpus": 63, "kind": "vm", "tags": ["x"], "env": {"A": 1}}`, `{"cpus": 64, "kind": "db", "env": {"a": 1}, "no": 1}`,
			"cpus [exclusiveMaximum] must be less than 64\n" + `env.a [propertyNames] the name of property "a" is not possible: it must match the pattern "^[A-Z]+$"` +
				"\n" + `kind [const] must be "vm"` + "\nno [false] must not be there",
		},
		{
			fmt.Sprintf(old, 7), `"if": {"required": ["tls"]}, "then": {"required": ["key"]}, "properties": {"l": {"items": [{"type": "string"}]}}`,
			`{"tls": true, "key": "k", "l": ["x", 1]}`, `{"tls": true, "l": [1]}`,
			` [required] missing property "key"` + "\nl.0 [type] must be a string, not a number",
		},
		{
			"https://json-schema.org/draft/2019-09/schema", `"$defs": {"s": {"type": "string"}}, "properties": {"l": {"items": [{"$ref": "#/$defs/s"}]}}, "dependentRequired": {"a": ["b"]}, "unevaluatedProperties": false`,
			`{"l": ["x"]}`, `{"l": [1]}`,
			"l.0 [type] must be a string, not a number",
		},
		{
			"https://json-schema.org/draft/2020-12/schema", `"properties": {"l": {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}}`,
			`{"l": ["x", 1]}`, `{"l": [1, "x"]}`,
			"l.0 [type] must be a string, not a number\nl.1 [type] must be an integer, not a string",
		},
	} {
		for _, named := range []string{test.draft, strings.TrimSuffix(test.draft, "#")} {
			s := compile(t, fmt.Sprintf(`{"$schema": %q, %s}`, named, test.schema))
			assert.Nil(t, s.Validate(value(t, test.good)), named)
			assert.Equal(t, test.want, lines(s.Validate(value(t, test.bad))), named)
		}
	}
}

// What images of 2018 answered has no $schema and is of the draft of its time.
func TestTheDraftOfASchemaThatNamesNoneIsFound(t *testing.T) {
	for name, test := range map[string]struct{ schema, good, bad string }{
		"true as exclusiveMaximum":     {`{"properties": {"n": {"maximum": 10, "exclusiveMaximum": true}}}`, `{"n": 9}`, `{"n": 10}`},
		"false as exclusiveMinimum":    {`{"properties": {"n": {"minimum": 10, "exclusiveMinimum": false}}}`, `{"n": 10}`, `{"n": 9}`},
		"id as the base of references": {`{"id": "http://acme.example/vm", "properties": {"a": {"$ref": "vm#/definitions/s"}}, "definitions": {"s": {"type": "string"}}}`, `{"a": "x"}`, `{"a": 1}`},
		"id as an anchor":              {`{"properties": {"a": {"$ref": "#s"}}, "definitions": {"s": {"id": "#s", "type": "string"}}}`, `{"a": "x"}`, `{"a": 1}`},
		"a list as items":              {`{"properties": {"l": {"items": [{"type": "string"}]}, "c": {"const": 1}}}`, `{"l": ["x", 1], "c": 1}`, `{"l": ["x"], "c": 2}`},
		"both":                         {`{"properties": {"l": {"items": [{"maximum": 1, "exclusiveMaximum": true}]}}}`, `{"l": [0, 5]}`, `{"l": [1]}`},
		"true with a later keyword":    {`{"properties": {"n": {"allOf": [{"maximum": 1, "exclusiveMaximum": true}]}}, "if": {}, "then": {"required": ["c"]}}`, `{"n": 0, "c": 1}`, `{"n": 1, "c": 1}`},
		"false with a later keyword":   {`{"properties": {"n": {"minimum": 1, "exclusiveMinimum": false}, "c": {"const": 1}}}`, `{"n": 1, "c": 1}`, `{"n": 0}`},
		"true in an example":           {`{"properties": {"n": {"enum": [{"maximum": 1, "exclusiveMaximum": true}]}}}`, `{"n": {"maximum": 1, "exclusiveMaximum": true}}`, `{"n": {"exclusiveMaximum": 1}}`},
		"a draft that has numbers":     {`{"$schema": "http://json-schema.org/draft-06/schema#", "additionalProperties": {"maximum": 1, "exclusiveMaximum": true}}`, `{"n": 0}`, `{"n": 1}`},
		"the latest draft of then":     {`{"$schema": "http://json-schema.org/schema#", "properties": {"n": {"maximum": 10, "exclusiveMaximum": true}}}`, `{"n": 9}`, `{"n": 10}`},
		"a name of a place":            {`{"properties": {"a": {"$ref": "#s"}}, "definitions": {"s": {"$id": "#s", "const": "x"}}}`, `{"a": "x"}`, `{"a": 1}`},
		"the same draft within":        {`{"$schema": "http://json-schema.org/draft-06/schema#", "properties": {"a": {"$schema": "http://json-schema.org/draft-06/schema", "type": "string"}}}`, `{"a": "x"}`, `{"a": 1}`},
		"dependencies":                 {`{"dependencies": {"a": ["b"], "c": {"required": ["d"]}}}`, `{"a": 1, "b": 1}`, `{"c": 1}`},
		"a property of such a name":    {`{"properties": {"exclusiveMaximum": {"type": "boolean"}, "id": {"const": "x"}}}`, `{"exclusiveMaximum": true, "id": "x"}`, `{"id": "y"}`},
	} {
		s := compile(t, test.schema)
		assert.Nil(t, s.Validate(value(t, test.good)), name)
		assert.Len(t, s.Validate(value(t, test.bad)), 1, name)
	}
}

// A guess that would ignore a part of the schema is not made.
func TestADraftThatWouldIgnoreKeywordsIsNotAssumed(t *testing.T) {
	for text, want := range map[string]string{
		`{"properties": {"a": {"$ref": "#s"}, "c": {"const": 1}}, "definitions": {"s": {"id": "#s"}}}`:                  `it is valid in draft 04, where "const" would be ignored: name the draft that is meant with $schema`,
		`{"properties": {"a": {"$ref": "#s"}}, "definitions": {"s": {"$id": "#s"}}, "dependentRequired": {"a": ["b"]}}`: `it is valid in draft 07, where "dependentRequired" would be ignored`,
		`{"prefixItems": [{}], "properties": {"l": {"items": [{}]}}}`:                                                   `it is valid in draft 2019-09, where "prefixItems" would be ignored`,
		`{"properties": {"n": {"type": "integer", "maximum": "1"}}}`:                                                    `it is not a valid JSON Schema: #/properties/n/maximum must be a number, not a string: "1"`,
		`{"properties": {"n": {"type": "integer", "required": true}}}`:                                                  `it is not a valid JSON Schema: #/properties/n/required must be a list, not a boolean: true`,
		`{"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMaximum": 1, "maximum": 1}`:                   `it is not a valid JSON Schema: #/exclusiveMaximum must be true or false, not a number: 1`,
	} {
		_, err := schema.CompileConfig(json.RawMessage(text))
		assert.ErrorContains(t, err, want, text)
	}
}

// writeOnly came with draft 07; whoever writes it means it in any.
func TestSecretsAreKnownInEveryDraft(t *testing.T) {
	const config = `{"token": "hush", "list": [{"key": "hush"}], "name": "x", "ref": "hush", "a/b": "hush"}`
	for _, draft := range []string{
		`"$schema": "http://json-schema.org/draft-04/schema#"`, `"$schema": "http://json-schema.org/draft-06/schema"`, `"$schema": "http://json-schema.org/draft-07/schema#"`,
		`"$schema": "https://json-schema.org/draft/2019-09/schema"`, `"$schema": "https://json-schema.org/draft/2020-12/schema"`,
		`"maximum": 1, "exclusiveMaximum": true`, `"title": "none"`,
	} {
		s := compile(t, `{`+draft+`, "definitions": {"secret": {"writeOnly": true}}, "properties": {"name": {"type": "string"},
			"token": {"type": "string", "writeOnly": true}, "list": {"items": {"properties": {"key": {"writeOnly": true}}}},
			"ref": {"allOf": [{"$ref": "#/definitions/secret"}]}, "a/b": {"anyOf": [{"type": "integer"}, {"writeOnly": true}]}}}`)
		var got []string
		for _, path := range s.Secrets(value(t, config)) {
			got = append(got, strings.Join(path, "."))
		}
		assert.Equal(t, "a/b list.0.key ref token", strings.Join(got, " "), draft)
	}
	for _, draft := range []string{"04", "06", "07"} {
		text := `{"$schema": "http://json-schema.org/draft-` + draft + `/schema#", "properties": {"a": {"$ref": "#/definitions/s", "writeOnly": true}}, "definitions": {"s": {}}}`
		_, err := schema.CompileConfig(json.RawMessage(text))
		assert.ErrorContains(t, err, "writeOnly beside $ref is ignored in draft "+draft, "draft")
	}
}
