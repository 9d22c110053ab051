package view

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/runner/report"
)

// stage is a Live on a terminal, under a clock that stands still between events.
type stage struct {
	*Live
	term *screen
	now  time.Time
}

func newStage(width, height int) *stage {
	s := &stage{term: newTerminal(width, height), now: at(0)}
	s.Live = NewLive(s.term, LiveOptions{
		Width: func() int { return s.term.width }, Height: func() int { return s.term.height },
		Color: true, Now: func() time.Time { return s.now },
	})
	return s
}

// play shows events, each at its time and drawn at once.
func (s *stage) play(events ...report.Event) {
	for _, e := range events {
		s.now = e.Time
		s.Observe(e)
		s.redraw()
	}
}

// ends closes it, which leaves the terminal as it was.
func (s *stage) ends(t rapid.TB) {
	require.NoError(t, s.Close())
	s.term.check(t)
}

func TestLiveStories(t *testing.T) {
	for _, story := range stories {
		for _, width := range []int{120, 72, 40} {
			t.Run(fmt.Sprintf("%s at %d columns", story.name, width), func(t *testing.T) {
				s := newStage(width, 24)
				var film strings.Builder
				for i, e := range story.events {
					s.play(e)
					if i == len(beginning())-1 {
						film.WriteString(s.term.text() + "\n-- and in the end --\n\n")
					}
				}
				s.ends(t)
				film.WriteString(s.term.text())
				golden(t, fmt.Sprintf("live-%s-%d.txt", story.name, width), film.String())
			})
		}
	}
}

// What was as configured is drawn while the run goes on, and only counted in the end,
// unless all is asked for. What containers print is shown if it is asked for.
func TestLiveCountsWhatIsAsConfigured(t *testing.T) {
	for all, want := range map[bool]int{false: 0, true: 1} {
		s := newStage(100, 24)
		s.opts.All, s.opts.Verbose = all, all
		s.play(success()[:len(success())-1]...)
		assert.Contains(t, s.term.text(), "✔ front-net", "while the run goes on, all=%v", all)
		s.play(success()[len(success())-1])
		s.ends(t)
		got := s.term.text()
		assert.Equal(t, want, strings.Count(got, "✔ front-net"), "in the end, all=%v", all)
		assert.Contains(t, got, "✔ db")
		assert.Contains(t, got, "3 changed, 1 unchanged")
		assert.Equal(t, all, strings.Contains(got, "  │ db: container evil end\n"), "what containers print is shown, all=%v", all)
	}
}

// crowd is a run of more resources than a terminal has lines.
func crowd(n int) []report.Event {
	first := started("apply")
	first.Resources = nil
	for i := range n {
		h := report.ResourceHeader{Name: fmt.Sprintf("r%02d", i), Type: network}
		if i > 0 {
			h.DependsOn = []string{"r00"}
		}
		first.Resources = append(first.Resources, h)
	}
	return []report.Event{first}
}

func TestLiveWithMoreResourcesThanLines(t *testing.T) {
	s := newStage(80, 10)
	s.play(crowd(40)...)
	for i := range 4 {
		s.play(report.Event{Kind: report.ResourceStarted, Time: at(1), Resource: fmt.Sprintf("r%02d", i)})
	}
	s.play(
		report.Event{Kind: report.ResourceFinished, Time: at(2), Resource: "r02", Status: report.Changed, Duration: span(1)},
		report.Event{Kind: report.ResourceFailed, Time: at(3), Resource: "r01", Error: "no", Duration: span(2)},
	)
	golden(t, "live-crowd.txt", s.term.text())
	for i := range 20 {
		s.play(report.Event{Kind: report.ResourceStarted, Time: at(4), Resource: fmt.Sprintf("r%02d", 10+i)})
	}
	assert.Contains(t, s.term.text(), "… 14 more at work, 16 more waiting", "the window does not say what it leaves out")
	s.play(report.Event{Kind: report.RunFailed, Time: at(5), Duration: span(5), Error: "the log refuses writes"})
	got := s.term.text()
	for i := range 40 {
		assert.Equal(t, 1, strings.Count(got, fmt.Sprintf(" r%02d ", i)), "how often r%02d is there in the end", i)
	}
	verdict := "✘ apply failed after 5.0s: nothing done\n  the log refuses writes\n  deployster log list --deployment " + run + "\n"
	assert.True(t, strings.HasSuffix(got, verdict), got)
	s.ends(t)
}

func TestLiveGivesTheTerminalToAPrompt(t *testing.T) {
	s := newStage(100, 24)
	s.play(beginning()...)
	s.Suspend()
	if s.term.hidden || strings.Contains(s.term.text(), "waits for api") {
		t.Errorf("the terminal is not free:\n%s", s.term.text())
	}
	fmt.Fprint(s.term, "Do this action? [y/N] y\r\n")
	before := s.term.written
	s.play(report.Event{Kind: report.Line, Time: at(5), Resource: "db", Text: "meanwhile"})
	assert.Equal(t, before, s.term.written, "it draws while suspended")
	s.Resume()
	s.play(success()[len(beginning()):]...)
	golden(t, "live-prompt.txt", s.term.text())
	s.ends(t)
}

func TestLiveSuspendedUntilTheEndStillTellsTheVerdict(t *testing.T) {
	s := newStage(100, 24)
	s.play(beginning()...)
	s.Suspend()
	s.play(interruption()[len(beginning()):]...)
	require.NoError(t, s.Close())
	assert.Contains(t, s.term.text(), "✘ interrupted after 6.0s")
}

func TestLiveRedrawsOnlyWhatChanged(t *testing.T) {
	s := newStage(120, 24)
	s.play(beginning()...)
	before := s.term.written
	s.redraw()
	assert.Equal(t, before, s.term.written, "bytes are written though nothing changed")
	s.now = s.now.Add(100 * time.Millisecond)
	s.redraw()
	n := s.term.written - before
	assert.True(t, n != 0 && n <= 250, "one more tenth of a second took %d bytes", n)
	before = s.term.written
	for range 10_000 {
		s.Observe(report.Event{Kind: report.Line, Time: s.now, Resource: "db", Text: "line"})
	}
	assert.Equal(t, before, s.term.written, "lines of output are drawn one by one")
	_ = s.Close()
}

func TestLiveFollowsATerminalThatGrows(t *testing.T) {
	s := newStage(60, 24)
	s.play(beginning()...)
	s.term.width = 120
	s.play(success()[len(beginning()):]...)
	s.ends(t)
	want := newStage(120, 24)
	want.play(success()...)
	_ = want.Close()
	_, got, _ := strings.Cut(s.term.text(), "  ! ") // the header was written at 60 columns
	if _, want, _ := strings.Cut(want.term.text(), "  ! "); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestLiveTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		var out bytes.Buffer
		l := NewLive(&out, LiveOptions{
			Width: func() int { return 0 }, Height: func() int { return 0 }, Now: time.Now, Tick: ticker.C,
		})
		e := started("apply")
		e.Time = time.Now()
		l.Observe(e)
		l.Observe(report.Event{Kind: report.ResourceStarted, Time: time.Now(), Resource: "db"})
		<-time.After(1050 * time.Millisecond) // the bubble's clock
		synctest.Wait()
		require.NoError(t, l.Close())
		assert.Equal(t, 10+1, strings.Count(out.String(), " starting "), "in ten ticks and a Close it was drawn")
		assert.NotContains(t, out.String(), "\x1b[3", "colors that nobody asked for")
		_ = l.Close()
	})
}

type broken struct{ writes int }

func (b *broken) Write([]byte) (int, error) {
	b.writes++
	return 0, errors.New("nobody reads")
}

func TestAReaderThatWentAwayIsReportedOnce(t *testing.T) {
	var w broken
	l := NewLive(&w, LiveOptions{
		Width: func() int { return 80 }, Height: func() int { return 24 }, Now: func() time.Time { return start },
	})
	for _, e := range success() {
		l.Observe(e)
	}
	err := l.Close()
	assert.True(t, err != nil && w.writes == 1, "%v after %d writes", err, w.writes)
}

// events draws any sequence of events, in any order, with any text.
func events(t *rapid.T) []report.Event {
	kinds := []report.EventKind{
		report.RunStarted, report.ResourceStarted, report.ResourceInitialized, report.ResourceResolved,
		report.ResourceVerified, report.ResourceFinished, report.ResourceFailed, report.ResourceSkipped,
		report.ActionStarted, report.ActionFinished, report.ActionFailed,
		report.Pulling, report.Waiting, report.Working, report.Line, report.Warning, "news-from-the-future",
	}
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{hostile, "a\r\nb", strings.Repeat("字", 300), "\xff\xfe", "", "é́́", "👩‍👩‍👧‍👦 🇩🇪"}))
	names := rapid.SampledFrom([]string{"", "db", "api", "front-net", "smoke", "another-one-with-a-long-name", hostile})
	one := rapid.Custom(func(t *rapid.T) report.Event {
		e := report.Event{
			Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Time: at(rapid.Float64Range(-5, 4000).Draw(t, "time")),
			Resource: names.Draw(t, "resource"), Action: rapid.SampledFrom([]string{"init", "state", "create", hostile}).Draw(t, "action"),
			Status: rapid.SampledFrom([]report.Status{"", report.Valid, report.Stale, report.Unknown, report.Changed, report.Unchanged, "?"}).Draw(t, "status"),
			Image:  text.Draw(t, "image"), Error: text.Draw(t, "error"), Text: text.Draw(t, "text"),
			Actions: rapid.SliceOfN(text, 0, 3).Draw(t, "actions"), Output: rapid.SliceOfN(text, 0, 8).Draw(t, "output"),
			Attempt: rapid.IntRange(0, 3).Draw(t, "attempt"), Current: rapid.Int64().Draw(t, "current"), Total: rapid.Int64().Draw(t, "total"),
			Duration: time.Duration(rapid.Int64().Draw(t, "duration")),
		}
		if e.Kind == report.RunStarted {
			e.Resources = headers
			e.Data = map[string]string{"manifest": e.Text, "engine": e.Error, "plugs": e.Text, "run": run, "command": "apply"}
		}
		return e
	})
	all := rapid.SliceOfN(one, 0, 40).Draw(t, "events")
	end := one.Draw(t, "end")
	end.Kind = rapid.SampledFrom([]report.EventKind{report.RunFinished, report.RunFailed, report.Line}).Draw(t, "end kind")
	return append(all, end)
}

// Whatever happens in a run, in whatever order, on whatever terminal: nothing
// panics, no line is wider than the terminal, nothing but what Live itself
// uses reaches it, and it is left as it was.
func TestLiveProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStage(rapid.IntRange(1, 160).Draw(t, "width"), rapid.IntRange(2, 30).Draw(t, "height"))
		s.opts.Verbose = rapid.Bool().Draw(t, "verbose")
		for _, e := range events(t) {
			s.play(e)
			for _, line := range s.Drawn() {
				w := ansi.StringWidth(line)
				require.True(t, w < s.term.width || s.term.width <= 1, "%d columns: %q", s.term.width, line)
			}
			require.Less(t, len(s.Drawn()), s.term.height)
		}
		s.ends(t)
	})
}

func TestPlainAndJSONProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text, lines bytes.Buffer
		p := NewPlain(&text, PlainOptions{Now: func() time.Time { return at(9) }})
		j := NewJSON(&lines, "apply", "1.2.3")
		all := events(t)
		for _, e := range all {
			p.Observe(e)
			p.reportStillBusy()
			j.Observe(e)
		}
		require.NoError(t, errors.Join(p.Close(), j.Close()))
		n := strings.Count(lines.String(), "\n")
		require.Equal(t, 1+len(all), n, "%d lines of JSON for %d events", n, len(all))
		for _, r := range text.String() + lines.String() {
			if r != '\n' && r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' {
				t.Fatalf("%q reaches the terminal: %q", r, text.String())
			}
		}
	})
}
