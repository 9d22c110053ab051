package groups_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/view/groups"
)

// TestEventsAreLines writes what happens to a group and its jobs, each in a line that says
// what people ask for first.
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
		e, err := record.New("base-7", c.target, c.name, c.attempt, c.data)
		require.NoError(t, err)
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
