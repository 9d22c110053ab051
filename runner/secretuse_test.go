package runner_test

import (
	"context"
	"fmt"
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
	r := w.runner(t, `
resources:
  plain: {type: vault, config: {name: "{{ stage }}", token: fixed}}
  whole: {type: vault, config: {env: "{{ {'A': stage} }}"}}
  parts: {type: vault, config: {env: {B: "{{ stage }}", C: "a-{{ stage }}"}}}
  waits: {type: vault, dependencies: {p: plain}, config: {token: "{{ p.state.id }}{{ stage }}"}}
  seen: {type: vault, readonly: true, config: {token: "{{ stage }}"}}
`)
	if err := r.Removable(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, use := range r.SecretUses("stage", "other") {
		got = append(got, use.Variable+" "+use.Path)
	}
	want := []string{
		"stage resources.parts.config.env.B", "stage resources.parts.config.env.C", "stage resources.seen.config.token",
		"stage resources.waits.config.token", "stage resources.whole.config.env.A",
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("the uses are %q, want %q", got, want)
	}
}
