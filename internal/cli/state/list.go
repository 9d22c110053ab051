package state

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/managed"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/control/work"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/engines"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/view"
)

type listOptions struct {
	orphans  bool
	manifest string
	utc      bool
}

// NewListCommand returns the command list.
func NewListCommand(a *app.App) *cobra.Command {
	var o listOptions
	c := &cobra.Command{
		Use:   "list",
		Short: "List what runs made and is still there",
		Long: `List what runs of manifests made and is still there, as far as the log knows: by
manifest, with what identifies each thing, the run that made it, how the last run
that came to it left it, and whether anything declares it.

A thing is an orphan if nothing declares it: its manifest no longer does, no file
of its manifest is there, or its resource is another thing by now. --orphans lists
orphans alone, and "deployster destroy --orphans" removes them.

Things of pipelines and environments are not listed: these remove them themselves.`,
		Example: `  deployster list
  deployster list --orphans
  deployster list --manifest web.yaml --output json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return list(c.Context(), a, o) },
	}
	c.Flags().BoolVar(&o.orphans, "orphans", false, "only what nothing declares")
	c.Flags().StringVar(&o.manifest, "manifest", "", "only what is of this manifest: a file, or its name")
	c.Flags().BoolVar(&o.utc, "utc", false, "show times in UTC instead of the local time zone")
	a.RegisterWhole(c)
	return c
}

func list(ctx context.Context, a *app.App, o listOptions) error {
	rows, err := rowsOf(ctx, a, o)
	if err != nil {
		return err
	}
	table := [][]string{{"MANIFEST", "RESOURCE", "TYPE", "IDENTITY", "DECLARED", "VERDICT", "SEEN", "MADE", "BY RUN"}}
	for _, r := range rows {
		seen := ""
		if r.VerdictAt != nil {
			seen = view.Clock(*r.VerdictAt, o.utc)
		}
		table = append(table, []string{
			phrase.Plain(r.Manifest), phrase.Plain(r.Resource), phrase.Plain(r.Type), output.Dash(phrase.Plain(r.Identity)), phrase.Plain(r.Text()),
			output.Dash(r.Verdict.Text()), output.Dash(seen), view.Clock(r.MadeAt, o.utc), r.MadeBy,
		})
	}
	none := "nothing that runs made is there"
	if o.manifest != "" {
		none = fmt.Sprintf("nothing that runs of %s made is there", o.manifest)
	}
	if o.orphans {
		none = "no orphans"
	}
	return a.Listing(map[string]any{"things": slices.Concat([]managed.Row{}, rows)}, none, table, 8, 7, 6, 2, 3)
}

// rowsOf asks the server, or the log.
func rowsOf(ctx context.Context, a *app.App, o listOptions) (rows []managed.Row, err error) {
	remote, err := a.Remote()
	if err != nil {
		return nil, err
	}
	if remote != nil {
		return remote.Managed(ctx, o.manifest, o.orphans)
	}
	err = a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		machine := engines.Machine()
		things, err := managed.List(ctx, log, managed.Question{
			Here: runs.Owner{Workspace: a.Workspace, Machine: machine, Shared: deploylog.Shared(log)}, Identify: work.Recorded(log, machine), Manifest: o.manifest, Orphans: o.orphans,
		})
		rows = managed.Rows(things)
		return err
	})
	return rows, err
}
