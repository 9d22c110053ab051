package groups_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
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

// TestTheMostUrgentJobsAreListed has a screen show what failed before what runs, and that
// before what is built.
func TestTheMostUrgentJobsAreListed(t *testing.T) {
	jobs := []build.JobReport{
		{Number: 1, Package: "a", State: transition.Built}, {Number: 2, Package: "b", State: transition.Dispatched},
		{Number: 3, Package: "c", State: transition.DependencyFailed, Because: 4}, {Number: 4, Package: "d", Pass: 2, Of: 2, State: transition.JobFailed, Cause: "no", Lost: 2},
	}
	rows, more := groups.JobRows(jobs, 2, querytest.Noon)
	assert.Equal(t, "[[4 d#2  JobFailed   no, lost 2 times] [2 b  Dispatched   ]] 2", fmt.Sprint(rows[1:], more))
	if rows, more := groups.JobRows(jobs, 4, querytest.Noon); len(rows) != 5 || rows[1][0] != "1" || more != 0 {
		t.Errorf("all of them are %v, and %d more", rows, more)
	}
}
