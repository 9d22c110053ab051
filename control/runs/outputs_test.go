package runs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/protected"
)

// The value of a secret output is in a protected document, for who asks for it by its name. What
// an apply of some resources does not evaluate stays what it was.
func TestSecretOutputs(t *testing.T) {
	log, store := newMaker(t).log, protected.New(t.TempDir())
	document := func(values map[string]any) *protected.Ref {
		ref, err := store.Put(values)
		if err != nil {
			t.Fatal(err)
		}
		return &ref
	}
	end := func(run, text string, secret *protected.Ref) {
		t.Helper()
		var d runs.Data
		if err := json.Unmarshal([]byte(text), &d); err != nil {
			t.Fatal(err)
		}
		d.Secret = secret
		data, err := json.Marshal(d)
		for _, name := range []string{"run-started", "run-finished-successfully"} {
			if err == nil {
				_, err = log.Append(t.Context(), deploylog.Event{Deployment: run, Target: "run/m", Name: name, Attempt: 1, Data: data})
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	first := document(map[string]any{"a": "geheim", "n": json.Number("12345678901234567890")})
	second := document(map[string]any{"a": "neu"})
	end("1", `{"outputs":{"a":{"value":null,"secret":true},"n":{"value":null,"secret":true},"open":{"value":1}}}`, first)
	end("2", `{"outputs":{"a":{"value":null,"secret":true}},"outputs_unknown":["n"]}`, second)
	end("3", `{"outputs":{"old":{"value":null,"secret":true}},"outputs_unknown":["n","a"]}`, nil)

	all, err := runs.ReadOutputs(t.Context(), log, "run/")
	if err != nil {
		t.Fatal(err)
	}
	told, applied := all.Of("run/m")
	m := runs.Memory{Log: log, Protected: store}
	for name, want := range map[string]any{"a": "neu", "n": json.Number("12345678901234567890")} {
		if got, err := m.Output(name, told[name]); err != nil || got != want {
			t.Errorf("%s is %v (%v), want %v", name, got, err, want)
		}
	}
	for name, problem := range map[string]string{"old": "did not keep its value: apply again", "a": "whose value is kept where the log is"} {
		if name == "a" {
			m.Protected = nil
		}
		if _, err := m.Output(name, told[name]); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", name, err)
		}
	}
	needed, err := runs.Documents(t.Context(), log)
	if err != nil || !applied || !needed[first.Name] || !needed[second.Name] {
		t.Errorf("needed are %v, %v", needed, err)
	}
	end("4", `{"details":{"command":"destroy"}}`, nil)
	if needed, err = runs.Documents(t.Context(), log); err != nil || len(needed) != 0 {
		t.Errorf("needed after a destroy are %v, %v", needed, err)
	}
}
