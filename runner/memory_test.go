package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/taken"
)

// cloud has disks, each with an id that only the cloud gives. Its type finds a disk by what is kept.
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
	got, err := c.apply(t, disk, c.remembers)
	require.Equal(t, want, got["d"], "d: %v", err)
}

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
	assert.Equal(t, []string{`1 {"id":"d-1"} false`}, c.keeps())
	names := c.names()
	assert.True(t, before(names, "resource-kept d", "action-finished-successfully d create"), "it is not recorded before the end of the action")
	for i, want := range []map[string]any{{}, {}, {"id": "d-1"}} { // state, create, state
		in := c.inputs[i]
		assert.True(t, reflect.DeepEqual(in["kept"], want) && in["id"] == "LOG/d" && in["interrupted"] == nil, "input %d: %v", i, in)
	}
	for _, e := range c.events {
		assert.NotEqual(t, report.ResourceKept, e.Kind)
		assert.NotContains(t, e.Text, "keep")
	}
	c.forget()
	c.applies(t, report.Unchanged)
	assert.Empty(t, c.keeps(), "what is kept already is recorded again")
	c.again = map[string]any{"id": "d-1", "seen": true}
	c.applies(t, report.Unchanged)
	c.again = map[string]any{}
	c.applies(t, report.Unchanged)
	c.again = nil
	assert.Equal(t, []string{`1 {"id":"d-1","seen":true} false`, `1 {} false`}, c.keeps())
}

func TestWhatAFailedActionMadeIsKept(t *testing.T) {
	c := newCloud(t)
	c.fail["d"] = true
	c.applies(t, report.Failed)
	c.applies(t, report.Unchanged)
	assert.Equal(t, 1, c.made)
}

func TestPlansAndDriftGiveBackAndRecordNothing(t *testing.T) {
	c := newCloud(t)
	c.applies(t, report.Changed)
	c.forget()
	c.again = map[string]any{"id": "d-9"}
	assert.Equal(t, report.Valid, c.mustPlan(t, disk, c.remembers).Resources[0].Status)
	assert.False(t, c.mustDrift(t, disk, c.remembers).Drifted())
	assert.Empty(t, c.logged)
	assert.Equal(t, "d-1", c.past["d"].Kept["id"])
}

func TestWhatIsGoneIsForgotten(t *testing.T) {
	c := newCloud(t)
	c.applies(t, report.Changed)
	c.forget()
	c.again = map[string]any{"id": "d-9"} // which a type that says so of what is gone does not mean
	must.Get(c.runner(t, disk, c.remembers).Destroy(t.Context()))(t)
	got := c.keeps()
	assert.True(t, reflect.DeepEqual(got, []string{`1 {} false`}) && len(c.disks) == 0, "kept %q, left %v", got, c.disks)
}

func TestAnInterruptedActionIsToldUntilAnotherBegins(t *testing.T) {
	c := newCloud(t)
	c.past["d"] = runner.Past{Interrupted: true}
	c.applies(t, report.Changed)
	for i, want := range []any{true, true, nil} { // state, create, state
		assert.Equal(t, want, c.inputs[i]["interrupted"], i)
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
	assert.Error(t, must.Fail(c.apply(t, disk, c.remembers)))
	assert.Empty(t, c.keeps())
	shown := false
	for _, e := range c.events {
		shown = shown || e.Kind == report.Line && e.Text == `{"keep":{"id":"d-1"}}`
	}
	assert.True(t, shown, "its last line is not shown")
	_, there := c.inputs[0]["kept"]
	assert.False(t, there, "it is given what is kept")
	c.again = map[string]any{"id": "d-1"}
	_, err := c.apply(t, disk, c.remembers)
	assert.ErrorContains(t, err, `keep: must not be there: init of disk does not answer "keeps": true`)
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
			require.ErrorContains(t, err, tc.message)
			assert.NotContains(t, c.everything(t, err), "hush-hush")
			names := c.names()
			assert.True(t, len(c.keeps()) == 0 && before(names, "action-started d create", "action-failed d create"), "recorded %q", names)
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
			require.True(t, err == nil && len(kept) == 1 && strings.HasSuffix(kept[0], "true"), "%v, kept %q", err, kept)
			c.again = c.past["d"].Kept
			c.applies(t, report.Unchanged)
			for i := range c.logged {
				c.logged[i].Keep = nil
			}
			assert.NotContains(t, c.everything(t, err), "hush-hush", "it is shown")
		})
	}
}

func TestASavedPlanNoticesThatAnotherThingIsKept(t *testing.T) {
	c := newCloud(t)
	c.past["d"] = runner.Past{Kept: map[string]any{"id": "gone"}}
	for kept, want := range map[string]string{"gone": "", "other": "not as planned: what is kept of it is another by now"} {
		plan := c.mustPlan(t, disk, c.remembers, pinned)
		c.past["d"] = runner.Past{Kept: map[string]any{"id": kept}}
		_, err := c.apply(t, disk, c.remembers, func(o *options) {
			o.Fingerprint, o.Bound = fingerprint, map[string]report.ResourcePlan{"d": plan.Resources[0]}
		})
		assert.True(t, (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want)), "%s: %v", kept, err)
		c.past["d"] = runner.Past{Kept: map[string]any{"id": "gone"}}
	}
}

func (r run) adopt(t *testing.T, list ...report.Adoption) ([]report.Adopted, error) {
	return r.Adopt(t.Context(), r.caller, list)
}

// What is found by its configuration is adopted as it is, with what differs.
func TestWhatExistsIsAdopted(t *testing.T) {
	const two = "resources:\n  a: {type: thing, config: {value: 1}}\n  b: {type: thing, dependencies: {x: a}, config: {value: '{{ x.state.value }}'}}\n  c: {type: thing, config: {value: 3}}\n"
	w := newWorld(t)
	w.things["a"], w.things["b"] = 1, 7
	all, err := w.runner(t, two).adopt(t, report.Adoption{Resource: "b"}, report.Adoption{Resource: "c"})
	var failed *failure.Error
	require.True(t, errors.As(err, &failed) && len(all) == 2 &&
		strings.Contains(all[1].Error, "does not exist, so nothing was adopted"), "%+v, %v", all, err)
	b := all[0]
	assert.True(t, b.Status == report.Unchanged && b.Differs && len(b.Diff) == 1 && b.Diff[0].Path == "value", "adopted: %+v", b)
	if names := w.names(); !slices.Contains(names, "resource-adopted b") || slices.Contains(names, "resource-adopted c") || w.runs("set") > 0 {
		t.Errorf("recorded: %v", names)
	}
	for _, e := range w.logged {
		if e.Kind == report.ResourceAdopted && (e.Made() == nil || e.Made().Config["value"] == nil || e.Made().DependsOn[0] != "a") {
			t.Errorf("it is adopted as %+v", e.Made())
		}
		assert.True(t, e.Resource != "a" || e.Kind == report.ResourceInitialized, "%s is recorded of what is only needed", e.Kind)
	}
}

func TestWhatNeedsAStateIsAdoptedAfterIt(t *testing.T) {
	const two = "resources:\n  a: {type: thing, config: {value: 1}}\n  b: {type: thing, dependencies: {x: a}, config: {value: '{{ x.state.value }}'}}\n"
	w := newWorld(t)
	w.things["b"] = 7
	all, _ := w.runner(t, two).adopt(t, report.Adoption{Resource: "b"})
	assert.Contains(t, all[0].Error, "needs the state of a, which is not known: apply or adopt that first")
	w.things["a"] = 1
	all, err := w.runner(t, two).adopt(t, report.Adoption{Resource: "b"}, report.Adoption{Resource: "a"})
	assert.True(t, err == nil && all[0].Name == "a" && !all[0].Differs, "%+v, %v", all, err)
}

// adoptable has the type of disks find them by an id, and keep that.
func adoptable(c *cloud) *cloud {
	c.init = `"keeps":true,"adoptable":true,`
	c.adopt = func(id string) protocol.StateOutput {
		if !c.disks[id] {
			return protocol.StateOutput{Status: protocol.Stale, Actions: []protocol.Action{protocol.Do("create", "")}, Keep: map[string]any{"id": id}}
		}
		return protocol.StateOutput{Status: protocol.Valid, State: map[string]any{"id": id}, Keep: map[string]any{"id": id}}
	}
	return c
}

func TestWhatIsAdoptedByItsIDIsFoundAgain(t *testing.T) {
	c := adoptable(newCloud(t))
	c.disks["d-7"] = true
	c.past["d"] = runner.Past{Kept: map[string]any{"id": "of another"}}
	all := must.Get(c.runner(t, disk, c.remembers).adopt(t, report.Adoption{Resource: "d", ID: "d-7"}))(t)
	require.True(t, all[0].Status == report.Unchanged && !all[0].Differs, "%+v", all)
	in := c.inputs[0]
	assert.True(t, in["adopt"] == "d-7" && len(in["kept"].(map[string]any)) == 0, "asked with %v", in)
	if got := c.keeps(); len(got) != 1 || got[0] != `1 {"id":"d-7"} false` || !before(c.names(), "resource-kept d", "resource-adopted d") {
		t.Errorf("kept %q: %v", got, c.names())
	}
	c.applies(t, report.Unchanged)
	assert.Nil(t, c.inputs[len(c.inputs)-1]["adopt"], "a run asks for what is adopted")
}

// What a state of another tool had is kept, once the type has found the thing by it.
func TestWhatWouldHaveBeenKeptIsImported(t *testing.T) {
	c := newCloud(t)
	c.disks["d-7"] = true
	adoption := func(id string) report.Adoption {
		return report.Adoption{Resource: "d", Keep: map[string]any{"id": id, "large": json.Number("12345678901234567890")}}
	}
	if _, err := c.runner(t, disk, c.remembers).adopt(t, adoption("d-8")); err == nil || !strings.Contains(err.Error(), "says that it does not exist any more") || len(c.keeps()) > 0 {
		t.Errorf("%v, kept %q", err, c.keeps())
	}
	c.forget()
	must.Get(c.runner(t, disk, c.remembers).adopt(t, adoption("d-7")))(t)
	got := c.keeps()
	assert.True(t, len(got) == 1 && got[0] == `1 {"id":"d-7","large":12345678901234567890} false`, "kept %q", got)
	c.applies(t, report.Unchanged)
	// What the type has kept when it looked counts.
	c.forget()
	c.past["d"], c.again = runner.Past{}, map[string]any{"id": "d-7", "seen": true}
	_, err := c.runner(t, disk, c.remembers).adopt(t, adoption("d-7"))
	assert.True(t, err == nil && c.keeps()[0] == `1 {"id":"d-7","seen":true} false`, "%v, kept %q", err, c.keeps())
}

func TestWhatCannotBeAdopted(t *testing.T) {
	for name, c := range map[string]struct {
		manifest string
		adoption report.Adoption
		change   func(*cloud)
		want     string
		invalid  bool
	}{
		"nothing has the id":       {disk, report.Adoption{ID: "d-9"}, func(c *cloud) { adoptable(c) }, `finds nothing by the id "d-9", so nothing was adopted`, false},
		"nothing by configuration": {disk, report.Adoption{}, func(c *cloud) { adoptable(c) }, "give its id, if it exists; else an apply makes it", false},
		"not by an id":             {disk, report.Adoption{ID: "d-9"}, func(*cloud) {}, `m.yaml:1:13: resources.d: its type disk finds nothing by an id`, true},
		"nothing kept":             {disk, report.Adoption{Keep: map[string]any{"id": "x"}}, func(c *cloud) { c.init = "" }, `its type disk keeps nothing`, true},
		"read-only":                {strings.Replace(disk, "type:", "readonly: true, type:", 1), report.Adoption{}, func(*cloud) {}, `it is "readonly: true"`, true},
		"unforgettable": {disk, report.Adoption{ID: "d-9"}, func(c *cloud) {
			adoptable(c).adopt = func(string) protocol.StateOutput {
				return protocol.StateOutput{Status: protocol.Valid, State: map[string]any{}}
			}
		}, "keep: must be there when something is adopted by its id", false},
	} {
		cloud := newCloud(t)
		c.change(cloud)
		c.adoption.Resource = "d"
		_, err := cloud.runner(t, c.manifest, cloud.remembers).adopt(t, c.adoption)
		var invalid *manifest.Error
		assert.ErrorContains(t, err, c.want, name)
		assert.Equal(t, c.invalid, errors.As(err, &invalid), name)
		names := cloud.names()
		assert.True(t, !slices.Contains(names, "resource-adopted d") && len(cloud.keeps()) == 0, "%s: recorded %v", name, names)
	}
}

func TestWhatIsAdoptedMayHaveSecrets(t *testing.T) {
	c := adoptable(newCloud(t))
	c.init += `"state_schema":{"properties":{"id":{"writeOnly":true}}},`
	c.disks["d-geheim"] = true
	all := must.Get(c.runner(t, disk, c.remembers).adopt(t, report.Adoption{Resource: "d", ID: "d-geheim"}))(t)
	assert.True(t, strings.HasSuffix(c.keeps()[0], "true"))
	for _, e := range append(c.logged, c.events...) {
		e.Keep = nil
		assert.NotContains(t, fmt.Sprintf("%+v", e), "geheim", "it is in")
	}
	if text := fmt.Sprintf("%+v", all); strings.Contains(text, "geheim") || strings.Contains(c.kept(t), "geheim") {
		t.Errorf("it is shown or in a file: %s\n%s", text, c.kept(t))
	}
}

// What was secret in the state of another tool is one here, whatever the type says of it.
func TestWhatWasSecretElsewhereStaysSecret(t *testing.T) {
	for name, token := range map[string]any{"a text": "d-geheim", "one of which nothing is looked for": true} {
		c := newCloud(t)
		c.disks["d-geheim"] = true
		all, err := c.runner(t, disk, c.remembers).adopt(t, report.Adoption{
			Resource: "d", Keep: map[string]any{"id": "d-geheim", "state": map[string]any{"token": token}}, Secrets: [][]string{{"state", "token"}},
		})
		require.NoError(t, err, name)
		assert.True(t, strings.HasSuffix(c.keeps()[0], "true"), name)
		if text := fmt.Sprintf("%+v", all); token != true && (strings.Contains(text, "geheim") || strings.Contains(c.kept(t), "geheim")) {
			t.Errorf("%s is shown or in a file: %s\n%s", name, text, c.kept(t))
		}
		_, err = c.runner(t, disk, c.remembers).Drift(t.Context())
		assert.NoError(t, err, name)
		if token != true && strings.Contains(c.kept(t), "geheim") {
			t.Errorf("%s is in a file of a later run: %s", name, c.kept(t))
		}
	}
}

// What is managed already is not adopted under another name, whoever destroys one would take the other's.
func TestNothingIsAdoptedTwice(t *testing.T) {
	managed := []taken.Thing{{Undeclared: report.Undeclared{Name: "other", Run: "R1", Made: report.Made{Type: "disk:2"}}, Kept: map[string]any{"id": "d-7"}}}
	adopt := func(name string, one report.Adoption) error {
		c := adoptable(newCloud(t))
		c.disks["d-7"], c.disks["d-8"] = true, true
		managed[0].Name, one.Resource = name, "d"
		_, err := c.runner(t, disk, c.remembers, func(o *options) { o.Managed = managed }).adopt(t, one)
		recorded := slices.Contains(c.names(), "resource-adopted d")
		assert.True(t, recorded == (err == nil) && len(c.keeps()) > 0 == recorded, "%v: recorded are %v", err, c.names())
		return err
	}
	err := adopt("other", report.Adoption{ID: "d-7"})
	assert.ErrorContains(t, err, `run R1 manages it already, as other, and who destroys that would destroy this`)
	assert.NoError(t, adopt("other", report.Adoption{ID: "d-8"}), "something else")
	assert.NoError(t, adopt("d", report.Adoption{ID: "d-7"}), "the same again")
	keep := map[string]any{"id": "d-7"}
	assert.Error(t, adopt("other", report.Adoption{Keep: keep}), "what a state has is adopted twice")
	assert.NoError(t, adopt("other", report.Adoption{Keep: keep, Alike: true}), "it may be another")
}
