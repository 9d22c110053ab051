package env

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
)

type createOptions struct {
	file string
	work workFlags
}

func newCreateCommand(a *app.App) *cobra.Command {
	var o createOptions
	c := &cobra.Command{
		Use:   "create -f FILE",
		Short: "Create an environment with its first revision",
		Long: `Create an environment with its first revision. Nothing happens on any host until a
revision is deployed.

The manifest of its task is looked for beside the definition. The revision keeps
it as it is now, whatever becomes of the file.`,
		Example: "  deployster env create -f prod.yaml",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.file == "" {
				return exit.Usage("which definition? say -f FILE")
			}
			return runCreate(c.Context(), a, o)
		},
	}
	c.Flags().StringVarP(&o.file, "file", "f", "", "the definition")
	o.work.Register(c)
	return c
}

func runCreate(ctx context.Context, a *app.App, o createOptions) error {
	d, err := readEnvironment(a, o.file)
	if err != nil {
		return err
	}
	text, err := pin(a, d)
	if err != nil {
		return err
	}
	hosts, err := work.NewHosts(o.work.Inventory).Selected(d.InstanceGroup.Query)
	if err != nil {
		return exit.Invalid(err)
	}
	if len(hosts) == 1 && neverStops(d.Deployment, 1) {
		return exit.Usage("%s: Replace stops the task of a host before it starts another, and with a min_healthy_percent of %d the one task on %s may never be stopped: choose the method Surge, or a lower percentage",
			o.file, d.Deployment.MinHealthyPercent, hosts[0])
	}
	return a.WithNewLog(ctx, func(log deploylog.Log) error {
		e, err := environmentsOf(ctx, a, log, nil, 0)
		if err != nil {
			return err
		}
		if err := e.Overlaps(d.Name, d.Task.Manifest, hosts); err != nil {
			return err
		}
		if err := checkTask(ctx, a, log, d, text, hosts, o.work); err != nil {
			return err
		}
		if _, err := work.ManifestsBelow(a.Workspace).Keep(text); err != nil {
			return err
		}
		events, err := e.Command(ctx, d.Name, environment.Create{Definition: d, By: app.Whoami()}, hosts...)
		if err != nil {
			return exit.Refused(err)
		}
		noticeSurprises(a, d, hosts)
		number, err := strconv.Atoi(events[0].Revision) // not 1, where one of that name was deleted
		if err != nil {
			return fmt.Errorf("reading the number of the revision: %w", err)
		}
		return a.Recorded(map[string]any{"environment": d.Name, "revision": number}, events,
			fmt.Sprintf("environment %s is created, revision %d", d.Name, number), fmt.Sprintf("; nothing runs yet: deployster env deploy %s --revision %d", d.Name, number))
	})
}
