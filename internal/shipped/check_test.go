package shipped_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/shipped"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/inits"
	"github.com/deployster-go/deployster/schema"
)

// Configurations of types that do not ship are checked by what these are known to accept.
func TestWhatOtherTypesAnsweredIsChecked(t *testing.T) {
	const text = `resources:
  a: {type: "acme/page:1", config: {contnt: x, path: "{{ dir }}/a"}}
  b: {type: acme/unknown, config: {contnt: x}}
  c: {type: "acme/page:1", config: {content: "{{ a.state.size }}"}, dependencies: {a: a}}
`
	variables, expressions := map[string]any{"dir": "d"}, expression.New(t.TempDir())
	m := must.Get(manifest.Load([]manifest.Source{{Name: "web.yaml", Data: []byte(text)}}, manifest.Options{Variables: variables, Evaluator: expressions}))(t)
	raw := json.RawMessage(`{"additionalProperties": false, "properties": {"content": {"type": "string"}, "path": {"type": "string"}}}`)
	page := must.Get(schema.CompileConfig(raw))(t)
	check := shipped.Check{Manifest: m, Variables: variables, Expressions: expressions, Answered: func(ref string) (inits.Type, bool) {
		return inits.Type{Schema: page, ConfigSchema: raw, Plugs: map[string]protocol.PlugRequest{"root": {ContainerPath: "/plug"}}}, ref == "acme/page:1"
	}}
	problems := must.Get(check.Misuse())(t)
	var got []string
	for _, p := range problems {
		got = append(got, p.String())
	}
	want := []string{
		`web.yaml:2:3: resources.a: acme/page:1 needs the plug "root": the manifest defines no such plug (add plugs.root.path)`,
		`web.yaml:2:45: resources.a.config.contnt: unknown property "contnt", did you mean "content"? (rule "additionalProperties" of acme/page:1)`,
		`web.yaml:4:3: resources.c: acme/page:1 needs the plug "root": the manifest defines no such plug (add plugs.root.path)`,
	}
	assert.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
}

func TestWhatIsNoExecutableIsNotPutIntoImages(t *testing.T) {
	path := filepath.Join(t.TempDir(), "program")
	for _, content := range []string{"", "no program\n", strings.Repeat("no program\n", 100)} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		err := shipped.CheckStatic(path, "amd64")
		assert.True(t, err != nil && err.Error() == path+" is not a Linux executable", "%.12q gave %v", content, err)
	}
	err := shipped.CheckStatic(filepath.Join(t.TempDir(), "none"), "amd64")
	assert.True(t, os.IsNotExist(err), "what is not there gave %v", err)
}
