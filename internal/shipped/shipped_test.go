package shipped

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/schema"
)

func TestNames(t *testing.T) {
	want := []string{"command", "container", "file", "http", "kubernetes", "network", "volume"}
	got := Names()
	assert.True(t, slices.Equal(got, want), "got %v", got)
	_, ok := Lookup("nothing")
	assert.False(t, ok, "found a type that does not exist")
	for name, want := range map[string]bool{"nothing": false, "docker": true, "file": true} {
		_, ok := RunOf(name)
		assert.True(t, ok == want, "that images run %q is %t", name, ok)
	}
}

// What runs code of users, which may take too long, is ended without what others are doing.
func TestTypesThatManageThingsOfAnEngineAreOneProgram(t *testing.T) {
	for name, want := range map[string]string{
		"container": "docker", "network": "docker", "volume": "docker", "command": "command", "file": "file", "http": "http", "kubernetes": "kubernetes",
	} {
		typ, _ := Lookup(name)
		assert.True(t, typ.program == want, "%s is run by the program %s, want %s", name, typ.program, want)
	}
}

func TestEveryTypeAnswersInit(t *testing.T) {
	plugs := map[string]string{"file": "root", "container": "docker", "network": "docker", "volume": "docker", "command": "docker"}
	for _, name := range Names() {
		typ, _ := Lookup(name)
		assert.True(t, typ.Name == name && typ.Summary != "" && !strings.Contains(typ.Summary, "\n"), "%s: %+v", name, typ)
		var stdout, stderr bytes.Buffer
		code := typ.Run(t.Context(), nil, strings.NewReader(""), &stdout, &stderr)
		require.True(t, code == 0, "%s: init ended with %d: %s", name, code, &stderr)
		answer, err := protocol.DecodeInit(stdout.Bytes())
		require.NoError(t, err, "%s", name)
		assert.True(t, answer.Removable, "%s cannot be removed", name)
		// Its image runs it, where that is of several types, too.
		run, ok := RunOf(typ.program)
		var same bytes.Buffer
		input := `{"name": "r", "type": "` + Prefix + name + `"}`
		if !ok || run(t.Context(), nil, strings.NewReader(input), &same, &stderr) != 0 || same.String() != stdout.String() {
			t.Errorf("%s: its image answers %s: %s", name, &same, &stderr)
		}
		plug, ok := answer.Plugs[plugs[name]]
		assert.False(t, plugs[name] != "" && (!ok || !plug.Writable || plug.Optional), "%s: plugs %+v", name, answer.Plugs)
	}
}

func compile(t *testing.T, name string) *jsonschema.Schema {
	typ, _ := Lookup(name)
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(typ.Schema))
	require.NoError(t, err, "%s", name)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource(name+".json", document), "%s", name)
	schema, err := compiler.Compile(name + ".json")
	require.NoError(t, err, "%s", name)
	return schema
}

func TestSchemasAreClosedAndExplained(t *testing.T) {
	for _, name := range Names() {
		typ, _ := Lookup(name)
		compile(t, name)
		var document any
		require.NoError(t, json.Unmarshal(typ.Schema, &document))
		explained(t, name, document)
	}
}

// explained requires a description of every property, and that objects with
// properties are closed.
func explained(t *testing.T, path string, schema any) {
	object, ok := schema.(map[string]any)
	if !ok {
		return
	}
	if properties, ok := object["properties"].(map[string]any); ok && object["type"] == "object" {
		assert.True(t, object["additionalProperties"] == false, "%s is open", path)
		for key, property := range properties {
			p, ok := property.(map[string]any)
			assert.True(t, ok && p["description"] != nil, "%s.%s has no description", path, key)
			explained(t, path+"."+key, property)
		}
	}
	explained(t, path+"[]", object["items"])
}

func TestSchemas(t *testing.T) {
	for _, tc := range []struct {
		name   string
		good   bool
		config string
	}{
		{"file", true, `{"path":"a","content":""}`},
		{"file", true, `{"path":"a","content":"x","mode":"0644","directory":false}`},
		{"file", true, `{"path":"a","directory":true,"mode":"1777"}`},
		{"file", false, `{"path":"a"}`},
		{"file", false, `{"path":"a","directory":false}`},
		{"file", false, `{"path":"a","directory":true,"content":"x"}`},
		{"file", false, `{"path":"a","content":"x","mode":"rw"}`},
		{"file", false, `{"path":"a","content":"x","mode":644}`},
		{"file", false, `{"content":"x"}`},
		{"container", true, `{"image":"web:1"}`},
		{"container", true, `{"image":"web:1","name":"web","command":["a"],"entrypoint":["b"],"env":{"A":"1","B":2,"C":true},
			"ports":[{"container":80,"host":8080,"protocol":"udp","address":"127.0.0.1"}],
			"mounts":[{"volume":"v","target":"/v"},{"path":"/p","target":"/q","read_only":true}],"networks":["n"],"restart":"always",
			"health":{"command":["x"],"interval":"1m30s","timeout":"1s","retries":3,"start_period":"1.5s"},"labels":{"a":"b"},
			"user":"1:1","workdir":"/","adopt":true}`},
		{"container", false, `{}`},
		{"container", false, `{"image":"web:1","command":"serve"}`},
		{"container", false, `{"image":"web:1","ports":[{"host":80}]}`},
		{"container", false, `{"image":"web:1","ports":[{"container":70000}]}`},
		{"container", false, `{"image":"web:1","mounts":[{"volume":"v","path":"/p","target":"/t"}]}`},
		{"container", false, `{"image":"web:1","mounts":[{"target":"/t"}]}`},
		{"container", false, `{"image":"web:1","restart":"sometimes"}`},
		{"container", false, `{"image":"web:1","health":{"command":["x"],"interval":"1 minute"}}`},
		{"container", false, `{"image":"web:1","env":{"A":null}}`},
		{"container", false, `{"image":"web:1","memory":"1g"}`},
		{"network", true, `{}`},
		{"network", true, `{"name":"n","driver":"bridge","subnet":"10.0.0.0/8","gateway":"10.0.0.1","internal":true}`},
		{"network", false, `{"gateway":"10.0.0.1"}`},
		{"network", false, `{"name":"-n"}`},
		{"volume", true, `{"name":"data","driver":"local","options":{"type":"tmpfs"},"labels":{"a":"b"},"recreate":true}`},
		{"volume", false, `{"size":"1g"}`},
		{"kubernetes", true, `{"manifest":{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{}},"context":"prod",
			"namespace":"shop","wait":{"for":"none","timeout":"90s"},"force_conflicts":true,"adopt":true,"replace":true}`},
		{"kubernetes", true, `{"objects":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a:b","namespace":"x"},"data":{}}],
			"secrets":[{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db"},"stringData":{"a":"b"}}],"kubeconfig":"{}"}`},
		{"kubernetes", false, `{"namespace":"shop"}`},
		{"kubernetes", false, `{"objects":[]}`},
		{"kubernetes", false, `{"manifest":{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db"}}}`},
		{"kubernetes", false, `{"secrets":[{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"db"}}]}`},
		{"kubernetes", false, `{"manifest":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"../x"}}}`},
		{"kubernetes", false, `{"manifest":{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}}`},
		{"command", true, `{"image":"i","check":"test -f x","apply":["touch","x"],"remove":"rm x","env":{"A":1},"mount_workspace":false}`},
		{"command", false, `{"image":"i"}`},
		{"command", false, `{"image":"i","check":[]}`},
		{"http", true, `{"url":"https://a.example/","expect":{"status":[200,204],"json":{"a":1},"body_matches":"^a"},"timeout":"1m"}`},
		{"http", true, `{"url":"http://a.example","expect":{"status":404}}`},
		{"http", false, `{"url":"ftp://a.example"}`},
		{"http", false, `{"url":"http://a.example","expect":{"status":"200"}}`},
		{"http", false, `{"url":"http://a.example","timeout":30}`},
	} {
		config, err := jsonschema.UnmarshalJSON(strings.NewReader(tc.config))
		require.NoError(t, err)
		err = compile(t, tc.name).Validate(config)
		assert.True(t, (err == nil) == tc.good, "%s %s: want good %v, got %v", tc.name, tc.config, tc.good, err)
	}
}

func TestSecretsAreMarked(t *testing.T) {
	for name, key := range map[string]string{"container": "secret_env", "command": "secret_env", "http": "headers"} {
		typ, _ := Lookup(name)
		var schema struct {
			Properties map[string]struct {
				AdditionalProperties struct {
					WriteOnly bool `json:"writeOnly"`
				} `json:"additionalProperties"`
			} `json:"properties"`
		}
		// Other properties say false there, which does not fit; that error is expected.
		_ = json.Unmarshal(typ.Schema, &schema)
		assert.True(t, schema.Properties[key].AdditionalProperties.WriteOnly, "the values of %s.%s are not marked writeOnly", name, key)
	}
}

func TestWhatObjectsOfAClusterHideIsSecret(t *testing.T) {
	typ, _ := Lookup("kubernetes")
	compiled := must.Get(schema.CompileConfig(typ.Schema))(t)
	config := map[string]any{
		"kubeconfig": "token: a",
		"objects":    []any{map[string]any{"kind": "ConfigMap", "data": map[string]any{"a": "b"}, "stringData": map[string]any{"a": "b"}}},
		"secrets":    []any{map[string]any{"kind": "Secret", "data": map[string]any{"a": "b"}, "stringData": map[string]any{"c": "d"}}},
	}
	want := [][]string{{"kubeconfig"}, {"secrets", "0", "data", "a"}, {"secrets", "0", "stringData", "c"}}
	assert.Equal(t, want, compiled.Secrets(config))
}
