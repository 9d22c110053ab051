package health

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/runner"
)

func TestHowATaskIsGoingByItsResources(t *testing.T) {
	change := func(path string) runner.Change { return runner.Change{Path: path, Op: runner.Modify, Old: 1, New: 2} }
	resource := func(name string, status runner.Status, diff ...runner.Change) runner.ResourceDrift {
		return runner.ResourceDrift{Name: name, Status: status, Diff: diff}
	}
	ill := map[string]map[string]any{"sick": {"running": true, "healthy": false}, "dead": {"running": false, "healthy": false}}
	for _, tc := range []struct {
		name   string
		found  []runner.ResourceDrift
		health tasks.Health
		detail string
	}{
		{"nothing differs", []runner.ResourceDrift{resource("a", runner.Valid), resource("b", runner.Valid)}, tasks.Healthy, ""},
		{"there are no resources", nil, tasks.Healthy, ""},
		{"something is missing", []runner.ResourceDrift{
			{Name: "a", Status: runner.Stale, Missing: true}, {Name: "b", Status: runner.Unknown, Because: []string{"a"}}, resource("c", runner.Stale, change("x")),
		}, tasks.Unhealthy, "a does not exist"},
		{"what is VALID says that it is not healthy", []runner.ResourceDrift{resource("sick", runner.Valid)}, tasks.Unhealthy, "sick is not healthy"},
		{"what is STALE says so", []runner.ResourceDrift{resource("sick", runner.Stale), resource("dead", runner.Stale)}, tasks.Unhealthy, "sick is not healthy; dead does not run"},
		{"what is STALE says what it would do", []runner.ResourceDrift{
			{Name: "dead", Status: runner.Stale, Asked: `"start" (start it, which exited with 3)`}, resource("sick", runner.Stale),
		}, tasks.Unhealthy, `dead does not run: state asks for "start" (start it, which exited with 3); sick is not healthy`},
		{"what is STALE says what it printed", []runner.ResourceDrift{
			{Name: "dead", Status: runner.Stale, Asked: `"start"`, Output: []string{"panic: no table", "main.go:7"}}, resource("sick", runner.Stale),
		}, tasks.Unhealthy, "dead does not run: state asks for \"start\"\n  │ panic: no table\n  │ main.go:7\nsick is not healthy"},
		{"something is ill and something cannot be asked", []runner.ResourceDrift{
			resource("dead", runner.Stale), {Name: "b", Status: runner.Failed, Error: "no"},
		}, tasks.Unhealthy, "dead does not run"},
		{"something cannot be asked and something drifted", []runner.ResourceDrift{
			{Name: "b", Status: runner.Failed, Error: "state exited with 1"}, resource("c", runner.Stale, change("x")),
		}, tasks.Unknown, "b: state exited with 1"},
		{"a state is needed that nobody has", []runner.ResourceDrift{{Name: "b", Status: runner.Unknown, Because: []string{"a", "c"}}},
			tasks.Unknown, "b: its state needs the state of a, c"},
		{"a few values differ", []runner.ResourceDrift{resource("a", runner.Stale, change("x"), change("y")), resource("b", runner.Stale)},
			tasks.Drifted, "a ~ x: 1 → 2\na ~ y: 1 → 2\nb is not as configured; its type does not say in what"},
		{"texts differ", []runner.ResourceDrift{resource("f", runner.Stale,
			runner.Change{Path: "content", Op: runner.Modify, Old: "token=hush", New: "x"}, runner.Change{Path: "note", Op: runner.Remove, Old: "two\nlines"},
			runner.Change{Path: "mode", Op: runner.Modify, Old: "0600", New: "0644"}, runner.Change{Path: "key", Op: runner.Add, New: strings.Repeat("k", longest+1)})},
			tasks.Drifted, "f ~ content: a text of length 10 → a text of length 1\nf - note: a text of length 9\nf ~ mode: \"0600\" → \"0644\"\nf + key: a text of length 81"},
		{"many differ", []runner.ResourceDrift{resource("a", runner.Stale, change("1"), change("2"), change("3"), change("4"), change("5"), change("6"), change("7"))},
			tasks.Drifted, "a ~ 1: 1 → 2\na ~ 2: 1 → 2\na ~ 3: 1 → 2\na ~ 4: 1 → 2\na ~ 5: 1 → 2\nand 2 more"},
	} {
		got := Probed(&runner.DriftReport{Resources: tc.found}, func(name string) map[string]any { return ill[name] }, func(string) bool { return false })
		if want := (tasks.ProbeResult{Health: tc.health, Detail: tc.detail}); got != want {
			t.Errorf("%s:\ngot  %+v\nwant %+v", tc.name, got, want)
		}
	}
}

func TestHowOftenATaskHasEndedByItself(t *testing.T) {
	report := &runner.DriftReport{Resources: []runner.ResourceDrift{{Name: "a", Status: runner.Valid, Output: []string{"panic: no table"}}, {Name: "b", Status: runner.Valid}}}
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
		n := -1
		if got.Restarts != nil {
			n = *got.Restarts
		}
		if n != tc.want || got.Restarted != tc.says || got.Health != tasks.Healthy {
			t.Errorf("%s: %d times, %q", name, n, got.Restarted)
		}
	}
}
