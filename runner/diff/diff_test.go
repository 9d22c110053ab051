package diff

import (
	"strings"
	"testing"

	"github.com/deployster-go/deployster/runner/invoke"
)

func TestLinesAreBounded(t *testing.T) {
	changes := make([]Change, mostLines+3)
	for i := range changes {
		changes[i] = Change{Path: "a", Op: Add, New: strings.Repeat("x", 1000)}
	}
	for n, last := range map[int]string{mostLines: "+ a: ", mostLines + 1: "… and 1 more", mostLines + 3: "… and 3 more"} {
		lines := Lines(changes[:n])
		if got := lines[len(lines)-1]; len(lines) > mostLines+1 || !strings.HasPrefix(got, last) || len(got) > 250 {
			t.Errorf("%d: %d lines, the last one %q", n, len(lines), got)
		}
	}
}

func TestDifference(t *testing.T) {
	for name, tc := range map[string]struct {
		stale, config map[string]any
		hidden        invoke.Paths
		want          string
	}{
		"a value": {map[string]any{"a": 1.0, "b": "x"}, map[string]any{"a": int64(2), "b": "x"}, nil, "  ~ a: 1 → 2"},
		"numbers of two kinds": {map[string]any{"a": 1.0}, map[string]any{"a": int64(1)}, nil,
			"  (what state answered and the configuration have no field in common that differs)"},
		"nested": {map[string]any{"p": map[string]any{"q": []any{"x", "y"}}}, map[string]any{"p": map[string]any{"q": []any{"x", "z"}}}, nil,
			`  ~ p.q[1]: "y" → "z"`},
		"lists of two lengths": {map[string]any{"l": []any{"x"}}, map[string]any{"l": []any{"x", "y"}}, nil, `  ~ l: ["x"] → ["x","y"]`},
		"nothing there":        {nil, map[string]any{"a": 1, "m": map[string]any{"n": true}}, nil, "  + a: 1\n  + m.n: true"},
		"a secret": {map[string]any{"t": "old"}, map[string]any{"t": "new"}, invoke.Paths{{"t"}},
			`  ~ t: "(secret)" → "(secret)"`},
		"what HTML escapes": {map[string]any{"a": "<b>"}, map[string]any{"a": "<i> & more"}, nil, `  ~ a: "<b>" → "<i> & more"`},
		"a secret within": {map[string]any{"l": []any{}}, map[string]any{"l": []any{map[string]any{"k": "v"}}}, invoke.Paths{{"l", "0", "k"}},
			`  ~ l: [] → [{"k":"(secret)"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Text(Of(tc.stale, tc.config, tc.hidden)); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}
