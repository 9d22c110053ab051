package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/report"
)

// fingerprint shows what it covers, so that tests can see what hashes are of.
func fingerprint(v any) (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

// plan makes a plan of a manifest that an apply can be bound to.
func (w *world) plan(t *testing.T, text string) *report.Plan {
	t.Helper()
	plan := w.mustPlan(t, text, pinned)
	w.forget()
	return plan
}

func pinned(o *options) { o.Fingerprint = fingerprint }

func to(plan *report.Plan) func(*options) {
	return func(o *options) {
		o.Fingerprint, o.Bound = fingerprint, byName(plan)
	}
}

const branches = `
resources:
  same: {type: thing, config: {value: same}}
  db: {type: thing, config: {value: new, token: hush-hush}}
  api: {type: thing, dependencies: {db: db}, config: {value: "{{ db.state.value }}"}}
  sized: {type: thing, dependencies: {s: same}, config: {value: "{{ s.state.value }}", count: 1}}
  fixed: {type: thing, dependencies: {db: db}, config: {value: 1}}
`

func (w *world) branches() {
	w.things["same"], w.things["db"], w.things["sized"] = "same", "old", "same"
}

func TestAPlanPinsWhatIsKnown(t *testing.T) {
	w := newWorld(t)
	w.branches()
	got := map[string]report.ResourcePlan{}
	for _, r := range w.plan(t, branches).Resources {
		got[r.Name] = r
		assert.NotEmpty(t, r.ImageID)
	}
	for name, want := range map[string]struct{ config, state, actions string }{
		"same":  {`{"value":"same"}`, `{"name":"same","value":"same"}`, ""},
		"db":    {`{"token":"hush-hush","value":"new"}`, `{"value":"old"}`, `[{"name":"set","args":["set"]}]`},
		"sized": {`{"count":1,"value":"same"}`, `{"name":"sized","value":"same"}`, ""},
		"api":   {"", "", ""},
		"fixed": {`{"value":1}`, "", ""},
	} {
		r := got[name]
		if r.ConfigHash != want.config || r.StateHash != want.state || r.ActionsHash != want.actions {
			t.Errorf("%s is pinned to\n%s\n%s\n%s", name, r.ConfigHash, r.StateHash, r.ActionsHash)
		}
	}
	text, _ := fingerprint(got["db"].Config)
	assert.Equal(t, `{"token":"(secret)","value":"new"}`, text)
	text, _ = fingerprint(got["db"].State)
	assert.Equal(t, `{"value":"old"}`, text)
}

// A secret that one resource's configuration is found to hold may stand in what
// another one had to say before.
func TestAPlanHidesASecretWhereverItStands(t *testing.T) {
	w := newWorld(t)
	plan := w.plan(t, `
resources:
  first: {type: thing, config: {value: "uses hush-hush"}}
  second: {type: thing, config: {value: same, token: hush-hush}}
`)
	for i := range plan.Resources {
		r := &plan.Resources[i]
		r.ConfigHash, r.StateHash, r.ActionsHash = "", "", ""
	}
	text, _ := fingerprint(plan)
	assert.NotContains(t, text, "hush", "the plan shows a secret")
}

func TestABoundApplyDoesWhatWasPlannedWithoutAsking(t *testing.T) {
	w := newWorld(t)
	w.branches()
	plan := w.plan(t, branches)
	w.yes = func(runner.Question) bool { return true }
	statuses := w.mustApply(t, branches, to(plan), func(o *options) { o.Confirm = runner.ConfirmAction })
	wantStatuses(t, statuses, map[string]report.Status{
		"same": report.Unchanged, "db": report.Changed, "api": report.Changed, "sized": report.Unchanged, "fixed": report.Changed,
	})
	asked := map[string]bool{}
	for _, q := range w.asked {
		asked[q.Resource] = true
	}
	if len(asked) != 2 || !asked["api"] || !asked["fixed"] {
		t.Errorf("asked about %v; only what the plan left open is a question", asked)
	}

	// The plan can be applied again, as after an interruption.
	w.forget()
	w.mustApply(t, branches, to(plan))
	assert.Equal(t, 0, w.runs("set"))
}

func TestABoundApplyRefusesWhatDeviates(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(*world)
		text      string
		want      map[string]report.Status
		says      string
	}{
		"drift": {
			func(w *world) { w.things["same"] = "other" }, branches,
			map[string]report.Status{"same": report.Failed, "sized": report.Skipped, "db": report.Changed, "api": report.Changed},
			`same: not as planned: it has drifted, and was as configured; plan again:` + "\n" + `  ~ value: "same" → "other"`,
		},
		"a stale one that changed": {
			func(w *world) { w.things["db"] = "older" }, branches,
			map[string]report.Status{"same": report.Unchanged, "db": report.Failed, "api": report.Skipped, "fixed": report.Skipped},
			`db: not as planned: what there is of it has changed; plan again:` + "\n" + `  ~ value: "old" → "older"`,
		},
		"a stale one that is gone": {
			func(w *world) { delete(w.things, "db") }, branches,
			map[string]report.Status{"db": report.Failed, "api": report.Skipped},
			`db: not as planned: it is gone, and was there; plan again`,
		},
		"a stale one that was done by others": {
			func(w *world) { w.things["db"] = "new" }, branches,
			map[string]report.Status{"db": report.Unchanged, "api": report.Changed}, "",
		},
		"another image": {
			// Ids of the fake are those of references.
			func(w *world) { w.engine.Images["thing:2"] = w.engine.Images["thing"] },
			strings.Replace(branches, "api: {type: thing", "api: {type: thing:2", 1),
			map[string]report.Status{"same": report.Skipped, "db": report.Skipped, "api": report.Failed},
			`api: not as planned: the image of its type is another one; plan again:`,
		},
		"another config": {
			nil, strings.Replace(branches, "value: new", "value: newer", 1),
			map[string]report.Status{"same": report.Skipped, "db": report.Failed, "api": report.Skipped},
			`db: not as planned: its configuration is another one; plan again:` + "\n" + `  ~ value: "new" → "newer"`,
		},
		"another secret": {
			nil, strings.Replace(branches, "hush-hush", "hush-other", 1),
			map[string]report.Status{"same": report.Skipped, "db": report.Failed, "api": report.Skipped},
			`db: not as planned: its configuration is another one in a secret value; plan again`,
		},
		"another resource": {
			nil, branches + "  extra: {type: thing, config: {value: 1}}\n",
			map[string]report.Status{"extra": report.Failed, "db": report.Skipped},
			`extra: not as planned: the plan has no such resource`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.branches()
			plan := w.plan(t, branches)
			if tc.meanwhile != nil {
				tc.meanwhile(w)
			}
			statuses, err := w.apply(t, tc.text, to(plan), func(o *options) { o.KeepGoing = true })
			wantStatuses(t, statuses, tc.want)
			var refused *deviation.Error
			if errors.As(err, &refused) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("it ended with\n%v", err)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("the refusal shows a secret:\n%v", err)
			}
			if tc.want["same"] == report.Skipped && w.runs("set")+w.runs("state") > 0 {
				t.Errorf("what can be refused before anything is touched was refused after %v", w.trace)
			}
		})
	}
}

// What depends on a state that is another now, though valid, is refused by its
// own configuration.
func TestAStateThatChangedIsSeenInWhatDependsOnIt(t *testing.T) {
	w := newWorld(t)
	text := `
resources:
  free: {type: thing, config: {value: 1}}
  bound: {type: thing, dependencies: {f: free}, config: {value: "{{ f.state.value }}"}}
`
	w.things["free"], w.things["bound"] = 1, 1
	plan := w.plan(t, text)
	w.things["free"] = 2
	statuses, err := w.apply(t, strings.Replace(text, "{value: 1}", "{value: 2}", 1), to(plan), func(o *options) {
		free := o.Bound["free"]
		free.ConfigHash = `{"value":2}` // only the state is to deviate
		o.Bound["free"] = free
	})
	wantStatuses(t, statuses, map[string]report.Status{"free": report.Unchanged, "bound": report.Failed})
	assert.ErrorContains(t, err, "~ value: 1 → 2")
}

// What an action says of itself may tell of the moment: of a port, or of how
// long it waited.
func TestADescriptionIsNotBound(t *testing.T) {
	w := newWorld(t)
	looks := 0
	good := w.engine.Images["thing"].Program
	w.engine.Images["thing"] = image(func(ctx context.Context, c enginetest.Call) int {
		if len(c.Args) > 0 && c.Args[0] == "state" && w.runs("set") == 0 {
			looks++
			fmt.Fprintf(c.Stdout, `{"status":"STALE","actions":[{"name":"set","description":"look number %d","args":["set"]}]}`, looks)
			return 0
		}
		return good(ctx, c)
	})
	const text = "resources: {db: {type: thing, config: {value: 1}}}"
	plan := w.plan(t, text)
	wantStatuses(t, w.mustApply(t, text, to(plan)), map[string]report.Status{"db": report.Changed})
	assert.Equal(t, 2, looks)
}

func TestAPlanThatCanNotBePinnedFails(t *testing.T) {
	const text = `
resources:
  open: {type: thing, dependencies: {f: first}, config: {value: 2}}
  first: {type: thing, config: {value: 1}}
`
	for unhashable, want := range map[string]string{`{"value":2}`: "open: taking the hash of its configuration", "null": "first: taking the hash of its state"} {
		w := newWorld(t)
		plan, err := w.runner(t, text, func(o *options) {
			o.Fingerprint = func(v any) (string, error) {
				if text, _ := fingerprint(v); text == unhashable {
					return "", errors.New("no JSON")
				}
				return "hash", nil
			}
		}).Plan(t.Context())
		assert.Error(t, err)
		assert.True(t, slices.ContainsFunc(plan.Resources, func(r report.ResourcePlan) bool {
			return r.Status == report.Failed && strings.Contains(r.Name+": "+r.Error, want)
		}))
	}
}
