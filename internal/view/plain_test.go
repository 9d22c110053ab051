package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/view/excerpt"
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

// plainly shows events as lines.
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

// The reason of a failure stands in one place, besides the output that it is of.
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
