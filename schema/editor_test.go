package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/schema"
)

// forEditors is the schema of manifests with a type "acme/x" whose config is as said.
func forEditors(t *testing.T, config string) (*schema.Schema, error) {
	t.Helper()
	text, left, err := schema.ForEditors(map[string]json.RawMessage{"acme/x": json.RawMessage(config), "acme/y": json.RawMessage(`{"required": ["y"]}`)})
	if err != nil {
		t.Fatal(err)
	}
	return compile(t, string(text)), left["acme/x"]
}

func TestTheSchemaForEditorsKnowsTheConfigOfTypes(t *testing.T) {
	for _, tc := range []struct{ name, config, accepts, refuses, why string }{
		{"a property that there is not", `{"properties": {"content": {"type": "string"}}, "additionalProperties": false}`,
			`{"content": "x"}`, `{"contnt": "x"}`, `unknown property "contnt", did you mean "content"?`},
		{"an expression for a number", `{"properties": {"port": {"type": "integer"}}}`, `{"port": "{{ port }}"}`, `{"port": "x"}`, "port"},
		{"an expression deep within", `{"properties": {"ports": {"type": "array", "items": {"type": "object", "properties": {"host": {"type": "integer"}}}}}}`,
			`{"ports": ["{{ a }}", {"host": "{{ b }}"}]}`, `{"ports": [{"host": "b"}]}`, "ports"},
		{"references", `{"$id": "https://acme.example/x", "$defs": {"port": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/port"}, "b": {"$ref": "#"}}, "additionalProperties": false}`,
			`{"a": 1, "b": {"a": "{{ x }}"}}`, `{"b": {"a": "x"}}`, "b"},
		{"definitions of old drafts", `{"$schema": "http://json-schema.org/draft-04/schema#", "definitions": {"n": {"type": "number", "maximum": 5, "exclusiveMaximum": true}}, "properties": {"n": {"$ref": "#/definitions/n"}}}`,
			`{"n": 4.5}`, `{"n": 5}`, "n"},
		{"lists of items of old drafts", `{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"l": {"items": [{"type": "string"}], "additionalItems": {"type": "integer"}}}}`,
			`{"l": ["a", 1, "{{ x }}"]}`, `{"l": ["a", "b"]}`, "l"},
		{"alternatives that an expression may both be", `{"oneOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"properties": {"a": {"type": "boolean"}}, "required": ["a"]}]}`,
			`{"a": "{{ x }}"}`, `{"a": []}`, "a"},
		{"what must not be", `{"properties": {"a": {"not": {"type": "string"}}}}`, `{"a": "{{ x }}"}`, `{"a": "x"}`, "a"},
		{"names of properties", `{"propertyNames": {"pattern": "^[a-z]+$"}}`, `{"a": 1}`, `{"A": 1}`, "A"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s, err := forEditors(t, tc.config)
			if err != nil {
				t.Fatal(err)
			}
			manifest := func(config string) any {
				return value(t, fmt.Sprintf(`{"resources": {"r": {"type": "acme/x", "config": %s}, "other": {"type": "acme/z", "config": {"anything": 1}}}}`, config))
			}
			if found := s.Validate(manifest(tc.accepts)); found != nil {
				t.Errorf("it refuses %s: %s", tc.accepts, lines(found))
			}
			if got := lines(s.Validate(manifest(tc.refuses))); !strings.Contains(got, "resources.r.config") || !strings.Contains(got, tc.why) {
				t.Errorf("of %s it says %q", tc.refuses, got)
			}
		})
	}
}

// What cannot be a part of another schema accepts any config, and the rest is as it is.
func TestASchemaWithNamesIsLeftOut(t *testing.T) {
	for _, config := range []string{
		`{"properties": {"a": {"$id": "a", "type": "string"}}}`, `{"properties": {"a": {"$anchor": "a"}}}`, `{"$ref": "other"}`,
		`{"$defs": {"a": {}}, "properties": {"a": {"$ref": "#a"}}}`, `true`, `{`,
	} {
		s, err := forEditors(t, config)
		if err == nil {
			t.Errorf("%s is no problem", config)
		}
		if found := s.Validate(value(t, `{"resources": {"r": {"type": "acme/x", "config": {"a": 1}}}}`)); found != nil {
			t.Errorf("%s: %s", config, lines(found))
		}
		if found := s.Validate(value(t, `{"resources": {"r": {"type": "acme/y", "config": {"a": 1}}}}`)); found == nil {
			t.Errorf("with %s, nothing is known of others", config)
		}
	}
}
