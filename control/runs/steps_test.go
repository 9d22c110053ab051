package runs_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/runner/report"
)

var deployed = runs.Step{Target: "host/web/prod/h1", Event: "host-deployed"}

// step records a run of a step on its host; end is how it ends, nil is that its process died. An older
// version records nothing of what it makes.
func (m *maker) step(t *testing.T, step runs.Step, older bool, end *report.EventKind, events ...report.Event) {
	m.n++
	o := runs.Options{
		Log: m.log, Engine: &enginetest.Fake{}, ID: fmt.Sprintf("STEP%d", m.n), Target: "run/d.yaml@h1", Revision: "rev", OrphanTimeout: time.Minute, Notice: func(string) {},
		Workspace: m.dir, Protected: m.store, Place: "h1", Step: step,
	}
	if older {
		o.Step = runs.Step{}
	}
	if m.moves != nil {
		o.Moved = func(name string) string { return cmp.Or(m.moves[name], name) }
	}
	r := must.Get(runs.Begin(context.Background(), o))(t)
	defer r.End()
	started := report.Event{Kind: report.RunStarted, Data: map[string]string{"target": string(step.Target), "event": step.Event}}
	events = append([]report.Event{started}, events...)
	if end != nil {
		events = append(events, report.Event{Kind: *end})
	}
	for _, e := range events {
		require.NoError(t, r.Record(context.Background(), e))
	}
}

func (m *maker) leftovers(t *testing.T) (all []string) {
	host := must.Get(runs.NewPasts(m.log).Host(context.Background(), "h1"))(t)
	for _, left := range host.Leftovers(runs.Visit{Last: deployed}) {
		u, err := left.Open(context.Background(), m.log, m.store)
		text := fmt.Sprint(left.Name, " ", u.Config["path"])
		if err != nil {
			text = left.Name + ": " + err.Error()
		}
		all = append(all, text)
	}
	return all
}

// identified is a thing that can be removed, and is told from others by its path.
func identified(path string) *report.Made {
	made := thing(path)
	made.Identity.Mark, made.Removable = path, true
	return made
}

func TestAStepLeavesWhatItNoLongerDeclares(t *testing.T) {
	finished, failed := report.RunFinished, report.RunFailed
	command := thing("script")
	for name, tc := range map[string]struct {
		first, then []report.Event
		end         *report.EventKind
		want        []string
	}{
		"what it declares stays":           {[]report.Event{makes("a", identified("x"))}, []report.Event{finds("a", identified("x"))}, &finished, nil},
		"what it declares no more":         {[]report.Event{makes("a", identified("x"))}, nil, &finished, []string{"a x"}},
		"not after it failed":              {[]report.Event{makes("a", identified("x"))}, nil, &failed, nil},
		"not while it goes on":             {[]report.Event{makes("a", identified("x"))}, nil, nil, nil},
		"under another name it stays":      {[]report.Event{makes("a", identified("x"))}, []report.Event{finds("b", identified("x"))}, &finished, nil},
		"another thing of the same name":   {[]report.Event{makes("a", identified("x"))}, []report.Event{makes("a", identified("y"))}, &finished, []string{"a x"}},
		"a new version of the same":        {[]report.Event{makes("a", identified("~x"))}, []report.Event{makes("a", identified("~y"))}, &finished, nil},
		"a configuration with a new name":  {[]report.Event{makes("a", identified("~x"))}, []report.Event{finds("b", identified("~x"))}, &finished, nil},
		"what it found there is nobody's":  {[]report.Event{finds("a", identified("x"))}, nil, &finished, nil},
		"what it may be is not told":       {[]report.Event{makes("a", thing("x"))}, []report.Event{makes("a", thing("y"))}, &finished, []string(nil)},
		"its type cannot remove it":        {[]report.Event{makes("a", command)}, nil, &finished, []string{"a: its type file cannot remove it"}},
		"it was removed, and is not again": {[]report.Event{makes("a", identified("x")), {Kind: report.ResourceDestroyed, Resource: "a", Removing: true, Thing: "x"}}, nil, &finished, nil},
		"of two of one name the other is":  {[]report.Event{makes("a", identified("x")), again(makes("a", identified("y"))), {Kind: report.ResourceDestroyed, Resource: "a", Removing: true, Thing: "x"}}, nil, &finished, []string{"a y"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMaker(t)
			m.step(t, deployed, false, &finished, tc.first...)
			m.step(t, deployed, false, tc.end, tc.then...)
			assert.Equal(t, tc.want, m.leftovers(t))
		})
	}
}

// What a step made has another name from now on if its manifest says so, with what is kept of it.
func TestAStepGivesWhatItMadeAnotherName(t *testing.T) {
	finished := report.RunFinished
	other := runs.Step{Target: deployed.Target, Event: "db-migrated"}
	kept := report.Event{Kind: report.ResourceKept, Resource: "a", Attempt: 1, Keep: map[string]any{"id": "1"}}
	for name, tc := range map[string]struct {
		by   runs.Step // that made it
		made []report.Event
		then []report.Event
		want []string       // that nothing declares
		kept map[string]any // of what has the new name
	}{
		"it is neither removed nor made again": {deployed, []report.Event{makes("a", thing("")), kept}, []report.Event{finds("b", thing(""))}, nil, map[string]any{"id": "1"}},
		"nor while it is not come to":          {deployed, []report.Event{makes("a", identified("x")), kept}, nil, []string{"b x"}, map[string]any{"id": "1"}},
		"something has the name already":       {deployed, []report.Event{makes("a", identified("x")), kept, makes("b", identified("y"))}, []report.Event{finds("b", identified("y"))}, []string{"a x"}, nil},
		"another step made it":                 {other, []report.Event{makes("a", identified("x")), kept}, []report.Event{finds("b", identified("y"))}, []string{"a x"}, nil},
		"it made that in another stage":        {runs.Step{Target: "host/web/canary/h1", Event: deployed.Event}, []report.Event{makes("a", identified("x")), kept}, []report.Event{finds("b", identified("z"))}, []string{"b x"}, map[string]any{"id": "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMaker(t)
			m.step(t, tc.by, false, &finished, tc.made...)
			m.moves = map[string]string{"a": "b"}
			for range 2 { // the line may stay
				m.step(t, deployed, false, &finished, tc.then...)
				assert.Equal(t, tc.want, m.leftovers(t))
				memory := runs.Memory{Log: m.log, Protected: m.store, Place: "h1"}
				past := must.Get(memory.Past(t.Context(), "b", true))(t)
				assert.Equal(t, tc.kept, past.Kept)
				if tc.kept != nil {
					assert.Equal(t, "a@h1", past.Identity, "it is marked with what it was called first")
					assert.Nil(t, must.Get(memory.Past(t.Context(), "a", true))(t).Kept)
				}
			}
		})
	}
}

func again(e report.Event) report.Event {
	e.Attempt = 2
	return e
}

// The first revision after an upgrade records how to remove what earlier ones made and it still declares.
func TestWhatAnOlderVersionMadeIsKnown(t *testing.T) {
	finished := report.RunFinished
	m := newMaker(t)
	m.step(t, deployed, true, &finished, makes("kept", identified("k")), makes("gone", identified("g")))
	m.step(t, deployed, false, &finished, finds("kept", identified("k")))
	assert.Equal(t, []string{"gone: run STEP1 of an older version made it, and did not record how to remove it"}, m.leftovers(t))
	m.step(t, deployed, false, &finished)
	assert.Equal(t, "kept k", m.leftovers(t)[1])
	memory := runs.Memory{Log: m.log, Protected: m.store}
	must.Get(memory.Forget(context.Background(), "FORGET", "gone@h1", nil, nil))(t)
	assert.Equal(t, []string{"kept k"}, m.leftovers(t))
}

// A step that came later is left out by a rollback, which removes what that step brought, and by a revision
// under way, which does not know of it.
func TestWhatAStepMadeThatIsLeftOut(t *testing.T) {
	finished := report.RunFinished
	later, gone := runs.Step{Target: deployed.Target, Event: "host-checked"}, runs.Step{Target: deployed.Target, Event: "host-tested"}
	m := newMaker(t)
	m.step(t, gone, false, &finished, makes("old", identified("o")), makes("left", identified("l")))
	m.step(t, later, false, &finished, makes("new", identified("n")), makes("old", identified("o")))
	m.step(t, deployed, false, &finished)
	for name, tc := range map[string]struct {
		visit runs.Visit
		want  []string
	}{
		"by a rollback":              {runs.Visit{Last: deployed, LeftOut: []runs.Step{later}, RollsBack: true}, []string{"new"}},
		"by a revision under way":    {runs.Visit{Last: deployed, LeftOut: []runs.Step{later}}, []string{"left"}},
		"and it was not there yet":   {runs.Visit{Last: deployed, LeftOut: []runs.Step{{Target: deployed.Target, Event: "host-new"}}}, nil},
		"by none":                    {runs.Visit{Last: deployed, Done: []runs.Step{later}}, []string{"left"}},
		"and the stage is elsewhere": {runs.Visit{Last: deployed, Elsewhere: []runs.Step{{Target: "host/web/beta/h1", Event: "e"}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var names []string
			for _, left := range must.Get(runs.NewPasts(m.log).Host(context.Background(), "h1"))(t).Leftovers(tc.visit) {
				names = append(names, left.Name)
			}
			assert.Equal(t, tc.want, names)
		})
	}
}

// A pipeline that is deleted leaves what it made, and a later one of its name leaves that alone.
func TestWhatADeletedPipelineMadeIsNobodys(t *testing.T) {
	finished := report.RunFinished
	m := newMaker(t)
	m.step(t, deployed, false, &finished, makes("a", identified("x")))
	_, err := m.log.Append(context.Background(), deploylog.Event{Deployment: "D", Target: "pipeline/web", Name: "pipeline-deleted", Attempt: 1})
	require.NoError(t, err)
	m.step(t, deployed, false, &finished, makes("b", identified("y")))
	assert.Empty(t, m.leftovers(t))
	m.step(t, deployed, false, &finished)
	assert.Equal(t, []string{"b y"}, m.leftovers(t))
}

// Nothing of a secret is in the log, and a document that nothing refers to any more is removed.
func TestWhatAStepMakesWithSecretsIsProtected(t *testing.T) {
	finished := report.RunFinished
	m := newMaker(t)
	secret := thing("open-sesame")
	secret.Secrets, secret.Removable = [][]string{{"path"}}, true
	m.step(t, deployed, false, &finished, makes("s", secret))
	m.step(t, deployed, false, &finished, makes("s", secret))
	for e, err := range m.log.Read(context.Background(), deploylog.Filter{}) {
		assert.True(t, err == nil && !strings.Contains(string(e.Data), "open-sesame"), "%s of %s: %v", e.Name, e.Target, err)
	}
	assert.Len(t, must.Get(os.ReadDir(filepath.Join(m.dir, "protected")))(t), 1)
	m.step(t, deployed, false, &finished)
	assert.Equal(t, []string{"s open-sesame"}, m.leftovers(t))
}

// It may be removed once the manifest says so, though nothing is done with it then.
func TestAStepRecordsWhetherWhatItMadeMayBeRemoved(t *testing.T) {
	finished := report.RunFinished
	m := newMaker(t)
	guarded := identified("x")
	guarded.PreventDestroy = true
	m.step(t, deployed, false, &finished, makes("a", guarded))
	m.step(t, deployed, false, &finished, finds("a", identified("x")))
	m.step(t, deployed, false, &finished)
	host := must.Get(runs.NewPasts(m.log).Host(context.Background(), "h1"))(t)
	left := host.Leftovers(runs.Visit{Last: deployed})
	require.Len(t, left, 1)
	assert.False(t, left[0].PreventDestroy)
}

// What steps make is none of the business of a manifest that is applied by itself.
func TestWhatAStepMakesIsOfNoManifest(t *testing.T) {
	finished := report.RunFinished
	m := newMaker(t)
	m.step(t, deployed, false, &finished, makes("a", identified("x")))
	assert.Empty(t, must.Get(m.history(t).Undeclared(t.Context(), runs.Owner{Manifest: []string{"d.yaml"}, Workspace: m.dir}, none))(t))
}
