package logs

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

type runsOptions struct {
	filter query.RunFilter
	since  string
	utc    bool
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
	c.Flags().StringVar((*string)(&o.filter.Target), "target", "run/", "only runs of these manifests, such as run/web.yaml")
	c.Flags().StringVar(&o.since, "since", "", "only runs that were started since then: a time, a date, or how long ago (90m)")
	arguments.RegisterLast(c, &o.filter.Last)
	registerUTC(c, &o.utc)
	a.RegisterWhole(c)
	return c
}

func runRuns(ctx context.Context, a *app.App, o runsOptions) (err error) {
	if !strings.HasPrefix(string(o.filter.Target), "run/") {
		return exit.Usage("--target %q: the target of a run begins with run/", o.filter.Target)
	}
	if o.filter.Since, err = parseSince(a, o.since); err != nil {
		return err
	}
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		list, err := query.Runs(ctx, log, o.filter)
		if err != nil {
			return err
		}
		if a.JSON() {
			return printRunLines(a, list)
		}
		if len(list) == 0 && o.filter.Target != "run/" {
			if err := unknownFilter(ctx, a, log, deploylog.Filter{Target: o.filter.Target}, false); err != nil {
				return err
			}
		}
		return printRuns(a, list, o)
	})
}

func printRunLines(a *app.App, runs []*query.Run) error {
	err := view.NewJSON(a.Out, "log runs", a.Version).Close()
	for _, r := range runs {
		err = errors.Join(err, a.Line(r))
	}
	return err
}

func printRuns(a *app.App, runs []*query.Run, o runsOptions) error {
	rows := [][]string{{"RUN", "MANIFEST", "VERB", "USER", "STARTED", "TOOK", "OUTCOME"}}
	for _, r := range runs {
		took := output.Dash("")
		if r.TookMS != nil {
			took = fmt.Sprintf("%.1fs", *r.TookMS/1000)
		}
		rows = append(rows, []string{
			r.Run, phrase.Plain(r.Manifest), output.Dash(phrase.Plain(r.Verb)), output.Dash(phrase.Plain(r.User)), view.Clock(r.Started, o.utc), took, phrase.Plain(r.Summary()),
		})
	}
	if o.filter.Last > 0 {
		return a.Table("no runs", rows)
	}
	return a.History(nil, "no runs", rows)
}
