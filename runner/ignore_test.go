package runner_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// ignoring returns the warnings of paths to ignore.
func (w *world) ignoring() (texts []string) {
	for _, text := range w.warnings() {
		if strings.HasPrefix(text, "ignore_") {
			texts = append(texts, text)
		}
	}
	return texts
}

const warned = "ignore_changes: neither its configuration nor its state has "

func TestAPathOfIgnoreChangesThatMatchesNothingIsWarnedOfOnce(t *testing.T) {
	for name, c := range map[string]struct {
		resource string
		want     []diff.Unmatched
	}{
		"all match":      {`web: {type: thing, ignore_changes: [value, count, value.deep, token], config: {value: 1}}`, nil},
		"mistyped":       {`web: {type: thing, ignore_changes: [value, labels.x], config: {value: 1}}`, []diff.Unmatched{{Resource: "web", Setting: "ignore_changes", Path: "labels.x"}}},
		"below a number": {`web: {type: thing, ignore_changes: [count.x], config: {value: 1}}`, []diff.Unmatched{{Resource: "web", Setting: "ignore_changes", Path: "count.x"}}},
		"instances": {`web: {type: thing, for_each: [a, b], ignore_changes: [valeu], config: {value: '{{ each.key }}'}}`,
			[]diff.Unmatched{{Resource: "web", Instances: 2, Setting: "ignore_changes", Path: "valeu"}}},
		"only in the state":      {`web: {type: free, ignore_changes: [c], config: {}}`, nil},
		"drift has its own":      {`web: {type: thing, ignore_drift: [valeu], config: {value: 1}}`, nil},
		"no schema":              {`web: {type: box, ignore_changes: [size, owner.name], config: {size: 1, tags: []}}`, nil},
		"no schema and mistyped": {`web: {type: free, ignore_changes: [a.b, c, d], config: {a: 1}}`, []diff.Unmatched{{Resource: "web", Setting: "ignore_changes", Path: "d"}}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			box(w)
			w.engine.Images["free"] = answering(`{"state_action":{"args":["state"]}}`, `{"status":"VALID","state":{"c":1}}`, 0)
			for _, resource := range []string{"web", "web[a]", "web[b]"} {
				w.things[resource] = map[string]any{"size": 1, "tags": []any{}, "owner": map[string]any{}}
			}
			text := "resources:\n  " + c.resource + "\n"
			plan := w.mustPlan(t, text)
			assert.Equal(t, c.want, plan.Unmatched)
			w.forget()
			w.mustApply(t, text)
			var texts []string
			for _, u := range c.want {
				texts = append(texts, u.String())
			}
			assert.Equal(t, texts, w.ignoring(), "an apply warns of the same")
			if found := w.mustDrift(t, text).Unmatched; c.want != nil {
				assert.Equal(t, c.want, found)
			}
		})
	}
}

func TestInstancesThatAStateMakesAreWarnedOfTogether(t *testing.T) {
	const text = "resources:\n  z: {type: thing, config: {value: [a, b, c]}}\n  page: {type: thing, for_each: '{{ z.state.value }}', dependencies: {z: z}, ignore_changes: [vaule], config: {value: 1}}\n"
	w := newWorld(t)
	assert.Equal(t, []diff.Unmatched{{Resource: "page", Setting: "ignore_changes", Path: "vaule"}}, w.mustPlan(t, text).Unmatched, "no instance is known yet")
	w.forget()
	w.mustApply(t, text)
	assert.Equal(t, []string{warned + "vaule (in 3 instances): correct the path, or remove it"}, w.ignoring())
}

// Whoever is asked has seen the plan, which has the warning.
func TestAnApplyDoesNotRepeatWhatItsPlanHasShown(t *testing.T) {
	const text = "resources:\n  a: {type: thing, ignore_changes: [b], config: {value: 1}}\n"
	w := newWorld(t)
	r := w.runner(t, text)
	require.True(t, must.Get(r.Plan(t.Context()))(t).Changes())
	must.Get(r.Apply(t.Context()))(t)
	assert.Empty(t, w.ignoring())
	r = w.runner(t, text)
	require.False(t, must.Get(r.Plan(t.Context()))(t).Changes())
	must.Get(r.Apply(t.Context()))(t)
	assert.Equal(t, []string{warned + "b: correct the path, or remove it"}, w.ignoring(), "a plan without changes is not shown")
}

func TestAKeyWithDotsIsLeftAsItIs(t *testing.T) {
	w := newWorld(t)
	w.things["a"] = map[string]any{"example.org/by": "others", "8080": 2, "own": "old"}
	const text = "resources:\n  a: {type: thing, ignore_changes: [value.example.org/by, 'value[8080]'], config: {value: {example.org/by: us, '8080': 1, own: new}}}\n"
	assert.Equal(t, report.Changed, w.mustApply(t, text)["a"])
	assert.Equal(t, map[string]any{"example.org/by": "others", "8080": 2.0, "own": "new"}, w.things["a"])
}
