package logs

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/query"
)

func newExportCommand(a *app.App) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the whole log as NDJSON",
		Long: `Write the whole log as NDJSON: a first line with the version of the form and
the id of the log, then one event per line.`,
		Example: "  deployster log export --file deployments.ndjson",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.WithLog(c.Context(), func(log deploylog.Log, _ string) error {
				if file == "" {
					return query.Export(c.Context(), log, a.Out)
				}
				return exportFile(c.Context(), log, file)
			})
		},
	}
	c.Flags().StringVar(&file, "file", "", "write to this file instead of standard output")
	return c
}

// exportFile writes the export to a file, which is there only when it is whole.
func exportFile(ctx context.Context, log deploylog.Log, path string) error {
	f, err := atomicfile.Create(path)
	if err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	defer f.Discard()
	if err := query.Export(ctx, log, f); err != nil {
		return err
	}
	if err := f.Commit(); err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	return nil
}
