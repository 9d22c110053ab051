package runner

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
)

func TestDeviation(t *testing.T) {
	config := map[string]any{"size": int64(1)}
	do := func(names ...string) []protocol.Action {
		actions := make([]protocol.Action, len(names))
		for i, n := range names {
			actions[i] = protocol.Do(n, "")
		}
		return actions
	}
	valid := ResourcePlan{Status: Valid, ImageID: "i", Config: config, ConfigHash: "c", State: map[string]any{"size": 1.0}, StateHash: "s"}
	stale := ResourcePlan{
		Status: Stale, ImageID: "i", Config: config, ConfigHash: "c", Exists: true, State: map[string]any{"size": 2.0, "gone": true}, StateHash: "t",
		Diff: []Change{{Path: "size", Op: Modify, Old: 2.0, New: 1.0}, {Path: "name", Op: Add, New: "x"}}, Actions: do("grow"), ActionsHash: "a",
	}
	absent := ResourcePlan{Status: Stale, ImageID: "i", Config: config, ConfigHash: "c", StateHash: "n", Actions: do("make"), ActionsHash: "m"}
	unknown := ResourcePlan{Status: Unknown, ImageID: "i"}
	waiting := ResourcePlan{Status: Unknown, ImageID: "i", Config: config, ConfigHash: "c"}
	prepared := ResourcePlan{Status: Pending, ImageID: "i"}
	resolved := ResourcePlan{Status: Pending, ImageID: "i", Config: config, ConfigHash: "c"}
	but := func(p ResourcePlan, change func(*ResourcePlan)) ResourcePlan { change(&p); return p }
	otherImage := func(p *ResourcePlan) { p.ImageID = "j" }
	bigger := func(p *ResourcePlan) {
		p.Config, p.ConfigHash = map[string]any{"size": int64(3), "more": "x"}, "d"
	}

	for name, tc := range map[string]struct {
		planned, now ResourcePlan
		want         string // "" is none
	}{
		"it is as planned, and valid":               {valid, valid, ""},
		"it is as planned, and stale":               {stale, stale, ""},
		"it is as planned, and not there":           {absent, absent, ""},
		"it was done meanwhile":                     {stale, valid, ""},
		"it was made meanwhile":                     {absent, valid, ""},
		"its state is another, but valid":           {valid, but(valid, func(p *ResourcePlan) { p.StateHash = "z" }), ""},
		"what was open is stale":                    {unknown, stale, ""},
		"what was open is valid":                    {unknown, but(valid, bigger), ""},
		"nothing is known yet but the image":        {stale, prepared, ""},
		"nothing is known yet but the config":       {stale, resolved, ""},
		"what was open is resolved as was foreseen": {waiting, stale, ""},

		"another image":                   {valid, but(prepared, otherImage), "the image of its type is another one; plan again:\n  ~ image: \"i\" → \"j\""},
		"another image of what was open":  {unknown, but(prepared, otherImage), "the image of its type is another one; plan again:\n  ~ image: \"i\" → \"j\""},
		"another config, known early":     {stale, but(resolved, bigger), "its configuration is another one; plan again:\n  + more: \"x\"\n  ~ size: 1 → 3"},
		"another config, though valid":    {valid, but(valid, bigger), "its configuration is another one; plan again:\n  + more: \"x\"\n  ~ size: 1 → 3"},
		"another config of what was open": {waiting, but(stale, bigger), "its configuration is another one; plan again:\n  + more: \"x\"\n  ~ size: 1 → 3"},
		"another secret":                  {stale, but(stale, func(p *ResourcePlan) { p.ConfigHash = "d" }), "its configuration is another one in a secret value; plan again"},
		"a plan without hashes":           {but(stale, func(p *ResourcePlan) { p.ConfigHash = "" }), stale, "its configuration is another one in a secret value; plan again"},
		"drift":                           {valid, stale, "it has drifted, and was as configured; plan again:\n  ~ size: 1 → 2\n  - name: \"x\""},
		"gone, and was valid":             {valid, absent, "it is gone, and was as configured; plan again"},
		"gone, and was stale":             {stale, absent, "it is gone, and was there; plan again"},
		"there, and was not":              {absent, stale, "it is there, and was not; plan again:\n  + gone: true\n  + size: 2"},
		"stale in another way": {stale, but(stale, func(p *ResourcePlan) { p.State, p.StateHash = map[string]any{"size": 5.0}, "u" }),
			"what there is of it has changed; plan again:\n  - gone: true\n  ~ size: 2 → 5"},
		"other actions": {stale, but(stale, func(p *ResourcePlan) { p.Actions, p.ActionsHash = do("shrink"), "b" }),
			"its type asks for other actions; plan again:\n  ~ actions[0].args[0]: \"grow\" → \"shrink\"\n  ~ actions[0].name: \"grow\" → \"shrink\""},
		"other words for the same actions": {stale, but(stale, func(p *ResourcePlan) {
			p.Actions = []protocol.Action{protocol.Do("grow", "grow it, for the 3rd time")}
		}), ""},
		"a plan that failed": {but(stale, func(p *ResourcePlan) { p.Status = Failed }), stale, "the plan does not say what to do with it (FAILED); plan again"},
	} {
		t.Run(name, func(t *testing.T) {
			got := deviation(tc.planned, tc.now)
			switch {
			case tc.want == "" && got != nil:
				t.Errorf("refused: %v", got)
			case tc.want != "" && (got == nil || got.Error() != "not as planned: "+tc.want):
				t.Errorf("got\n%v\nwant\n%s", got, tc.want)
			}
		})
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
		t.Run(name, func(t *testing.T) {
			got := ""
			if changes := diff.Between(tc.old, tc.now); len(changes) > 0 {
				got = DiffText(changes)
			}
			if got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
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
		changes := diff.Between(old, now)
		if identical(old, now) != (len(changes) == 0) {
			t.Fatalf("%v and %v: %v", old, now, changes)
		}
		for _, c := range changes {
			if strings.TrimSpace(c.Path) == "" || c.Op == Modify && identical(c.Old, c.New) {
				t.Fatalf("%+v says nothing", c)
			}
		}
	})
}
