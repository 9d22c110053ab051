package taken_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/runner/taken"
)

func TestWhatIsManagedIsRecognized(t *testing.T) {
	number := json.Number("12345678901234567890")
	var all taken.Things
	all.Add(taken.Thing{
		Undeclared: report.Undeclared{Name: "disk", Run: "R1", Made: report.Made{Type: "registry.example:5000/disk:1"}},
		Kept:       map[string]any{"id": "d-7", "size": number},
	}, "")
	all.Add(taken.Thing{Undeclared: report.Undeclared{Name: "page", Run: "R2", Made: report.Made{Type: "deployster/file"}}, Ours: true}, "path /a")
	all.Add(taken.Thing{
		Undeclared: report.Undeclared{Name: "away", Run: "R4", Made: report.Made{Type: "deployster/file"}}, Kept: map[string]any{"id": "f-1"}, Elsewhere: true,
	}, "path /b")
	all.Add(taken.Thing{Undeclared: report.Undeclared{Name: "void", Run: "R3", Made: report.Made{Type: "thing"}}}, "")
	for name, tc := range map[string]struct {
		name, configured, ref string
		keep                  map[string]any
		want                  string
	}{
		"the same is kept":         {"other", "", "registry.example:5000/disk:1", map[string]any{"size": number, "id": "d-7"}, "disk"},
		"by another version":       {"other", "", "registry.example:5000/disk:2@sha256:00", map[string]any{"id": "d-7", "size": number}, "disk"},
		"by another type":          {"other", "", "registry.example:5000/net:1", map[string]any{"id": "d-7", "size": number}, ""},
		"something else is kept":   {"other", "", "registry.example:5000/disk:1", map[string]any{"id": "d-8", "size": number}, ""},
		"it is that one itself":    {"disk", "", "registry.example:5000/disk:1", map[string]any{"id": "d-7", "size": number}, ""},
		"it is configured alike":   {"other", "path /a", "deployster/file", nil, "page"},
		"on another machine":       {"other", "path /b", "deployster/file", nil, ""},
		"another machine keeps it": {"other", "path /b", "deployster/file", map[string]any{"id": "f-1"}, "away"},
		"nothing is known of both": {"other", "", "thing", nil, ""},
	} {
		got, found := all.Find(tc.name, tc.configured, taken.Mark(tc.ref, tc.keep))
		assert.Equal(t, tc.want, got.Name, name)
		assert.Equal(t, tc.want != "", found, name)
		if found && !strings.Contains(got.Refuse().Error(), `"deployster state forget `+tc.want+`" first`) {
			t.Errorf("%s: %v", name, got.Refuse())
		}
		if found && strings.Contains(got.Refuse().Error(), `write it into "moved"`) != got.Ours {
			t.Errorf("%s of another manifest: %v", name, got.Refuse())
		}
	}
}
