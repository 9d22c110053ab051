package planfile_test

import (
	"reflect"
	"testing"

	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

func TestAReportOfDriftIsShownElsewhereAsItIs(t *testing.T) {
	found := &report.Drift{Run: "01JZ", Resources: []report.ResourceDrift{
		{Name: "a", Type: "x", Status: report.Valid, Output: []string{"\x1b[1mwell"}, Unmatched: []string{"p"}},
		{Name: "b", Type: "x", DependsOn: []string{"a"}, Status: report.Stale, Asked: "set", Diff: []diff.Change{{Path: "port", Op: diff.Modify, Old: int64(1 << 60), New: 0.5}, {Path: "", Op: diff.Add, New: map[string]any{"n": int64(1)}}},
			Ignored: []diff.Change{{Path: "list", Op: diff.Remove, Old: []any{"x", nil, true}}}},
		{Name: "c", Type: "x", Status: report.Stale, Missing: true},
		{Name: "d", Type: "x", Status: report.Unknown, Because: []string{"c"}},
		{Name: "e", Type: "x", Status: report.Failed, Reason: report.ReasonRunRefused, Error: "why\n\x1b[1m"},
	}}
	text, err := planfile.ShowDrift(found)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := planfile.ShownDrift(text); err != nil || !reflect.DeepEqual(got, found) {
		t.Errorf("%+v, %v, want %+v", got, err, found)
	}
	// Nothing that a report has is left out.
	if n := reflect.TypeFor[report.ResourceDrift]().NumField(); n != 13 {
		t.Errorf("what is known of a resource has %d fields: send the new ones, too", n)
	}
	for _, text := range []string{"", "[]", `{"resources":[{"name":1}]}`} {
		if d, err := planfile.ShownDrift([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, d)
		}
	}
}
