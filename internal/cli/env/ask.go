package env

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/query"
)

func newAcceptCommand(a *app.App) *cobra.Command {
	var content, inventory string
	c := &cobra.Command{
		Use:   "accept NAME REVISION --content HASH",
		Short: "Make a revision that was asked for",
		Long: `Make a revision that was asked for with "env update --pending". "env explain" shows
what it brings beyond the definition, and its content. "env show" and "env diff" show the
revision itself. What you accept is exactly that content: it cannot change in between.
It is the definition of the environment from then on.

Through a server, you must be operator of everything, and another person than who asked.`,
		Example: "  deployster env explain shop/prod\n  deployster env diff shop/prod 3 4\n  deployster env accept shop/prod 4 --content sha256:…",
		Args:    arguments.Named("an environment", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			number, err := revisionOf(args[1])
			if err != nil {
				return err
			}
			return runAccept(c.Context(), a, args[0], environment.Accept{Revision: number, Content: content, By: app.Whoami()}, inventory)
		},
	}
	arguments.RegisterInventory(c, &inventory)
	c.Flags().StringVar(&content, "content", "", "the content that you looked at")
	return c
}

// revisionOf returns the number of a revision that an argument names.
func revisionOf(text string) (int, error) {
	number, err := strconv.Atoi(text)
	if err != nil || number < 1 {
		return 0, exit.Usage("%q is no revision: they are numbered from 1", text)
	}
	return number, nil
}

func runAccept(ctx context.Context, a *app.App, name string, accept environment.Accept, inventory string) error {
	return withEnvironment(ctx, a, name, func(e *query.Environments) error {
		var hosts []string
		if _, asked, err := e.Shown(name, 0); err == nil && asked != nil {
			if hosts, err = session.Hosts(ctx, a, inventory).Selected(asked.Definition.InstanceGroup.Query); err != nil {
				return exit.Invalid(err)
			}
		}
		identify(a, e, inventory)
		events, err := e.Command(ctx, name, accept, hosts...)
		if err != nil {
			return err
		}
		return a.Recorded(map[string]any{"environment": name, "revision": accept.Revision}, events, fmt.Sprintf("revision %d of environment %s is accepted and made", accept.Revision, name),
			fmt.Sprintf("; nothing happens yet: deployster env deploy %s --revision %d", name, accept.Revision))
	})
}

func newDeclineCommand(a *app.App) *cobra.Command {
	var reason string
	c := &cobra.Command{
		Use:   "decline NAME REVISION",
		Short: "Decline a revision that was asked for",
		Long: `Decline a revision that was asked for with "env update --pending", or take back that
you asked for it. It can be asked for again.`,
		Example: "  deployster env decline shop/prod 4 --reason 'wants the whole disk'",
		Args:    arguments.Named("an environment", "a revision"),
		RunE: func(c *cobra.Command, args []string) error {
			number, err := revisionOf(args[1])
			if err != nil {
				return err
			}
			return runPropose(c.Context(), a, args[0], environment.Decline{Revision: number, By: app.Whoami(), Reason: reason}, fmt.Sprintf("revision %d of environment %s is declined", number, args[0]))
		},
	}
	arguments.RegisterReason(c, &reason)
	return c
}
