package groups_test

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
		require.NoError(t, err)
		b.Event(failed, "gcc")
		begun := failed
		begun.Name = record.JobStarted
		b.Event(begun, "make")
		b.Note("worker w2 does not answer")
		tick <- time.Now()
		require.NoError(t, b.Close())
		text := out.String()
		assert.Equal(t, 1, asked, "a source that takes a second was asked")
		for _, want := range []string{
			"core/distribution-17  FailureCleanup", "60/200 built  20 running  20 failed  40 not built", "2 groups are queued",
			"✘ job-failed  job/core/distribution-17/12  gcc, on w1", "! worker w2 does not answer",
		} {
			assert.Contains(t, ansi.Strip(text), want, "there is no")
		}
		assert.NotContains(t, text, "job-started", "what begins stays on the screen")
		assert.GreaterOrEqual(t, strings.LastIndex(text, ansi.ShowCursor), strings.LastIndex(text, ansi.HideCursor), "the cursor stays hidden")
		for line := range strings.SplitSeq(ansi.Strip(text), "\n") {
			assert.LessOrEqual(t, ansi.StringWidth(strings.TrimSuffix(line, "\r")), width)
		}
	})
}
