package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/view/excerpt"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

func TestPlainStories(t *testing.T) {
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) { golden(t, "plain-"+story.name+".txt", plainly(t, PlainOptions{}, story.events...)) })
	}
}

// A pull reports twenty times a second, then the action says nothing for half
// a minute.
func TestPlainIsNeitherLoudNorSilent(t *testing.T) {
	golden(t, "plain-silence.txt", ticking(t, PlainOptions{}, func(observe func(report.Event)) {
		observe(started("apply"))
		observe(report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create"})
		for i := range 241 {
			observe(report.Event{Kind: report.Pulling, Resource: "db", Image: postgres, Current: int64(i) * 1_000_000, Total: 240_000_000})
			<-time.After(50 * time.Millisecond) // the bubble's clock
		}
		observe(report.Event{Kind: report.Working, Resource: "db", Action: "create"})
		<-time.After(32 * time.Second) // as above
	}))
}

// ticking is what is shown as lines of a run whose events come in the time of a bubble.
func ticking(t *testing.T, opts PlainOptions, play func(observe func(report.Event))) string {
	t.Helper()
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		opts.Now, opts.Tick = time.Now, ticker.C
		p := NewPlain(&out, opts)
		play(func(e report.Event) {
			e.Time = time.Now()
			p.Observe(e)
		})
		synctest.Wait()
		require.NoError(t, p.Close())
	})
	return out.String()
}

// Instances stand in the place of what they are of, also where there are none; what of them is no longer
// declared is found out later, and has its type and its name.
func TestPlainShowsInstancesThatAreFoundOutLate(t *testing.T) {
	golden(t, "plain-expanded.txt", plainly(t, PlainOptions{}, []report.Event{
		{Kind: report.RunStarted, Data: map[string]string{"command": "apply"}, Resources: []report.ResourceHeader{{Name: "none", Type: "file"}, {Name: "page", Type: "file"}}},
		{Kind: report.ResourceFailed, Resource: "page", Error: "so that both are measured"},
		{Kind: report.ResourceExpanded, Resource: "none"},
		{Kind: report.ResourceExpanded, Resource: "page", Resources: []report.ResourceHeader{{Name: "page[about]", Type: "file"}}},
		{Kind: report.ActionStarted, Resource: "page[about]", Action: "create"},
		{Kind: report.ResourceInitialized, Resource: "page", Image: "registry/file:2", Removing: true, Attempt: 2},
		{Kind: report.ActionStarted, Resource: "page", Action: "remove", Removing: true, Attempt: 2},
		{Kind: report.ResourceSkipped, Resource: "page[gone]", Image: "file", Removing: true, Reason: report.ReasonInterrupted},
	}...))
}

// What is as configured is only counted, unless all is asked for; what is there of a
// thousand others that take their time is said from time to time.
func TestPlainCountsWhatIsAsConfigured(t *testing.T) {
	const many, slow = 1000, 50 * time.Millisecond
	for all, want := range map[bool]int{false: 1 + 4 + 5 + 1, true: 1 + 4 + 2*(many-1) + 1} {
		got := ticking(t, PlainOptions{All: all}, func(observe func(report.Event)) {
			begin := started("apply")
			begin.Resources = nil
			for i := range many {
				begin.Resources = append(begin.Resources, report.ResourceHeader{Name: fmt.Sprintf("r%d", i), Type: network})
			}
			observe(begin)
			for i := range many {
				name := fmt.Sprintf("r%d", i)
				<-time.After(slow) // the bubble's clock
				if i == 1 {
					observe(report.Event{Kind: report.ResourceResolved, Resource: name, Status: report.Stale})
					observe(report.Event{Kind: report.ActionStarted, Resource: name, Action: "create"})
					observe(report.Event{Kind: report.ActionFinished, Resource: name, Action: "create"})
					observe(report.Event{Kind: report.ResourceFinished, Resource: name, Status: report.Changed})
					continue
				}
				observe(report.Event{Kind: report.ResourceResolved, Resource: name, Status: report.Valid})
				observe(report.Event{Kind: report.ResourceFinished, Resource: name, Status: report.Unchanged})
			}
			<-time.After(time.Second) // as above
			synctest.Wait()
			observe(report.Event{Kind: report.RunFinished, Counts: report.Counts{Changed: 1, Unchanged: many - 1}})
		})
		assert.Equal(t, want, strings.Count(got, "\n"), "all=%v: lines of\n%.2000s", all, got)
		assert.Contains(t, got, "applied: 1 changed, 999 unchanged")
		assert.Equal(t, map[bool]int{false: 5}[all], strings.Count(got, " of 1000 resources done\n"), "all=%v: how often it is said how far it is", all)
	}
}

func TestJSONStories(t *testing.T) {
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			var out bytes.Buffer
			j := NewJSON(&out, "apply", "1.2.3")
			for _, e := range story.events {
				j.Observe(e)
			}
			require.NoError(t, j.Close())
			for line := range strings.Lines(out.String()) {
				assert.True(t, json.Valid([]byte(line)), line)
			}
			golden(t, "json-"+story.name+".ndjson", out.String())
		})
	}
}

func TestColorWanted(t *testing.T) {
	for _, test := range []struct {
		name          string
		terminal      bool
		noColor, term string
		force         string
		want          bool
	}{
		{"a terminal", true, "", "xterm", "", true},
		{"a pipe", false, "", "xterm", "", false},
		{"NO_COLOR is set", true, "1", "xterm", "", false},
		{"a dumb terminal", true, "", "dumb", "", false},
		{"a pipe whose reader likes colours", false, "", "", "1", true},
		{"NO_COLOR wins", false, "1", "", "1", false},
		{"CLICOLOR_FORCE=0 forces nothing", false, "", "", "0", false},
	} {
		env := map[string]string{"NO_COLOR": test.noColor, "TERM": test.term, "CLICOLOR_FORCE": test.force}
		assert.Equal(t, test.want, ColorWanted(test.terminal, func(k string) string { return env[k] }), test.name)
	}
}

func TestClean(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"plain text", "Übergröße 字 👍", "Übergröße 字 👍"},
		{"colours", "\x1b[31mred\x1b[0m", "red"},
		{"a title, ended by BEL", "a\x1b]0;title\ab", "ab"},
		{"a title without an end", "a\x1b]0;title", "a"},
		{"an escape without an end", "a\x1b", "a"},
		{"control bytes", "a\x00\x07\x08\x7fb", "ab"},
		{"8-bit controls", "a\u009b2Jb\u0085c", "a2Jbc"},
		{"direction overrides", "a\u202eb\u2066c", "abc"},
		{"tabs and line separators", "a\tb\u2028c", "a b c"},
		{"invalid UTF-8", "a\xff\xfeb", "a\uFFFDb"},
		{"a progress bar", "10%\r20%\r100%\r\n", "100%"},
	} {
		assert.Equal(t, test.want, clean(test.in), test.name)
	}
	if got := clean(strings.Repeat("字", 1<<20)); len(got) > terminal.MaxText+3 || !strings.HasSuffix(got, "字…") {
		t.Errorf("a long line is cut to %d bytes, ending in %q", len(got), got[len(got)-6:])
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "0.0s", 0: "0.0s", 149 * time.Millisecond: "0.1s", 14200 * time.Millisecond: "14.2s",
		59960 * time.Millisecond: "1m00s", 185 * time.Second: "3m05s", 62*time.Minute + 3*time.Second: "1h02m",
	} {
		assert.Equal(t, want, seconds(d), d)
	}
}

func plainly(t *testing.T, opts PlainOptions, events ...report.Event) string {
	var out bytes.Buffer
	opts.Now = func() time.Time { return start }
	p := NewPlain(&out, opts)
	for _, e := range events {
		p.Observe(e)
	}
	require.NoError(t, p.Close())
	return out.String()
}

func TestWhatOneActionPrintsIsBounded(t *testing.T) {
	events := []report.Event{started("apply")}
	for i := range 5_000 {
		events = append(events, report.Event{
			Kind: report.Line, Resource: "db", Action: "create", Attempt: 1, Stream: "stderr",
			Text: fmt.Sprintf("line %d of many", i), File: ".deployster/work/RUN/db/03-create.stderr",
		})
	}
	events = append(events, report.Event{Kind: report.ActionFinished, Resource: "db", Action: "create", Attempt: 1})
	got := plainly(t, PlainOptions{}, events...)
	assert.LessOrEqual(t, strings.Count(got, "\n"), excerpt.HeadLines+excerpt.LastLines+5)
	for _, want := range []string{
		"line 0 of many\n", "line 199 of many\n", "… 4780 lines (83.2 KiB) left out; all of it: .deployster/work/RUN/db/03-create.stderr\n",
		"line 4980 of many\n", "line 4999 of many\n",
	} {
		assert.Contains(t, got, want, "was")
	}
	assert.LessOrEqual(t, strings.Index(got, "line 4999"), strings.Index(got, "done: create"), "the end was shown after what followed")
	assert.Equal(t, 5_000, strings.Count(plainly(t, PlainOptions{Verbose: true}, events...), "of many\n"), "-v shows")

	long := report.Event{Kind: report.Line, Resource: "db", Action: "create", Attempt: 1, Text: strings.Repeat("y", 60<<10)}
	flood := []report.Event{started("apply")}
	for range 300 {
		flood = append(flood, long)
	}
	flood = append(flood, report.Event{Kind: report.ActionFinished, Resource: "db", Action: "create", Attempt: 1})
	assert.LessOrEqual(t, len(plainly(t, PlainOptions{}, flood...)), 512<<10)
}

func TestAFailureIsToldOnce(t *testing.T) {
	const last = "error: no such host"
	line := func(resource, text string) report.Event {
		return report.Event{Kind: report.Line, Resource: resource, Action: "create", Attempt: 1, Text: text}
	}
	const why = `action "create" exited with 1: ` + last
	end := []report.Event{
		{Kind: report.ActionFailed, Resource: "db", Action: "create", Attempt: 1, Exit: code(1), Error: why, Output: []string{"pulling", last}},
		{Kind: report.ResourceFailed, Resource: "db", Status: report.Failed, Error: why},
		{Kind: report.RunFailed, Error: "db: " + why, Counts: report.Counts{Failed: 1}},
	}
	alone := append([]report.Event{started("apply"), line("db", "pulling"), line("db", last)}, end...)
	got := plainly(t, PlainOptions{}, alone...)
	assert.True(t, strings.Count(got, last) == 2 && strings.Count(got, "pulling") == 1, "shown was\n%s", got)
	// Between the lines of others, what it said last is shown again.
	amid := append([]report.Event{started("apply"), line("db", "pulling"), line("api", "else"), line("db", last)}, end...)
	if got := plainly(t, PlainOptions{}, amid...); strings.Count(got, last) != 2 || strings.Count(got, "│ pulling") != 1 || strings.Count(got, "pulling") != 2 {
		t.Errorf("shown was\n%s", got)
	}
	b := newBoard()
	for _, e := range alone {
		b.fold(e)
	}
	r := b.row("db")
	assert.True(t, len(r.errors) == 1 && len(r.output) == 1 && r.output[0] == "pulling", "the tree has %q and %q", r.errors, r.output)
}

// What failed again for the same reason, or made something else fail, refers to it.
func TestAReasonOfEventsIsToldOnce(t *testing.T) {
	const why = `app: action "create" exited with 1: error: no such host`
	event := func(seq int64, name, target, text string) deploylog.Event {
		data := must.Get(json.Marshal(map[string]string{"error": text}))(t)
		return deploylog.Event{Seq: seq, Name: name, Target: deploylog.Target(target), Attempt: 1, Data: data}
	}
	var out bytes.Buffer
	opts := PlanOptions{Seen: &SeenReasons{}}
	for _, e := range []deploylog.Event{
		event(3, record.TaskFailed, "task/shop/2/a", why),
		event(4, record.TaskFailed, "task/shop/2/a", why),
		event(5, record.TaskFailed, "task/shop/2/b", "another"),
		event(6, record.EnvironmentStuck, "environment/shop", "no progress for 10s: a: "+why),
	} {
		require.NoError(t, EnvironmentEvent(&out, e, opts))
	}
	for _, e := range []deploylog.Event{
		event(7, "host-failed", "host/p/g/a", "deploy: "+why), event(8, "stage-failed", "stage/p/g", "deploy: "+why),
	} {
		require.NoError(t, PipelineEvent(&out, e, opts))
	}
	if got := out.String(); strings.Count(got, "no such host") != 1 || strings.Count(got, "as event 3 says") < 3 ||
		!strings.Contains(got, "no progress for 10s: a: as event 3 says\n") || !strings.Contains(got, "another") {
		t.Errorf("shown was\n%s", got)
	}
}

func somePlan() *report.Plan {
	return &report.Plan{Run: run, Resources: []report.ResourcePlan{
		{Name: "front-net", Type: network, Status: report.Valid, State: map[string]any{"id": "a1"}},
		{Name: "data", Type: "deployster/volume", Status: report.Stale,
			Diff:    []diff.Change{{Path: "name", Op: diff.Add, New: "data"}},
			Actions: []protocol.Action{{Name: "create-volume", Description: "create volume \"data\""}}},
		{Name: "db", Type: shipped, Status: report.Stale, Exists: true,
			Diff: []diff.Change{
				{Path: "image", Op: diff.Modify, Old: "postgres:15", New: "postgres:16"},
				{Path: "ports[0].host", Op: diff.Add, New: 5432},
				{Path: "init.sql", Op: diff.Modify, Old: "create a;\ncreate b;\ncreate c;\n", New: "create a;\ncreate <d>;\ncreate c;\n"},
				{Path: "labels", Op: diff.Modify, Old: nil, New: map[string]any{"evil": hostile}},
			},
			Actions: []protocol.Action{{Name: "remove"}, {Name: "create-container", Description: "create " + hostile}}},
		{Name: "cert", Type: "deployster/file", Status: report.Failed, Exists: true, ReadOnly: true, Error: "it is read-only, and not as configured",
			Diff: []diff.Change{{Path: "", Op: diff.Modify, Old: "a", New: "b"}}},
		{Name: "api", Type: shipped, DependsOn: []string{"db", "data"}, Status: report.Unknown, After: []string{"data", "db"}},
		{Name: "broken", Type: "acme/broken", Status: report.Failed, Error: "state answered something else:\nhello " + hostile},
		{Name: "after", Type: "acme/broken", Status: report.Skipped, Error: "broken failed"},
	}}
}

func planned(t *testing.T, p *report.Plan, opts PlanOptions) string {
	return written(t, func(w io.Writer) error { return Plan(w, p, opts) })
}

func TestPlansAndDriftAreShownAsInTheFiles(t *testing.T) {
	destroy := &report.Plan{Run: run, Destroy: true, Resources: []report.ResourcePlan{
		{Name: "api", Type: shipped, DependsOn: []string{"db"}, Status: report.Present, Actions: []protocol.Action{{Name: "remove-container", Description: "remove " + hostile}}},
		{Name: "db", Type: shipped, Status: report.Absent},
		{Name: "cert", Type: "deployster/file", ReadOnly: true, Status: report.Skipped, Error: "only observed: left alone"},
	}}
	db := somePlan().Resources[2]
	narrow := PlanOptions{Width: 80}
	for name, write := range map[string]func(io.Writer) error{
		"plan.txt": func(w io.Writer) error { return Plan(w, somePlan(), narrow) },
		"plan.json": func(w io.Writer) error {
			text := written(t, func(w io.Writer) error { return PlanJSON(w, somePlan()) })
			assert.Equal(t, 1, strings.Count(text, "\n"), "it is one line")
			var pretty bytes.Buffer
			return errors.Join(json.Indent(&pretty, []byte(text), "", "  "), must.Fail(pretty.WriteTo(w)))
		},
		"question.txt": func(w io.Writer) error {
			const keys, answer = "y/N/a/p/q/?", "n\n"
			return errors.Join(
				Question(w, runner.Question{Resource: "db", Type: shipped, Diff: db.Diff, Actions: db.Actions}, keys, PlanOptions{}), must.Fail(io.WriteString(w, answer)),
				Question(w, runner.Question{Resource: "db", Type: shipped, Actions: db.Actions[:1]}, keys, PlanOptions{}), must.Fail(io.WriteString(w, answer)),
				PlanQuestion(w, &report.Plan{}, "y/N", PlanOptions{}))
		},
		"plan-destroy.txt": func(w io.Writer) error { return PlanQuestion(w, destroy, "y/N", narrow) },
		"drift.txt":        func(w io.Writer) error { return Drift(w, someDrift(), DriftOptions{PlanOptions: narrow}) },
		"drift-verbose.txt": func(w io.Writer) error {
			return Drift(w, someDrift(), DriftOptions{PlanOptions: narrow, Ignored: true})
		},
		"drift-all.txt": func(w io.Writer) error {
			return Drift(w, someDrift(), DriftOptions{PlanOptions: PlanOptions{Width: 80, All: true}})
		},
		"drift.ndjson": func(w io.Writer) error {
			j := NewJSON(w, "drift", "1.2.3")
			j.Drift(someDrift())
			return j.Close()
		},
	} {
		golden(t, name, written(t, write))
	}
	assert.Equal(t, "No drift: 0 as configured.", DriftSummary(&report.Drift{}))
	ignoring := &report.Drift{Resources: []report.ResourceDrift{{Status: report.Valid, Ignored: make([]diff.Change, 2)}}}
	assert.Equal(t, "No drift: 1 as configured, 2 differences ignored.", DriftSummary(ignoring))
}

func TestAPlanListsWhatChanges(t *testing.T) {
	p := &report.Plan{}
	for i := range 1000 {
		p.Resources = append(p.Resources, report.ResourcePlan{Name: fmt.Sprintf("r%d", i), Type: "t", Status: report.Valid})
	}
	p.Resources[500].Status = report.Stale
	for all, want := range map[bool]int{false: 2, true: 1001} {
		text := planned(t, p, PlanOptions{All: all})
		assert.Equal(t, want, strings.Count(text, "\n"), "lines, all=%v", all)
		assert.Contains(t, text, "+ r500")
		assert.True(t, strings.HasSuffix(text, "Plan: 1 to change, 999 unchanged.\n"), text)
	}
}

func TestPlanSummary(t *testing.T) {
	for _, test := range []struct{ name, want string }{
		{"VVV", "Plan: 0 to change, 3 unchanged."},
		{"SSVVVU", "Plan: 2 to change, 3 unchanged, 1 known after apply."},
		{"FK", "Plan: 0 to change, 0 unchanged, 1 failed, 1 skipped."},
	} {
		statuses := map[rune]report.Status{
			'V': report.Valid, 'S': report.Stale, 'U': report.Unknown, 'F': report.Failed, 'K': report.Skipped,
		}
		var p report.Plan
		for _, c := range test.name {
			p.Resources = append(p.Resources, report.ResourcePlan{Status: statuses[c]})
		}
		assert.Equal(t, test.want, PlanSummary(&p), test.name)
	}
}

func TestLongTextsAreWholeOnRequest(t *testing.T) {
	long, last := strings.Repeat("x", 3*terminal.MaxText)+"end", "the last line"
	diff := []diff.Change{
		{Path: "long", Op: diff.Add, New: long},
		{Path: "many", Op: diff.Modify, Old: "one\ntwo", New: strings.Repeat("line\n", 100) + strings.Repeat("y", 2*terminal.MaxText) + last},
	}
	opts := PlanOptions{Width: 80, Full: true}
	for name, show := range map[string]func(io.Writer) error{
		"plan": func(w io.Writer) error {
			return Plan(w, &report.Plan{Resources: []report.ResourcePlan{{Name: "a", Type: "t", Status: report.Stale, Diff: diff}}}, opts)
		},
		"question": func(w io.Writer) error { return Question(w, runner.Question{Resource: "a", Diff: diff}, "y/N", opts) },
		"drift": func(w io.Writer) error {
			return Drift(w, &report.Drift{Resources: []report.ResourceDrift{{Name: "a", Type: "t", Status: report.Stale, Diff: diff}}}, DriftOptions{PlanOptions: opts})
		},
	} {
		text := written(t, show)
		if !strings.Contains(text, long) || !strings.Contains(text, last) || strings.Contains(text, "--full") {
			t.Errorf("the %s is not whole: %d bytes", name, len(text))
		}
	}
}

func TestLongTextsAreCut(t *testing.T) {
	long := strings.Repeat("x", 10_000)
	many := strings.Repeat("line\n", 10_000)
	text := planned(t, &report.Plan{Resources: []report.ResourcePlan{{Name: "a", Type: "t", Status: report.Stale, Exists: true, Diff: []diff.Change{
		{Path: "long", Op: diff.Modify, Old: "", New: long},
		{Path: "many", Op: diff.Modify, Old: "one\ntwo", New: many},
	}}}}, PlanOptions{Width: 80})
	assert.LessOrEqual(t, strings.Count(text, "\n"), 40)
	assert.LessOrEqual(t, len(text), 4_000)
	assert.Contains(t, text, "… and 9981 more lines")
}

func TestWritingFails(t *testing.T) {
	for name, write := range map[string]func() error{
		"plan":     func() error { return Plan(&broken{}, somePlan(), PlanOptions{}) },
		"json":     func() error { return PlanJSON(&broken{}, somePlan()) },
		"question": func() error { return Question(&broken{}, runner.Question{}, "y/N", PlanOptions{}) },
		"once":     func() error { return PlanQuestion(&broken{}, somePlan(), "y/N", PlanOptions{}) },
	} {
		assert.Error(t, errors.Unwrap(write()), name)
	}
}

func TestSavedPlan(t *testing.T) {
	plan := &report.Plan{Run: run, Resources: []report.ResourcePlan{{
		Name: "db", Type: shipped, Status: report.Stale, Exists: true,
		Diff: []diff.Change{{Path: "label", Op: diff.Remove, Old: "x"}},
	}}}
	var out bytes.Buffer
	require.NoError(t, SavedPlan(&out, "web.plan: plan of "+hostile, plan, PlanOptions{}))
	origin, rest, _ := strings.Cut(out.String(), "\n")
	if origin != "web.plan: plan of "+clean(hostile) || !strings.Contains(rest, `- label  "x"`) || !strings.Contains(rest, "Plan: 1 to change") {
		t.Errorf("got\n%q", out.String())
	}
	out.Reset()
	lines := NewJSON(&out, "plan", "1.2.3")
	lines.SavedPlan("web.plan", "sha256:1", start)
	if err := lines.Close(); err != nil || !strings.Contains(out.String(), `{"type":"saved-plan","file":"web.plan","digest":"sha256:1","created_at":`) {
		t.Errorf("%v: %s", err, out.String())
	}
}

// A type with a long name leaves the columns as they are: its end, which tells
// most, is shown.
func TestLongNamesOfTypesKeepTheColumns(t *testing.T) {
	const long = "registry.example.com:5000/platform/team-infrastructure/deployster-gcp-vm:2.14.1"
	resources := []report.ResourcePlan{
		{Name: "www", Type: long, Status: report.Valid}, {Name: "db", Type: "deployster/container", Status: report.Valid},
		{Name: "a-resource-with-a-rather-long-name", Type: "deployster/file", Status: report.Valid},
	}
	var plan bytes.Buffer
	require.NoError(t, Plan(&plan, &report.Plan{Resources: resources}, PlanOptions{All: true}))
	events := []report.Event{{Kind: report.RunStarted}}
	for _, r := range resources {
		events[0].Resources = append(events[0].Resources, report.ResourceHeader{Name: r.Name, Type: r.Type})
		events = append(events, report.Event{Kind: report.ResourceResolved, Resource: r.Name, Status: report.Valid})
	}
	for name, text := range map[string]string{"plan": plan.String(), "run": plainly(t, PlainOptions{All: true}, events...)} {
		columns := map[int]bool{}
		for _, line := range strings.Split(text, "\n") {
			if i := strings.LastIndex(strings.ToLower(line), "valid"); i >= 0 {
				columns[ansi.StringWidth(line[:i])] = true
			}
		}
		require.Len(t, columns, 1)
		assert.Contains(t, text, "infrastructure/deployster-gcp-vm:2.14.1", "%s: statuses begin at", name)
	}
}

// removed is a destroy of front-net, db and api, of which db was gone already.
func removed() []report.Event {
	remove := &protocol.Action{Name: "remove-container", Description: `remove container "api"`}
	return []report.Event{
		started("destroy"),
		{Kind: report.Working, Time: at(0), Resource: "db", Action: "state"},
		{Kind: report.StateRead, Time: at(.2), Resource: "db"},
		{Kind: report.ResourceSkipped, Time: at(.2), Resource: "smoke", Error: "only observed: left alone"},
		{Kind: report.ResourceStarted, Time: at(.3), Resource: "api"},
		{Kind: report.ResourceResolved, Time: at(.5), Resource: "api", Status: report.Present, Actions: []string{"remove-container"}},
		{Kind: report.ActionStarted, Time: at(.5), Resource: "api", Action: "remove-container", Attempt: 1, Plan: remove},
		{Kind: report.ActionFinished, Time: at(1.5), Resource: "api", Action: "remove-container", Attempt: 1, Exit: code(0), Duration: span(1)},
		{Kind: report.ResourceDestroyed, Time: at(1.6), Resource: "api", Status: report.Absent},
		{Kind: report.ResourceFinished, Time: at(1.6), Resource: "api", Status: report.Destroyed, Duration: span(1.3)},
		{Kind: report.ResourceResolved, Time: at(1.7), Resource: "db", Status: report.Absent, Data: map[string]string{"by": "log"}},
		{Kind: report.ResourceFinished, Time: at(1.7), Resource: "db", Status: report.Absent, Duration: span(.1)},
		{Kind: report.ResourceResolved, Time: at(1.8), Resource: "front-net", Status: report.Absent},
		{Kind: report.ResourceFinished, Time: at(1.8), Resource: "front-net", Status: report.Absent, Duration: span(.1)},
		{Kind: report.RunFinished, Time: at(2), Duration: span(2), Counts: report.Counts{Changed: 1, Unchanged: 2, Skipped: 1}},
	}
}

func TestADestroyInLines(t *testing.T) {
	golden(t, "plain-destroy.txt", plainly(t, PlainOptions{}, removed()...))
}

func TestADestroyWaitsTheOtherWayRound(t *testing.T) {
	b := newBoard()
	for _, e := range removed()[:4] {
		b.fold(e)
	}
	var rows []string
	for _, r := range b.rows {
		rows = append(rows, r.name+": "+b.status(r))
	}
	want := "smoke: skipped: only observed: left alone\napi: waits for smoke\ndb: waits for api\nfront-net: waits for api"
	assert.Equal(t, want, strings.Join(rows, "\n"))
}

func someDrift() *report.Drift {
	return &report.Drift{Run: run, Unmatched: []diff.Unmatched{
		{Resource: "front-net", Setting: "ignore_drift", Path: "subnet"}, {Resource: "web", Instances: 3, Setting: "ignore_changes", Path: "lables." + hostile},
	}, Resources: []report.ResourceDrift{
		{Name: "front-net", Type: network, Status: report.Valid},
		{Name: "db", Type: shipped, Status: report.Stale,
			Diff:    []diff.Change{{Path: "image", Op: diff.Modify, Old: "postgres:15", New: "postgres:16 " + hostile}},
			Ignored: []diff.Change{{Path: "labels.build", Op: diff.Modify, Old: 1, New: 2}}},
		{Name: "cache", Type: shipped, Status: report.Valid, Ignored: []diff.Change{{Path: "image", Op: diff.Add, New: "redis"}}},
		{Name: "opaque", Type: "acme/vm", Status: report.Stale},
		{Name: "lost", Type: "deployster/file", Status: report.Stale, Missing: true},
		{Name: "broken", Type: "acme/vm", Status: report.Failed, Error: "state exited with 9:\n" + hostile},
		{Name: "after", Type: "deployster/file", DependsOn: []string{"broken", "lost"}, Status: report.Unknown, Because: []string{"broken", "lost"}},
		{Name: "last", Type: "deployster/file", DependsOn: []string{"after"}, Status: report.Unknown, Because: []string{"after"}},
		{Name: "late", Type: "deployster/file", Status: report.Skipped, Error: "the run was interrupted"},
	}}
}
