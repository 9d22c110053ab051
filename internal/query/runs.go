package query

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/runner/report"
)

// Outcome is how a run ended, or why it has not.
type Outcome string

// The outcomes of a run.
const (
	RunInProgress  Outcome = "in-progress"
	RunSucceeded   Outcome = "succeeded"
	RunFailed      Outcome = "failed"
	RunInterrupted Outcome = "interrupted"
	RunDied        Outcome = "died" // its process is dead, and no later run has closed it yet
	RunAbandoned   Outcome = "abandoned"
)

// Run is a run as the log has it.
type Run struct {
	Run      string           `json:"run"`
	Target   deploylog.Target `json:"target"`
	Manifest string           `json:"manifest"`
	Verb     string           `json:"verb,omitempty"`
	User     string           `json:"user,omitempty"`
	Host     string           `json:"host,omitempty"`
	Revision string           `json:"revision,omitempty"`
	Seq      int64            `json:"seq"` // of its first event
	Started  time.Time        `json:"started_at"`
	Ended    *time.Time       `json:"ended_at,omitempty"`
	TookMS   *float64         `json:"duration_ms,omitempty"`
	Outcome  Outcome          `json:"outcome"`
	Counts   *report.Counts   `json:"counts,omitempty"`
	Error    string           `json:"error,omitempty"`
}

// RunFilter selects runs.
type RunFilter struct {
	Target deploylog.Target // run/MANIFEST, or "run/" for all
	Since  time.Time        // only runs that were started at or after it
	Last   int              // only the newest n of what the rest selects; 0 is all
}

// Runs returns runs in the order of their starts.
func Runs(ctx context.Context, log deploylog.Log, f RunFilter) ([]*Run, error) {
	list, err := readRuns(ctx, log, f.Target)
	if err != nil {
		return nil, err
	}
	list = slices.DeleteFunc(list, func(r *Run) bool { return r.Started.Before(f.Since) })
	if f.Last > 0 {
		list = list[max(0, len(list)-f.Last):]
	}
	for _, r := range list {
		if err := r.look(ctx, log); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// RunOf is the run of a deployment as it was right after an event; 0 is now. It fails with
// ErrNotFound.
func RunOf(ctx context.Context, log deploylog.Log, deployment string, until int64) (r *Run, err error) {
	for e, err := range log.Read(ctx, deploylog.Filter{Deployment: deployment, Target: "run/", Until: until}) {
		switch {
		case err != nil:
			return nil, err
		case e.Name == e.Target.Started() && r == nil:
			r = begun(e, runs.DataOf(e))
		case r != nil && (e.Name == e.Target.Succeeded() || e.Name == e.Target.Failed()):
			r.end(e, runs.DataOf(e))
		}
	}
	if r == nil {
		return nil, unknown("there is no run %q: deployster runs lists them", deployment)
	}
	if until == 0 {
		err = r.look(ctx, log)
	}
	return r, err
}

// look finds out whether a run without an end is alive. One that is not may have ended since the
// log was read, for its lock is released after its end is recorded.
func (r *Run) look(ctx context.Context, log deploylog.Log) error {
	if r.Outcome != RunInProgress || runs.Alive(log, r.Run) {
		return nil
	}
	for e, err := range log.Read(ctx, deploylog.Filter{Deployment: r.Run, Target: r.Target, After: r.Seq}) {
		switch {
		case err != nil:
			return err
		case e.Name == e.Target.Succeeded() || e.Name == e.Target.Failed():
			r.end(e, runs.DataOf(e))
			return nil
		}
	}
	r.Outcome = RunDied
	return nil
}

// readRuns folds the events of runs, which are in the order of their starts.
func readRuns(ctx context.Context, log deploylog.Log, target deploylog.Target) ([]*Run, error) {
	var list []*Run
	open := map[string]*Run{}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: target}) {
		if err != nil {
			return nil, err
		}
		switch r := open[e.Deployment]; {
		case e.Name == e.Target.Started():
			open[e.Deployment] = begun(e, runs.DataOf(e))
			list = append(list, open[e.Deployment])
		case r != nil && (e.Name == e.Target.Succeeded() || e.Name == e.Target.Failed()):
			r.end(e, runs.DataOf(e))
			delete(open, e.Deployment)
		}
	}
	return list, nil
}

func begun(e deploylog.Event, d runs.Data) *Run {
	return &Run{
		Run: e.Deployment, Target: e.Target, Manifest: strings.TrimPrefix(string(e.Target), "run/"),
		Verb: d.Details["command"], User: d.Details["user"], Host: d.Details["host"],
		Revision: e.Revision, Seq: e.Seq, Started: e.CreatedAt, Outcome: RunInProgress,
	}
}

func (r *Run) end(e deploylog.Event, d runs.Data) {
	r.Ended, r.TookMS, r.Counts, r.Error = &e.CreatedAt, d.DurationMS, d.Counts, d.Error
	switch {
	case e.Name == e.Target.Succeeded():
		r.Outcome = RunSucceeded
	case d.Abandoned:
		r.Outcome = RunAbandoned
	case d.Details["interrupted"] != "":
		r.Outcome = RunInterrupted
	default:
		r.Outcome = RunFailed
	}
}

// Summary is the outcome in words, with what was changed or why it failed.
func (r *Run) Summary() string {
	switch r.Outcome {
	case RunInProgress:
		return "in progress"
	case RunDied:
		return "died; the next run of the same manifests closes it"
	default: // with what was done
	}
	var parts []string
	if n := r.Counts; n != nil {
		changed, unchanged := "changed", "unchanged"
		switch r.Verb {
		case "destroy":
			changed = "removed"
		case "adopt":
			unchanged = "adopted"
		}
		for _, part := range []struct {
			n    int
			what string
		}{{n.Changed, changed}, {n.Unchanged, unchanged}, {n.Failed, "failed"}, {n.Skipped, "skipped"}} {
			if part.n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
			}
		}
	}
	if len(parts) == 0 && r.Error != "" {
		first, _, _ := strings.Cut(r.Error, "\n")
		parts = append(parts, first)
	}
	return strings.TrimSuffix(string(r.Outcome)+": "+strings.Join(parts, ", "), ": ")
}

// ExplainRuns returns, for each run of which something at a target has no end, how it
// stands with it and what would change that. It fails with ErrNotFound.
func ExplainRuns(ctx context.Context, log deploylog.Log, t deploylog.Target) ([]reason.Reason, error) {
	unfinished, err := runs.UnfinishedRuns(ctx, log, t)
	if err != nil {
		return nil, err
	}
	reasons := []reason.Reason{}
	for _, u := range unfinished {
		r := reason.Reason{Target: string(u.Target), Code: "run-unfinished", Message: u.String(), Change: "its end"}
		switch {
		case u.Alive:
		case len(u.Acting) > 0:
			r.Change = "the next apply or destroy asks that engine, and waits for what is at work there; where it cannot be asked, --abandon " + u.Run
		default:
			r.Change = "the next apply or destroy"
		}
		reasons = append(reasons, r)
	}
	known := len(reasons) > 0
	if !known {
		for _, err := range log.Read(ctx, deploylog.Filter{Target: t, Last: 1}) {
			if known = true; err != nil {
				return nil, err
			}
		}
	}
	if !known {
		return nil, fmt.Errorf("%s: %w", t, ErrNotFound)
	}
	return reasons, nil
}
