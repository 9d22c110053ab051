package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

type planOptions struct {
	files    []string
	input    inputFlags
	engine   engineFlags
	detailed bool
}

func (a *app) planCommand() *cobra.Command {
	var o planOptions
	c := &cobra.Command{
		Use:   "plan MANIFEST…",
		Short: "Show what an apply would change",
		Long: `Show what an apply would change, and change nothing.

Resource types are initialized and the state of the resources is discovered;
no action is run. A resource that depends on one which is not yet as
configured is "known after apply" of it.`,
		Example: `  deployster plan web.yaml
  deployster plan web.yaml --detailed-exitcode    # 0 no changes, 1 failed, 2 changes
  deployster plan web.yaml --output json`,
		Args: manifests,
		RunE: func(c *cobra.Command, args []string) error {
			o.files = args
			return a.plan(c.Context(), o)
		},
	}
	o.input.register(c)
	o.engine.register(c)
	c.Flags().BoolVar(&o.detailed, "detailed-exitcode", false, "exit with 2 when there are changes")
	return c
}

func (a *app) plan(ctx context.Context, o planOptions) error {
	asJSON, err := a.json()
	if err != nil {
		return err
	}
	s, err := a.start(ctx, "plan", o.files, o.input, o.engine, string(runner.ConfirmNo))
	if err != nil {
		return err
	}
	defer s.close()
	held, err := control.Watch(s.control)
	if err != nil {
		return err
	}
	defer held.End()

	// The plan is the output; how it comes about is news for people, or, in the
	// machine-readable form, what comes before it.
	s.runner.KeepGoing = true
	closeScreen := func() error { return nil }
	show := func(p *runner.Plan) error { return view.Plan(a.out, p, a.planOptions(a.out)) }
	switch {
	case asJSON:
		lines := view.NewJSON(a.out, "plan", version())
		s.runner.Observer = lines
		show = func(p *runner.Plan) error { lines.Plan(p); return lines.Close() }
	case a.terminal(a.err):
		s.runner.Observer, closeScreen = a.screen(a.err, "plan", false)
	}
	plan, err := runner.New(s.runner).Plan(s.ctx)
	err = errors.Join(err, closeScreen())
	if plan != nil {
		err = errors.Join(s.toldUnless(err), show(plan))
	}
	if err == nil && o.detailed && plan.Changes() {
		return told(errChanges)
	}
	return s.interrupted(err)
}
