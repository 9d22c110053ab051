package query

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/deployster-go/deployster/deploylog"
)

// exportVersion is the version of the form of an export.
const exportVersion = 1

// Export writes a whole log as NDJSON: a first line with the version of the form and
// the id of the log, then one event per line.
func Export(ctx context.Context, log deploylog.Log, w io.Writer) error {
	encoder := json.NewEncoder(w)
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
