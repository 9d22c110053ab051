package schema_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

func embedded(t *testing.T, name string) *schema.Schema {
	text := must.Get(schema.Source(name))(t)
	return compile(t, string(text))
}

func TestNames(t *testing.T) {
	if got := strings.Join(schema.Names(), " "); got != "action-input environment init init-input inventory jobs manifest packages pipeline plan serve-answer serve-request state state-input variables" {
		t.Error(got)
	}
	for _, name := range schema.Names() {
		embedded(t, name)
	}
	for name, want := range map[string]string{
		"manifst": `there is no schema "manifst", did you mean "manifest"?`,
		"x":       `there is no schema "x"; there are action-input, environment, init, init-input, inventory, jobs, manifest, packages, pipeline, plan, serve-answer, serve-request, state, state-input, variables`,
		"../x":    `there is no schema "../x"; there are action-input, environment, init, init-input, inventory, jobs, manifest, packages, pipeline, plan, serve-answer, serve-request, state, state-input, variables`,
	} {
		assert.EqualError(t, must.Fail(schema.Source(name)), want, name)
	}
}

func TestAnswersAgreeWithTheProtocol(t *testing.T) {
	inits := []string{
		`{"state_action": {"args": ["state"]}}`, `{"state_action": {"image": "x"}}`, `{"state_action": {"entrypoint": "/x", "args": []}}`,
		`{}`, `{"state_action": {}}`, `{"state_action": {"args": []}}`, `{"state_action": {"args": "x"}}`, `{"state_action": {"image": ""}}`, `{"state_action": {"cmd": "x", "args": ["y"]}}`,
		`{"state_action": {"args": ["s"]}, "config_schema": true}`, `{"state_action": {"args": ["s"]}, "config_schema": {"type": "object"}}`,
		`{"state_action": {"args": ["s"]}, "removable": true, "serve_action": {"args": ["serve"]}}`, `{"state_action": {"args": ["s"]}, "removable": "yes"}`, `{"state_action": {"args": ["s"]}, "action_images": ["a:1"]}`, `{"state_action": {"args": ["s"]}, "action_images": [""]}`, `{"state_action": {"args": ["s"]}, "serve_action": {}}`,
		`{"state_action": {"args": ["s"]}, "plugs": {"a": {"container_path": "/x", "optional": true, "writable": false}}}`,
		`{"state_action": {"args": ["s"]}, "plugs": {"a": {}}}`, `{"state_action": {"args": ["s"]}, "plugs": {"a": {"container_path": "x"}}}`, `{"state_action": {"args": ["s"]}, "plugs": {"a": {"container_path": "/"}}}`,
		`{"state_action": {"args": ["s"]}, "plugs": {"1": {"container_path": "/x"}}}`, `{"state_action": {"args": ["s"]}, "plugs": []}`, `{"state_action": {"args": ["s"]}, "other": 1}`,
		`{"state_action": {"args": ["s"]}, "keeps": true, "adoptable": true, "accepts_unknown": true, "state_schema": {"type": "object"}}`,
		`{"state_action": {"args": ["s"]}, "keeps": "yes"}`, `{"state_action": {"args": ["s"]}, "state_schema": true}`, `{"state_action": {"args": ["s"]}, "accepts_unknown": 1}`,
		`{"state_action": {"args": ["s"]}, "network": "none"}`, `{"state_action": {"args": ["s"]}, "network": "host"}`, `{"state_action": {"args": ["s"]}, "network": ""}`,
		`{"state_action": {"args": ["s"]}, "identity": ["path", "metadata.name"], "replace": "create_before_destroy", "plugs": {"a": {"container_path": "/x", "holds": true}}}`,
		`{"state_action": {"args": ["s"]}, "identity": "path"}`, `{"state_action": {"args": ["s"]}, "identity": [".a"]}`, `{"state_action": {"args": ["s"]}, "identity": [1]}`, `{"state_action": {"args": ["s"]}, "replace": "never"}`,
		`{"state_action": {"args": ["s"]}, "makes_nothing": true}`, `{"state_action": {"args": ["s"]}, "makes_nothing": true, "keeps": true}`, `{"state_action": {"args": ["s"]}, "makes_nothing": false, "keeps": true}`,
		`{"state_action": {"args": ["s"]}, "adoptable": true}`, `{"state_action": {"args": ["s"]}, "adoptable": false}`, `{"state_action": {"args": ["s"]}, "adoptable": true, "keeps": false}`,
	}
	s := embedded(t, "init")
	for _, text := range inits {
		_, err := protocol.DecodeInit([]byte(text))
		found := s.Validate(value(t, text))
		assert.Equal(t, found == nil, err == nil, text)
	}
	states := []string{
		`{"status": "VALID", "state": {}}`, `{"status": "VALID"}`, `{"status": "VALID", "state": []}`, `{"status": "VALID", "state": {}, "actions": []}`, `{"status": "VALID", "state": {}, "staleState": {}}`,
		`{"status": "STALE", "actions": [{"name": "a"}]}`, `{"status": "STALE", "staleState": {"x": 1}, "actions": [{"name": "create vm", "description": "d", "image": "i", "entrypoint": "e", "args": ["x"]}]}`,
		`{"status": "STALE"}`, `{"status": "STALE", "actions": []}`, `{"status": "STALE", "actions": [{}]}`, `{"status": "STALE", "actions": [{"name": ""}]}`, `{"status": "STALE", "actions": [{"name": "a/b"}]}`, `{"status": "STALE", "actions": [{"name": ".."}]}`,
		`{"status": "STALE", "actions": [{"name": "a", "cmd": "x"}]}`, `{"status": "STALE", "state": {}, "actions": [{"name": "a"}]}`, `{"status": "STALE", "actions": "x"}`,
		`{"status": "OTHER"}`, `{}`, `{"status": "VALID", "state": {}, "more": 1}`,
		`{"status": "VALID", "state": {}, "keep": {}}`, `{"status": "STALE", "keep": {"id": [1]}, "actions": [{"name": "a"}]}`, `{"status": "VALID", "state": {}, "keep": []}`, `{"status": "VALID", "state": {}, "keep": null}`,
		`{"status": "STALE", "planned_state": {"id": {"$unknown": true}, "l": [{"$unknown": true}]}, "actions": [{"name": "a"}]}`, `{"status": "STALE", "planned_state": {}, "actions": [{"name": "a"}]}`,
		`{"status": "STALE", "planned_state": {"$unknown": true}, "actions": [{"name": "a"}]}`, `{"status": "VALID", "state": {}, "planned_state": {}}`,
		`{"status": "VALID", "state": {"a": {"$unknown": true}}}`, `{"status": "VALID", "state": {"$unknown": true}}`, `{"status": "VALID", "state": {"a": [[{"$unknown": true}]]}}`, `{"status": "VALID", "state": {"a": {"$unknown": false}, "b": {"$unknown": true, "c": 1}}}`,
		`{"status": "VALID", "state": {}, "identity": {"arn": "x"}}`, `{"status": "VALID", "state": {}, "identities": [{"a": 1}, {"b": {}}]}`, `{"status": "VALID", "state": {}, "identities": []}`, `{"status": "VALID", "state": {}, "identities": [{}]}`,
		`{"status": "VALID", "state": {}, "identities": {}}`, `{"status": "VALID", "state": {}, "identity": {"a": 1}, "identities": [{"a": 1}]}`, `{"status": "VALID", "state": {}, "message": "x"}`,
		`{"status": "STALE", "identities": [{"a": 1}], "actions": [{"name": "a", "destroys": true}]}`, `{"status": "STALE", "actions": [{"name": "a", "destroys": 1}]}`,
		`{"status": "CONFLICT", "message": "x", "identity": {"a": 1}}`, `{"status": "CONFLICT", "message": "x", "identities": [{"a": 1}]}`, `{"status": "CONFLICT", "message": "", "identity": {"a": 1}}`,
		`{"status": "CONFLICT", "message": "x"}`, `{"status": "CONFLICT", "identity": {"a": 1}}`, `{"status": "CONFLICT", "message": "x", "identity": {"a": 1}, "state": {}}`, `{"status": "CONFLICT", "message": "x", "identity": {"a": 1}, "actions": []}`,
		`{"status": "STALE", "staleState": {"a": {"$unknown": true}}, "actions": [{"name": "a"}]}`, `{"status": "VALID", "state": {}, "keep": {"a": {"$unknown": true}}}`,
	}
	s = embedded(t, "state")
	for _, text := range states {
		_, err := protocol.DecodeState([]byte(text))
		found := s.Validate(value(t, text))
		assert.Equal(t, found == nil, err == nil, text)
	}
}

func TestServedAnswersAgreeWithTheProtocol(t *testing.T) {
	s := embedded(t, "serve-answer")
	for _, text := range []string{
		`{"id": 1, "exit": 0, "output": {"status": "VALID", "state": {}}, "stderr": "x"}`, `{"id": 1, "exit": 255}`, `{"id": 1, "output": "text"}`, `{"id": 1}`,
		`{"id": 1, "exit": 0, "output": null}`, `{"id": 1, "output": null}`,
		`{}`, `{"id": 0}`, `{"id": 1.5}`, `{"id": "1"}`, `{"id": 1, "exit": 256}`, `{"id": 1, "exit": -1}`, `{"id": 1, "exit": null}`, `{"id": 1, "exit": "0"}`,
		`{"id": 1, "exit": 0, "keep": {"id": "x"}}`, `{"id": 1, "exit": 1, "keep": {}}`, `{"id": 1, "keep": {}}`, `{"id": 1, "exit": 0, "keep": null}`, `{"id": 1, "exit": 0, "keep": {"a": {"$unknown": true}}}`,
		`{"id": 1, "output": {}}`, `{"id": 1, "exit": 0, "stderr": []}`, `{"id": 1, "exit": 0, "more": 1}`,
	} {
		_, err := protocol.DecodeServeAnswer([]byte(text))
		found := s.Validate(value(t, text))
		assert.Equal(t, found == nil, err == nil, text)
	}
}

func TestInputsAreWhatIsSent(t *testing.T) {
	in := protocol.InitInput{Name: "www_vm", Type: "acme/vm", Version: "1.0.0", Workspace: "/ws"}
	state := protocol.StateInput{InitInput: in, Config: map[string]any{"a": 1}}
	removable := protocol.StateInput{InitInput: in, Config: map[string]any{}, Ensure: protocol.Absent}
	whole := protocol.StateInput{
		InitInput: in, Config: map[string]any{"a": protocol.Unknown{}}, ID: "01J/www_vm", Interrupted: true, Kept: map[string]any{}, Adopt: "i-1",
	}
	for _, test := range []struct {
		schema string
		input  any
		good   bool
	}{
		{"state-input", whole, true}, {"action-input", protocol.ActionInput{StateInput: whole, StaleState: map[string]any{}}, true},
		{"init-input", in, true}, {"state-input", state, true}, {"state-input", removable, true},
		{"action-input", protocol.ActionInput{StateInput: state, StaleState: map[string]any{}}, true},
		{"serve-request", protocol.ServeRequest{ID: 1, Action: "init", Input: in}, true},
		{"serve-request", protocol.ServeRequest{ID: 2, Action: "state", Args: []string{"state"}, Input: state}, true},
		{"serve-request", protocol.ServeRequest{Action: "state", Input: state}, false}, {"serve-request", protocol.ServeRequest{ID: 1, Action: "init"}, false},
		{"state-input", in, false}, {"action-input", state, false}, {"init-input", map[string]any{}, false},
		{"state-input", protocol.StateInput{InitInput: in, Config: map[string]any{}, Ensure: "gone"}, false},
	} {
		text := must.Get(json.Marshal(test.input))(t)
		found := embedded(t, test.schema).Validate(value(t, string(text)))
		assert.Equal(t, test.good, found == nil, test.schema)
	}
}

func TestManifestSchema(t *testing.T) {
	s := embedded(t, "manifest")
	for text, want := range map[string]string{
		`{}`: "",
		`{"plugs": null, "resources": null, "moved": null}`: "",
		`{"moved": [{"from": "a", "to": "b[k]"}]}`:          "",
		`{"moved": [{"from": "a"}]}`:                        `moved.0 [required] missing property "to"`,
		`{"plugs": {"p": {"path": "~/x", "read_only": true, "resource_names": ["a"], "resource_types": "{{ list }}"}},
		  "resources": {"web": {"type": "acme/x", "readonly": true, "dependencies": {"disk": "my_disk"}, "config": {"a": "{{ disk.state }}"}, "timeout": "1h30m", "ignore_drift": ["content", "ports[0].host"], "ignore_changes": ["content"], "prevent_destroy": true}}}`: "",
		`{"variables": {"a": {"type": ["string", "null"], "default": "{{ b }}", "description": "The a.", "writeOnly": true}, "b": null, "_c": {"enum": [1]}}}`: "",
		`{"variables": {"a": {"type": "bool"}}}`:                   `variables.a.type [enum] must be one of "array", "boolean", "integer", "null", "number", "object", "string"`,
		`{"resource": {}}`:                                         `resource [additionalProperties] unknown property "resource", did you mean "resources"?`,
		`{"resources": []}`:                                        "resources [type] must be a mapping or null, not a list",
		`{"resources": {"web": {"tpye": "x"}}}`:                    "resources.web [required] missing property \"type\"\nresources.web.tpye [additionalProperties] unknown property \"tpye\", did you mean \"type\"?",
		`{"resources": {"web": {"type": "x", "timeout": "soon"}}}`: `resources.web.timeout [pattern] must match the pattern "^([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|ms|s|m|h)(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|ms|s|m|h))*$"`,
		`{"plugs": {"p": {}}}`:                                     `plugs.p [required] missing property "path"`,
		`{"plugs": {"1p": {"path": "x"}}}`:                         `plugs.1p [propertyNames] the name of property "1p" is not possible: it must match the pattern "^[a-zA-Z][a-zA-Z0-9_-]*$"`,
	} {
		assert.Equal(t, want, lines(s.Validate(value(t, text))), text)
	}
	for _, word := range append(schema.Keywords(), "writeonly") {
		found := s.Validate(map[string]any{"variables": map[string]any{"a": map[string]any{word: nil}}})
		assert.Equal(t, word != "writeonly", !slices.ContainsFunc(found, func(v schema.Violation) bool { return v.Rule == "propertyNames" }))
	}
	s = embedded(t, "variables")
	assert.Nil(t, s.Validate(value(t, `{"a": 1, "_b": {"c-d": []}}`)))
	assert.Len(t, s.Validate(value(t, `{"_version": 1}`)), 1)
}

func TestSourcesAreTidy(t *testing.T) {
	for _, name := range schema.Names() {
		text := must.Get(schema.Source(name))(t)
		assert.True(t, json.Valid(text), name)
		assert.True(t, bytes.HasSuffix(text, []byte("}\n")), name)
	}
}

// forEditors is the schema of manifests with a type "acme/x" whose config is as said.
func forEditors(t *testing.T, config string) (*schema.Schema, error) {
	text, left, err := schema.ForEditors(map[string]json.RawMessage{"acme/x": json.RawMessage(config), "acme/y": json.RawMessage(`{"required": ["y"]}`)})
	require.NoError(t, err)
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
			s := must.Get(forEditors(t, tc.config))(t)
			manifest := func(config string) any {
				return value(t, fmt.Sprintf(`{"resources": {"r": {"type": "acme/x", "config": %s}, "other": {"type": "acme/z", "config": {"anything": 1}}}}`, config))
			}
			assert.Nil(t, s.Validate(manifest(tc.accepts)), tc.accepts)
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
		assert.Error(t, err, "%s is no problem", config)
		assert.Nil(t, s.Validate(value(t, `{"resources": {"r": {"type": "acme/x", "config": {"a": 1}}}}`)), config)
		assert.NotNil(t, s.Validate(value(t, `{"resources": {"r": {"type": "acme/y", "config": {"a": 1}}}}`)), config)
	}
}

func members(n int, member string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, member, i)
	}
	return b.String()
}

// What would take minutes or gigabytes to compile is refused by its size, which
// the error tells together with the bound.
func TestWhatWouldTakeTooLongToCompileIsRefusedBefore(t *testing.T) {
	const draft7 = `"$schema": "http://json-schema.org/draft-07/schema#", `
	for name, test := range map[string]struct{ schema, want string }{
		"a long regular expression": {
			`{"pattern": "` + strings.Repeat("a?", 135_000) + `"}`,
			`the regular expression "a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?…" has 270000 bytes, at most 65536 are possible`,
		},
		"repetitions that multiply": {
			`{"pattern": "^` + strings.Repeat("([a-z]{1,30}){1,30}", 3000) + `$"}`,
			"stands for more than 1000000 instructions, which is the most that is possible: its repetitions multiply",
		},
		"repetitions beside each other": {
			`{"properties": {"p": {"pattern": "^` + strings.Repeat("([a-z]{1,30}){1,30}", 400) + `$"}}}`,
			"stands for more than 1000000 instructions, which is the most that is possible: its repetitions multiply",
		},
		"many regular expressions": {
			`{"properties": {` + members(600, `"p%[1]d": {"pattern": "^x%[1]d([a-z]{1,30}){1,30}$"}`) + `}}`,
			"the regular expressions stand for 100", // and some more
		},
		"many names of properties": {
			`{"patternProperties": {` + members(30_000, `"^x%d": {}`) + `}}`,
			"the schema has 30002 parts (objects and booleans), at most 20000 are possible",
		},
		"many schemas that are booleans": {
			`{"properties": {` + members(20_000, `"p%d": true`) + `}}`,
			"the schema has 20002 parts",
		},
		"many identifiers": {
			`{"$defs": {` + members(1001, `"d%[1]d": {"$id": "d%[1]d"}`) + `}}`,
			"the schema has 1001 identifiers ($id), at most 1000 are possible",
		},
		"many references to what is not at the place of a schema": {
			`{"properties": {` + members(3000, `"p%[1]d": {"$ref": "#/x-mine/p%[1]d"}`) + `}, "x-mine": {` + members(3000, `"p%d": {}`) + `}}`,
			"the schema has 3000 references to what is not at the place of a schema; with its 6003 parts at most 666 are possible: move what they mean to $defs or definitions",
		},
		"the same by a keyword of a later draft": {
			`{` + draft7 + `"properties": {` + members(3000, `"p%[1]d": {"$ref": "#/$defs/p%[1]d"}`) + `}, "$defs": {` + members(3000, `"p%d": {}`) + `}}`,
			"the schema has 3000 references to what is not at the place of a schema",
		},
	} {
		_, err := schema.CompileConfig(json.RawMessage(test.schema))
		assert.ErrorContains(t, err, test.want, name)
		assert.LessOrEqual(t, len(err.Error()), 400, name)
	}
}

func TestALargeSchemaIsCompiled(t *testing.T) {
	text := `{"properties": {` + members(1500, `"setting-%[1]d": {"description": "What the setting %[1]d is about, and when it is best left as it is", "$ref": "#/$defs/kind-%[1]d"}`) +
		`}, "$defs": {` + members(1500, `"kind-%[1]d": {"type": "string", "maxLength": 100, "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}`) + `}}`
	require.GreaterOrEqual(t, len(text), 300_000)
	s := compile(t, text)
	got := lines(s.Validate(map[string]any{"setting-0": "fine", "setting-1499": "Not"}))
	assert.Equal(t, `setting-1499 [pattern] must match the pattern "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"`, got)
}

// Matching takes at most the instructions of a regular expression for each
// character of a text, so their product is bounded too.
func TestWhatWouldTakeTooLongToMatchIsNotTried(t *testing.T) {
	slow := compile(t, `{"properties": {"p": {"pattern": "(x?){1000}y", "writeOnly": true}}}`)
	assert.Nil(t, slow.Validate(map[string]any{"p": strings.Repeat("x", 500) + "y"}), "a text of 500 characters")
	megabyte := map[string]any{"p": strings.Repeat("x", 1<<20)}
	assert.Contains(t, lines(slow.Validate(megabyte)), "too complicated", "a text of 1 MiB")
	quick := compile(t, `{"properties": {"p": {"pattern": "^[0-9a-zA-Z+/]*=?=?$"}}}`)
	assert.Nil(t, quick.Validate(map[string]any{"p": strings.Repeat("x", 100_000)}), "a simple regular expression on 100 kB")
	names := compile(t, `{"patternProperties": {`+members(1500, `"(x?){100}y%d": {"type": "string"}`)+`}}`)
	got := lines(names.Validate(value(t, `{`+members(300, `"`+strings.Repeat("x", 30)+`%d": 1`)+`}`)))
	assert.Contains(t, got, "too complicated", "many names against many regular expressions")
	listed := compile(t, `{"items": {"enum": [`+members(20_000, `"v%d"`)+`]}}`)
	assert.Contains(t, lines(listed.Validate(value(t, `[`+members(20_000, `"w%d"`)+`]`))), "too complicated", "a long list against a long enum")
}

func TestNamesOfPropertiesAreCheckedWithinBoundsToo(t *testing.T) {
	s := compile(t, strings.Replace(doubling(60, "allOf"), `{"$ref"`, `{"propertyNames": {"$ref": "#/$defs/l0"}, "x-ref"`, 1))
	assert.Contains(t, lines(s.Validate(map[string]any{"a": 1})), "too complicated")
}

// The formats of old drafts are checked, and one of them is "regex": values
// that are regular expressions are bounded one by one, however many come.
func TestValuesThatAreRegularExpressionsAreBounded(t *testing.T) {
	s := compile(t, `{"$schema": "http://json-schema.org/draft-07/schema#", "items": {"format": "regex"}}`)
	for range 3 {
		require.Nil(t, s.Validate([]any{"([a-z]{1,30}){1,30}", "x([a-z]{1,30}){1,30}"}))
	}
	found := s.Validate([]any{"ok", strings.Repeat("a?", 100_000), strings.Repeat("([a-z]{1,30}){1,30}", 400)})
	assert.Equal(t, "1 [format] must be a valid regex\n2 [format] must be a valid regex", lines(found))
}

func TestNumbersThatCannotBeReckonedWithAreRefused(t *testing.T) {
	s := compile(t, `{"properties": {"n": {"multipleOf": 2, "enum": [1, 2]}, "l": {"type": "array", "uniqueItems": true}}}`)
	for text, want := range map[string]string{
		"1e-99999999":           "n [type] is too small: nothing but 0 is nearer to 0 than 1e-100",
		"1e99999999":            "n [type] is too large: possible are -1e100 to 1e100",
		"1e400":                 "n [type] is too large: possible are -1e100 to 1e100",
		strings.Repeat("1", 50): "n [type] is too long: it has 50 characters, at most 40 are possible",
		"2.0":                   "",
		"0e-99999999":           "n [enum] must be one of 1, 2",
	} {
		assert.Equal(t, want, lines(s.Validate(map[string]any{"n": json.Number(text)})), text)
	}
	var many []any
	for i := range 30 {
		many = append(many, i)
	}
	got := lines(s.Validate(map[string]any{"l": append(many, json.Number("1e-99999999"))}))
	assert.Equal(t, "l.30 [type] is too small: nothing but 0 is nearer to 0 than 1e-100", got)
}

// What RE2 does not have is understood as ECMA-262 has it.
func TestRegularExpressionsThatLookAroundAreMatched(t *testing.T) {
	for _, test := range []struct{ pattern, good, bad string }{
		{`^(?=.*[A-Z])(?=.*[0-9]).{8,}$`, "Passw0rd", "password"},
		{`^(?!kube-)[a-z-]+$`, "web", "kube-system"},
		{`(?<=:)[0-9]+$`, "web:80", "web-80"},
		{`^(['"]).*\\1$`, `'x'`, `'x\"`},
		{`^.{0,5000}$`, strings.Repeat("x", 5000), strings.Repeat("x", 5001)},
		{`^\\u0041+$`, "AA", "u0041"},
		{`^(?!x)[\\w-.]+$`, "a-b.c", "x"},
		{`^\\p{Lu}(?!x)`, "É", "é"},
		{`^a(?!b)\\Z`, "a", "aZ"},
	} {
		s := compile(t, `{"properties": {"p": {"pattern": "`+strings.ReplaceAll(test.pattern, `"`, `\"`)+`"}}}`)
		assert.Nil(t, s.Validate(map[string]any{"p": test.good}))
		got := lines(s.Validate(map[string]any{"p": test.bad}))
		assert.True(t, strings.HasPrefix(got, "p [pattern] must match the pattern"))
	}
}

func TestSecretsAreFoundByRegularExpressionsThatLookAround(t *testing.T) {
	s := compile(t, `{"patternProperties": {"^(?!public_).*key$": {"writeOnly": true}}}`)
	paths := s.Secrets(map[string]any{"public_key": "x", "private_key": "y"})
	require.Len(t, paths, 1)
	assert.Equal(t, "private_key", paths[0][0])
}

// A regular expression that goes back can take longer than anybody lives. It is
// given up, without showing the text, which is taken for a secret.
func TestARegularExpressionThatGoesBackAgainAndAgainIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schema, text, want string }{
		"ever more ways": {
			`{"properties": {"p": {"pattern": "^(a+)+(?!b)$"}}}`, strings.Repeat("a", 200) + "!",
			`p [pattern] cannot be checked: the regular expression "^(a+)+(?!b)$" takes too long: it goes back again and again`,
		},
		"a long text": {
			`{"properties": {"p": {"pattern": "^(?!x)"}}}`, strings.Repeat("a", 100_000),
			`p [pattern] cannot be checked: a text of 100000 bytes is too long for the regular expression "^(?!x)", which may have to go back: at most 65536 are possible`,
		},
		"names": {
			`{"propertyNames": {"pattern": "^(a|aa)+(?!b)$"}}`, "",
			`[pattern] cannot be checked: the regular expression "^(a|aa)+(?!b)$" takes too long`,
		},
	} {
		s := compile(t, test.schema)
		config := map[string]any{"p": test.text, strings.Repeat("a", 200) + "!": 1}
		got := lines(s.Validate(config))
		assert.True(t, strings.Contains(got, test.want) && !strings.Contains(got, "aaa!"), "%s: got %.300s, want %s", name, got, test.want)
		paths := s.Secrets(config)
		assert.True(t, len(paths) == 1 && len(paths[0]) == 0, "%s: secrets are %.100v, not everything", name, paths)
	}
}

func TestManyMatchesAreGivenUpTogether(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"items": {"pattern": "(?=x)(.*)*y"}}`)
	var many []any
	for i := range 2_000 {
		many = append(many, strings.Repeat("x", 600+i))
	}
	assert.Contains(t, lines(s.Validate(many)), "cannot be checked")
}

func TestRegularExpressionsThatLookAroundAreBoundedTogether(t *testing.T) {
	long := "(?!" + strings.Repeat("x", 60_000) + ")"
	_, err := schema.CompileConfig(json.RawMessage(`{"properties": {` + members(17, `"p%d": {"pattern": "x%[1]d`+long+`"}`) + `}}`))
	assert.ErrorContains(t, err, "the regular expressions stand for")
}

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

func TestADraftThatWouldIgnoreKeywordsIsNotAssumed(t *testing.T) {
	for text, want := range map[string]string{
		`{"properties": {"a": {"$ref": "#s"}, "c": {"const": 1}}, "definitions": {"s": {"id": "#s"}}}`:                  `it is valid in draft 04, where "const" would be ignored: name the draft that is meant with $schema`,
		`{"properties": {"a": {"$ref": "#s"}}, "definitions": {"s": {"$id": "#s"}}, "dependentRequired": {"a": ["b"]}}`: `it is valid in draft 07, where "dependentRequired" would be ignored`,
		`{"prefixItems": [{}], "properties": {"l": {"items": [{}]}}}`:                                                   `it is valid in draft 2019-09, where "prefixItems" would be ignored`,
		`{"properties": {"n": {"type": "integer", "maximum": "1"}}}`:                                                    `it is not a valid JSON Schema: #/properties/n/maximum must be a number, not a string: "1"`,
		`{"properties": {"n": {"type": "integer", "required": true}}}`:                                                  `it is not a valid JSON Schema: #/properties/n/required must be a list, not a boolean: true`,
		`{"$schema": "http://json-schema.org/draft-04/schema#", "exclusiveMaximum": 1, "maximum": 1}`:                   `it is not a valid JSON Schema: #/exclusiveMaximum must be true or false, not a number: 1`,
	} {
		assert.ErrorContains(t, must.Fail(schema.CompileConfig(json.RawMessage(text))), want, text)
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

func TestASchemaTellsWhichPathsItAllows(t *testing.T) {
	const closed = `{"type":"object","additionalProperties":false,"properties":{
		"image":{"type":"string"}, "labels":{"type":"object","additionalProperties":{"type":"string"}},
		"ports":{"type":"array","maxItems":3,"items":{"type":"object","additionalProperties":false,"properties":{"host":{}}}},
		"any":{}, "free":{"type":"object"}, "env":{"patternProperties":{"^[A-Z]+$":{}},"additionalProperties":false}}}`
	for _, tc := range []struct {
		schema string
		paths  map[string]schema.Reach
	}{
		{closed, map[string]schema.Reach{
			"image": schema.Named, "image.tag": schema.Forbidden, "imgae": schema.Forbidden, "lables.x": schema.Forbidden,
			"labels.x": schema.Named, "labels.x.y": schema.Named, "labels.app.kubernetes.io/name": schema.Named, "labels[0]": schema.Named,
			"ports": schema.Named, "ports[0].host": schema.Named, "ports[0].hots": schema.Forbidden, "ports.host": schema.Forbidden, "ports[3]": schema.Forbidden,
			"any.thing[2].at.all": schema.Named, "free.x": schema.Named, "env.PATH": schema.Named, "env.path": schema.Forbidden,
		}},
		{`{"type":"object","properties":{"a":{}}}`, map[string]schema.Reach{"a.b": schema.Named, "c": schema.Open}},
		{`{"additionalProperties":true}`, map[string]schema.Reach{"a": schema.Named}},
		{`{"$defs":{"n":{"type":"object","additionalProperties":false,"properties":{"next":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`, map[string]schema.Reach{
			"next.next.next": schema.Named, "next.nxt": schema.Forbidden,
		}},
		{`{"oneOf":[{"additionalProperties":false,"properties":{"a":{}}},{"additionalProperties":false,"properties":{"b":{}}}]}`, map[string]schema.Reach{
			"a": schema.Named, "b": schema.Named, "c": schema.Forbidden,
		}},
		{`{"allOf":[{"properties":{"a":{}}}],"if":{},"then":{"properties":{"b":{}}},"unevaluatedProperties":false}`, map[string]schema.Reach{
			"a": schema.Named, "b": schema.Named, "c": schema.Forbidden,
		}},
		{`{"properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":false}},"unevaluatedProperties":false}`, map[string]schema.Reach{
			"a[0]": schema.Named, "a[1]": schema.Forbidden, "b": schema.Forbidden,
		}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"type":"array","items":[{}],"additionalItems":false}}}`, map[string]schema.Reach{
			"a[0]": schema.Named, "a[1]": schema.Forbidden,
		}},
	} {
		s := must.Get(schema.CompileConfig(json.RawMessage(tc.schema)))(t)
		for path, want := range tc.paths {
			assert.Equal(t, want, s.Reach(path), "%s in %s", path, tc.schema)
		}
	}
}

// A path that a schema forbids leads to nothing in whatever the schema accepts.
func TestNoAcceptedValueHasWhatIsForbidden(t *testing.T) {
	schemas := []string{
		`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","items":{"type":"object"}},"b":{"type":"string"}}}`,
		`{"anyOf":[{"required":["a"],"properties":{"a":{"type":"string"}}},{"properties":{"b":{"maxItems":1}},"additionalProperties":{"type":"object"}}]}`,
		`{"allOf":[{"properties":{"a":{"type":["object","array"]}}},{"patternProperties":{"^b":{}}}],"unevaluatedProperties":false}`,
		`{"if":{"required":["a"]},"then":{"properties":{"b":false}},"properties":{"a":{"prefixItems":[{}],"items":false}}}`,
		`{"$ref":"#/$defs/x","$defs":{"x":{"properties":{"a":{"$ref":"#/$defs/x"},"b":{"type":"array","items":{"$ref":"#/$defs/x"}}},"additionalProperties":false}}}`,
	}
	leaf := rapid.SampledFrom([]any{"x", 1.0, nil})
	value := rapid.Deferred(func() *rapid.Generator[any] { return leaf })
	for range 3 {
		inner := value
		value = rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(inner, 0, 2), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "b.a", "0"}), inner, 0, 3), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) {
		s := must.Get(schema.CompileConfig(json.RawMessage(rapid.SampledFrom(schemas).Draw(t, "schema"))))(t)
		v, ok := value.Draw(t, "value").(map[string]any)
		if !ok || len(s.Validate(v)) > 0 {
			return
		}
		var visit func(v any, path []string)
		visit = func(v any, path []string) {
			if len(path) > 0 {
				text := schema.PathOf("", path)[1:]
				assert.NotEqual(t, schema.Forbidden, s.Reach(text), "%s of %v", text, v)
			}
			switch v := v.(type) {
			case map[string]any:
				for key, item := range v {
					if len(path) > 0 || key != "0" { // no path begins with an index
						visit(item, append(path[:len(path):len(path)], key))
					}
				}
			case []any:
				for i, item := range v {
					visit(item, append(path[:len(path):len(path)], fmt.Sprint(i)))
				}
			}
		}
		visit(v, nil)
	})
}
