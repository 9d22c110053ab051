package recording_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/promotion/object"
	"github.com/deployster-go/deployster/pipeline/promotion/object/recording"
)

// says is an object as its controller writes it.
func says(ready, attempted, applied string) map[string]any {
	return map[string]any{"status": map[string]any{
		"lastAttemptedRevision": attempted, "lastAppliedRevision": applied, "conditions": []any{map[string]any{"type": "Ready", "status": ready}},
	}}
}

func well(revisions ...string) *[]string {
	revisions = append([]string{}, revisions...)
	return &revisions
}

func story(steps ...recording.Step) *recording.Recording {
	return &recording.Recording{
		About: "A story.", Controller: "kustomize-controller 0", Object: object.Object{Kind: "Kustomization"}, EverWell: []string{"1"}, Ends: "1", Steps: steps,
	}
}

func TestAReadingIsComparedWithWhatTrulyRuns(t *testing.T) {
	for _, tc := range []struct {
		name        string
		steps       []recording.Step
		early, late int64
		wrong       []recording.Wrong
		open        bool
	}{
		{"all is right", []recording.Step{
			{At: 0, Did: "pushes 1"}, {At: 1, Object: says("False", "", "")}, {At: 2, Well: well("1")}, {At: 3, Object: says("True", "1", "1")}, {At: 9, Gone: true}, {At: 10, Well: well()},
		}, 0, 0, nil, false},
		{"it says that it is well before it is", []recording.Step{
			{At: 1, Object: says("True", "1", "1")}, {At: 5, Well: well("1")}, {At: 9, Did: "ends"},
		}, 4, 0, []recording.Wrong{{Step: 0, Revision: "1", Early: true}}, false},
		{"it goes on saying so when it no longer is", []recording.Step{
			{At: 0, Well: well("1")}, {At: 1, Object: says("True", "1", "1")}, {At: 2, Well: well()}, {At: 4, Object: says("True", "1", "1")}, {At: 7, Object: says("False", "1", "1")},
		}, 0, 5, []recording.Wrong{{Step: 2, Revision: "1"}}, false},
		{"it says that another one is well", []recording.Step{
			{At: 0, Well: well("1")}, {At: 1, Object: says("True", "1", "1")}, {At: 3, Object: says("True", "2", "2")}, {At: 9, Object: says("False", "2", "2")},
		}, 6, 0, []recording.Wrong{{Step: 2, Revision: "2", Early: true}}, false},
		{"it is wrong at the end", []recording.Step{{At: 1, Object: says("True", "1", "1")}}, 0, 0, []recording.Wrong{{Step: 0, Revision: "1", Early: true}}, true},
		{"half of a write says that one is well", []recording.Step{
			{At: 0, Object: says("False", "2", "2")}, {At: 3, Object: says("True", "", "")},
		}, 0, 0, []recording.Wrong{
			{Step: 1, Revision: "2", Split: "conditions first", Early: true}, {Step: 1, Revision: "2", Split: "conditions, lastAttemptedRevision first", Early: true},
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := story(tc.steps...).Replay()
			assert.Equal(t, tc.early, got.Early, "early")
			assert.Equal(t, tc.late, got.Late, "late")
			assert.Equal(t, tc.wrong, got.Wrong)
			assert.Equal(t, tc.open, got.Open, "open")
		})
	}
}

func TestARecordingIsKeptWithItsTable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "recorded", "story.jsonl")
	r := story(recording.Step{At: 0, Did: "pushes 1"}, recording.Step{At: 1, Object: says("False", "1", "")}, recording.Step{At: 2, Well: well("1")}, recording.Step{At: 30, Object: says("True", "1", "1")}, recording.Step{At: 31, Gone: true})
	require.NoError(t, r.Save(file))
	read, err := recording.Load(file)
	require.NoError(t, err)
	assert.Equal(t, r, read)
	assert.Equal(t, `A story.
kustomize-controller 0

     0 ms  # pushes 1
     1 ms  none: its condition Ready is False
     2 ms  = well: 1
    30 ms  1
    31 ms  none: it does not exist

too early: 0 ms at most
too late: 0 ms at most
`, read.Table())
}

func TestAReadingIsOneLine(t *testing.T) {
	few := "1 of 2 Pods are available"
	for want, r := range map[string]object.Reading{
		"42":                        {Revision: "42", Healthy: true},
		"42 unwell: why":            {Revision: "42", Why: "why"},
		"42 at work: why":           {Revision: "42", Working: true, Why: "why"},
		"none: why":                 {Why: "why", Suspended: true},
		"unknown: why":              {Unknown: true, Why: "why"},
		"42 suspended":              {Revision: "42", Healthy: true, Suspended: true, Why: "it is suspended"},
		"42 suspended, unwell: why": {Revision: "42", Suspended: true, Why: "why"},
		"43 declared, suspended":    {Revision: "43", Healthy: true, Suspended: true, Declared: true},
		"43 declared, suspended, unwell: why; 1 of 2 Pods are available": {Revision: "43", Suspended: true, Declared: true, Fewer: &few, Why: "why"},
	} {
		assert.Equal(t, want, recording.Text(r))
	}
}
