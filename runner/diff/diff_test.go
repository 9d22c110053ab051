package diff

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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
		assert.Equal(t, tc.want, Text(Of(tc.stale, tc.config, tc.hidden)), name)
	}
}

func TestBetween(t *testing.T) {
	type m = map[string]any
	for name, tc := range map[string]struct {
		old, now m
		want     string
	}{
		"numbers of two kinds":          {m{"a": int64(1)}, m{"a": 1.0}, ""},
		"large numbers":                 {m{"a": int64(1<<53 + 1)}, m{"a": int64(1 << 53)}, "  ~ a: 9007199254740993 → 9007199254740992"},
		"both ways":                     {m{"a": 1}, m{"b": 2}, "  - a: 1\n  + b: 2"},
		"within":                        {m{"p": m{"q": []any{m{"r": 1}}}}, m{"p": m{"q": []any{m{"r": 2}}}}, "  ~ p.q[0].r: 1 → 2"},
		"lists of two lengths":          {m{"l": []any{1}}, m{"l": []any{1, 2}}, "  ~ l: [1] → [1,2]"},
		"another kind":                  {m{"l": []any{1}}, m{"l": m{}}, "  ~ l: [1] → {}"},
		"nothing there before":          {nil, m{"a": nil}, "  + a: null"},
		"a secret not known as one now": {m{"a": "(secret)", "b": "is (secret)"}, m{"a": "hush", "b": "is hush"}, "  ~ b: \"is (secret)\" → \"(secret)\""},
		"a number that was a secret":    {m{"a": "(secret)"}, m{"a": int64(271828)}, ""},
	} {
		got := ""
		if changes := Between(tc.old, tc.now); len(changes) > 0 {
			got = Text(changes)
		}
		assert.Equal(t, tc.want, got, name)
	}
}

// No difference is missed, and none is made up.
func TestBetweenTellsWhetherValuesDiffer(t *testing.T) {
	leaf := rapid.OneOf(rapid.Just[any](nil), rapid.SampledFrom([]any{true, "x", "", int64(1), 1.5, []any{}, map[string]any{}}))
	value := rapid.Deferred(func() *rapid.Generator[any] {
		return rapid.OneOf(leaf, rapid.Map(rapid.SliceOfN(leaf, 0, 3), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b"}), leaf, 0, 2), func(m map[string]any) any { return m }))
	})
	object := rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c"}), value, 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		old, now := object.Draw(t, "old"), object.Draw(t, "now")
		changes := Between(old, now)
		require.Equal(t, len(changes) == 0, Identical(old, now), "%v and %v: %v", old, now, changes)
		for _, c := range changes {
			require.True(t, strings.TrimSpace(c.Path) != "" && (c.Op != Modify || !Identical(c.Old, c.New)), "%+v says nothing", c)
		}
	})
}
