package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/view"
)

type latestOptions struct {
	target deploylog.Target
	utc    bool
}

func newLatestCommand(a *app.App) *cobra.Command {
	var o latestOptions
	c := &cobra.Command{
		Use:   "latest TARGET",
		Short: "Show what of a target succeeded last, failed last, and is in progress",
		Long: `Show what of a target succeeded last, failed last, and is in progress.
Targets are run/MANIFEST, resource/NAME and action/RESOURCE/ACTION. "Last" is by
the order in which deployments were begun. What a destroy did has no revision.

What was started of an environment or a task is no longer in progress once the
environment is deleted or the task terminated; nor is what a deployment of a
pipeline had started, once that has ended, was cancelled, or the pipeline deleted.`,
		Example: "  deployster log latest resource/db\n  deployster log latest run/web.yaml --output json",
		Args: cobra.MatchAll(func(_ *cobra.Command, args []string) error {
			if len(args) != 1 || !strings.Contains(args[0], "/") {
				return exit.Usage(`latest takes one target, such as resource/db or run/web.yaml`)
			}
			return nil
		}),
		RunE: func(c *cobra.Command, args []string) error {
			o.target = deploylog.Target(args[0])
			return runLatest(c.Context(), a, o)
		},
	}
	registerUTC(c, &o.utc)
	return c
}

// answer is what a log says of a target.
type answer struct {
	Target     deploylog.Target  `json:"target"`
	Succeeded  *deploylog.Event  `json:"succeeded"`
	Failed     *deploylog.Event  `json:"failed"`
	InProgress []deploylog.Event `json:"in_progress"`
}

func runLatest(ctx context.Context, a *app.App, o latestOptions) error {
	return a.WithLog(ctx, func(log deploylog.Log, path string) error {
		found := answer{Target: o.target, InProgress: []deploylog.Event{}}
		for outcome, into := range map[deploylog.Outcome]**deploylog.Event{
			deploylog.Succeeded: &found.Succeeded, deploylog.Failed: &found.Failed,
		} {
			e, ok, err := log.Latest(ctx, o.target, outcome)
			if err != nil {
				return err
			}
			if ok {
				*into = &e
			}
		}
		started, err := log.InProgress(ctx, o.target)
		if err != nil {
			return err
		}
		open, err := unended(ctx, log, o.target, started)
		if err != nil {
			return err
		}
		found.InProgress = append(found.InProgress, open...)
		if a.JSON() {
			return a.Line(found)
		}
		if found.Succeeded == nil && found.Failed == nil && len(started) == 0 {
			names, err := namesIn(ctx, log)
			if err != nil {
				return err
			}
			return fmt.Errorf("the log at %s knows nothing of %s%s", path, o.target, cmp.Or(names.likeTarget(o.target), "; `deployster log list` shows what it knows"))
		}
		if err := printAnswer(a, found, o.utc); err != nil || len(open) == 0 {
			return err
		}
		return printDead(ctx, a, log, o.target)
	})
}

func printAnswer(a *app.App, found answer, utc bool) error {
	show := func(label string, e *deploylog.Event) error {
		if e == nil {
			return a.Printf("%-12s –\n", label)
		}
		revision := "revision " + e.Revision
		if e.Revision == "" { // what is absent has none
			revision = "destroy"
		}
		return a.Printf("%-12s %s  %s  %s  event %d%s\n", label, e.Deployment, revision, clock(e.CreatedAt, utc), e.Seq, summary(*e))
	}
	err := errors.Join(show("succeeded", found.Succeeded), show("failed", found.Failed))
	if len(found.InProgress) == 0 {
		err = errors.Join(err, show("in progress", nil))
	}
	for i := range found.InProgress {
		err = errors.Join(err, show("in progress", &found.InProgress[i]))
	}
	return err
}

// printDead says how it stands with runs of a target that have no end, nor a
// process.
func printDead(ctx context.Context, a *app.App, log deploylog.Log, t deploylog.Target) error {
	unfinished, err := runs.UnfinishedRuns(ctx, log, t)
	if err != nil {
		return err
	}
	for _, u := range unfinished {
		if !u.Alive && u.Target.Kind() == "run" {
			if err := a.Printf("%-12s %s\n", "", view.Clean(engines.UnfinishedText(u))); err != nil {
				return err
			}
		}
	}
	return nil
}
