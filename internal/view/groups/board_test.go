package groups_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view/groups"
)

// TestABoardShowsWhatRuns draws a board at each tick: what runs is in it, what failed stays
// above, no line is wider than the terminal, and in the end the cursor is there again.
func TestABoardShowsWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		tick, asked := make(chan time.Time), 0
		const width, height = 80, 12
		b := groups.NewBoard(&out, groups.BoardOptions{
			Width: func() int { return width }, Height: func() int { return height }, Now: time.Now, Tick: tick,
			Source: func() ([]query.BuildStatus, int) {
				asked++
				<-time.After(time.Second) // a log that is read slowly
				return []query.BuildStatus{large(20)}, 2
			},
		})
		for range 10 {
			tick <- time.Now()
			synctest.Wait()
			<-time.After(time.Second)
		}
		failed, err := record.New("core/distribution-17", record.Job("core/distribution-17", 12), record.JobFailed, 1, record.Failed{Cause: "exited with 2", Worker: "w1"})
		if err != nil {
			t.Fatal(err)
		}
		b.Event(failed, "gcc")
		begun := failed
		begun.Name = record.JobStarted
		b.Event(begun, "make")
		b.Note("worker w2 does not answer")
		tick <- time.Now()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if asked != 1 {
			t.Errorf("a source that takes a second was asked %d times in 10 seconds", asked)
		}
		for _, want := range []string{
			"core/distribution-17  FailureCleanup", "60/200 built  20 running  20 failed  40 not built", "2 groups are queued",
			"✘ job-failed  job/core/distribution-17/12  gcc, on w1", "! worker w2 does not answer",
		} {
			if !strings.Contains(ansi.Strip(text), want) {
				t.Errorf("there is no %q in\n%s", want, ansi.Strip(text))
			}
		}
		if strings.Contains(text, "job-started") {
			t.Error("what begins stays on the screen")
		}
		if strings.LastIndex(text, ansi.ShowCursor) < strings.LastIndex(text, ansi.HideCursor) {
			t.Error("the cursor stays hidden")
		}
		for line := range strings.SplitSeq(ansi.Strip(text), "\n") {
			if w := ansi.StringWidth(strings.TrimSuffix(line, "\r")); w > width {
				t.Errorf("%d cells are in %q", w, line)
			}
		}
	})
}
