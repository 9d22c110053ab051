// Package resource is the commands of resources: they load manifests, and plan,
// apply, compare, draw or destroy what these declare.
package resource

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/prompt"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/client"
	"github.com/deployster-go/deployster/manifest"
)

// applyOptions are those of commands that change resources.
type applyOptions struct {
	lookOptions
	confirm   prompt.ConfirmFlags
	keepGoing bool
	again     bool
	sent      sentOptions
	watch     bool
	orphans   bool // of a destroy: what nobody declares any more is removed
}

func (o *applyOptions) register(a *app.App, c *cobra.Command, keepGoing string, run func(context.Context) error) {
	o.lookOptions.register(a, c, run)
	a.RegisterAll(c)
	o.confirm.Register(c)
	o.engine.RegisterAbandon(c)
	c.Flags().BoolVar(&o.keepGoing, "keep-going", false, keepGoing)
	o.sent.register(c)
	c.Flags().BoolVar(&o.watch, "watch", true, "through a server: show the run until it has ended; otherwise return when it has begun")
}

// asking is what the help of commands says that ask before they change something.
const asking = `; --confirm says
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

Exit codes: 0 done, 1 failed, 3 wrong usage or invalid input (nothing was
touched), 130 interrupted.`

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
are asked only about resources that the plan had to leave open. A plan that a run
did wholly is refused, unless you say --again; of one that was cut short what is
left is done. A plan is refused, too, if another run changed one of its resources.

--replace RESOURCE removes a resource first, by its type, and makes it again;
what depends on it is looked at after that. --prune removes what runs of these
manifests made and they no longer declare, such as the instance of a key that
for_each has no more, once all that is declared is as configured.

The Docker Engine is the one that DOCKER_HOST or DOCKER_CONTEXT names, else that of the
current docker context, as for the docker command. Another one than this machine's is
named on stderr.

Images of types have the content that deployster.lock says, where the workspace has
that file (see "deployster lock"). With --locked an image that it does not have is
refused.

With --server the server applies the manifests, with what they include and the
variables, as they are here; secrets are not sent. It plans, you are asked here once
(--confirm ONCE is the default then), and exactly that plan is applied. A PLAN that was made through
a server is applied through it.

Before anything is changed the plan is shown, and you are asked` + asking,
		Example: `  deployster apply web.yaml
  deployster apply base.yaml prod.yaml --confirm ONCE --var tag=1.2
  deployster apply web.yaml --yes --target db --keep-going
  deployster apply web.yaml --replace db
  deployster apply web.yaml --prune
  deployster apply web.plan
  deployster apply web.plan --again
  deployster apply web.yaml --yes --server https://deploy.example.com`,
	}
	o.register(a, c, "after a failure, go on with what does not depend on it", func(ctx context.Context) error { return runApply(ctx, a, o) })
	c.Flags().BoolVar(&o.again, "again", false, "do all of a saved plan once more, whatever runs did of it")
	o.input.RegisterReplace(c)
	o.input.RegisterLocked(c)
	return c
}

// NewDestroyCommand returns the command destroy.
func NewDestroyCommand(a *app.App) *cobra.Command {
	var o applyOptions
	o.input.Removing = true
	c := &cobra.Command{
		Use:   "destroy MANIFEST… | --orphans",
		Short: "Destroy the resources of manifests",
		Long: `Destroy the resources of manifests.

Each resource is removed once all that depends on it is gone, several at once
where nothing stands between them. Its type is asked for the actions that remove
it, they are run, and the type is asked again, to verify that it is gone. What is
"readonly: true" is only observed, and left alone.

A resource whose type cannot remove it is refused before anything is removed;
the rest can then be removed with --target, which takes along what depends on
the resource. A destroy that was cut off goes on with the same command.
"deployster plan --destroy" only shows what would be removed. With --server the
server removes it.

What runs of these manifests made and they no longer declare is said, and stays;
with --prune it is removed, too.

--orphans takes no manifest. It removes what runs made and nothing declares any
more, of all manifests: "deployster list --orphans" lists it. Each orphan is
removed with the configuration, the plugs and the type with which it was made.
An orphan stays if it was made on another engine or machine, if its type cannot
remove it, or if another file declares it; a note says what to do. --target takes
NAME, or MANIFEST#NAME.

Before anything is removed the plan is shown, and you are asked` + asking,
		Example: `  deployster destroy web.yaml
  deployster destroy web.yaml --confirm ONCE --target db
  deployster destroy web.yaml --prune
  deployster destroy --orphans
  deployster destroy base.yaml prod.yaml --yes --keep-going`,
	}
	o.register(a, c, "after a failure, go on with what the resource does not depend on", func(ctx context.Context) error { return runDestroy(ctx, a, o) })
	c.Flags().Lookup("target").Usage = "only this resource and what depends on it (repeatable)"
	registerOrphans(c, &o.orphans, "remove what runs made and nothing declares any more")
	o.input.RegisterPrune(c, "also remove what runs of these manifests made and they no longer declare")
	return c
}

func runApply(ctx context.Context, a *app.App, o applyOptions) error {
	remote, err := o.server(a)
	if err != nil {
		return err
	}
	saved, err := readSavedPlan(a, o.files)
	if err != nil {
		return err
	}
	switch {
	case saved == nil && o.again:
		return exit.Usage("--again is for a saved plan: without one an apply does whatever is left to do")
	case remote != nil && saved != nil:
		return applySavedRemote(ctx, a, o, saved, remote)
	case remote != nil:
		return changeRemote(ctx, a, o, "apply", remote)
	case saved != nil:
		return applySaved(ctx, a, o, saved)
	}
	return change(ctx, a, o, "apply")
}

func runDestroy(ctx context.Context, a *app.App, o applyOptions) error {
	if o.orphans {
		return destroyOrphans(ctx, a, o)
	}
	remote, err := o.server(a)
	switch {
	case err != nil:
		return err
	case remote != nil:
		return changeRemote(ctx, a, o, "destroy", remote)
	}
	return change(ctx, a, o, "destroy")
}

// server is the server that carries the run out; nil is none.
func (o *applyOptions) server(a *app.App) (*client.Client, error) {
	remote, err := o.sent.remote(a)
	if err == nil && remote == nil && !o.watch {
		err = exit.Usage("--watch=false leaves a run to a server, and without --server this command carries it out itself: interrupt it to stop it")
	}
	return remote, err
}

// change applies manifests or destroys their resources, after questions as --confirm
// says.
func change(ctx context.Context, a *app.App, o applyOptions, command string) error {
	for _, file := range o.files {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) { // said before anybody is asked
			return &manifest.Error{Problems: []manifest.Problem{{Position: manifest.Position{File: file}, Message: "there is no such file"}}}
		}
	}
	mode, err := prompt.ConfirmMode(a, o.confirm)
	if err != nil {
		return err
	}
	s, err := session.Start(ctx, a, command, o.files, o.input, o.engine, mode)
	if err != nil {
		return err
	}
	defer s.Close()
	return s.Execute(a, mode, o.keepGoing, nil)
}
