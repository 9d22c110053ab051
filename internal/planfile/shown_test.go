package planfile_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

func TestAPlanIsShownElsewhereAsItIs(t *testing.T) {
	plan := &report.Plan{Run: "01JZ", Destroy: true, Resources: []report.ResourcePlan{
		{Name: "a", Type: "x", ImageID: "sha256:1", Status: report.Stale, Exists: true, Config: map[string]any{"port": int64(8080), "share": 0.5, "list": []any{"x", nil}},
			State: map[string]any{"port": int64(1 << 60)}, Diff: []diff.Change{{Path: "port", Op: "change", Old: int64(1), New: int64(8080)}}, Actions: []protocol.Action{{Name: "set"}}},
		{Name: "b", Type: "x", DependsOn: []string{"a"}, Status: report.Unknown, After: []string{"a"}},
		{Name: "c", Type: "x", Status: report.Failed, Reason: report.ReasonRunRefused, Error: "why\n\x1b[1m"},
	}}
	whole := *plan
	whole.Resources = append([]report.ResourcePlan{}, plan.Resources...)
	whole.Resources[0].ConfigHash, whole.Resources[0].StateHash, whole.Resources[0].ActionsHash = "hash", "hash", "hash"
	text, err := planfile.Show(&whole)
	if err != nil || strings.Contains(string(text), `"hash"`) {
		t.Fatal(string(text), err)
	}
	if got, err := planfile.Shown(text); err != nil || !reflect.DeepEqual(got, plan) {
		t.Errorf("%+v, %v, want %+v", got, err, plan)
	}
	for _, text := range []string{"", "[]", `{"resources":[{"name":1}]}`} {
		p, err := planfile.Shown([]byte(text))
		assert.True(t, err != nil, "%q is %+v", text, p)
	}
}

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
	require.NoError(t, err)
	if got, err := planfile.ShownDrift(text); err != nil || !reflect.DeepEqual(got, found) {
		t.Errorf("%+v, %v, want %+v", got, err, found)
	}
	// Nothing that a report has is left out.
	assert.Equal(t, 13, reflect.TypeFor[report.ResourceDrift]().NumField(), "what is known of a resource")
	for _, text := range []string{"", "[]", `{"resources":[{"name":1}]}`} {
		d, err := planfile.ShownDrift([]byte(text))
		assert.True(t, err != nil, "%q is %+v", text, d)
	}
}
