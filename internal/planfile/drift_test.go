package planfile_test

import (
	"reflect"
	"testing"

	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/runner"
)

func TestAReportOfDriftIsShownElsewhereAsItIs(t *testing.T) {
	report := &runner.DriftReport{Run: "01JZ", Resources: []runner.ResourceDrift{
		{Name: "a", Type: "x", Status: runner.Valid, Output: []string{"\x1b[1mwell"}, Unmatched: []string{"p"}},
		{Name: "b", Type: "x", DependsOn: []string{"a"}, Status: runner.Stale, Asked: "set", Diff: []runner.Change{{Path: "port", Op: runner.Modify, Old: int64(1 << 60), New: 0.5}, {Path: "", Op: runner.Add, New: map[string]any{"n": int64(1)}}},
			Ignored: []runner.Change{{Path: "list", Op: runner.Remove, Old: []any{"x", nil, true}}}},
		{Name: "c", Type: "x", Status: runner.Stale, Missing: true},
		{Name: "d", Type: "x", Status: runner.Unknown, Because: []string{"c"}},
		{Name: "e", Type: "x", Status: runner.Failed, Reason: runner.ReasonRunRefused, Error: "why\n\x1b[1m"},
	}}
	text, err := planfile.ShowDrift(report)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := planfile.ShownDrift(text); err != nil || !reflect.DeepEqual(got, report) {
		t.Errorf("%+v, %v, want %+v", got, err, report)
	}
	// Nothing that a report has is left out.
	if n := reflect.TypeFor[runner.ResourceDrift]().NumField(); n != 13 {
		t.Errorf("what is known of a resource has %d fields: send the new ones, too", n)
	}
	for _, text := range []string{"", "[]", `{"resources":[{"name":1}]}`} {
		if d, err := planfile.ShownDrift([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, d)
		}
	}
}
