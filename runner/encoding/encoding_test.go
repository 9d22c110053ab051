package encoding_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/encoding"
	"github.com/deployster-go/deployster/runner/report"
)

// What somebody is sent as lines is what they would have observed.
func TestALineIsTheEventThatItIsOf(t *testing.T) {
	at, one := time.Date(2026, 11, 23, 2, 0, 0, 5, time.UTC), 1
	for _, e := range []report.Event{
		{Kind: report.RunStarted, Resources: []report.ResourceHeader{{Name: "b", Type: "x", DependsOn: []string{}}, {Name: "a", Type: "x", DependsOn: []string{"b"}}}, Data: map[string]string{"command": "apply"}},
		{Kind: report.ResourceInitialized, Resource: "a", Image: "x", ImageID: "sha256:1"},
		{Kind: report.ResourceResolved, Resource: "a", Status: report.Stale, Actions: []string{"create", "start"}, Differs: []string{"~ mode: \"0600\" → \"0644\""}},
		{Kind: report.ActionStarted, Resource: "a", Action: "create", Attempt: 2, Plan: &protocol.Action{Name: "create"}},
		{Kind: report.Line, Resource: "a", Action: "create", Attempt: 2, Stream: "stderr", Text: ""},
		{Kind: report.Waiting, Resource: "a", Text: "waits"},
		{Kind: report.Pulling, Resource: "a", Image: "x", Current: 1, Total: 1 << 40},
		{Kind: report.ActionFailed, Resource: "a", Action: "create", Exit: &one, Duration: 1234567 * time.Microsecond, Error: "why", Output: []string{"\x1b[1mlast\n"}},
		{Kind: report.ResourceSkipped, Resource: "b", Reason: report.ReasonRunRefused, Error: "why"},
		{Kind: report.RunFailed, Counts: report.Counts{Failed: 1, Skipped: 1}, Duration: 3 * time.Microsecond, Error: "why", Data: map[string]string{"interrupted": "true"}},
	} {
		e.Time = at
		text := must.Get(json.Marshal(encoding.LineOf(e)))(t)
		var line encoding.Line
		require.NoError(t, json.Unmarshal(text, &line))
		assert.Equal(t, e, line.Event())
	}
}
