package schema_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

func embedded(t *testing.T, name string) *schema.Schema {
	t.Helper()
	text, err := schema.Source(name)
	if err != nil {
		t.Fatal(err)
	}
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
		if found := s.Validate(value(t, text)); (err == nil) != (found == nil) {
			t.Errorf("%s\ndecoder: %v\nschema: %s", text, err, lines(found))
		}
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
		if found := s.Validate(value(t, text)); (err == nil) != (found == nil) {
			t.Errorf("%s\ndecoder: %v\nschema: %s", text, err, lines(found))
		}
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
		if found := s.Validate(value(t, text)); (err == nil) != (found == nil) {
			t.Errorf("%s\ndecoder: %v\nschema: %s", text, err, lines(found))
		}
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
		if err != nil {
			t.Fatal(err)
		}
		if found := embedded(t, test.schema).Validate(value(t, string(text))); (found == nil) != test.good {
			t.Errorf("%s of %s: %s", test.schema, text, lines(found))
		}
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
		if got := lines(s.Validate(value(t, text))); got != want {
			t.Errorf("%s\ngot\n%s\nwant\n%s", text, got, want)
		}
	}
	for _, word := range append(schema.Keywords(), "writeonly") {
		found := s.Validate(map[string]any{"variables": map[string]any{"a": map[string]any{word: nil}}})
		if known := !slices.ContainsFunc(found, func(v schema.Violation) bool { return v.Rule == "propertyNames" }); known != (word != "writeonly") {
			t.Errorf("%s is known: %v", word, known)
		}
	}
	s = embedded(t, "variables")
	if found := s.Validate(value(t, `{"a": 1, "_b": {"c-d": []}}`)); found != nil {
		t.Error(found)
	}
	if found := s.Validate(value(t, `{"_version": 1}`)); len(found) != 1 {
		t.Error(found)
	}
}

func TestSourcesAreTidy(t *testing.T) {
	for _, name := range schema.Names() {
		text, err := schema.Source(name)
		if err != nil {
			t.Fatal(err)
		}
		if !json.Valid(text) || !bytes.HasSuffix(text, []byte("}\n")) {
			t.Errorf("%s is not one JSON document and a line end", name)
		}
	}
}
