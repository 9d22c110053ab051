package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// cloud has disks, each with an id that only the cloud gives. Its type finds a disk by
// what is kept.
type cloud struct {
	*world
	init    string          // what the answer to init has besides
	disks   map[string]bool // by id
	made    int
	line    func(id string) string               // the last line of the action that makes a disk
	again   map[string]any                       // what an answer to state has kept
	adopt   func(id string) protocol.StateOutput // the answer of a type that adopts
	past    map[string]runner.Past
	refused error // why a past cannot be found out
}

const disk = `resources: {d: {type: disk, config: {size: 7}}}`

func newCloud(t *testing.T) *cloud {
	c := &cloud{world: newWorld(t), init: `"keeps":true,`, disks: map[string]bool{}, past: map[string]runner.Past{}}
	c.line = func(id string) string { return fmt.Sprintf(`{"keep":{"id":%q}}`, id) }
	c.engine.Images["disk"] = image(c.disk)
	return c
}

func (c *cloud) disk(_ context.Context, call enginetest.Call) int {
	var in protocol.ActionInput
	var raw map[string]any
	text, _ := io.ReadAll(call.Stdin)
	_, _ = json.Unmarshal(text, &in), json.Unmarshal(text, &raw)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(call.Args) == 0 {
		fmt.Fprint(call.Stdout, `{`+c.init+`"removable":true,"state_action":{"args":["state"]}}`)
		return 0
	}
	c.inputs = append(c.inputs, raw)
	id, _ := in.Kept["id"].(string)
	switch action := call.Args[0]; {
	case action == "create":
		c.made++
		id = fmt.Sprintf("d-%d", c.made)
		c.disks[id] = true
		fmt.Fprintf(call.Stdout, "created\n%s\n", c.line(id))
		if c.fail["d"] {
			return 7
		}
	case action == "delete":
		delete(c.disks, id)
	case raw["adopt"] != nil && c.adopt != nil:
		_ = json.NewEncoder(call.Stdout).Encode(c.adopt(fmt.Sprint(raw["adopt"])))
	case c.disks[id] && in.Ensure == protocol.Absent:
		_ = json.NewEncoder(call.Stdout).Encode(protocol.StateOutput{Status: protocol.Stale, StaleState: map[string]any{}, Actions: []protocol.Action{protocol.Do("delete", "")}})
	case c.disks[id] || in.Ensure == protocol.Absent:
		_ = json.NewEncoder(call.Stdout).Encode(protocol.StateOutput{Status: protocol.Valid, State: map[string]any{"id": id}, Keep: c.again})
	default:
		_ = json.NewEncoder(call.Stdout).Encode(protocol.StateOutput{Status: protocol.Stale, Actions: []protocol.Action{protocol.Do("create", "")}, Keep: c.again})
	}
	return 0
}

// remembers gives a run the past of resources, and keeps what it has kept.
func (c *cloud) remembers(o *options) {
	o.Past = func(_ context.Context, resource string, keeps bool) (runner.Past, error) {
		p := c.past[resource]
		if !keeps {
			p.Kept = nil
		}
		return p, c.refused
	}
	o.Recorder = c
}

func (c *cloud) Record(ctx context.Context, e report.Event) error {
	if e.Kind == report.ResourceKept {
		c.past[e.Resource] = runner.Past{Kept: e.Keep, Secrets: e.Secrets}
	}
	return c.world.Record(ctx, e)
}

func (c *cloud) applies(t *testing.T, want report.Status) {
	t.Helper()
	got, err := c.apply(t, disk, c.remembers)
	if got["d"] != want {
		t.Fatalf("d is %s, want %s: %v", got["d"], want, err)
	}
}

// keeps are what was recorded to be kept.
func (c *cloud) keeps() (all []string) {
	for _, e := range c.logged {
		if e.Kind == report.ResourceKept {
			text, _ := json.Marshal(e.Keep)
			all = append(all, fmt.Sprintf("%d %s %v", e.Attempt, text, e.Protect))
		}
	}
	return all
}

func TestWhatIsKeptIsRecordedAndGivenBack(t *testing.T) {
	c := newCloud(t)
	c.applies(t, report.Changed)
	if got := c.keeps(); !reflect.DeepEqual(got, []string{`1 {"id":"d-1"} false`}) {
		t.Errorf("kept %q", got)
	}
	if names := c.names(); !before(names, "resource-kept d", "action-finished-successfully d create") {
		t.Errorf("it is not recorded before the end of the action: %q", names)
	}
	for i, want := range []map[string]any{{}, {}, {"id": "d-1"}} { // state, create, state
		if in := c.inputs[i]; !reflect.DeepEqual(in["kept"], want) || in["id"] != "LOG/d" || in["interrupted"] != nil {
			t.Errorf("input %d: %v", i, in)
		}
	}
	for _, e := range c.events {
		if e.Kind == report.ResourceKept || strings.Contains(e.Text, "keep") {
			t.Errorf("it is shown: %+v", e)
		}
	}
	c.forget()
	c.applies(t, report.Unchanged)
	if len(c.keeps()) > 0 {
		t.Errorf("what is kept already is recorded again: %q", c.keeps())
	}
	c.again = map[string]any{"id": "d-1", "seen": true}
	c.applies(t, report.Unchanged)
	c.again = map[string]any{}
	c.applies(t, report.Unchanged)
	c.again = nil
	if got := c.keeps(); !reflect.DeepEqual(got, []string{`1 {"id":"d-1","seen":true} false`, `1 {} false`}) {
		t.Errorf("kept %q", got)
	}
}

func TestWhatAFailedActionMadeIsKept(t *testing.T) {
	c := newCloud(t)
	c.fail["d"] = true
	c.applies(t, report.Failed)
	c.applies(t, report.Unchanged)
	if c.made != 1 {
		t.Errorf("%d disks were made", c.made)
	}
}

func TestPlansAndDriftGiveBackAndRecordNothing(t *testing.T) {
	c := newCloud(t)
	c.applies(t, report.Changed)
	c.forget()
	c.again = map[string]any{"id": "d-9"}
	plan, err := c.runner(t, disk, c.remembers).Plan(t.Context())
	if err != nil || plan.Resources[0].Status != report.Valid {
		t.Errorf("plan: %+v, %v", plan, err)
	}
	drift, err := c.runner(t, disk, c.remembers).Drift(t.Context())
	if err != nil || drift.Drifted() {
		t.Errorf("drift: %+v, %v", drift, err)
	}
	if len(c.logged) > 0 || c.past["d"].Kept["id"] != "d-1" {
		t.Errorf("recorded %q", c.names())
	}
}

func TestWhatIsGoneIsForgotten(t *testing.T) {
	c := newCloud(t)
	c.applies(t, report.Changed)
	c.forget()
	c.again = map[string]any{"id": "d-9"} // which a type that says so of what is gone does not mean
	if _, err := c.runner(t, disk, c.remembers).Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.keeps(); !reflect.DeepEqual(got, []string{`1 {} false`}) || len(c.disks) > 0 {
		t.Errorf("kept %q, left %v", got, c.disks)
	}
}

func TestAnInterruptedActionIsToldUntilAnotherBegins(t *testing.T) {
	c := newCloud(t)
	c.past["d"] = runner.Past{Interrupted: true}
	c.applies(t, report.Changed)
	for i, want := range []any{true, true, nil} { // state, create, state
		if got := c.inputs[i]["interrupted"]; got != want {
			t.Errorf("input %d: %v", i, got)
		}
	}
}

func TestAPastThatCannotBeFoundOutFailsTheResource(t *testing.T) {
	c := newCloud(t)
	c.refused = errors.New("the file is not there")
	if _, err := c.apply(t, disk, c.remembers); err == nil || !strings.Contains(err.Error(), "finding out what earlier runs left of it: the file is not there") || c.made > 0 {
		t.Errorf("%v, %d made", err, c.made)
	}
}

func TestATypeThatDoesNotSayThatItKeeps(t *testing.T) {
	c := newCloud(t)
	c.init = ""
	c.disks[""] = false
	_, err := c.apply(t, disk, c.remembers)
	if err == nil || len(c.keeps()) > 0 {
		t.Errorf("%v, kept %q", err, c.keeps())
	}
	shown := false
	for _, e := range c.events {
		shown = shown || e.Kind == report.Line && e.Text == `{"keep":{"id":"d-1"}}`
	}
	if !shown {
		t.Error("its last line is not shown")
	}
	if _, there := c.inputs[0]["kept"]; there {
		t.Error("it is given what is kept")
	}
	c.again = map[string]any{"id": "d-1"}
	if _, err := c.apply(t, disk, c.remembers); err == nil || !strings.Contains(err.Error(), `keep: must not be there: init of disk does not answer "keeps": true`) {
		t.Errorf("got %v", err)
	}
}

func TestWhatCannotBeKeptFailsTheAction(t *testing.T) {
	for name, tc := range map[string]struct{ line, message string }{
		"too much":        {`{"keep":{"id":"` + strings.Repeat("x", protocol.MaxKeep) + `"}}`, `action "create": keep: has 65545 bytes of JSON; at most 65536 are kept`},
		"not an object":   {`{"keep":"hush-hush"}`, `action "create": keep: must be an object, not a string`},
		"what is unknown": {`{"keep":{"a":{"$unknown":true}}}`, `action "create": keep.a: must be known`},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			c.line = func(string) string { return tc.line }
			_, err := c.apply(t, disk, c.remembers)
			if err == nil || !strings.Contains(err.Error(), tc.message) || strings.Contains(c.everything(t, err), "hush-hush") {
				t.Errorf("got %v", err)
			}
			if names := c.names(); len(c.keeps()) > 0 || !before(names, "action-started d create", "action-failed d create") {
				t.Errorf("recorded %q", names)
			}
		})
	}
}

func TestWhatMayBeSecretIsProtectedAndShownNowhere(t *testing.T) {
	for name, schemas := range map[string]string{
		"by the schema of states":         `"state_schema":{"properties":{"key":{"writeOnly":true}}},`,
		"by the schema of configurations": `"config_schema":{"properties":{"key":{"writeOnly":true}}},`,
	} {
		t.Run(name, func(t *testing.T) {
			c := newCloud(t)
			c.init += schemas
			c.line = func(id string) string { return fmt.Sprintf(`{"keep":{"id":%q,"inner":{"key":"hush-hush"}}}`, id) }
			_, err := c.apply(t, disk, c.remembers)
			kept := c.keeps()
			if err != nil || len(kept) != 1 || !strings.HasSuffix(kept[0], "true") {
				t.Fatalf("%v, kept %q", err, kept)
			}
			c.again = c.past["d"].Kept
			c.applies(t, report.Unchanged)
			for i := range c.logged {
				c.logged[i].Keep = nil
			}
			if strings.Contains(c.everything(t, err), "hush-hush") {
				t.Error("it is shown")
			}
		})
	}
}

func TestASavedPlanNoticesThatAnotherThingIsKept(t *testing.T) {
	c := newCloud(t)
	c.past["d"] = runner.Past{Kept: map[string]any{"id": "gone"}}
	for kept, want := range map[string]string{"gone": "", "other": "not as planned: what is kept of it is another by now"} {
		plan, err := c.runner(t, disk, c.remembers, pinned).Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.past["d"] = runner.Past{Kept: map[string]any{"id": kept}}
		_, err = c.apply(t, disk, c.remembers, func(o *options) {
			o.Fingerprint, o.Bound = fingerprint, map[string]report.ResourcePlan{"d": plan.Resources[0]}
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", kept, err)
		}
		c.past["d"] = runner.Past{Kept: map[string]any{"id": "gone"}}
	}
}
