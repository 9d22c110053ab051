package deviation_test

import (
	"testing"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
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
	valid := report.ResourcePlan{Status: report.Valid, ImageID: "i", Config: config, ConfigHash: "c", State: map[string]any{"size": 1.0}, StateHash: "s"}
	stale := report.ResourcePlan{
		Status: report.Stale, ImageID: "i", Config: config, ConfigHash: "c", Exists: true, State: map[string]any{"size": 2.0, "gone": true}, StateHash: "t",
		Diff: []diff.Change{{Path: "size", Op: diff.Modify, Old: 2.0, New: 1.0}, {Path: "name", Op: diff.Add, New: "x"}}, Actions: do("grow"), ActionsHash: "a",
	}
	absent := report.ResourcePlan{Status: report.Stale, ImageID: "i", Config: config, ConfigHash: "c", StateHash: "n", Actions: do("make"), ActionsHash: "m"}
	unknown := report.ResourcePlan{Status: report.Unknown, ImageID: "i"}
	waiting := report.ResourcePlan{Status: report.Unknown, ImageID: "i", Config: config, ConfigHash: "c"}
	prepared := report.ResourcePlan{Status: report.Pending, ImageID: "i"}
	resolved := report.ResourcePlan{Status: report.Pending, ImageID: "i", Config: config, ConfigHash: "c"}
	but := func(p report.ResourcePlan, change func(*report.ResourcePlan)) report.ResourcePlan {
		change(&p)
		return p
	}
	done := func(p report.ResourcePlan) report.ResourcePlan { p.DoneBy = "R"; return p }
	otherImage := func(p *report.ResourcePlan) { p.ImageID = "j" }
	bigger := func(p *report.ResourcePlan) {
		p.Config, p.ConfigHash = map[string]any{"size": int64(3), "more": "x"}, "d"
	}

	for name, tc := range map[string]struct {
		planned, now report.ResourcePlan
		want         string // "" is none
	}{
		"it is as planned, and valid":               {valid, valid, ""},
		"it is as planned, and stale":               {stale, stale, ""},
		"it is as planned, and not there":           {absent, absent, ""},
		"it was done meanwhile":                     {stale, valid, ""},
		"it was made meanwhile":                     {absent, valid, ""},
		"its state is another, but valid":           {valid, but(valid, func(p *report.ResourcePlan) { p.StateHash = "z" }), ""},
		"what was open is stale":                    {unknown, stale, ""},
		"what was open is valid":                    {unknown, but(valid, bigger), ""},
		"nothing is known yet but the image":        {stale, prepared, ""},
		"nothing is known yet but the config":       {stale, resolved, ""},
		"what was open is resolved as was foreseen": {waiting, stale, ""},

		"it was done for this plan":              {done(stale), valid, ""},
		"it was done, and is not looked at yet":  {done(absent), resolved, ""},
		"what was open was done":                 {done(unknown), valid, ""},
		"it was done, and is gone":               {done(absent), absent, "run R did this part of the plan, and it is not as configured any more; plan again"},
		"it was done, and is as it was planned":  {done(stale), stale, "run R did this part of the plan, and it is not as configured any more; plan again:\n  ~ size: 1 → 2\n  - name: \"x\""},
		"what was open was done, and is drifted": {done(unknown), stale, "run R did this part of the plan, and it is not as configured any more; plan again:\n  ~ size: 1 → 2\n  - name: \"x\""},

		"another image":                   {valid, but(prepared, otherImage), "the image of its type is another one; plan again:\n  ~ image: \"i\" → \"j\""},
		"another image of what was open":  {unknown, but(prepared, otherImage), "the image of its type is another one; plan again:\n  ~ image: \"i\" → \"j\""},
		"another config, known early":     {stale, but(resolved, bigger), "its configuration is another one; plan again:\n  + more: \"x\"\n  ~ size: 1 → 3"},
		"another config, though valid":    {valid, but(valid, bigger), "its configuration is another one; plan again:\n  + more: \"x\"\n  ~ size: 1 → 3"},
		"another config of what was open": {waiting, but(stale, bigger), "its configuration is another one; plan again:\n  + more: \"x\"\n  ~ size: 1 → 3"},
		"another secret":                  {stale, but(stale, func(p *report.ResourcePlan) { p.ConfigHash = "d" }), "its configuration is another one in a secret value; plan again"},
		"a plan without hashes":           {but(stale, func(p *report.ResourcePlan) { p.ConfigHash = "" }), stale, "its configuration is another one in a secret value; plan again"},
		"drift":                           {valid, stale, "it has drifted, and was as configured; plan again:\n  ~ size: 1 → 2\n  - name: \"x\""},
		"gone, and was valid":             {valid, absent, "it is gone, and was as configured; plan again"},
		"gone, and was stale":             {stale, absent, "it is gone, and was there; plan again"},
		"there, and was not":              {absent, stale, "it is there, and was not; plan again:\n  + gone: true\n  + size: 2"},
		"stale in another way": {stale, but(stale, func(p *report.ResourcePlan) { p.State, p.StateHash = map[string]any{"size": 5.0}, "u" }),
			"what there is of it has changed; plan again:\n  - gone: true\n  ~ size: 2 → 5"},
		"other actions": {stale, but(stale, func(p *report.ResourcePlan) { p.Actions, p.ActionsHash = do("shrink"), "b" }),
			"its type asks for other actions; plan again:\n  ~ actions[0].args[0]: \"grow\" → \"shrink\"\n  ~ actions[0].name: \"grow\" → \"shrink\""},
		"other words for the same actions": {stale, but(stale, func(p *report.ResourcePlan) {
			p.Actions = []protocol.Action{protocol.Do("grow", "grow it, for the 3rd time")}
		}), ""},
		"a plan that failed": {but(stale, func(p *report.ResourcePlan) { p.Status = report.Failed }), stale, "the plan does not say what to do with it (FAILED); plan again"},
	} {
		t.Run(name, func(t *testing.T) {
			got := deviation.Of(tc.planned, tc.now)
			switch {
			case tc.want == "" && got != nil:
				t.Errorf("refused: %v", got)
			case tc.want != "" && (got == nil || got.Error() != "not as planned: "+tc.want):
				t.Errorf("got\n%v\nwant\n%s", got, tc.want)
			}
		})
	}
}
