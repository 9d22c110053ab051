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

// What was made of a declaration is subject to it also where it comes to nothing any more.
func TestWhatComesToNothingIsDeclaredAllTheSame(t *testing.T) {
	for _, tc := range []struct{ of, text, name, want string }{
		{"no instances", "a: {type: x, for_each: [], prevent_destroy: true}", "a[old]", "a.yaml:1:40"},
		{"an instance that is gone", "a: {type: x, for_each: [b], prevent_destroy: true}", "a[old]", "a.yaml:1:41"},
		{"all are off", "a: {type: x, for_each: [b], when: false, prevent_destroy: true}", "a[b]", "a.yaml:1:54"},
		{"off", "a: {type: x, when: false, prevent_destroy: true}", "a", "a.yaml:1:39"},
		{"may go", "a: {type: x, for_each: []}", "a[old]", "declared"},
		{"was one", "a: {type: x, for_each: []}", "a", "declared"},
		{"was many", "a: {type: x, when: false}", "a[old]", ""},
		{"another", "a: {type: x, when: false}", "b", ""},
	} {
		m := mustLoad(t, nil, "resources: {"+tc.text+", z: {type: x}}")
		selected, err := m.Select([]string{"z"})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*manifest.Manifest{m, selected} {
			got := ""
			if kin := m.Kin(tc.name); m == selected && tc.of == "an instance that is gone" {
				continue
			} else if kin != nil && kin.PreventDestroy {
				got = kin.PreventedAt().String()
			} else if kin != nil {
				got = "declared"
			}
			if got != tc.want {
				t.Errorf("%s: %s is %q, want %q", tc.of, tc.name, got, tc.want)
			}
		}
	}
}
