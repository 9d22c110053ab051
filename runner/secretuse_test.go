package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
)

func TestWhichSecretsReadVariables(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["vault"] = image(func(_ context.Context, c enginetest.Call) int {
		fmt.Fprint(c.Stdout, `{"removable":true,"state_action":{"args":["state"]},"config_schema":{"properties":{
			"token":{"writeOnly":true},"env":{"additionalProperties":{"writeOnly":true}}}}}`)
		return 0
	})
	for name, text := range map[string]string{"secrets/prod": "{{ stage }}", "texts/a": "{{ name | default('') }}"} {
		path := filepath.Join(w.workspace, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	r := w.runner(t, `
resources:
  plain: {type: vault, config: {name: "{{ stage }}", token: fixed}}
  whole: {type: vault, config: {env: "{{ {'A': stage} }}"}}
  parts: {type: vault, config: {env: {B: "{{ stage }}", C: "a-{{ stage }}"}}}
  waits: {type: vault, dependencies: {p: plain}, config: {token: "{{ p.state.id }}{{ stage }}"}}
  computed: {type: vault, config: {token: "{% include 'secrets/' ~ 'prod' | lower %}", env: {D: "{% include ['secrets/prod'] %}", E: "{% include 'texts/' ~ 'a' | lower %}"}}}
  seen: {type: vault, readonly: true, config: {token: "{{ stage }}"}}
`)
	if err := r.Removable(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, use := range r.SecretUses([]string{"secrets/prod", "texts/a"}, "stage", "other") {
		got = append(got, use.Variable+" "+use.Path)
	}
	want := []string{
		"stage resources.computed.config.env.D", "stage resources.computed.config.token",
		"stage resources.parts.config.env.B", "stage resources.parts.config.env.C", "stage resources.seen.config.token",
		"stage resources.waits.config.token", "stage resources.whole.config.env.A",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the uses are %q, want %q", got, want)
	}
}
