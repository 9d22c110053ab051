// Package explain is the command that explains why a target of any kind is pending
// or blocked.
package explain

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	buildrecord "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/build"
	"github.com/deployster-go/deployster/internal/cli/env"
	"github.com/deployster-go/deployster/internal/cli/exit"
	pipelinecmd "github.com/deployster-go/deployster/internal/cli/pipeline"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/pipeline/record"
)

// NewCommand returns the command explain.
func NewCommand(a *app.App) *cobra.Command {
	var at int64
	var path string
	c := &cobra.Command{
		Use:   "explain TARGET",
		Short: "Explain why a target is pending or blocked",
		Long: `Explain why everything at or below a target that makes no progress, or is not in
its desired state, is pending or blocked: with the event that is responsible, and
what would change it.

TARGET is as the log has it:
  environment/shop/prod, task/shop/prod/2/antworker001
  pipeline/gateway, stage/gateway/prod, host-group/gateway/beta,
  host/gateway/beta/antworker001,
  group/base-7, job/base-7/12,
  run/web.yaml, resource/db`,
		Example: "  deployster explain environment/shop/prod\n  deployster explain task/shop/prod/2/antworker001\n  deployster explain stage/gateway/prod",
		Args:    arguments.Named("a target"),
		RunE: func(c *cobra.Command, args []string) error {
			t := deploylog.Target(args[0])
			if _, ok := envrecord.NameOf(t); ok {
				return env.Explain(c.Context(), a, t, path, at)
			}
			if _, ok := record.NameOf(t); ok {
				return pipelinecmd.Explain(c.Context(), a, pipelinecmd.Options{Target: t, At: at, Inventory: path})
			}
			if _, _, ok := buildrecord.Parse(t); ok {
				return build.Explain(c.Context(), a, t, session.Question{At: at, Inventory: path, Listed: c.Flags().Changed("inventory")})
			}
			if kind := t.Kind(); kind != args[0] && (kind == "run" || kind == "resource") {
				if at != 0 {
					return exit.Usage("--at is for environments, pipelines and build groups: %s is explained as it is now", t)
				}
				return explainRuns(c.Context(), a, t)
			}
			return noSuchTarget(args[0])
		},
	}
	arguments.RegisterAt(c, &at)
	arguments.RegisterInventory(c, &path)
	a.RegisterWhole(c)
	return c
}

// explainRuns prints the runs of a target that did not end.
func explainRuns(ctx context.Context, a *app.App, t deploylog.Target) error {
	return a.WithLog(ctx, func(log deploylog.Log, path string) error {
		reasons, err := query.ExplainRuns(ctx, log, t)
		switch {
		case errors.Is(err, query.ErrNotFound):
			return exit.Usage("%q: the log at %s knows nothing of it; what can be explained begins with %s", t, path, explainable())
		case err != nil:
			return err
		}
		return a.Show(map[string]any{"target": t, "reasons": reasons}, func() error {
			if len(reasons) == 0 {
				return a.Printf("No run of %s is unfinished.\n", view.Clean(string(t)))
			}
			return view.EnvironmentReasons(a.Out, t, query.AlikeTasks(reasons, true), a.PlanOptions(a.Out))
		})
	})
}

// kinds are those of targets that can be explained.
var kinds = []string{"environment", "task", "pipeline", "stage", "host-group", "host", "group", "job", "run", "resource"}

// explainable is how targets begin that can be explained.
func explainable() string { return strings.Join(kinds, "/, ") + "/" }

// noSuchTarget says which targets can be explained.
func noSuchTarget(text string) error {
	kind, path, _ := strings.Cut(text, "/")
	hint := ""
	if near := suggest.Closest(kind, kinds); near != "" && path != "" {
		hint = ", did you mean " + near + "/" + path
	}
	return exit.Usage("%q cannot be explained: what can begins with %s%s", text, explainable(), hint)
}
