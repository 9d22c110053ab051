package resource

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/runner"
)

// NewDestroyCommand returns the command destroy.
func NewDestroyCommand(a *app.App) *cobra.Command {
	o := applyOptions{lookOptions: lookOptions{input: session.Flags{Removing: true}}}
	c := &cobra.Command{
		Use:   "destroy MANIFEST…",
		Short: "Destroy the resources of manifests",
		Long: `Destroy the resources of manifests.

Each resource is removed once all that depends on it is gone, several at once
where nothing stands between them. Its type is asked for the actions that remove
it, they are run, and the type is asked again, to verify that it is gone. What is
"readonly: true" is only observed, and left alone.

A resource whose type cannot remove it is refused before anything is removed;
the rest can then be removed with --target, which takes along what depends on
the resource. A destroy that was cut off goes on with the same command.

Before anything is removed it is shown what is to be, and you are asked; --confirm
says how often:
  NO        never, as --yes says, too; needed where there is no terminal
  ONCE      once, for all that is to be removed
  RESOURCE  for each resource that is to be removed
  ACTION    for each action (the default)
Answers are those of apply: y, n, a, p and q. "deployster plan --destroy" only
shows what would be removed.

Interrupt once to let running actions finish and start nothing new; twice to
kill them.

Exit codes: 0 gone, 1 failed, 3 wrong usage or invalid input (nothing was
touched), 130 interrupted.`,
		Example: `  deployster destroy web.yaml
  deployster destroy web.yaml --confirm ONCE --target db
  deployster destroy base.yaml prod.yaml --yes --keep-going`,
		Args: arguments.Manifests,
		RunE: func(c *cobra.Command, args []string) error {
			o.files = args
			return destroy(c.Context(), a, o)
		},
	}
	o.register(a, c, "after a failure, go on with what the resource does not depend on")
	c.Flags().Lookup("target").Usage = "only this resource and what depends on it (repeatable)"
	return c
}

func destroy(ctx context.Context, a *app.App, o applyOptions) error {
	s, mode, err := o.start(ctx, a, "destroy")
	if err != nil {
		return err
	}
	defer s.Close()
	noticeDependents(a, s, o.input.Targets)
	s.Spec.Remove = s.Remove
	s.Control.Revision = "" // what was removed has none
	s.Control.Meaning = s.Meaning()
	return session.Execute(a, s, (*runner.Runner).Destroy, mode, o.keepGoing, (*runner.Runner).PlanDestroy)
}

// noticeDependents names what is removed with the targets because it depends on
// them.
func noticeDependents(a *app.App, s *session.Started, targets []string) {
	along := slices.DeleteFunc(slices.Clone(s.Remove), func(name string) bool { return slices.Contains(targets, name) })
	if len(along) > 0 {
		s.News.Notice("note: what depends on " + strings.Join(targets, ", ") + " is removed, too: " + strings.Join(along, ", "))
	}
}
