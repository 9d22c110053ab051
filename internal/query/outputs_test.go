package query

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
)

// What is told is what the last apply has told, and an apply of some resources changes what it
// knows.
func TestOutputsAreThoseOfTheLastApply(t *testing.T) {
	const a, b = `{"outputs":{"url":{"value":"a"},"port":{"value":1}}}`, `{"outputs":{"url":{"value":"b"}},"outputs_unknown":["port","other"]}`
	type run struct{ target, command, end, data string }
	for name, c := range map[string]struct {
		of   deploylog.Target
		runs []run
		want string
	}{
		"an apply":           {"run/", []run{{"m", "apply", "finished-successfully", a}}, "run/m port=1 url=a"},
		"a later one":        {"run/", []run{{"m", "apply", "finished-successfully", a}, {"m", "apply", "finished-successfully", `{"outputs":{"url":{"value":"c"}}}`}}, "run/m url=c"},
		"one of some":        {"run/", []run{{"m", "apply", "finished-successfully", a}, {"m", "apply", "finished-successfully", b}}, "run/m port=1 url=b"},
		"only one of some":   {"run/", []run{{"m", "apply", "finished-successfully", b}}, "run/m url=b"},
		"one that failed":    {"run/", []run{{"m", "apply", "finished-successfully", a}, {"m", "apply", "failed", `{}`}}, "run/m port=1 url=a"},
		"a destroy":          {"run/", []run{{"m", "apply", "finished-successfully", a}, {"m", "destroy", "finished-successfully", `{}`}}, "run/m"},
		"of another":         {"run/", []run{{"m", "apply", "finished-successfully", a}, {"n", "apply", "finished-successfully", `{}`}}, "run/n"},
		"of the one named":   {"run/m", []run{{"m", "apply", "finished-successfully", a}, {"n", "apply", "finished-successfully", `{}`}}, "run/m port=1 url=a"},
		"nothing was named":  {"run/m", []run{{"n", "apply", "finished-successfully", `{}`}}, "not found"},
		"nothing":            {"run/", nil, "not found"},
		"nothing ended well": {"run/", []run{{"m", "apply", "failed", `{}`}, {"n", "adopt", "finished-successfully", `{}`}}, "not found"},
	} {
		t.Run(name, func(t *testing.T) {
			log := logtest.NewMemory().Open()
			for i, r := range c.runs {
				target := deploylog.Target("run/" + r.target)
				appendTo(t, log, fmt.Sprint(i), target, "run-started", fmt.Sprintf(`{"details":{"command":%q}}`, r.command))
				appendTo(t, log, fmt.Sprint(i), target, "run-"+r.end, r.data)
			}
			out, err := LastOutputs(t.Context(), log, c.of)
			got := "not found"
			if err == nil {
				got = string(out.Target)
				for _, name := range slices.Sorted(maps.Keys(out.Outputs)) {
					got += fmt.Sprintf(" %s=%v", name, out.Outputs[name].Value)
				}
			} else if !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if err != nil {
				return
			}
			if _, err := out.Named("ulr"); !errors.Is(err, ErrNotFound) || len(out.Outputs) > 0 && !strings.Contains(err.Error(), `did you mean "url"`) {
				t.Errorf("of a mistyped name it says %v", err)
			}
		})
	}
}

func appendTo(t *testing.T, log deploylog.Log, deployment string, target deploylog.Target, event, data string) {
	t.Helper()
	if _, err := log.Append(t.Context(), deploylog.Event{Deployment: deployment, Target: target, Name: event, Attempt: 1, Data: []byte(data)}); err != nil {
		t.Fatal(err)
	}
}

// Where no apply has ended well it is said what became of the last one, and how to go on.
func TestWhyThereAreNoOutputs(t *testing.T) {
	type run struct{ target, command, end string }
	for name, c := range map[string]struct {
		of   deploylog.Target
		runs []run
		want string
	}{
		"nothing was done":         {"run/", nil, "nothing was applied yet"},
		"nothing of it":            {"run/n", []run{{"m", "apply", "failed"}}, "nothing of run/n was applied: deployster log runs"},
		"it failed":                {"run/", []run{{"m", "apply", "failed"}}, "outputs of run/m: its last apply, run 0, failed, and they are evaluated once all is applied; deployster log list --deployment 0 says"},
		"it failed once more":      {"run/m", []run{{"m", "apply", "failed"}, {"m", "apply", "failed"}, {"n", "apply", "failed"}}, "its last apply, run 1, failed"},
		"it goes on":               {"run/", []run{{"m", "apply", "failed"}, {"m", "apply", ""}}, "its last apply, run 1, has not ended, or was killed"},
		"something was adopted":    {"run/", []run{{"m", "adopt", "finished-successfully"}}, "nothing of run/m was applied"},
		"and then an apply failed": {"run/", []run{{"m", "adopt", "finished-successfully"}, {"m", "apply", "failed"}}, "its last apply, run 1, failed"},
	} {
		log := logtest.NewMemory().Open()
		for i, r := range c.runs {
			target := deploylog.Target("run/" + r.target)
			appendTo(t, log, fmt.Sprint(i), target, "run-started", fmt.Sprintf(`{"details":{"command":%q}}`, r.command))
			if r.end != "" {
				appendTo(t, log, fmt.Sprint(i), target, "run-"+r.end, "{}")
			}
		}
		if _, err := LastOutputs(t.Context(), log, c.of); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
