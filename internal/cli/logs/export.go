package logs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
)

// exportVersion is the version of the form of log export.
const exportVersion = 1

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
					return export(c.Context(), log, a.Out)
				}
				return exportFile(c.Context(), log, file)
			})
		},
	}
	c.Flags().StringVar(&file, "file", "", "write to this file instead of standard output")
	return c
}

// exportFile writes the export beside its place and moves it there when it is
// whole.
func exportFile(ctx context.Context, log deploylog.Log, path string) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := export(ctx, log, f); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	return nil
}

func export(ctx context.Context, log deploylog.Log, f *os.File) error {
	encoder := json.NewEncoder(f)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]any{"version": exportVersion, "log": log.ID()}); err != nil {
		return fmt.Errorf("exporting the log: %w", err)
	}
	for e, err := range log.Read(ctx, deploylog.Filter{}) {
		if err != nil {
			return err
		}
		if err := encoder.Encode(e); err != nil {
			return fmt.Errorf("exporting event %d: %w", e.Seq, err)
		}
	}
	return nil
}
