package runner

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDifference(t *testing.T) {
	for name, tc := range map[string]struct {
		stale, config map[string]any
		hidden        hidden
		want          string
	}{
		"a value": {map[string]any{"a": 1.0, "b": "x"}, map[string]any{"a": int64(2), "b": "x"}, nil, "  ~ a: 1 → 2"},
		"numbers of two kinds": {map[string]any{"a": 1.0}, map[string]any{"a": int64(1)}, nil,
			"  (what state answered and the configuration have no field in common that differs)"},
		"nested": {map[string]any{"p": map[string]any{"q": []any{"x", "y"}}}, map[string]any{"p": map[string]any{"q": []any{"x", "z"}}}, nil,
			`  ~ p.q[1]: "y" → "z"`},
		"lists of two lengths": {map[string]any{"l": []any{"x"}}, map[string]any{"l": []any{"x", "y"}}, nil, `  ~ l: ["x"] → ["x","y"]`},
		"nothing there":        {nil, map[string]any{"a": 1, "m": map[string]any{"n": true}}, nil, "  + a: 1\n  + m.n: true"},
		"a secret": {map[string]any{"t": "old"}, map[string]any{"t": "new"}, hidden{{"t"}},
			`  ~ t: "(secret)" → "(secret)"`},
		"what HTML escapes": {map[string]any{"a": "<b>"}, map[string]any{"a": "<i> & more"}, nil, `  ~ a: "<b>" → "<i> & more"`},
		"a secret within": {map[string]any{"l": []any{}}, map[string]any{"l": []any{map[string]any{"k": "v"}}}, hidden{{"l", "0", "k"}},
			`  ~ l: [] → [{"k":"(secret)"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := DiffText(difference(tc.stale, tc.config, tc.hidden)); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

// However a stream is cut into writes, no secret gets through and nothing else
// is lost.
func TestLinesHideSecretsAcrossWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s secrets
		s.add(map[string]any{"t": "hunter2"}, [][]string{{"t"}})
		long := rapid.IntRange(0, 3).Draw(t, "long") == 0
		text := ""
		for _, part := range rapid.SliceOfN(rapid.SampledFrom([]string{"hunter2", "hun", "ter2", "\n", "a", "hunter2hunter2"}), 0, 12).Draw(t, "parts") {
			text += part
			if long {
				text += strings.Repeat(".", maxLine/2+rapid.IntRange(0, 9).Draw(t, "off"))
			}
		}
		var got string
		l := &lines{secrets: &s, each: func(line string) { got += line }}
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "write")
			if _, err := l.Write([]byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		l.flush()
		want := ""
		for _, line := range splitLines(text) {
			want += s.mask(line)
		}
		if got != want {
			t.Fatalf("got %d bytes, want %d", len(got), len(want))
		}
	})
}

func splitLines(text string) []string {
	var all []string
	start := 0
	for i := range len(text) {
		if text[i] == '\n' {
			all = append(all, text[start:i])
			start = i + 1
		}
	}
	return append(all, text[start:])
}
