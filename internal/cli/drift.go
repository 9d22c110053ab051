package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

type driftOptions struct {
	files  []string
	input  inputFlags
	engine engineFlags
}

func (a *app) driftCommand() *cobra.Command {
	var o driftOptions
	c := &cobra.Command{
		Use:   "drift MANIFEST…",
		Short: "Tell what is not as it is configured",
		Long: `Tell what is not as it is configured, and change nothing.

The state of every resource is asked for, also of those that depend on one that
has drifted, and only differences are printed. What a resource lists under
"ignore_drift" is no difference; -v tells it, too. A resource whose configuration
needs the state of one that is missing is not known.

Exit codes: 0 no drift, 1 failed, 2 something has drifted, 3 wrong usage or
invalid input, 130 interrupted.`,
		Example: `  deployster drift web.yaml
  deployster drift web.yaml --target db --verbose
  deployster drift web.yaml --output json`,
		Args: manifests,
		RunE: func(c *cobra.Command, args []string) error {
			o.files = args
			return a.drift(c.Context(), o)
		},
	}
	o.input.register(c)
	o.engine.register(c)
	o.engine.registerCache(c)
	a.registerFull(c)
	return c
}

func (a *app) drift(ctx context.Context, o driftOptions) error {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	s, err := a.start(ctx, "drift", o.files, o.input, o.engine, runner.ConfirmNo)
	if err != nil {
		return err
	}
	defer s.close()
	held, err := runs.Watch(s.control)
	if err != nil {
		return err
	}
	defer held.End()

	// As with a plan, the report is the output.
	closeScreen := func() error { return nil }
	show := func(d *runner.DriftReport) error {
		return view.Drift(a.out, d, view.DriftOptions{PlanOptions: a.planOptions(a.out), Ignored: a.global.verbose})
	}
	switch {
	case asJSON:
		lines := view.NewJSON(a.out, "drift", version())
		s.caller.Observer = lines
		show = func(d *runner.DriftReport) error { lines.Drift(d); return lines.Close() }
	case a.terminal(a.err):
		s.caller.Observer, closeScreen = a.screen(a.err, "drift", false)
	}
	report, err := runner.New(s.spec, s.containers).Drift(s.ctx, s.caller)
	err = errors.Join(err, closeScreen())
	if report != nil {
		err = errors.Join(s.toldUnless(err), show(report))
	}
	if err == nil && report.Drifted() {
		return told(errChanges)
	}
	return s.interrupted(err)
}
