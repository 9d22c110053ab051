package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/runner"
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
		observe := func(e runner.Event) {
			e.Time = time.Now()
			p.Observe(e)
		}
		observe(started("apply"))
		observe(runner.Event{Kind: runner.ActionStarted, Resource: "db", Action: "create"})
		for i := range 241 {
			observe(runner.Event{Kind: runner.Pulling, Resource: "db", Image: postgres, Current: int64(i) * 1_000_000, Total: 240_000_000})
			<-time.After(50 * time.Millisecond) // the bubble's clock
		}
		observe(runner.Event{Kind: runner.Working, Resource: "db", Action: "create"})
		<-time.After(32 * time.Second) // as above
		synctest.Wait()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		golden(t, "plain-silence.txt", out.String())
	})
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
