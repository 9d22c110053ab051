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

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

func embedded(t *testing.T, name string) *schema.Schema {
	t.Helper()
	text, err := schema.Source(name)
	require.NoError(t, err)
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
		if _, err := schema.Source(name); err == nil || err.Error() != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schemas of the answers and the decoder of the protocol accept the same
// documents.
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
		text, err := json.Marshal(test.input)
		require.NoError(t, err)
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
		text, err := schema.Source(name)
		require.NoError(t, err)
		assert.True(t, json.Valid(text), name)
		assert.True(t, bytes.HasSuffix(text, []byte("}\n")), name)
	}
}

// forEditors is the schema of manifests with a type "acme/x" whose config is as said.
func forEditors(t *testing.T, config string) (*schema.Schema, error) {
	t.Helper()
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
			s, err := forEditors(t, tc.config)
			require.NoError(t, err)
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
