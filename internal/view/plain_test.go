package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/runner/report"
)

func TestPlainStories(t *testing.T) {
	for _, story := range stories {
		t.Run(story.name, func(t *testing.T) {
			var out bytes.Buffer
			p := NewPlain(&out, PlainOptions{Now: func() time.Time { return start }})
			for _, e := range story.events {
				p.Observe(e)
			}
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			golden(t, "plain-"+story.name+".txt", out.String())
		})
	}
}

// A pull reports twenty times a second, then the action says nothing for half
// a minute.
func TestPlainIsNeitherLoudNorSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		var out bytes.Buffer
		p := NewPlain(&out, PlainOptions{Now: time.Now, Tick: ticker.C})
		observe := func(e report.Event) {
			e.Time = time.Now()
			p.Observe(e)
		}
		observe(started("apply"))
		observe(report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create"})
		for i := range 241 {
			observe(report.Event{Kind: report.Pulling, Resource: "db", Image: postgres, Current: int64(i) * 1_000_000, Total: 240_000_000})
			<-time.After(50 * time.Millisecond) // the bubble's clock
		}
		observe(report.Event{Kind: report.Working, Resource: "db", Action: "create"})
		<-time.After(32 * time.Second) // as above
		synctest.Wait()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		golden(t, "plain-silence.txt", out.String())
	})
}

// Instances stand in the place of what they are of, also where there are none; what of them is no longer
// declared is found out later, and has its type and its name.
func TestPlainShowsInstancesThatAreFoundOutLate(t *testing.T) {
	var out bytes.Buffer
	p := NewPlain(&out, PlainOptions{Now: func() time.Time { return start }})
	for _, e := range []report.Event{
		{Kind: report.RunStarted, Data: map[string]string{"command": "apply"}, Resources: []report.ResourceHeader{{Name: "none", Type: "file"}, {Name: "page", Type: "file"}}},
		{Kind: report.ResourceFailed, Resource: "page", Error: "so that both are measured"},
		{Kind: report.ResourceExpanded, Resource: "none"},
		{Kind: report.ResourceExpanded, Resource: "page", Resources: []report.ResourceHeader{{Name: "page[about]", Type: "file"}}},
		{Kind: report.ActionStarted, Resource: "page[about]", Action: "create"},
		{Kind: report.ResourceInitialized, Resource: "page", Image: "registry/file:2", Removing: true, Attempt: 2},
		{Kind: report.ActionStarted, Resource: "page", Action: "remove", Removing: true, Attempt: 2},
		{Kind: report.ResourceSkipped, Resource: "page[gone]", Image: "file", Removing: true, Reason: report.ReasonInterrupted},
	} {
		p.Observe(e)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	golden(t, "plain-expanded.txt", out.String())
}

// What is as configured is only counted, unless all is asked for; what is there of a
// thousand others that take their time is said from time to time.
func TestPlainCountsWhatIsAsConfigured(t *testing.T) {
	const many, slow = 1000, 50 * time.Millisecond
	for all, want := range map[bool]int{false: 1 + 4 + 5 + 1, true: 1 + 4 + 2*(many-1) + 1} {
		synctest.Test(t, func(t *testing.T) {
			ticker := time.NewTicker(time.Second)
			defer ticker.Stop()
			var out bytes.Buffer
			p := NewPlain(&out, PlainOptions{All: all, Now: time.Now, Tick: ticker.C})
			observe := func(e report.Event) {
				e.Time = time.Now()
				p.Observe(e)
			}
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
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if n := strings.Count(got, "\n"); n != want || !strings.Contains(got, "applied: 1 changed, 999 unchanged") {
				t.Errorf("all=%v: it has %d lines, want %d:\n%.2000s", all, n, want, got)
			}
			if said := strings.Count(got, " of 1000 resources done\n"); !all && said != 5 || all && said != 0 {
				t.Errorf("all=%v: how far it is was said %d times:\n%.2000s", all, said, got)
			}
		})
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
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(out.String()) {
				if !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
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
		t.Run(test.name, func(t *testing.T) {
			env := map[string]string{"NO_COLOR": test.noColor, "TERM": test.term, "CLICOLOR_FORCE": test.force}
			if got := ColorWanted(test.terminal, func(k string) string { return env[k] }); got != test.want {
				t.Errorf("got %v", got)
			}
		})
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
		t.Run(test.name, func(t *testing.T) {
			if got := clean(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
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
		if got := seconds(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}
