package runs_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/report"
)

// happens appends an event of a run.
type happens struct {
	run, target, name, data string
}

func (h happens) into(t *testing.T, log deploylog.Log) {
	data := h.data
	if data == "" {
		data = `{}`
	}
	must.Get(log.Append(t.Context(), deploylog.Event{Deployment: h.run, Target: deploylog.Target(h.target), Name: h.name, Attempt: 1, Data: []byte(data)}))(t)
}

func begins(run, target, details string) happens {
	return happens{run, target, "run-started", `{"details":{"command":"apply","user":"ann","host":"ci",` + details + `}}`}
}

const does = `"plan":"P"`

// The log says what runs have done of a plan, and what others have changed since it was made.
func TestWhatWasDoneOfAPlan(t *testing.T) {
	ends := func(run string) happens { return happens{run, "run/m", "run-finished-successfully", ""} }
	fails := func(run string) happens { return happens{run, "run/m", "run-failed", ""} }
	acts := func(run, resource string) happens {
		return happens{run, "action/" + resource + "/create", "action-started", ""}
	}
	finished := func(run, resource, status string) happens {
		return happens{run, "resource/" + resource, "resource-finished-successfully", `{"status":"` + status + `"}`}
	}
	whole := []happens{begins("1", "run/m", does), acts("1", "a"), finished("1", "a", "CHANGED"), ends("1")}
	cut := []happens{begins("1", "run/m", does), acts("1", "a"), finished("1", "a", "CHANGED"), finished("1", "old", "DESTROYED"), fails("1")}
	destroy := happens{"8", "run/m", "run-started", `{"details":{"command":"destroy","user":"bob"}}`}
	other := begins("9", "run/m", `"x":""`)
	more := func(events []happens, others ...happens) []happens {
		return append(events[:len(events):len(events)], others...)
	}
	for name, c := range map[string]struct {
		before, after []happens // the plan was made
		again         bool
		want          string // what was done, or why it is refused
	}{
		"nothing":                               {nil, nil, false, "map[]"},
		"another plan was":                      {nil, []happens{begins("1", "run/m", `"plan":"Q"`), ends("1")}, false, "map[]"},
		"all of it":                             {nil, whole, false, "applied already, by run 1 [(]apply, .* UTC, ann@ci[)]: add --again"},
		"all of it, and it is done again":       {nil, whole, true, "map[]"},
		"a part":                                {nil, cut, false, "map[-old:1 a:1]"},
		"a part, by who was killed":             {nil, cut[:3], false, "map[a:1]"},
		"a removal, by who was killed":          {nil, more(nil, cut[0], acts("1", "a"), happens{"1", "resource/a", "resource-destroyed", ""}), false, "map[]"},
		"a part, and it begins again":           {nil, cut, true, "map[]"},
		"a part, and then the rest":             {nil, more(cut, begins("2", "run/m", does), finished("2", "b", "UNCHANGED"), ends("2")), false, "applied already, by run 2 [(]apply, "},
		"a part, and then another":              {nil, more(cut, begins("2", "run/m", does), finished("2", "b", "CHANGED")), false, "map[-old:1 a:1 b:2]"},
		"all, and then once more a part":        {nil, more(whole, begins("2", "run/m", does+`,"again":"true"`), finished("2", "b", "CHANGED"), fails("2")), false, "map[b:2]"},
		"all, and then once more":               {nil, more(whole, begins("2", "run/m", does+`,"again":"true"`), ends("2")), false, "applied already, by run 2"},
		"another run changed it before":         {more(nil, other, acts("9", "a")), nil, false, "map[]"},
		"another run changed it":                {nil, more(nil, other, acts("9", "a")), false, "not as planned: run 9 [(]apply, "},
		"one that began before":                 {more(nil, other), more(nil, acts("9", "a")), false, "has changed a since the plan was made"},
		"another run changed something else":    {nil, more(nil, other, acts("9", "x"), acts("9", "x[k]")), false, "map[]"},
		"another run changed an instance":       {nil, more(nil, other, acts("9", "late[k]")), false, "has changed late.k. since"},
		"another run found it as it is":         {nil, more(nil, other, finished("9", "a", "UNCHANGED"), ends("9")), false, "map[]"},
		"a run of another manifest":             {nil, more(nil, begins("9", "run/n", `"x":""`), acts("9", "a")), false, "map[]"},
		"a run of this one and of another":      {nil, more(nil, begins("9", "run/n+m", `"x":""`), acts("9", "a")), false, "has changed a since"},
		"one of another that began before":      {more(nil, begins("9", "run/n", `"x":""`)), more(nil, acts("9", "a")), false, "map[]"},
		"it was destroyed":                      {nil, more(nil, destroy, acts("8", "a"), happens{"8", "resource/a", "resource-destroyed", ""}), false, "run 8 [(]destroy, .* has removed a "},
		"it was destroyed, and was not there":   {nil, more(nil, destroy, finished("8", "a", "ABSENT")), false, ", bob[)] has removed a since"},
		"all of it, and it was destroyed":       {nil, more(whole, destroy, finished("8", "a", "ABSENT")), false, "applied already, by run 1 .*, and run 8 .* has removed a since it was made: plan again"},
		"a part, and another run changed it":    {nil, more(cut, other, acts("9", "b")), false, "not as planned: run 9"},
		"it is done again, and was destroyed":   {nil, more(whole, destroy, finished("8", "a", "ABSENT")), true, "not as planned: run 8"},
		"the first of several changes is named": {nil, more(nil, destroy, finished("8", "b", "ABSENT"), other, acts("9", "a")), false, "has removed b since"},
	} {
		t.Run(name, func(t *testing.T) {
			log := newMaker(t).log
			for _, h := range c.before {
				h.into(t, log)
			}
			p := runs.Planned{
				ID: "P", Again: c.again, After: must.Get(runs.Position(t.Context(), log))(t),
				Resources: []report.ResourcePlan{{Name: "a"}, {Name: "b"}, {Name: "late", Late: true}, {Name: "old", MadeBy: "0"}},
			}
			for _, h := range c.after {
				h.into(t, log)
			}
			done, err := p.Read(t.Context(), log, "run/m")
			if err == nil {
				assert.Equal(t, c.want, fmt.Sprint(done.Done))
				assert.Equal(t, c.after != nil && c.after[len(c.after)-1].name == "resource-destroyed", done.Removed["a"])
				return
			}
			assert.Regexp(t, c.want, err.Error())
		})
	}
}

// A plan that was made with another log is compared by its time.
func TestAPlanOfAnotherLogIsComparedByItsTime(t *testing.T) {
	log := newMaker(t).log
	begins("1", "run/m", does).into(t, log)
	happens{"1", "run/m", "run-finished-successfully", ""}.into(t, log)
	_, err := (&runs.Planned{ID: "P", Since: time.Now().Add(-time.Hour)}).Read(t.Context(), log, "run/m")
	assert.ErrorAs(t, err, new(*runs.AppliedError))
	_, err = (&runs.Planned{ID: "P", Since: time.Now().Add(time.Hour)}).Read(t.Context(), log, "run/m")
	assert.NoError(t, err)
}

// What another run changes after the plan was compared with the log is refused when its turn has come.
func TestWhatChangesBesideAPlanIsRefused(t *testing.T) {
	log := newMaker(t).log
	p := &runs.Planned{ID: "P", Resources: []report.ResourcePlan{{Name: "a"}, {Name: "b"}}}
	must.Get(p.Read(t.Context(), log, "run/m"))(t)
	r := must.Get(runs.Begin(t.Context(), runs.Options{
		Log: log, Engine: &enginetest.Fake{}, ID: "1", Target: "run/m", OrphanTimeout: time.Minute, Notice: func(string) {}, Planned: p,
	}))(t)
	defer r.End()
	for _, h := range []happens{
		begins("1", "run/m", does), {"1", "action/b/stop", "action-started", ""}, {"1", "action/b/stop", "action-finished-successfully", ""},
		begins("2", "run/m", `"x":""`), {"2", "action/a/start", "action-started", ""}, {"2", "action/a/start", "action-finished-successfully", ""}, {"2", "run/m", "run-finished-successfully", ""},
		begins("3", "run/n", `"x":""`), {"3", "action/b/start", "action-started", ""}, {"3", "action/b/start", "action-finished-successfully", ""}, {"3", "run/n", "run-finished-successfully", ""},
	} {
		h.into(t, log)
	}
	_, err := r.Enter(t.Context(), "a", func(string) {})
	refused := new(deviation.Error)
	require.ErrorAs(t, err, &refused)
	assert.ErrorContains(t, err, "not as planned: run 2 (apply, ")
	must.Get(r.Enter(t.Context(), "b", func(string) {}))(t)()
}

// Two runs of a plan take turns, so that the second one sees what the first one did.
func TestRunsOfOnePlanTakeTurns(t *testing.T) {
	log := newMaker(t).log
	unlock := must.Get(runs.LockPlan(t.Context(), log, "P", func(string) {}))(t)
	must.Get(runs.LockPlan(t.Context(), log, "Q", func(string) {}))(t)()
	canceled, cancel := context.WithCancel(t.Context())
	_, err := runs.LockPlan(canceled, log, "P", func(string) { cancel() })
	require.ErrorIs(t, err, context.Canceled)
	var waits sync.WaitGroup
	waiting := make(chan string, 1)
	waits.Go(func() {
		second, err := runs.LockPlan(t.Context(), log, "P", func(text string) { waiting <- text })
		if assert.NoError(t, err) {
			second()
		}
	})
	assert.Contains(t, <-waiting, "waits for another run that applies the same plan")
	unlock()
	waits.Wait()
}
