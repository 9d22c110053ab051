package schema_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/schema"
)

func compile(t testing.TB, text string) *schema.Schema {
	s, err := schema.CompileConfig(json.RawMessage(text))
	require.NoError(t, err, text)
	return s
}

func value(t testing.TB, text string) any {
	var v any
	require.NoError(t, json.Unmarshal([]byte(text), &v), text)
	return v
}

func lines(found []schema.Violation) string {
	var out []string
	for _, v := range found {
		out = append(out, fmt.Sprintf("%s [%s] %s", strings.Join(v.Path, "."), v.Rule, v.Message))
	}
	return strings.Join(out, "\n")
}

const container = `{
	"type": "object", "additionalProperties": false, "required": ["content", "path"],
	"properties": {
		"path": {"type": "string", "minLength": 1, "pattern": "^[^/]"},
		"content": {"type": ["string", "null"]},
		"mode": {"enum": ["a", "b", 3]},
		"size": {"type": "integer", "minimum": 1, "maximum": 2.5},
		"ports": {"type": "array", "minItems": 1, "maxItems": 20, "uniqueItems": true, "items": {"type": "number"}},
		"on": {"type": "boolean"},
		"const": {"const": "x"},
		"nested": {"properties": {"list": {"items": {"required": ["name"]}}}},
		"mixed": {"anyOf": [{"type": "string"}, {"type": "array"}]},
		"check": {"oneOf": [
			{"properties": {"kind": {"const": "http"}, "url": {"type": "string"}}, "required": ["kind", "url"]},
			{"properties": {"kind": {"const": "tcp"}, "port": {"type": "integer"}}, "required": ["kind", "port"]}
		]},
		"either": {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
		"env": {"propertyNames": {"pattern": "^[A-Z]+$"}, "additionalProperties": {"type": "string"}},
		"never": false,
		"one": {"oneOf": [{"minimum": 1}, {"minimum": 2}]},
		"even": {"multipleOf": 2},
		"closed": {"allOf": [{"properties": {"left": {}}}], "unevaluatedProperties": false}
	}
}`

func TestValidate(t *testing.T) {
	s := compile(t, container)
	tests := []struct{ config, want string }{
		{`{"path": "x", "content": null}`, ``},
		{`{}`, ` [required] missing property "content"` + "\n" + ` [required] missing property "path"`},
		{`[]`, ` [type] must be a mapping, not a list`},
		{`{"path": "x", "contnet": "y"}`, ` [required] missing property "content"` + "\n" + `contnet [additionalProperties] unknown property "contnet", did you mean "content"?`},
		{`{"path": "", "content": 1}`, `content [type] must be a string or null, not a number` + "\n" + `path [minLength] must not be empty` + "\n" + `path [pattern] must match the pattern "^[^/]"`},
		{`{"path": "x", "content": "", "mode": "c"}`, `mode [enum] must be one of "a", "b", 3`},
		{`{"path": "x", "content": "", "size": 1.5}`, `size [type] must be an integer, not a fraction`},
		{`{"path": "x", "content": "", "size": 0}`, `size [minimum] must be at least 1`},
		{`{"path": "x", "content": "", "size": 3}`, `size [maximum] must be at most 2.5`},
		{`{"path": "x", "content": "", "ports": []}`, `ports [minItems] must not be empty`},
		{`{"path": "x", "content": "", "ports": [1,2,3,4,5,6,7,8,9,"ten",11,"twelve"]}`, `ports.9 [type] must be a number, not a string` + "\n" + `ports.11 [type] must be a number, not a string`},
		{`{"path": "x", "content": "", "ports": [1, 2, 1]}`, `ports [uniqueItems] must not have an item twice (items 0 and 2 are equal)`},
		{`{"path": "x", "content": "", "on": "yes"}`, `on [type] must be true or false, not a string`},
		{`{"path": "x", "content": "", "on": null}`, `on [type] must be true or false, not null`},
		{`{"path": "x", "content": true, "const": "y"}`, `const [const] must be "x"` + "\n" + `content [type] must be a string or null, not a boolean`},
		{`{"path": "x", "content": "", "nested": {"list": [{"name": 1}, {}]}}`, `nested.list.1 [required] missing property "name"`},
		{`{"path": "x", "content": "", "mixed": 3}`, `mixed [type] must be a string or a list, not a number`},
		{`{"path": "x", "content": "", "check": {"kind": "tcp", "port": "x"}}`, `check.port [type] must be an integer, not a string`},
		{`{"path": "x", "content": "", "check": {"kind": "udp"}}`, `check [oneOf] matches none of 2 alternatives (kind must be "http" and missing property "url"; or kind must be "tcp" and missing property "port")`},
		{`{"path": "x", "content": "", "either": {}}`, `either [anyOf] matches none of 2 alternatives (missing property "a"; or missing property "b")`},
		{`{"path": "x", "content": "", "env": {"A": "x", "b": "y", "C": 1}}`, `env.C [type] must be a string, not a number` + "\n" + `env.b [propertyNames] the name of property "b" is not possible: it must match the pattern "^[A-Z]+$"`},
		{`{"path": "x", "content": "", "never": 1}`, `never [false] must not be there`},
		{`{"path": "x", "content": "", "one": 2}`, `one [oneOf] matches more than one of the alternatives ([0 1]), of which it must match one`},
		{`{"path": "x", "content": "", "even": 3}`, `even [multipleOf] must be a multiple of 2`},
		{`{"path": "x", "content": "", "closed": {"lefft": 3}}`, `closed.lefft [unevaluatedProperties] unknown property "lefft", did you mean "left"?`},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, lines(s.Validate(value(t, test.config))), test.config)
	}
}

func TestValuesOfGoAreTakenAsTheyAre(t *testing.T) {
	s := compile(t, `{"properties": {"n": {"type": "integer", "minimum": 5}, "l": {"items": {"type": "string"}}}}`)
	for _, good := range []any{5, int64(1) << 62, uint64(7), 5.0, json.Number("12")} {
		assert.Nil(t, s.Validate(map[string]any{"n": good}))
	}
	for _, bad := range []any{4, int64(-1), 5.5, "5", math.NaN(), math.Inf(1), json.Number("4"), func() {}} {
		found := s.Validate(map[string]any{"n": bad})
		assert.True(t, len(found) == 1 && reflect.DeepEqual(found[0].Path, []string{"n"}), "%v: %v", bad, found)
	}
	assert.Nil(t, s.Validate(map[string]any{"l": []string{"a"}}))
	assert.Len(t, s.Validate(map[string]any{"l": []int{1}}), 1)
}

func TestSecrets(t *testing.T) {
	secret := `{"type": "string", "writeOnly": true}`
	tests := []struct{ name, schema, config, want string }{
		{"property", `{"properties": {"p": ` + secret + `, "q": {}}}`, `{"p": "x", "q": "y"}`, "p"},
		{"absent", `{"properties": {"p": ` + secret + `}}`, `{"q": "y"}`, ""},
		{"everything", secret, `"x"`, "(all)"},
		{"a whole mapping", `{"properties": {"p": {"writeOnly": true, "properties": {"q": ` + secret + `}}}}`, `{"p": {"q": 1}}`, "p"},
		{"false is not true", `{"properties": {"p": {"writeOnly": false}}}`, `{"p": "x"}`, ""},
		{"items", `{"properties": {"l": {"prefixItems": [{}, ` + secret + `], "items": {"properties": {"s": ` + secret + `}}}}}`, `{"l": ["a", "b", {"s": "c"}, {"t": "d"}]}`, "l.1 l.2.s"},
		{"items of draft 07", `{"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"l": {"items": [{}, ` + secret + `], "additionalItems": ` + secret + `}}}`, `{"l": [1, 2, 3]}`, "l.1 l.2"},
		{"additional", `{"properties": {"p": {}}, "additionalProperties": ` + secret + `}`, `{"p": 1, "q": 2, "r": 3}`, "q r"},
		{"pattern", `{"patternProperties": {"_key$": ` + secret + `}}`, `{"api_key": 1, "key_x": 2}`, "api_key"},
		{"allOf", `{"allOf": [{"properties": {"p": ` + secret + `}}]}`, `{"p": 1}`, "p"},
		{"a branch that does not match", `{"properties": {"p": {"anyOf": [{"type": "integer"}, ` + secret + `]}}}`, `{"p": 1}`, "p"},
		{"oneOf", `{"oneOf": [{"properties": {"p": ` + secret + `}}, {}]}`, `{"p": 1}`, "p"},
		{"if then else", `{"if": {"required": ["x"]}, "then": {"properties": {"p": ` + secret + `}}, "else": {"properties": {"q": ` + secret + `}}}`, `{"p": 1, "q": 1}`, "p q"},
		{"dependent", `{"dependentSchemas": {"a": {"properties": {"p": ` + secret + `}}}}`, `{"p": 1}`, "p"},
		{"reference", `{"$defs": {"s": ` + secret + `}, "properties": {"p": {"$ref": "#/$defs/s"}}}`, `{"p": 1}`, "p"},
		{"anchor", `{"$defs": {"s": {"$anchor": "a", "writeOnly": true}}, "properties": {"p": {"$ref": "#a"}}}`, `{"p": 1}`, "p"},
		{"beside a reference", `{"$defs": {"s": {"type": "string"}}, "properties": {"p": {"$ref": "#/$defs/s", "writeOnly": true}}}`, `{"p": 1}`, "p"},
		{"dynamic reference", `{"$ref": "#/$defs/tree", "$defs": {"tree": {"$dynamicAnchor": "n", "properties": {"s": ` + secret + `, "c": {"items": {"$dynamicRef": "#n"}}}}}}`, `{"s": 1, "c": [{"s": 2}, {"c": [{"s": 3}]}]}`, "c.0.s c.1.c.0.s s"},
		{"recursive", `{"properties": {"s": ` + secret + `, "next": {"$ref": "#"}}}`, `{"next": {"next": {"s": 1}}}`, "next.next.s"},
		{"a cycle", `{"allOf": [{"$ref": "#"}], "properties": {"s": ` + secret + `}}`, `{"s": 1}`, "s"},
		{"unevaluated", `{"properties": {"a": {}}, "unevaluatedProperties": ` + secret + `}`, `{"b": 1}`, "b"},
		{"contains", `{"properties": {"l": {"contains": ` + secret + `}}}`, `{"l": [1]}`, "l.0"},
		{"under a wrong type", `{"type": "array", "properties": {"s": ` + secret + `}}`, `{"s": 1}`, "s"},
	}
	for _, test := range tests {
		var got []string
		for _, path := range compile(t, test.schema).Secrets(value(t, test.config)) {
			text := strings.Join(path, ".")
			if len(path) == 0 {
				text = "(all)"
			}
			got = append(got, text)
		}
		assert.Equal(t, test.want, strings.Join(got, " "), test.name)
	}
}

func TestBadSchemasAreRefused(t *testing.T) {
	tests := []struct{ name, schema, want string }{
		{"not JSON", `{"type": `, "the schema is not one JSON document"},
		{"two documents", `{} {}`, "the schema is not one JSON document"},
		{"not an object", `["x"]`, "the schema must be an object, not a list"},
		{"unknown type", `{"properties": {"a": {"type": "strin"}}}`, `it is not a valid JSON Schema: #/properties/a/type must be one of "array", "boolean", "integer", "null", "number", "object", "string"`},
		{"bad pattern", `{"properties": {"a": {"anyOf": [{"pattern": "("}]}}}`, `#/properties/a/anyOf/0/pattern: "(" is not a regular expression of ECMA-262: missing closing )`},
		{"bad look-ahead", `{"patternProperties": {"^(?=x": {}}}`, `#/patternProperties: "^(?=x" is not a regular expression of ECMA-262: missing closing )`},
		{"a form of Perl", `{"pattern": "a++(?!b)"}`, `"a++(?!b)" is not a regular expression of ECMA-262: invalid nested repetition operator`},
		{"a bound that is a text", `{"minLength": "three"}`, `it is not a valid JSON Schema: #/minLength must be an integer, not a string: "three"`},
		{"a bound that is left out", `{"exclusiveMaximum": true}`, `it is not a valid JSON Schema: #/exclusiveMaximum must be a number, not a boolean: true`},
		{"a file", `{"$ref": "file:///etc/passwd"}`, `#/$ref: a reference to "file:///etc/passwd": only references within the schema (#/$defs/…) are possible`},
		{"a relative file", `{"$ref": "other.json"}`, `#/$ref: a reference to "other.json": only references within the schema`},
		{"the network", `{"properties": {"a": {"$ref": "http://127.0.0.1:1/x"}}}`, `#/properties/a/$ref: a reference to "http://127.0.0.1:1/x": only references within the schema`},
		{"the network by id", `{"$id": "http://127.0.0.1:1/y", "$ref": "x"}`, `#/$ref: a reference to "http://127.0.0.1:1/x": only references within the schema`},
		{"a metaschema of its own", `{"$schema": "http://127.0.0.1:1/x"}`, `$schema is "http://127.0.0.1:1/x"; possible are https://json-schema.org/draft/2020-12/schema`},
		{"an old draft", `{"$schema": "http://json-schema.org/draft-03/schema#"}`, "possible are https://json-schema.org/draft/2020-12/schema, https://json-schema.org/draft/2019-09/schema, http://json-schema.org/draft-07/schema, http://json-schema.org/draft-06/schema, http://json-schema.org/draft-04/schema"},
		{"a nested draft", `{"$defs": {"a": {"$id": "x", "$schema": "http://json-schema.org/draft-04/schema#"}}}`, `$schema "http://json-schema.org/draft-04/schema#" within the schema, which is of draft 2020-12: another draft is only possible for the whole`},
		{"a secret that would be lost", `{"$schema": "http://json-schema.org/draft-07/schema", "properties": {"a": {"$ref": "#/definitions/s", "writeOnly": true}}, "definitions": {"s": {}}}`, `writeOnly beside $ref is ignored in draft 07, so the secret would be shown; put the $ref into an allOf or use draft 2020-12: "#/definitions/s"`},
		{"no such definition", `{"allOf": [{}, {"$ref": "#/$defs/none"}]}`, `#/allOf/1/$ref: a reference to "#/$defs/none": there is nothing at that place of the schema`},
		{"no such definition, escaped", `{"properties": {"a/b": {"$ref": "#/$defs/a%22~1b"}}}`, `#/properties/a~1b/$ref: a reference to "#/$defs/a%22~1b"`},
		{"no such anchor", `{"items": {"$ref": "#none"}}`, `#/items/$ref: a reference to "#none": the schema has no $anchor of that name`},
		{"a huge number", `{"maximum": 1e999999999}`, "the number 1e999999999 is too large: possible are -1e100 to 1e100"},
		{"a tiny number", `{"enum": [1e-99999999]}`, "the number 1e-99999999 is too small: nothing but 0 is nearer to 0 than 1e-100"},
		{"a tiny number of another draft", `{"$schema": "http://json-schema.org/draft-04/schema#", "multipleOf": -0.1E-99999999}`, "is too small"},
		{"a long number", `{"maximum": ` + strings.Repeat("9", 100_000) + `}`, "the number 99999999999999999999… is too long: it has 100000 characters, at most 40 are possible"},
		{"deep", strings.Repeat(`{"not":`, 200) + `{}` + strings.Repeat("}", 200), "nested deeper than 100 levels"},
		{"large", `{"description": "` + strings.Repeat("x", 1<<20) + `"}`, "the schema has 1048595 bytes, at most 1048576 are possible"},
	}
	for _, test := range tests {
		assert.ErrorContains(t, must.Fail(schema.CompileConfig(json.RawMessage(test.schema))), test.want, test.name)
	}
}

// doubling is a schema whose every level applies the next one twice.
func doubling(levels int, keyword string) string {
	var b strings.Builder
	b.WriteString(`{"$ref": "#/$defs/l0", "$defs": {`)
	for i := range levels {
		fmt.Fprintf(&b, `"l%d": {"%s": [{"$ref": "#/$defs/l%d"}, {"$ref": "#/$defs/l%d"}]}, `, i, keyword, i+1, i+1)
	}
	fmt.Fprintf(&b, `"l%d": {"type": "integer", "writeOnly": true}}}`, levels)
	return b.String()
}

func TestHostileSchemasTakeNoTime(t *testing.T) {
	for _, keyword := range []string{"allOf", "anyOf", "oneOf"} {
		s := compile(t, doubling(60, keyword))
		assert.Contains(t, lines(s.Validate("x")), "too complicated", keyword)
		assert.Len(t, s.Secrets("x"), 1, keyword)
	}
	// The value doubles it: each level of the value is met twice.
	s := compile(t, `{"properties": {"n": {"$ref": "#"}}, "allOf": [{"properties": {"n": {"$ref": "#"}}}]}`)
	var deep any = "end"
	for range 80 {
		deep = map[string]any{"n": deep}
	}
	assert.Contains(t, lines(s.Validate(deep)), "too complicated")
	assert.Contains(t, lines(compile(t, `{"allOf": [{"$ref": "#"}]}`).Validate("x")), "leads back to itself (#/allOf/0/$ref)", "a cycle")
}

// A JSON-like value of any form keeps the schema that says so, and the schema
// that describes any value does not count as complicated.
func TestRecursiveSchemasAreFine(t *testing.T) {
	s := compile(t, `{"anyOf": [{"type": ["string", "number", "boolean", "null"]},
		{"type": "array", "items": {"$ref": "#"}}, {"type": "object", "additionalProperties": {"$ref": "#"}}]}`)
	rapid.Check(t, func(t *rapid.T) {
		var gen func(depth int) any
		gen = func(depth int) any {
			switch k := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case depth == 0 || k == 0:
				return rapid.Int64().Draw(t, "n")
			case k == 1:
				return []any{gen(depth - 1)}
			default:
				return map[string]any{"a": gen(depth - 1), "b": "x"}
			}
		}
		require.Nil(t, s.Validate(gen(12)))
	})
}

func TestSchemasServeManyAtOnce(t *testing.T) {
	s := compile(t, container)
	done := make(chan string)
	for range 8 {
		go func() { done <- lines(s.Validate(map[string]any{"path": 1, "content": "x"})) }()
	}
	for range 8 {
		assert.Equal(t, "path [type] must be a string, not a number", <-done)
	}
}

// Whatever a schema and a value hold, checking ends and stays inside the value.
func FuzzCompileConfig(f *testing.F) {
	f.Add(container, `{"path": "x", "env": {"b": 1}}`)
	f.Add(doubling(40, "allOf"), `1`)
	f.Add(`{"$schema": "http://json-schema.org/draft-07/schema", "items": [{"writeOnly": true}], "additionalItems": false}`, `[1, 2]`)
	f.Add(`{"$recursiveAnchor": true, "$schema": "https://json-schema.org/draft/2019-09/schema", "properties": {"a": {"$recursiveRef": "#"}}}`, `{"a": {"a": 1}}`)
	f.Add(`{"$dynamicAnchor": "x", "not": {"$dynamicRef": "#x"}}`, `{}`)
	f.Add(`{"$schema": "http://json-schema.org/draft-04/schema#", "id": "#a", "properties": {"a~/b%25": {"writeOnly": true, "maximum": 1, "exclusiveMaximum": true}}}`, `{"a~/b%25": 1}`)
	f.Add(`{"propertyNames": {"pattern": "(a{0,30}){1,30}"}, "items": [{"enum": [0e-9, 1E1]}]}`, `{"a": 1}`)
	f.Fuzz(func(t *testing.T, text, config string) {
		s, err := schema.CompileConfig(json.RawMessage(text))
		if err != nil {
			return
		}
		var v any
		if json.Unmarshal([]byte(config), &v) != nil {
			return
		}
		first := s.Validate(v)
		for _, violation := range first {
			require.NotEmpty(t, violation.Message)
			require.NotEmpty(t, violation.Rule)
		}
		again := s.Validate(v)
		require.Equal(t, lines(first), lines(again), "two answers")
		for _, path := range s.Secrets(v) {
			at := v
			for _, key := range path {
				switch c := at.(type) {
				case map[string]any:
					at = c[key]
				case []any:
					var i int
					_, err := fmt.Sscan(key, &i)
					require.True(t, err == nil && i < len(c), "%v is not in the value", path)
					at = c[i]
				default:
					t.Fatalf("%v is not in the value", path)
				}
			}
		}
	})
}

func TestWhatIsNotKnownIsASecretWhereItMayHoldOne(t *testing.T) {
	s := compile(t, `{"properties": {"image": {"type": "string"}, "env": {"additionalProperties": {"writeOnly": true}}, "deep": {"$ref": "#/$defs/d"},
		"list": {"items": {"properties": {"key": {"writeOnly": true}}}}}, "$defs": {"d": {"properties": {"x": {"anyOf": [{}, {"writeOnly": true}]}}}}}`)
	for config, want := range map[string]string{
		`{"image": "?", "env": "?", "deep": "?", "list": "?"}`:                 "deep env list",
		`{"image": "?", "env": "x", "deep": "x", "list": "x"}`:                 "",
		`{"image": "?", "env": {"A": "x"}, "deep": {"y": "?"}, "list": ["?"]}`: "env.A list.0",
		`{"env": {"A": "?"}, "deep": {"x": "?"}, "list": [{"key": "?"}, "x"]}`: "deep.x env.A list.0.key",
	} {
		var got []string
		for _, path := range s.PossibleSecrets(value(t, config), func(text string) bool { return text == "?" }) {
			got = append(got, strings.Join(path, "."))
		}
		assert.Equal(t, want, strings.Join(got, " "), config)
	}
}

func TestWhatIsWrongWhateverTheRestWillBe(t *testing.T) {
	s := compile(t, `{
		"type": "object", "additionalProperties": false, "required": ["path"],
		"properties": {
			"path": {"type": "string"}, "content": {"type": "string"}, "directory": {"type": "boolean"},
			"ports": {"type": "array", "uniqueItems": true, "maxItems": 3, "items": {"type": "integer"}},
			"check": {"oneOf": [
				{"properties": {"kind": {"const": "http"}, "url": {"type": "string"}}, "required": ["kind", "url"], "additionalProperties": false},
				{"properties": {"kind": {"const": "tcp"}, "port": {"type": "integer"}}, "required": ["kind", "port"], "additionalProperties": false}
			]}
		},
		"if": {"required": ["directory"], "properties": {"directory": {"const": true}}},
		"then": {"properties": {"content": false}}, "else": {"required": ["content"]}
	}`)
	for name, test := range map[string]struct {
		config  string
		unknown [][]string
		want    string
	}{
		"all is known":                   {`{"path": 1, "content": ""}`, nil, `path [type] must be a string, not a number`},
		"the wrong one is not known":     {`{"path": 1, "content": ""}`, [][]string{{"path"}}, ``},
		"beside it one is missing":       {`{"content": "?"}`, [][]string{{"content"}}, ` [required] missing property "path"`},
		"beside it one is misspelt":      {`{"path": "?", "contnet": 1}`, [][]string{{"path"}}, ` [required] missing property "content"` + "\n" + `contnet [additionalProperties] unknown property "contnet", did you mean "content"?`},
		"the condition is not known":     {`{"path": "x", "directory": "?"}`, [][]string{{"directory"}}, ``},
		"nor is what it asks for":        {`{"path": "x", "directory": "?", "content": "?"}`, [][]string{{"directory"}, {"content"}}, ``},
		"neither way it is right":        {`{"path": 7, "directory": "?"}`, [][]string{{"directory"}}, `path [type] must be a string, not a number`},
		"items that may be alike":        {`{"path": "x", "content": "", "ports": ["?", "?", 3]}`, [][]string{{"ports", "0"}, {"ports", "1"}}, ``},
		"one item too many":              {`{"path": "x", "content": "", "ports": ["?", 1, 2, 3]}`, [][]string{{"ports", "0"}}, `ports [maxItems] must have at most 3 items, not 4`},
		"which alternative is not known": {`{"path": "x", "content": "", "check": {"kind": "?", "port": 1}}`, [][]string{{"check", "kind"}}, ``},
		"a whole part is not known":      {`{"path": "x", "content": "", "check": "?"}`, [][]string{{"check"}}, ``},
	} {
		assert.Equal(t, test.want, lines(s.ValidatePartly(value(t, test.config), test.unknown)), name)
	}
}
