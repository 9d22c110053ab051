package work

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/revision"
)

func TestWhatRevisionsWriteOutAtSecretPlacesIsHidden(t *testing.T) {
	texts := NewTexts(filepath.Join(t.TempDir(), "objects"), t.TempDir(), nil)
	all := Carried{
		"m.yaml": []byte(`resources:
  a:
    type: deployster/container
    config:
      image: shown-image
      secret_env:
        PASSWORD: hunter2-literal
        NUMBER: 12345678
        QUOTED: 'it''s hidden'
        FOLDED: >-
          folded1
          folded2
        REFERENCE: "{{ shown_variable }}"
        EXPRESSION: "{{ 'in-expression' ~ x }}"
        FILE: "{% include 'secrets/key' %}"
        SOME: "{% include 'tokens/' ~ host %}"
  b:
    type: example/foreign
    config: {env: {PASSWORD: shown-foreign}}
`),
		"old.yaml":    []byte("resources: {a: {type: deployster/http, config: {url: shown-url, headers: {Authorization: bearer-token}}}}"),
		"secrets/key": []byte("key-line-1\n{% include 'secrets/more' %}\n"), "secrets/more": []byte("key-line-2\n"), "tokens/h1": []byte("token-of-h1"),
		"plain": []byte("shown-plain"), "half": []byte("resources: ["),
		revision.VariablesName: []byte("{}"),
	}
	if err := texts.KeepAll(all); err != nil {
		t.Fatal(err)
	}
	now, before := all.Digests(), map[string]string{}
	before["old.yaml"] = now["old.yaml"]
	delete(now, "old.yaml")
	before["lost"] = strings.Repeat("0", 64)
	mask := texts.Masking(before, now)
	for _, text := range all {
		got := mask(string(text))
		for _, hidden := range []string{"hunter2", "12345678", "hidden", "folded", "in-expression", "key-line", "token-of", "bearer"} {
			if strings.Contains(got, hidden) {
				t.Errorf("%s is shown in %s", hidden, got)
			}
		}
		for word := range strings.FieldsSeq(string(text)) {
			if strings.HasPrefix(word, "shown") && !strings.Contains(got, word) {
				t.Errorf("%s is not shown in %s", word, got)
			}
		}
	}
}
