package logs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/version"
	"github.com/deployster-go/deployster/runner"
)

// runsVersion is the version of the form of log runs as JSON.
const runsVersion = 1

// The outcomes of a run.
const (
	runInProgress  = "in-progress"
	runSucceeded   = "succeeded"
	runFailed      = "failed"
	runInterrupted = "interrupted"
	runDied        = "died" // its process is dead, and no later run has closed it yet
	runAbandoned   = "abandoned"
)

// loggedRun is a run as the log has it.
type loggedRun struct {
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
	Outcome  string           `json:"outcome"`
	Counts   *runner.Counts   `json:"counts,omitempty"`
	Error    string           `json:"error,omitempty"`
}

// runData is what is read from the data of a run's events.
type runData struct {
	runner.EventData
	Details   map[string]string `json:"details"`
	Abandoned bool              `json:"abandoned"`
}

type runsOptions struct {
	target, since string
	last          int
	utc           bool
}

func newRunsCommand(a *app.App) *cobra.Command {
	var o runsOptions
	c := &cobra.Command{
		Use:   "runs",
		Short: "List runs, oldest first: what was applied or destroyed, by whom, when, and how it ended",
		Long: `List runs, oldest first: what was applied or destroyed, by whom, when, and how it
ended. A run that died is closed by the next one of the same manifests, and is
then abandoned.`,
		Example: "  deployster log runs --last 10\n  deployster log runs --target run/web.yaml --since 24h --output json",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runRuns(c.Context(), a, o) },
	}
	c.Flags().StringVar(&o.target, "target", "run/", "only runs of these manifests, such as run/web.yaml")
	c.Flags().StringVar(&o.since, "since", "", "only runs that were started since then: a time, a date, or how long ago (90m)")
	arguments.RegisterLast(c, &o.last)
	registerUTC(c, &o.utc)
	return c
}

func runRuns(ctx context.Context, a *app.App, o runsOptions) error {
	if !strings.HasPrefix(o.target, "run/") {
		return exit.Usage("--target %q: the target of a run begins with run/", o.target)
	}
	since, err := since(a, o.since)
	if err != nil {
		return err
	}
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		filter := deploylog.Filter{Target: deploylog.Target(o.target)}
		all, err := readRuns(ctx, log, filter)
		if err != nil {
			return err
		}
		none := len(all) == 0
		all = slices.DeleteFunc(all, func(r *loggedRun) bool { return r.Started.Before(since) })
		all = arguments.Last(all, o.last)
		for _, r := range all {
			if r.Outcome == runInProgress && !runs.Alive(log, r.Run) {
				r.Outcome = runDied
			}
		}
		if a.JSON() {
			return printRunLines(a, all)
		}
		if none && o.target != "run/" {
			if err := unknownFilter(ctx, a, log, filter, false); err != nil {
				return err
			}
		}
		return printRuns(a, all, o.utc)
	})
}

// readRuns folds the events of runs, which are in the order of their starts.
func readRuns(ctx context.Context, log deploylog.Log, f deploylog.Filter) ([]*loggedRun, error) {
	var runs []*loggedRun
	open := map[string]*loggedRun{}
	for e, err := range log.Read(ctx, f) {
		if err != nil {
			return nil, err
		}
		var d runData
		if len(e.Data) > 0 {
			_ = json.Unmarshal(e.Data, &d) // what cannot be read is left out
		}
		if e.Name == e.Target.Started() {
			manifest, _ := strings.CutPrefix(string(e.Target), "run/")
			r := &loggedRun{
				Run: e.Deployment, Target: e.Target, Manifest: manifest, Verb: d.Details["command"], User: d.Details["user"], Host: d.Details["host"],
				Revision: e.Revision, Seq: e.Seq, Started: e.CreatedAt, Outcome: runInProgress,
			}
			runs, open[e.Deployment] = append(runs, r), r
			continue
		}
		if r := open[e.Deployment]; r != nil && (e.Name == e.Target.Succeeded() || e.Name == e.Target.Failed()) {
			r.end(e, d)
			delete(open, e.Deployment)
		}
	}
	return runs, nil
}

func (r *loggedRun) end(e deploylog.Event, d runData) {
	r.Ended, r.TookMS, r.Counts, r.Error = &e.CreatedAt, d.DurationMS, d.Counts, d.Error
	switch {
	case e.Name == e.Target.Succeeded():
		r.Outcome = runSucceeded
	case d.Abandoned:
		r.Outcome = runAbandoned
	case d.Details["interrupted"] != "":
		r.Outcome = runInterrupted
	default:
		r.Outcome = runFailed
	}
}

func printRunLines(a *app.App, runs []*loggedRun) error {
	err := a.Line(struct {
		Version    int    `json:"version"`
		Deployster string `json:"deployster"`
		Command    string `json:"command"`
	}{runsVersion, version.Current(), "log runs"})
	for _, r := range runs {
		err = errors.Join(err, a.Line(r))
	}
	return err
}

func printRuns(a *app.App, runs []*loggedRun, utc bool) error {
	rows := [][]string{{"RUN", "MANIFEST", "VERB", "USER", "STARTED", "TOOK", "OUTCOME"}}
	for _, r := range runs {
		took := "–"
		if r.TookMS != nil {
			took = fmt.Sprintf("%.1fs", *r.TookMS/1000)
		}
		rows = append(rows, []string{
			r.Run, output.PlainText(r.Manifest), output.Dash(output.PlainText(r.Verb)), output.Dash(output.PlainText(r.User)), clock(r.Started, utc), took, output.PlainText(r.outcome()),
		})
	}
	return a.Table("no runs", rows)
}

// outcome is how a run ended, in words.
func (r *loggedRun) outcome() string {
	switch r.Outcome {
	case runInProgress:
		return "in progress"
	case runDied:
		return "died; the next run of the same manifests closes it"
	}
	var parts []string
	if n := r.Counts; n != nil {
		changed := "changed"
		if r.Verb == "destroy" {
			changed = "removed"
		}
		for _, part := range []struct {
			n    int
			what string
		}{{n.Changed, changed}, {n.Unchanged, "unchanged"}, {n.Failed, "failed"}, {n.Skipped, "skipped"}} {
			if part.n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", part.n, part.what))
			}
		}
	}
	if len(parts) == 0 && r.Error != "" {
		first, _, _ := strings.Cut(r.Error, "\n")
		parts = append(parts, first)
	}
	return cmp.Or(strings.TrimSuffix(r.Outcome+": "+strings.Join(parts, ", "), ": "), r.Outcome)
}
