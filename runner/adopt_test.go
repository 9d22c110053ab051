package runner_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/taken"
)

func (r run) adopt(t *testing.T, list ...report.Adoption) ([]report.Adopted, error) {
	t.Helper()
	return r.Adopt(t.Context(), r.caller, list)
}

// What is found by its configuration is adopted as it is, with what differs.
func TestWhatExistsIsAdopted(t *testing.T) {
	const two = "resources:\n  a: {type: thing, config: {value: 1}}\n  b: {type: thing, dependencies: {x: a}, config: {value: '{{ x.state.value }}'}}\n  c: {type: thing, config: {value: 3}}\n"
	w := newWorld(t)
	w.things["a"], w.things["b"] = 1, 7
	all, err := w.runner(t, two).adopt(t, report.Adoption{Resource: "b"}, report.Adoption{Resource: "c"})
	var failed *failure.Error
	if !errors.As(err, &failed) || len(all) != 2 || !strings.Contains(all[1].Error, "does not exist, so nothing was adopted") {
		t.Fatalf("%+v, %v", all, err)
	}
	if b := all[0]; b.Status != report.Unchanged || !b.Differs || len(b.Diff) != 1 || b.Diff[0].Path != "value" {
		t.Errorf("adopted: %+v", b)
	}
	if names := w.names(); !slices.Contains(names, "resource-adopted b") || slices.Contains(names, "resource-adopted c") || w.runs("set") > 0 {
		t.Errorf("recorded: %v", names)
	}
	for _, e := range w.logged {
		if e.Kind == report.ResourceAdopted && (e.Made() == nil || e.Made().Config["value"] == nil || e.Made().DependsOn[0] != "a") {
			t.Errorf("it is adopted as %+v", e.Made())
		}
		if e.Resource == "a" && e.Kind != report.ResourceInitialized {
			t.Errorf("%s is recorded of what is only needed", e.Kind)
		}
	}
}

// Where what it needs is not there, nothing is known of it. That may be adopted before, in one go.
func TestWhatNeedsAStateIsAdoptedAfterIt(t *testing.T) {
	const two = "resources:\n  a: {type: thing, config: {value: 1}}\n  b: {type: thing, dependencies: {x: a}, config: {value: '{{ x.state.value }}'}}\n"
	w := newWorld(t)
	w.things["b"] = 7
	if all, _ := w.runner(t, two).adopt(t, report.Adoption{Resource: "b"}); !strings.Contains(all[0].Error, "needs the state of a, which is not known: apply or adopt that first") {
		t.Errorf("%+v", all)
	}
	w.things["a"] = 1
	if all, err := w.runner(t, two).adopt(t, report.Adoption{Resource: "b"}, report.Adoption{Resource: "a"}); err != nil || all[0].Name != "a" || all[0].Differs {
		t.Errorf("%+v, %v", all, err)
	}
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
	all, err := c.runner(t, disk, c.remembers).adopt(t, report.Adoption{Resource: "d", ID: "d-7"})
	if err != nil || all[0].Status != report.Unchanged || all[0].Differs {
		t.Fatalf("%+v, %v", all, err)
	}
	if in := c.inputs[0]; in["adopt"] != "d-7" || len(in["kept"].(map[string]any)) > 0 {
		t.Errorf("asked with %v", in)
	}
	if got := c.keeps(); len(got) != 1 || got[0] != `1 {"id":"d-7"} false` || !before(c.names(), "resource-kept d", "resource-adopted d") {
		t.Errorf("kept %q: %v", got, c.names())
	}
	c.applies(t, report.Unchanged)
	if in := c.inputs[len(c.inputs)-1]; in["adopt"] != nil {
		t.Errorf("a run asks for what is adopted: %v", in)
	}
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
	if _, err := c.runner(t, disk, c.remembers).adopt(t, adoption("d-7")); err != nil {
		t.Fatal(err)
	}
	if got := c.keeps(); len(got) != 1 || got[0] != `1 {"id":"d-7","large":12345678901234567890} false` {
		t.Errorf("kept %q", got)
	}
	c.applies(t, report.Unchanged)
	// What the type has kept when it looked counts.
	c.forget()
	c.past["d"], c.again = runner.Past{}, map[string]any{"id": "d-7", "seen": true}
	if _, err := c.runner(t, disk, c.remembers).adopt(t, adoption("d-7")); err != nil || c.keeps()[0] != `1 {"id":"d-7","seen":true} false` {
		t.Errorf("%v, kept %q", err, c.keeps())
	}
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
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.As(err, &invalid) != c.invalid {
			t.Errorf("%s: %v", name, err)
		}
		if names := cloud.names(); slices.Contains(names, "resource-adopted d") || len(cloud.keeps()) > 0 {
			t.Errorf("%s: recorded %v", name, names)
		}
	}
}

// A secret of what is adopted is in no event, and protected where it is kept.
func TestWhatIsAdoptedMayHaveSecrets(t *testing.T) {
	c := adoptable(newCloud(t))
	c.init += `"state_schema":{"properties":{"id":{"writeOnly":true}}},`
	c.disks["d-geheim"] = true
	all, err := c.runner(t, disk, c.remembers).adopt(t, report.Adoption{Resource: "d", ID: "d-geheim"})
	if err != nil || !strings.HasSuffix(c.keeps()[0], "true") {
		t.Errorf("%v, kept %q", err, c.keeps())
	}
	for _, e := range append(c.logged, c.events...) {
		e.Keep = nil
		if text := fmt.Sprintf("%+v", e); strings.Contains(text, "geheim") {
			t.Errorf("it is in %s", text)
		}
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
		if err != nil || !strings.HasSuffix(c.keeps()[0], "true") {
			t.Errorf("%s: %v, kept %q", name, err, c.keeps())
		}
		if text := fmt.Sprintf("%+v", all); token != true && (strings.Contains(text, "geheim") || strings.Contains(c.kept(t), "geheim")) {
			t.Errorf("%s is shown or in a file: %s\n%s", name, text, c.kept(t))
		}
		if _, err := c.runner(t, disk, c.remembers).Drift(t.Context()); err != nil {
			t.Errorf("%s: a later run: %v", name, err)
		}
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
		if recorded := slices.Contains(c.names(), "resource-adopted d"); recorded != (err == nil) || len(c.keeps()) > 0 != recorded {
			t.Errorf("%v: recorded are %v", err, c.names())
		}
		return err
	}
	if err := adopt("other", report.Adoption{ID: "d-7"}); err == nil || !strings.Contains(err.Error(), `run R1 manages it already, as other, and who destroys that would destroy this`) {
		t.Errorf("got %v", err)
	}
	if err := adopt("other", report.Adoption{ID: "d-8"}); err != nil {
		t.Errorf("something else: %v", err)
	}
	if err := adopt("d", report.Adoption{ID: "d-7"}); err != nil {
		t.Errorf("the same again: %v", err)
	}
	keep := map[string]any{"id": "d-7"}
	if err := adopt("other", report.Adoption{Keep: keep}); err == nil {
		t.Error("what a state has is adopted twice")
	}
	if err := adopt("other", report.Adoption{Keep: keep, Alike: true}); err != nil {
		t.Errorf("it may be another: %v", err)
	}
}
