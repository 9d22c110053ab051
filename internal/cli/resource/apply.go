// Package resource is the commands of resources: they load manifests, and plan,
// apply, compare, draw or destroy what these declare.
package resource

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/runner"
)

// lookOptions are what all commands have that look at the resources of manifests.
type lookOptions struct {
	files  []string
	input  session.Flags
	engine engines.Flags
}

func (o *lookOptions) register(a *app.App, c *cobra.Command) {
	o.input.Register(c)
	o.engine.Register(c)
	o.engine.RegisterCache(c)
	a.RegisterFull(c)
}

// applyOptions are those of commands that change resources.
type applyOptions struct {
	lookOptions
	confirm   prompt.ConfirmFlags
	keepGoing bool
}

func (o *applyOptions) register(a *app.App, c *cobra.Command, keepGoing string) {
	o.lookOptions.register(a, c)
	a.RegisterAll(c)
	o.confirm.Register(c)
	o.engine.RegisterAbandon(c)
	c.Flags().BoolVar(&o.keepGoing, "keep-going", false, keepGoing)
}

// start starts a command that asks before it changes something, as the mode says.
func (o *applyOptions) start(ctx context.Context, a *app.App, command string) (*session.Started, runner.ConfirmMode, error) {
	mode, err := prompt.ConfirmMode(a, o.confirm)
	if err != nil {
		return nil, mode, err
	}
	s, err := session.Start(ctx, a, command, o.files, o.input, o.engine, mode)
	return s, mode, err
}

// NewApplyCommand returns the command apply.
func NewApplyCommand(a *app.App) *cobra.Command {
	var o applyOptions
	c := &cobra.Command{
		Use:   "apply MANIFEST… | PLAN",
		Short: "Apply manifests, or a saved plan",
		Long: `Apply manifests: bring their resources to the declared configuration.

Every resource's state is discovered; where it is not as configured, the
actions that its type asks for are run, and the state is discovered again to
verify them. Resources are worked on in parallel, each as soon as what it
depends on is verified. Several manifests are merged into one.

PLAN is a file that "plan -o" wrote. Exactly what it says is done, without
questions; what is not as the plan found it is refused, with what differs. You
are asked only about resources that the plan had to leave open.

Before anything is changed the plan is shown, and you are asked; --confirm says
how often:
  NO        never, as --yes says, too; needed where there is no terminal
  ONCE      once, for the whole plan
  RESOURCE  for each resource that is to be changed
  ACTION    for each action (the default)
An answer is y or n, a for all further actions of the resource, p to see the
plan again with whole values, or q to quit: that declines what is asked, lets
running actions finish, and begins nothing more.

Interrupt once to let running actions finish and start nothing new; twice to
kill them.

Exit codes: 0 applied, 1 failed, 3 wrong usage or invalid input (nothing was
touched), 130 interrupted.`,
		Example: `  deployster apply web.yaml
  deployster apply base.yaml prod.yaml --confirm ONCE --var tag=1.2
  deployster apply web.yaml --yes --target db --keep-going
  deployster apply web.plan`,
		Args: arguments.Manifests,
		RunE: func(c *cobra.Command, args []string) error {
			o.files = args
			return apply(c.Context(), a, o)
		},
	}
	o.register(a, c, "after a failure, go on with what does not depend on it")
	return c
}

func apply(ctx context.Context, a *app.App, o applyOptions) error {
	saved, err := readSavedPlan(o.files)
	if err != nil {
		return err
	}
	if saved != nil {
		return applySaved(ctx, a, o, saved)
	}
	s, mode, err := o.start(ctx, a, "apply")
	if err != nil {
		return err
	}
	defer s.Close()
	return session.Execute(a, s, (*runner.Runner).Apply, mode, o.keepGoing, (*runner.Runner).Plan)
}
