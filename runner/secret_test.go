package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
)

// everything is all that a run told and kept.
func (w *world) everything(t *testing.T, err error) string {
	t.Helper()
	all := w.kept(t) + fmt.Sprint(err)
	for _, e := range append(w.events, w.logged...) {
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		all += string(text)
	}
	return all
}

// What a resource is now may hold an older secret than its configuration.
func TestSecretsOfStatesAreHidden(t *testing.T) {
	w := newWorld(t)
	w.engine.Images["vault"] = image(func(_ context.Context, c enginetest.Call) int {
		if len(c.Args) == 0 {
			fmt.Fprint(c.Stdout, `{"config_schema":{"type":"object","properties":{"password":{"type":"string","writeOnly":true}}},"state_action":{"args":["state"]}}`)
			return 0
		}
		fmt.Fprint(c.Stdout, `{"status":"STALE","staleState":{"password":"old-secret"},"actions":[{"name":"rotate","args":["rotate"]}]}`)
		return 0
	})
	_, err := w.apply(t, "resources: {v: {type: vault, config: {password: new-secret}}}")
	if err == nil {
		t.Fatal("a resource that stays stale succeeded")
	}
	all := w.everything(t, err)
	for _, secret := range []string{"old-secret", "new-secret"} {
		if strings.Contains(all, secret) {
			t.Errorf("%s is told", secret)
		}
	}
	if !strings.Contains(err.Error(), `~ password: "(secret)" → "(secret)"`) {
		t.Errorf("that it differs is not told: %v", err)
	}
}

func TestSecretsAreHiddenHoweverTheyAreEncoded(t *testing.T) {
	for name, form := range map[string]string{
		"as it is":           `pässwörd & "more"`,
		"JSON of Go":         `p\u00e4ssw\u00f6rd \u0026 \"more\"`,
		"JSON without HTML":  `pässwörd & \"more\"`,
		"JSON of only ASCII": `p\u00e4ssw\u00f6rd & \"more\"`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.fail["db"] = true
			w.engine.Images["echo"] = image(func(ctx context.Context, c enginetest.Call) int {
				if len(c.Args) > 0 && c.Args[0] == "set" {
					fmt.Fprintln(c.Stdout, form)
				}
				return w.thing(ctx, c)
			})
			_, err := w.apply(t, `resources: {db: {type: echo, config: {value: 1, token: 'pässwörd & "more"'}}}`)
			if all := w.everything(t, err); strings.Contains(all, form) {
				t.Errorf("%s is told", form)
			}
		})
	}
}
