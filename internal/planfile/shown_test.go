package planfile_test

import (
	"reflect"
	"strings"
	"testing"

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
		if p, err := planfile.Shown([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, p)
		}
	}
}
