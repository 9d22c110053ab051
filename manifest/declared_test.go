package manifest_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
)

func TestSeveralFilesDeclareVariablesTogether(t *testing.T) {
	const rest = "resources: {}\n"
	m := mustLoad(t, nil, "variables: {b: {type: string, description: The b.}, a: {default: [1]}}\n"+rest, "variables: {c: {writeOnly: true}}\n")
	var got []string
	for _, d := range m.Variables {
		written, has := d.Default()
		got = append(got, fmt.Sprint(d.Name, d.Position, d.Description, d.Secret, has, written))
	}
	if want := "a a.yaml:1:50 false true [1];b a.yaml:1:13 The b. false false <nil>;c b.yaml:1:13 true false <nil>"; strings.Join(got, ";") != strings.NewReplacer(" a.yaml", "a.yaml").Replace(strings.Join(got, ";")) {
		t.Errorf("%v\n%s", got, want)
	}
	_, err := load(t, nil, "variables: {a: {}}\n"+rest, "variables: {a: {}}\n")
	if want := `b.yaml:1:13: variables.a: the variable "a" is already declared at a.yaml:1:13`; err == nil || err.Error() != want {
		t.Error(err)
	}
}

func TestSecretsMakeNoNames(t *testing.T) {
	sources := []manifest.Source{{Name: "m.yaml", Data: []byte("resources: {a: {type: x, for_each: ['{{ a }}', '{{ b }}']}}")}}
	_, err := manifest.Load(sources, manifest.Options{
		Variables: map[string]any{"a": "open", "b": "hush"}, Evaluator: expression.New(t.TempDir()), Secret: func(text string) bool { return text == "hush" },
	})
	if want := "m.yaml:1:36: resources.a.for_each: a key would be a secret, or a part of one, and keys are names, which are shown: make them of something else"; err == nil || err.Error() != want {
		t.Error(err)
	}
}
