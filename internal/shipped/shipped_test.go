package shipped

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// program is the static test program, built once.
var program = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "shipped-test")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", out, "./testdata/program")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, errors.New(string(text))
	}
	return os.ReadFile(out)
})

func put(t *testing.T, path string, content []byte) string {
	require.NoError(t, os.WriteFile(path, content, 0o600))
	require.NoError(t, os.Chmod(path, 0o700))
	return path
}

func static(t *testing.T) []byte {
	content := must.Get(program())(t)
	return content
}

// forArm64 is the same program with the header of another architecture.
func forArm64(t *testing.T) []byte {
	content := append([]byte(nil), static(t)...)
	content[18], content[19] = 183, 0
	return content
}

func dynamic(t *testing.T) []byte {
	content := must.Get(os.ReadFile("/bin/sh"))(t)
	return content
}

func TestWhichBinary(t *testing.T) {
	for name, tc := range map[string]struct {
		running []byte // nil: the test program
		goos    string
		beside  map[string][]byte
		arch    string
		want    string // base name of the binary
		err     string
	}{
		"the running program":      {goos: "linux", arch: "amd64", want: "deployster"},
		"running, but dynamic":     {running: dynamic(t), goos: "linux", beside: map[string][]byte{"deployster-linux-amd64": static(t)}, arch: "amd64", want: "deployster-linux-amd64"},
		"dynamic and alone":        {running: dynamic(t), goos: "linux", arch: "amd64", err: "this program is not a static binary"},
		"another architecture":     {goos: "linux", beside: map[string][]byte{"deployster-linux-arm64": forArm64(t)}, arch: "arm64", want: "deployster-linux-arm64"},
		"another, and alone":       {goos: "linux", arch: "arm64", err: "the engine runs linux/arm64 and this program is for linux/amd64"},
		"another operating system": {running: []byte("Mach-O"), goos: "darwin", beside: map[string][]byte{"deployster-linux-amd64": static(t)}, arch: "amd64", want: "deployster-linux-amd64"},
		"the wrong file":           {goos: "linux", beside: map[string][]byte{"deployster-linux-arm64": static(t)}, arch: "arm64", err: "is for EM_X86_64, not for arm64"},
		"not an executable":        {goos: "linux", beside: map[string][]byte{"deployster-linux-arm64": []byte("hello, this is text")}, arch: "arm64", err: "is not a Linux executable"},
		"a dynamic file":           {goos: "darwin", beside: map[string][]byte{"deployster-linux-amd64": dynamic(t)}, arch: "amd64", err: "is not static; build it with CGO_ENABLED=0"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if tc.running == nil {
				tc.running = static(t)
			}
			s := Source{Executable: put(t, filepath.Join(dir, "deployster"), tc.running), GOOS: tc.goos, GOARCH: "amd64"}
			for name, content := range tc.beside {
				put(t, filepath.Join(dir, name), content)
			}
			b, err := s.Binary(tc.arch)
			if tc.err == "" {
				assert.True(t, err == nil && filepath.Base(b.Path) == tc.want && b.Arch == tc.arch && len(b.SHA256) == 64, "got %+v, %v", b, err)
				return
			}
			assert.True(t, err != nil && strings.Contains(err.Error(), tc.err), "got %v, want %s", err, tc.err)
			if missing := errors.Is(err, fs.ErrNotExist); missing != (len(tc.beside) == 0) {
				t.Errorf("missing is %v: %v", missing, err)
			} else if missing && !strings.Contains(err.Error(), filepath.Join(dir, "deployster-linux-"+tc.arch)) {
				t.Errorf("the file is not named: %v", err)
			}
		})
	}
}

func TestHashIsRememberedAndStillRight(t *testing.T) {
	dir := t.TempDir()
	s := Source{CacheDir: filepath.Join(dir, "cache")}
	path := put(t, filepath.Join(dir, "program"), []byte("one"))
	hash := func() string {
		b := must.Get(s.hashed(path, "amd64"))(t)
		return b.SHA256
	}
	file := must.Get(os.Open(path))(t)
	defer file.Close()
	id, changed, err := identity(file)
	require.NoError(t, err)
	one := hash()
	entries, _ := os.ReadDir(s.CacheDir)
	assert.True(t, len(entries) == 0 || time.Since(changed) >= recently, "the hash of a file that changed just now was remembered")

	// As it would be some seconds later: what is remembered is used.
	mark := strings.Repeat("ab", 32)
	remember(s.remembered(path, id), mark)
	assert.Equal(t, mark, hash(), "what was remembered was not used")

	// The same size and the same time, but other content.
	info, err := os.Stat(path)
	require.NoError(t, err)
	put(t, path, []byte("two"))
	require.NoError(t, os.Chtimes(path, time.Now(), info.ModTime()))
	got := hash()
	assert.True(t, got != mark && got != one, "the hash of another content is %s", got)

	// What is damaged is not believed.
	if file, err = os.Open(path); err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if id, _, err = identity(file); err != nil {
		t.Fatal(err)
	}
	two := hash()
	put(t, s.remembered(path, id), []byte("garbage"))
	assert.Equal(t, two, hash(), "damaged")
}

func TestAPlaceIsWhereItsLinksLead(t *testing.T) {
	root := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	at := func(path string) string { return filepath.Join(root, path) }
	require.NoError(t, os.Mkdir(at("dir"), 0o700))
	for link, to := range map[string]string{
		"whole": at("dir"), "dangling": at("dir/none"), "relative": "dir/none", "dir/back": "../later", "second": "dangling", "below": at("whole/none"),
		"round": "round", "there": "back-again", "back-again": "there", "deeper": "deeper/x",
	} {
		require.NoError(t, os.Symlink(to, at(link)))
	}
	for path, want := range map[string]string{
		"dir": "dir", "whole": "dir", "whole/none": "dir/none", "dangling": "dir/none", "relative": "dir/none", "second": "dir/none", "below": "dir/none",
		"dangling/a/b": "dir/none/a/b", "dir/back": "later", "whole/back/x": "later/x", "none/../dir": "dir",
	} {
		assert.Equal(t, at(want), (Check{Here: true}).real(at(path)), path)
		got := (Check{}).real(at(path))
		assert.True(t, got == at(path), "elsewhere %s is %s", path, got)
	}
	for _, endless := range []string{"round", "there/x", "deeper"} {
		got := (Check{Here: true}).real(at(endless))
		assert.True(t, got != "", "%s is nowhere", endless)
	}
}
