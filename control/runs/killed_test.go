package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

var errKilled = errors.New("the process was killed")

// mortal is the log of a process that is killed at one of its appends: just before the log has
// what it appends, or just after.
type mortal struct {
	deploylog.Log
	left        int // appends that it lives to see
	after, dead bool
}

func (m *mortal) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	if m.dead {
		return nil, errKilled
	}
	if m.left--; m.left >= 0 {
		return m.Log.Append(ctx, events...)
	}
	m.dead = true
	if m.after {
		if _, err := m.Log.Append(ctx, events...); err != nil {
			return nil, err
		}
	}
	return nil, errKilled
}

// cloud has disks with ids that only it gives, each marked with the id of the resource that it is of.
type cloud struct {
	dir        string
	log        deploylog.Log
	docs       *protected.Store
	disks      map[string]string // id → mark
	made, runs int
}

func newCloud(t *testing.T) *cloud {
	dir := t.TempDir()
	return &cloud{dir: dir, log: reconciletest.InMemory(t)(), docs: protected.New(filepath.Join(dir, protected.DirName)), disks: map[string]string{}}
}

// disk is a type that finds a disk by what was kept, and where it is not known how the last action ended, by its mark.
func (c *cloud) disk(_ context.Context, call enginetest.Call) int {
	if len(call.Args) == 0 {
		fmt.Fprint(call.Stdout, `{"keeps":true,"removable":true,"state_action":{"args":["state"]},"config_schema":{"properties":{"token":{"writeOnly":true}}}}`)
		return 0
	}
	var in protocol.ActionInput
	if text, err := io.ReadAll(call.Stdin); err != nil || json.Unmarshal(text, &in) != nil {
		return 3
	}
	id, _ := in.Kept["id"].(string)
	if id == "" && in.Interrupted {
		for other, mark := range c.disks {
			if mark == in.ID {
				id = other
			}
		}
	}
	_, there := c.disks[id]
	out := protocol.StateOutput{Status: protocol.Valid, State: map[string]any{"id": id}, Keep: map[string]any{"id": id}}
	switch action := call.Args[0]; {
	case action == "create":
		c.made++
		id = fmt.Sprintf("d-%d", c.made)
		c.disks[id] = in.ID
		fmt.Fprintf(call.Stdout, "{\"keep\":{\"id\":%q}}\n", id)
		return 0
	case action == "delete":
		delete(c.disks, id)
		return 0
	case in.Ensure == protocol.Absent && there:
		out = protocol.StateOutput{Status: protocol.Stale, StaleState: map[string]any{"id": id}, Actions: []protocol.Action{protocol.Do("delete", "")}}
	case in.Ensure == protocol.Absent:
		out = protocol.StateOutput{Status: protocol.Valid, State: map[string]any{}}
	case !there:
		out = protocol.StateOutput{Status: protocol.Stale, Actions: []protocol.Action{protocol.Do("create", "")}}
	}
	if json.NewEncoder(call.Stdout).Encode(out) != nil {
		return 3
	}
	return 0
}

// apply applies a manifest with disks of these names, and prunes, as a process that is killed at
// one of its appends, unless left is negative. It reports whether it was.
func (c *cloud) apply(t *testing.T, left int, after bool, names ...string) (killed bool) {
	text := "resources:"
	for _, name := range names {
		text += fmt.Sprintf("\n  %s: {type: disk, config: {token: hush-hush}}", name)
	}
	if len(names) == 0 {
		text += " {}"
	}
	expressions := expression.New(c.dir)
	m, err := manifest.Load([]manifest.Source{{Name: "m.yaml", Data: []byte(text)}}, manifest.Options{Evaluator: expressions, Workspace: c.dir, Home: c.dir})
	require.NoError(t, err)
	log := &mortal{Log: c.log, left: left, after: after}
	if left < 0 {
		log.left = 1 << 30
	}
	c.runs++
	fake := &enginetest.Fake{Images: map[string]enginetest.FakeImage{"disk": {Program: c.disk, Entrypoint: []string{"/type"}}}}
	o := runs.Options{
		Log: log, Engine: fake, ID: fmt.Sprintf("RUN%03d", c.runs), Target: "run/m.yaml", Revision: "rev", OrphanTimeout: time.Minute, Notice: func(string) {},
		Protected: c.docs, Manifest: []string{"m.yaml"}, Workspace: c.dir,
	}
	held, err := runs.Begin(t.Context(), o)
	if log.dead {
		return true
	}
	require.NoError(t, err)
	defer held.End() // the kernel takes the locks of a process that was killed
	h, err := runs.ReadHistory(t.Context(), c.log, nil)
	require.NoError(t, err)
	of := runs.Owner{Manifest: []string{"m.yaml"}, Workspace: c.dir}
	gone := must.Get(h.Undeclared(t.Context(), of, func(name string) bool { return m.Resource(name) != nil }))(t)
	for i := range gone {
		thing := must.Get(h.Find(t.Context(), of, gone[i]))(t)
		gone[i].Made, err = thing.Open(c.docs)
		require.NoError(t, err)
	}
	_, err = runner.New(runner.Spec{Manifest: m, Expressions: expressions, Undeclared: gone, Prune: true}, runner.Containers{
		Engine: fake, Images: fake, Parallelism: 1, Pull: engine.PullMissing, Now: time.Now, Run: o.ID, Log: "LOG",
		Workspace: c.dir, Work: filepath.Join(c.dir, "work", o.ID),
	}).Apply(t.Context(), runner.Caller{Recorder: held, Guard: held, Past: runs.PastOf(o)})
	require.True(t, err == nil || log.dead, "%v", err)
	return log.dead
}

// has fails unless there is just one disk of each name, known by what is kept, and no document that
// nothing refers to but those that are removed as such.
func (c *cloud) has(t *testing.T, names ...string) {
	memory := runs.Memory{Log: c.log, Protected: c.docs}
	for _, name := range names {
		past, err := memory.Past(t.Context(), name, true)
		kept := past.Kept
		id, _ := kept["id"].(string)
		assert.True(t, err == nil && c.disks[id] == "LOG/"+name, "of %s is kept %v (%v), and there are %v", name, kept, err, c.disks)
	}
	assert.Len(t, c.disks, len(names))
	assert.LessOrEqual(t, c.made, len(names))
	var made []string
	for _, thing := range must.Get(must.Get(runs.ReadHistory(t.Context(), c.log, nil))(t).All(t.Context()))(t) {
		made = append(made, thing.Name)
	}
	assert.Equal(t, names, made)
	needed := must.Get(runs.Documents(t.Context(), c.log))(t)
	pruned, err := c.docs.Prune(func(name string) bool { return needed[name] }, time.Now().Add(time.Hour), false)
	left, failed := filepath.Glob(filepath.Join(c.dir, protected.DirName, "*"))
	assert.True(t, err == nil && failed == nil && len(pruned) <= 1 &&
		len(left) == 2*len(names), "%d documents are left, and %d were of nobody (%v)", len(left), len(pruned), err)
	for e, err := range c.log.Read(t.Context(), deploylog.Filter{}) {
		require.True(t, err == nil && !strings.Contains(string(e.Data), "hush") &&
			!strings.Contains(string(e.Data), `"d-`), "%s of %s: %v", e.Name, e.Target, err)
	}
}

// atEachAppend does something as a process that is killed at its first append, at its second, and
// so on, each time in another world, before and after the log has it.
func atEachAppend(t *testing.T, do func(t *testing.T, left int, after bool) (killed bool)) {
	for _, after := range []bool{false, true} {
		left := 0
		for do(t, left, after) && !t.Failed() {
			left++
		}
		assert.True(t, left >= 10 || t.Failed(), "it was killed %d times only", left)
	}
}

// Whenever a process is killed, the next one knows what is kept, or is told that an action was
// interrupted: nothing is made twice, and nothing is lost.
func TestNothingIsLostOrDoubledWhereverARunIsKilled(t *testing.T) {
	atEachAppend(t, func(t *testing.T, left int, after bool) bool {
		c := newCloud(t)
		killed := c.apply(t, left, after, "a", "b")
		c.apply(t, -1, false, "a", "b")
		c.has(t, "a", "b")
		return killed
	})
}

// Wherever a prune is killed, the next one removes the rest, and the log knows of nothing more.
func TestWhatIsPrunedIsGoneWhereverTheRunIsKilled(t *testing.T) {
	atEachAppend(t, func(t *testing.T, left int, after bool) bool {
		c := newCloud(t)
		c.apply(t, -1, false, "a", "b")
		c.made = 0
		killed := c.apply(t, left, after, "b")
		c.apply(t, -1, false, "b")
		c.has(t, "b")
		return killed
	})
}

func TestAnActionThatWasInterruptedStaysSoUnderAnotherName(t *testing.T) {
	begun := func(name string) report.Event {
		return report.Event{Kind: report.ActionStarted, Resource: name, Action: "create"}
	}
	ended := func(name string) report.Event {
		return report.Event{Kind: report.ActionFinished, Resource: name, Action: "create"}
	}
	well := func(name string) []report.Event {
		return []report.Event{{Kind: report.ResourceStarted, Resource: name}, {Kind: report.ResourceFinished, Resource: name}}
	}
	for name, tc := range map[string]struct {
		before, after []report.Event // the move of a to b, and then to c
		want          bool
	}{
		"it did not end":                       {[]report.Event{begun("a")}, nil, true},
		"it ended":                             {[]report.Event{begun("a"), ended("a")}, nil, false},
		"it was found well under its new name": {[]report.Event{begun("a")}, well("c"), false},
		"it was mended under its new name":     {[]report.Event{begun("a")}, []report.Event{begun("c"), ended("c")}, false},
		"another one has the old name":         {[]report.Event{begun("a")}, append(well("a"), begun("a"), ended("a")), true},
		"another one was done something to":    {[]report.Event{begun("a"), ended("a")}, []report.Event{begun("a")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			first := s.begin("first")
			s.record(first, append([]report.Event{{Kind: report.RunStarted}}, tc.before...)...)
			first.End()
			move(t, s.log, "a", "b")
			move(t, s.log, "b", "c")
			next := s.begin("next")
			s.record(next, tc.after...)
			next.End()
			assert.Equal(t, tc.want, must.Get(runs.Memory{Log: s.log}.Past(t.Context(), "c", false))(t).Interrupted)
		})
	}
}

func move(t *testing.T, log deploylog.Log, from, to string) {
	e := deploylog.Event{Deployment: "moving", Target: deploylog.Target("resource/" + to), Name: runs.EventResourceMoved, Attempt: 1, Data: []byte(`{"from":"` + from + `"}`)}
	must.Get(log.Append(t.Context(), e))(t)
}

func (s *site) beginDestroy(id, variables string) *runs.Run {
	return s.begin(id, func(o *runs.Options) {
		o.Revision = ""
		if variables != "" {
			o.Meaning = func(salt, resource string) string { return salt + " " + resource + " " + variables }
		}
	})
}

func TestWhatTheLogKnowsToBeGone(t *testing.T) {
	const (
		initialized, started, skipped = report.ResourceInitialized, report.ResourceStarted, report.ResourceSkipped
		finished, failed, destroyed   = report.ResourceFinished, report.ResourceFailed, report.ResourceDestroyed
	)
	type run struct {
		variables string // of a destroy; "apply" is none
		events    []report.Event
	}
	events := func(kinds []report.EventKind) (list []report.Event) {
		for _, k := range kinds {
			list = append(list, report.Event{Kind: k, Resource: "db"})
		}
		return list
	}
	apply := func(kinds ...report.EventKind) run { return run{"apply", events(kinds)} }
	destroyOf := func(variables string, kinds ...report.EventKind) run { return run{variables, events(kinds)} }
	destroy := func(kinds ...report.EventKind) run { return destroyOf("stage=test", kinds...) }
	believing := run{"stage=test", []report.Event{
		{Kind: report.ResourceStarted, Resource: "db"},
		{Kind: report.ResourceResolved, Resource: "db", Status: report.Absent, Data: map[string]string{"by": "log"}},
		{Kind: report.ResourceFinished, Resource: "db", Status: report.Absent},
	}}
	for _, tc := range []struct {
		name string
		runs []run
		gone runner.Absence
	}{
		{"nothing of what it never heard of", nil, runner.Unproven},
		{"not what was applied", []run{apply(initialized, started, finished)}, runner.Unproven},
		{"nor what failed", []run{apply(initialized, started, failed)}, runner.Unproven},
		{"nor what an apply was at when it died", []run{apply(initialized, started)}, runner.Unproven},
		{"what no apply came to was never created", []run{apply(initialized, skipped)}, runner.NeverCreated},
		{"also when it died before", []run{apply(initialized)}, runner.NeverCreated},
		{"but not when an earlier one did", []run{apply(started, finished), apply(initialized)}, runner.Unproven},
		{"what was destroyed", []run{apply(started, finished), destroy(initialized, started, destroyed, finished)}, runner.Verified},
		{"not while it is not verified", []run{apply(started, finished), destroy(started, destroyed)}, runner.Unproven},
		{"nor what could not be destroyed", []run{apply(started, finished), destroy(started, failed)}, runner.Unproven},
		{"also when another destroy comes to it and dies", []run{destroy(started, finished), destroy(initialized, started)}, runner.Verified},
		{"not when it was applied again", []run{destroy(started, finished), apply(initialized, started)}, runner.Unproven},
		{"but when that did not come to it", []run{destroy(started, finished), apply(initialized, skipped)}, runner.Verified},
		{"nothing from a destroy that only looked", []run{destroy(initialized, skipped)}, runner.Unproven},
		{"not with other variables", []run{destroyOf("stage=prod", started, finished)}, runner.Unproven},
		{"with these ones, whatever was destroyed with others since", []run{destroy(started, finished), destroyOf("stage=prod", started, finished)}, runner.Verified},
		{"nothing from a destroy that does not say what it destroyed", []run{destroyOf("", started, finished)}, runner.Unproven},
		{"nothing from a destroy that only believed the log", []run{believing}, runner.Unproven},
		{"not even what was applied before that", []run{apply(started, finished), believing}, runner.Unproven},
		{"but what was verified before that", []run{destroy(started, finished), believing}, runner.Verified},
		{"not as never made what a destroy came to", []run{apply(initialized, skipped), destroy(started, failed)}, runner.Unproven},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t)
			for i, run := range tc.runs {
				id := string(rune('A' + i))
				r := s.begin(id)
				if run.variables != "apply" {
					r.End()
					r = s.beginDestroy(id, run.variables)
				}
				s.record(r, run.events...)
				r.End()
			}
			r := s.beginDestroy("Z", "stage=test")
			defer r.End()
			s.record(r, report.Event{Kind: report.RunStarted}, report.Event{Kind: report.ResourceInitialized, Resource: "db"})
			assert.Equal(t, tc.gone, must.Get(r.Gone(t.Context(), "db"))(t))
		})
	}
}
