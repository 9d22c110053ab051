package groups

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/internal/phrase"
)

// JobRows are jobs as rows below a head: in their order, or, where there are more than fit,
// as many as that with those first that people look for. more is how many are left out.
func JobRows(jobs []build.JobReport, fit int, now time.Time) (rows [][]string, more int) {
	if fit > 0 && len(jobs) > fit {
		jobs = slices.Clone(jobs)
		slices.SortStableFunc(jobs, func(a, b build.JobReport) int { return cmp.Compare(urgency(a.State), urgency(b.State)) })
		jobs, more = jobs[:fit], len(jobs)-fit
	}
	rows = [][]string{{"JOB", "PACKAGE", "VERSION", "STATE", "WORKER", "TOOK", "DETAILS"}}
	for _, j := range jobs {
		rows = append(rows, []string{strconv.Itoa(j.Number), Package(j), clean(j.Version), j.State.String(), clean(j.Worker), jobTook(j, now), jobDetails(j)})
	}
	return rows, more
}

// urgency is the place of a state among those that people look for.
func urgency(s transition.Job) int {
	for i, of := range [][]transition.Job{
		{transition.JobFailed}, {transition.JobLost}, {transition.Dispatched, transition.CancelPending}, {transition.Eligible},
		{transition.Schedulable, transition.Pending}, {transition.DependencyFailed}, {transition.CancelComplete},
	} {
		if slices.Contains(of, s) {
			return i
		}
	}
	return len(transition.AllJobs())
}

// jobTook is how long a job took, or has taken so far.
func jobTook(j build.JobReport, now time.Time) string {
	switch {
	case j.State.InFlight() && !j.Began.IsZero():
		return phrase.Took(now.Sub(j.Began))
	case j.Finished != nil && j.Finished.Reused == "":
		return phrase.Took(j.Finished.Took)
	case j.State == transition.JobFailed && j.Failed != nil && j.Failed.Took > 0:
		return phrase.Took(j.Failed.Took)
	default:
		return ""
	}
}

// jobDetails are what is asked of a job in a state.
func jobDetails(j build.JobReport) string {
	var parts []string
	switch {
	case j.State == transition.DependencyFailed && j.Because > 0:
		parts = append(parts, fmt.Sprintf("because of job %d", j.Because))
	case j.State == transition.JobFailed && j.Failed != nil && j.Failed.Exit != 0:
		parts = append(parts, cause(j.Failed), lastLine(j.Failed.Output))
	case j.Cause != "" && j.State != transition.Built:
		parts = append(parts, clean(j.Cause))
	case j.Finished != nil && j.Finished.Reused != "":
		parts = append(parts, "reused "+clean(string(j.Finished.Reused)))
	}
	if j.Lost > 0 {
		parts = append(parts, "lost "+phrase.Count(j.Lost, "time"))
	}
	if j.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", j.Attempt))
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), ", ")
}

// ByState is how many jobs of a group are in which state.
func ByState(s build.Summary) string {
	var parts []string
	for _, state := range transition.AllJobs() {
		if n := s.Counts[state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, state))
		}
	}
	return fmt.Sprintf("%s of %s: %s", phrase.Count(s.Jobs, "job"), clean(s.ID), strings.Join(parts, ", "))
}
