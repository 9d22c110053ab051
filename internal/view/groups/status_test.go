package groups_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/view/groups"
)

// large is a group of which much has failed, runs, and cannot be built, in words that are
// meant to drive a terminal.
func large(jobs int) query.BuildStatus {
	s := query.BuildStatus{Report: build.Report{Summary: build.Summary{
		ID: "core/distribution-17", State: transition.FailureCleanup, Jobs: 10 * jobs, By: querytest.Hostile, Round: 2, Reused: jobs, Created: querytest.Noon, Started: querytest.Noon,
		Counts: map[transition.Job]int{
			transition.Built: 3 * jobs, transition.JobFailed: jobs, transition.DependencyFailed: 2 * jobs, transition.Dispatched: jobs, transition.Schedulable: 2 * jobs, transition.CancelComplete: jobs,
		},
	}, Triggered: record.Triggered{File: "packages.yaml", Touched: strings.Fields(strings.Repeat("gcc ", jobs)), Commit: strings.Repeat("0a", 20)}}}
	for n := range jobs {
		j := build.JobReport{Group: s.ID, Number: n + 1, Package: fmt.Sprintf("%s%d", strings.Repeat("long-", n%20), n), Worker: "w1", Began: querytest.Noon, Since: querytest.Noon, Attempt: 1, State: transition.Dispatched}
		s.Running = append(s.Running, j)
		j.State, j.Failed = transition.JobFailed, &record.Failed{Cause: querytest.Hostile, Exit: n % 3, Output: []string{strings.Repeat(querytest.Long, 20), " "}}
		s.Failed = append(s.Failed, query.FailedJob{JobReport: j, Dependents: n})
		s.Unbuildable = append(s.Unbuildable, record.Unbuildable{Package: j.Package, Cause: querytest.Hostile})
		s.Reasons = append(s.Reasons, reason.Reason{Target: "group/" + s.ID, Code: reason.NoWorker, Message: querytest.Hostile, Change: "another worker"})
	}
	s.Forecast = &build.Forecast{Jobs: 3 * jobs, Measured: jobs, Slots: 8, Left: time.Hour, End: querytest.Noon.Add(time.Hour)}
	return s
}

// TestAStatusFitsTheTerminal writes groups of all sizes on terminals of all sizes: no line is
// wider, none drives it, and it takes a screen at most.
func TestAStatusFitsTheTerminal(t *testing.T) {
	for _, jobs := range []int{0, 1, 5, 200} {
		for _, size := range [][2]int{{80, 24}, {40, 10}, {120, 60}, {0, 0}} {
			opts := groups.Options{Width: size[0], Height: size[1]}
			var b strings.Builder
			require.NoError(t, groups.Status(&b, large(jobs), querytest.Noon.Add(time.Hour), false, opts))
			lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
			if size[1] > 0 && len(lines) >= size[1] {
				t.Errorf("%d jobs take %d lines on a terminal of %v:\n%s", jobs, len(lines), size, b.String())
			}
			for _, line := range lines {
				require.LessOrEqual(t, ansi.StringWidth(line), terminal.Limit(size[0]), "on a terminal of %v there is %q", size, line)
				assert.False(t, strings.ContainsAny(line, "\x1b\x07\u202e\r"), "on a terminal of %v there is %q", size, line)
			}
		}
	}
}

func TestThoseAreNamedFirstThatMostNeed(t *testing.T) {
	var b strings.Builder
	require.NoError(t, groups.Status(&b, large(3), querytest.Noon.Add(3*time.Minute), false, groups.Options{}))
	for _, want := range []string{
		"GROUP                 STATE           BUILT  RUNNING  WAITING  FAILED  NOT BUILT  CANCELED  TOOK\n",
		"core/distribution-17  FailureCleanup  9/30   3        6        3       6          3         3m00s\n",
		"long-1 (job 2) failed: rolled back evil 部署失败 e\u0301 second line, on w1, 3m ago: connection-refused-",
		"; 1 job is not built because of it\n",
		"9 jobs are left: expected to end at ",
		"git 0a0a0a0a0a0a…; round 2; 3 reused\n",
		"3 packages cannot be built, so the group will fail:\n",
	} {
		assert.Contains(t, b.String(), want, "there is no")
	}
}

// What failed is shown with its whole cause, unless that is only how it exited.
func TestWhyAJobFailed(t *testing.T) {
	for cause, want := range map[string]string{
		"exited with 137": "exit 137",
		"exited with 137 (killed), out of memory; give it more with `memory`, or let it use less": "exited with 137 (killed), out of memory; give it more with `memory`, or let it use less",
		"exited with 137; the disk is full": "exited with 137; the disk is full",
		"":                                  "exit 137",
	} {
		j := build.JobReport{Number: 1, Package: "gcc", State: transition.JobFailed, Failed: &record.Failed{Cause: cause, Exit: 137}}
		assert.Equal(t, "gcc (job 1) failed: "+want, groups.Failure(query.FailedJob{JobReport: j}, querytest.Noon), "a failure with cause %q", cause)
		rows, _ := groups.JobRows([]build.JobReport{j}, 0, querytest.Noon)
		assert.Equal(t, want, rows[1][6], "the details of a failure with cause %q", cause)
	}
}

func TestAgo(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s ago": -time.Second, "59s ago": 59 * time.Second, "1m ago": time.Minute, "47h ago": 47 * time.Hour, "2d ago": 49 * time.Hour,
	} {
		assert.Equal(t, want, groups.Ago(d), "%s", d)
	}
}

func TestTheMostUrgentJobsAreListed(t *testing.T) {
	jobs := []build.JobReport{
		{Number: 1, Package: "a", State: transition.Built}, {Number: 2, Package: "b", State: transition.Dispatched},
		{Number: 3, Package: "c", State: transition.DependencyFailed, Because: 4}, {Number: 4, Package: "d", Pass: 2, Of: 2, State: transition.JobFailed, Cause: "no", Lost: 2},
	}
	rows, more := groups.JobRows(jobs, 2, querytest.Noon)
	assert.Equal(t, "[[4 d#2  JobFailed   no, lost 2 times] [2 b  Dispatched   ]] 2", fmt.Sprint(rows[1:], more))
	rows, more = groups.JobRows(jobs, 4, querytest.Noon)
	assert.True(t, len(rows) == 5 && rows[1][0] == "1" && more == 0, "all of them are %v, and %d more", rows, more)
}

func TestEventsAreLines(t *testing.T) {
	group, job := record.Group("base-7"), record.Job("base-7", 12)
	for _, c := range []struct {
		target  deploylog.Target
		name    string
		attempt int
		data    any
		want    string
	}{
		{group, record.GroupTriggered, 1, record.Triggered{Name: "base", By: "ann@ci"}, "     3  · group-triggered  group/base-7  by ann@ci\n"},
		{group, record.GroupCreated, 1, record.Created{Jobs: 3, Unbuildable: []record.Unbuildable{{Package: "x"}}}, "     3  · group-created  group/base-7  3 jobs, 1 package unbuildable\n"},
		{group, record.JobsCreated, 2, record.Jobs{From: 501, Jobs: make([]record.JobSpec, 221)}, "     3  · group-jobs-created  group/base-7  jobs 501-721\n"},
		{group, record.GroupStarted, 1, nil, "     3  ● group-started  group/base-7\n"},
		{group, record.JobsEligible, 1, record.Eligible{Jobs: record.Numbers{1, 2, 3, 9}}, "     3  · group-jobs-eligible  group/base-7  4 jobs: 1-3,9\n"},
		{job, record.JobStarted, 1, record.Started{Worker: "w1\x1b[2J"}, "     3  ● job-started  job/base-7/12  gcc, on w1\n"},
		{job, record.JobFinished, 1, record.Finished{Took: 12300 * time.Millisecond, Size: 4 << 20, Metadata: map[string]string{"a": "1", "b": "2", "c": "3"}},
			"     3  ✔ job-finished-successfully  job/base-7/12  gcc, in 12.3s, 4 MiB, a=1, b=2\n"},
		{job, record.JobFinished, 1, record.Finished{Reused: "job/base-6/12"}, "     3  ✔ job-finished-successfully  job/base-7/12  gcc, what job/base-6/12 built\n"},
		{job, record.JobDependentsEligible, 1, record.Eligible{Jobs: record.Numbers{13}}, "     3  · job-dependents-eligible  job/base-7/12  1 job: 13\n"},
		{job, record.JobFailed, 2, record.Failed{Cause: "it exited with 2", Worker: "w1", Took: time.Second, Output: []string{"cc: no\x1b[31m"}},
			"     3  ✘ job-failed  job/base-7/12  attempt 2  gcc, on w1, after 1.0s\n          it exited with 2\n          │ cc: no\n"},
		{job, record.JobDependentsFailed, 1, record.DependentsFailed{Jobs: record.Numbers{13, 14}}, "     3  ✘ job-dependents-failed  job/base-7/12  2 jobs: 13-14\n"},
		{job, record.JobLost, 1, record.Lost{Cause: "w1 does not answer", Worker: "w1"}, "     3  ! job-lost  job/base-7/12  gcc, on w1\n          w1 does not answer\n"},
		{group, record.GroupCanceling, 1, record.Canceling{By: "ann", Reason: "wrong branch"}, "     3  ! group-canceling  group/base-7  by ann\n          wrong branch\n"},
		{group, record.GroupRetried, 1, record.Retried{By: "ann", FailedOnly: true}, "     3  · group-retried  group/base-7  by ann, only what failed\n"},
		{group, "group-painted", 1, "x", "     3  · group-painted  group/base-7\n"},
	} {
		e := must.Get(record.New("base-7", c.target, c.name, c.attempt, c.data))(t)
		e.Seq = 3
		name := ""
		if c.target == job {
			name = "gcc"
		}
		var b strings.Builder
		require.NoError(t, groups.Event(&b, e, name, groups.Options{}), "%s is written", c.name)
		assert.Equal(t, c.want, b.String(), "%s is written", c.name)
	}
}

// A forecast that a group will not end says what shows why.
func TestAForecastWithoutWorkersSaysWhatHelps(t *testing.T) {
	for want, f := range map[string]build.Forecast{
		"base-7 will not end: no worker serves 1 job of it: gcc; what would: deployster build explain base-7\n": {Jobs: 2, Slots: 1, Unserved: []int{1}},
		"base-7 will not end: there is no worker; what is wanted: deployster build explain base-7\n":            {Jobs: 2},
	} {
		var out strings.Builder
		s := build.Summary{ID: "base-7", State: transition.Dispatching}
		require.NoError(t, groups.Forecast(&out, s, f, func(int) string { return "gcc" }, groups.Options{}))
		assert.True(t, strings.HasPrefix(out.String(), want))
	}
}

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
