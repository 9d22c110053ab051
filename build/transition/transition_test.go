package transition_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/internal/must"
)

func TestTheDocumentationShowsTheTables(t *testing.T) {
	const file = "../../docs/builds.md"
	text := must.Get(os.ReadFile(file))(t)
	for name, want := range map[string]string{
		"states of groups":      "```mermaid\n" + transition.Mermaid(transition.Groups()) + "```\n",
		"states of jobs":        "```mermaid\n" + transition.Mermaid(transition.Jobs()) + "```\n",
		"transitions of groups": transition.Table(transition.Groups()),
		"transitions of jobs":   transition.Table(transition.Jobs()),
	} {
		begin, end := fmt.Sprintf("<!-- begin: %s -->\n", name), fmt.Sprintf("<!-- end: %s -->", name)
		_, rest, ok := strings.Cut(string(text), begin)
		got, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Errorf("%s has no %s", file, begin)
			continue
		}
		if got == want {
			continue
		}
		if os.Getenv("UPDATE") == "" {
			t.Errorf("%s shows other %s; UPDATE=1 go test ./build/transition changes it", file, name)
			continue
		}
		before, _, _ := strings.Cut(string(text), begin)
		text = []byte(before + begin + want + end + after)
	}
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, text, 0o644))
	}
}

// No event moves a state to two others, and every state is reached and, unless it ends something, left.
func TestTheTablesAreWhole(t *testing.T) {
	check(t, transition.Groups(), transition.AllGroups(), transition.NextGroup, map[string]bool{"Complete": true})
	check(t, transition.Jobs(), transition.AllJobs(), transition.NextJob, nil)
}

func check[S interface {
	~uint8
	fmt.Stringer
}](t *testing.T, rows []transition.Row[S], all []S, next func(S, string) (S, bool), final map[string]bool) {
	known := map[string]bool{}
	for _, name := range record.EventNames() {
		known[name] = true
	}
	reached, left := map[S]bool{}, map[S]bool{}
	for _, r := range rows {
		to, ok := next(r.From, r.Event)
		assert.True(t, ok && to == r.To, "%s after %s is %s, and in the table %s", r.From, r.Event, to, r.To)
		assert.True(t, known[r.Event], "%s is no event", r.Event)
		reached[r.To], left[r.From] = true, true
	}
	for _, s := range all {
		require.True(t, reached[s], "%s", s)
		assert.NotEqual(t, final[s.String()], left[s], "%s", s)
		_, ok := next(s, "group-sang")
		assert.False(t, ok, "an event that there is not moves it")
	}
	_, ok := next(S(200), record.GroupStarted)
	assert.False(t, ok, "a state that there is not is left")
}

func TestStatesAreWrittenByTheirNames(t *testing.T) {
	for _, g := range transition.AllGroups() {
		var got transition.Group
		text, _ := json.Marshal(g)
		if err := json.Unmarshal(text, &got); err != nil || got != g || string(text) != `"`+g.String()+`"` {
			t.Errorf("%s is written as %s, and read as %s, %v", g, text, got, err)
		}
	}
	for _, j := range transition.AllJobs() {
		var got transition.Job
		text, _ := json.Marshal(j)
		require.NoError(t, json.Unmarshal(text, &got), "%s is written as %s, and read as %s", j, text, got)
		assert.Equal(t, j, got, "%s is written as %s, and read as %s", j, text, got)
	}
	var j transition.Job
	assert.Error(t, j.UnmarshalText([]byte("Complete")), "Complete is %s, a state of jobs", j)
	assert.Equal(t, "state 99", transition.Job(99).String())
}
