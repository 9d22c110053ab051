package resource

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// NewDriftCommand returns the command drift.
func NewDriftCommand(a *app.App) *cobra.Command {
	var o lookOptions
	c := &cobra.Command{
		Use:   "drift MANIFEST…",
		Short: "Detect configuration drift",
		Long: `Detect configuration drift, and change nothing.

The state of every resource is asked for, also of those that depend on one that
has drifted, and only differences are printed. What a resource lists under
"ignore_drift" is no difference; -v shows it, too. A resource whose configuration
needs the state of one that is missing is not known.

Exit codes: 0 no drift, 1 failed, 2 something has drifted, 3 wrong usage or
invalid input, 130 interrupted.`,
		Example: `  deployster drift web.yaml
  deployster drift web.yaml --target db --verbose
  deployster drift web.yaml --output json`,
		Args: arguments.Manifests,
		RunE: func(c *cobra.Command, args []string) error {
			o.files = args
			return drift(c.Context(), a, o)
		},
	}
	o.register(a, c)
	return c
}

func drift(ctx context.Context, a *app.App, o lookOptions) error {
	s, err := session.Start(ctx, a, "drift", o.files, o.input, o.engine, runner.ConfirmNo)
	if err != nil {
		return err
	}
	defer s.Close()
	held, err := runs.Watch(s.Control)
	if err != nil {
		return err
	}
	defer held.End()

	report := a.Report("drift")
	s.Caller.Observer = report.Observer
	drift, err := runner.New(s.Spec, s.Containers).Drift(s.Ctx, s.Caller)
	err = errors.Join(err, report.Close())
	if drift != nil {
		err = errors.Join(s.Reported(err), report.Show(
			func(lines *view.JSON) { lines.Drift(drift) },
			func() error {
				return view.Drift(a.Out, drift, view.DriftOptions{PlanOptions: a.PlanOptions(a.Out), Ignored: a.Verbose})
			}))
	}
	if err == nil && drift.Drifted() {
		return exit.Reported(exit.ErrChanges)
	}
	return s.Interrupted(err)
}
