package health

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

func TestHowATaskIsGoingByItsResources(t *testing.T) {
	change := func(path string) diff.Change { return diff.Change{Path: path, Op: diff.Modify, Old: 1, New: 2} }
	resource := func(name string, status report.Status, diff ...diff.Change) report.ResourceDrift {
		return report.ResourceDrift{Name: name, Status: status, Diff: diff}
	}
	ill := map[string]map[string]any{"sick": {"running": true, "healthy": false}, "dead": {"running": false, "healthy": false}}
	for _, tc := range []struct {
		name   string
		found  []report.ResourceDrift
		health tasks.Health
		detail string
	}{
		{"nothing differs", []report.ResourceDrift{resource("a", report.Valid), resource("b", report.Valid)}, tasks.Healthy, ""},
		{"there are no resources", nil, tasks.Healthy, ""},
		{"something is missing", []report.ResourceDrift{
			{Name: "a", Status: report.Stale, Missing: true}, {Name: "b", Status: report.Unknown, Because: []string{"a"}}, resource("c", report.Stale, change("x")),
		}, tasks.Unhealthy, "a does not exist"},
		{"what is VALID says that it is not healthy", []report.ResourceDrift{resource("sick", report.Valid)}, tasks.Unhealthy, "sick is not healthy"},
		{"what is STALE says so", []report.ResourceDrift{resource("sick", report.Stale), resource("dead", report.Stale)}, tasks.Unhealthy, "sick is not healthy; dead does not run"},
		{"what is STALE says what it would do", []report.ResourceDrift{
			{Name: "dead", Status: report.Stale, Asked: `"start" (start it, which exited with 3)`}, resource("sick", report.Stale),
		}, tasks.Unhealthy, `dead does not run: state asks for "start" (start it, which exited with 3); sick is not healthy`},
		{"what is STALE says what it printed", []report.ResourceDrift{
			{Name: "dead", Status: report.Stale, Asked: `"start"`, Output: []string{"panic: no table", "main.go:7"}}, resource("sick", report.Stale),
		}, tasks.Unhealthy, "dead does not run: state asks for \"start\"\n  │ panic: no table\n  │ main.go:7\nsick is not healthy"},
		{"something is ill and something cannot be asked", []report.ResourceDrift{
			resource("dead", report.Stale), {Name: "b", Status: report.Failed, Error: "no"},
		}, tasks.Unhealthy, "dead does not run"},
		{"something cannot be asked and something drifted", []report.ResourceDrift{
			{Name: "b", Status: report.Failed, Error: "state exited with 1"}, resource("c", report.Stale, change("x")),
		}, tasks.Unknown, "b: state exited with 1"},
		{"a state is needed that nobody has", []report.ResourceDrift{{Name: "b", Status: report.Unknown, Because: []string{"a", "c"}}},
			tasks.Unknown, "b: its state needs the state of a, c"},
		{"a few values differ", []report.ResourceDrift{resource("a", report.Stale, change("x"), change("y")), resource("b", report.Stale)},
			tasks.Drifted, "a ~ x: 1 → 2\na ~ y: 1 → 2\nb is not as configured; its type does not say in what"},
		{"texts differ", []report.ResourceDrift{resource("f", report.Stale,
			diff.Change{Path: "content", Op: diff.Modify, Old: "token=hush", New: "x"}, diff.Change{Path: "note", Op: diff.Remove, Old: "two\nlines"},
			diff.Change{Path: "mode", Op: diff.Modify, Old: "0600", New: "0644"}, diff.Change{Path: "key", Op: diff.Add, New: strings.Repeat("k", longest+1)})},
			tasks.Drifted, "f ~ content: a text of length 10 → a text of length 1\nf - note: a text of length 9\nf ~ mode: \"0600\" → \"0644\"\nf + key: a text of length 81"},
		{"many differ", []report.ResourceDrift{resource("a", report.Stale, change("1"), change("2"), change("3"), change("4"), change("5"), change("6"), change("7"))},
			tasks.Drifted, "a ~ 1: 1 → 2\na ~ 2: 1 → 2\na ~ 3: 1 → 2\na ~ 4: 1 → 2\na ~ 5: 1 → 2\nand 2 more"},
	} {
		got := Probed(&report.Drift{Resources: tc.found}, func(name string) map[string]any { return ill[name] }, func(string) bool { return false })
		assert.Equal(t, tasks.ProbeResult{Health: tc.health, Detail: tc.detail}, got, tc.name)
	}
}

func TestHowOftenATaskHasEndedByItself(t *testing.T) {
	report := &report.Drift{Resources: []report.ResourceDrift{{Name: "a", Status: report.Valid, Output: []string{"panic: no table"}}, {Name: "b", Status: report.Valid}}}
	for name, tc := range map[string]struct {
		a, b any
		want int // -1 is not known
		says string
	}{
		"nobody says":         {nil, nil, -1, ""},
		"never":               {0.0, nil, 0, ""},
		"once":                {1.0, nil, 1, "a ended by itself, and was started again: it has restarted 1 time\n  │ panic: no table"},
		"both":                {2.0, json.Number("3"), 5, "a ended by itself, and was started again: it has restarted 2 times\n  │ panic: no table\nb ended by itself, and was started again: it has restarted 3 times"},
		"a text":              {"often", nil, -1, ""},
		"less than never":     {-1.0, nil, -1, ""},
		"a part of a time":    {0.5, nil, -1, ""},
		"more than can be":    {1e300, nil, -1, ""},
		"no number":           {json.Number("x"), nil, -1, ""},
		"not a number at all": {math.NaN(), nil, -1, ""},
	} {
		states := map[string]map[string]any{"a": {"running": true}, "b": {"running": true}}
		if tc.a != nil {
			states["a"]["restarts"] = tc.a
		}
		if tc.b != nil {
			states["b"]["restarts"] = tc.b
		}
		got := Probed(report, func(name string) map[string]any { return states[name] }, func(string) bool { return false })
		want := tasks.ProbeResult{Health: tasks.Healthy, Restarted: tc.says}
		if tc.want >= 0 {
			want.Restarts = &tc.want
		}
		assert.Equal(t, want, got, name)
	}
}

type recorded []report.EventKind

func (r *recorded) Record(_ context.Context, e report.Event) error {
	*r = append(*r, e.Kind)
	return nil
}

func TestWhyATaskFailedIsToldWithTheLastOutputOfItsActions(t *testing.T) {
	var log recorded
	tail := &OutputTail{Recorder: &log}
	cause := errors.New("web: it failed")
	if got := tail.With(cause); got != cause { //nolint:errorlint // the very same
		t.Errorf("without output it is %v", got)
	}
	for _, e := range []report.Event{
		{Kind: report.ActionStarted},
		{Kind: report.ActionFailed, Error: "exited with 1: error: no", Output: []string{"the port", "is taken", "error: no"}},
		{Kind: report.ActionFailed, Error: "it was killed", Output: []string{"loading"}},
		{Kind: report.ActionFailed, Error: "it never began"},
	} {
		require.NoError(t, tail.Record(t.Context(), e))
	}
	got := tail.With(cause)
	want := "web: it failed\nthe port\nis taken\nloading"
	assert.True(t, got.Error() == want && errors.Is(got, cause), "it is %q, want %q", got, want)
	assert.Len(t, log, 4, "recorded are %v", log)
}
