package logs

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/atomicfile"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/export"
	"github.com/deployster-go/deployster/internal/query"
)

// exportOptions say what is written where.
type exportOptions struct {
	file, format string
	since        string
	filter       export.Filter
}

func newExportCommand(a *app.App) *cobra.Command {
	var o exportOptions
	c := &cobra.Command{
		Use:   "export",
		Short: "Write the log as NDJSON, as OpenTelemetry spans, or for ShiViz",
		Long: `Write the log for other tools. --format says in which form:

  ndjson   all of it: a first line with the version of the form and the id of the
           log, then one event per line
  otel     what has a beginning and an end as spans of OpenTelemetry: lines of JSON,
           as OTLP has it, for a collector
  shiviz   who wrote what, after having read what, for ShiViz

--deployment and --since make the last two smaller: a deployment is exported with
the runs of its steps.`,
		Example: `  deployster log export --file deployments.ndjson
  deployster log export --format otel --since 24h --file spans.jsonl
  deployster log export --format shiviz --deployment 01JD3K… --file shiviz.log`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if o.filter.Since, err = parseSince(a, o.since); err != nil {
				return err
			}
			write, err := o.writer(a)
			if err != nil {
				return err
			}
			return a.WithLog(c.Context(), func(log deploylog.Log, _ string) error {
				if o.file == "" {
					return write(c.Context(), log, a.Out)
				}
				return exportFile(c.Context(), log, o.file, write)
			})
		},
	}
	c.Flags().StringVar(&o.file, "file", "", "write to this file instead of standard output")
	c.Flags().StringVar(&o.format, "format", "ndjson", "ndjson, otel or shiviz")
	c.Flags().StringVar(&o.filter.Deployment, "deployment", "", "of otel and shiviz: only this deployment, with the runs of its steps")
	c.Flags().StringVar(&o.since, "since", "", "of otel and shiviz: only events since then: a time, a date, or how long ago (90m)")
	return c
}

// writer writes a log in the form that is asked for.
func (o exportOptions) writer(a *app.App) (func(context.Context, deploylog.Log, io.Writer) error, error) {
	switch o.format {
	case "ndjson":
		if o.filter != (export.Filter{}) {
			return nil, exit.Usage("--deployment and --since: an export as ndjson is the whole log; deployster log list --output json selects")
		}
		return query.Export, nil
	case "otel":
		return func(ctx context.Context, log deploylog.Log, w io.Writer) error {
			return export.OTLP(ctx, log, o.filter, a.Version, w)
		}, nil
	case "shiviz":
		return func(ctx context.Context, log deploylog.Log, w io.Writer) error {
			return export.ShiViz(ctx, log, o.filter, w)
		}, nil
	default:
		return nil, exit.Usage("--format %q: it is ndjson, otel or shiviz", o.format)
	}
}

// exportFile writes the export to a file, which is there only when it is whole.
func exportFile(ctx context.Context, log deploylog.Log, path string, write func(context.Context, deploylog.Log, io.Writer) error) error {
	f, err := atomicfile.Create(path)
	if err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	defer f.Discard()
	if err := write(ctx, log, f); err != nil {
		return err
	}
	if err := f.Commit(); err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	return nil
}
