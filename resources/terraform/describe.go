package terraform

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

// Description is a line of what Describe writes.
type Description struct {
	Name string `json:"name"` // with the prefix of data sources
	Init
}

// Describe starts the provider of an image, and writes a line of JSON for each of its
// resources and data sources.
func Describe(ctx context.Context, dir string, env []string, now time.Time, to io.Writer) error {
	provider, err := tfplugin.Start(ctx, ProgramPath(dir), env, now)
	if err != nil {
		return err
	}
	defer provider.Close()
	lines := json.NewEncoder(to)
	lines.SetEscapeHTML(false)
	for prefix, schemas := range map[string]map[string]tfplugin.Schema{"": provider.Schemas.Resources, DataPrefix: provider.Schemas.DataSources} {
		for _, name := range slices.Sorted(maps.Keys(schemas)) {
			d := Description{Name: prefix + name}
			if d.ConfigSchema, err = configSchema(provider.Schemas.Provider.Block, schemas[name].Block); err == nil {
				d.StateSchema, err = stateSchema(schemas[name].Block)
			}
			if err != nil {
				return fmt.Errorf("describing %s: %w", name, err)
			}
			if err := lines.Encode(d); err != nil {
				return fmt.Errorf("describing %s: %w", name, err)
			}
		}
	}
	return nil
}
