package resource

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/runner"
)

func NewValidateCommand(a *app.App) *cobra.Command {
	var flags session.Flags
	c := &cobra.Command{
		Use:   "validate MANIFEST…",
		Short: "Check manifests without running anything",
		Long: `Check manifests without running anything: their form, names, dependencies,
plugs, and the syntax and names of expressions; of resources whose type ships
with Deployster also their configuration, their plugs, and that no two manage
one thing. All problems are told at once. What other types accept, only they
know: plan asks them.`,
		Example: "  deployster validate base.yaml prod.yaml --var tag=1.2",
		Args:    arguments.Manifests,
		RunE: func(_ *cobra.Command, files []string) error {
			asJSON, err := a.AsJSON()
			if err != nil {
				return err
			}
			in, err := session.LoadHeeded(a, files, flags, runner.ConfirmAction)
			if err == nil {
				err = in.Check()
			}
			if err != nil {
				return err
			}
			if !asJSON {
				return a.Printf("%s: valid, %s, %s\n", strings.Join(files, " + "),
					output.Count(len(in.Manifest.Resources), "resource"), output.Count(len(in.Manifest.Plugs), "plug"))
			}
			text, err := json.Marshal(map[string]any{
				"version": 1, "valid": true, "resources": len(in.Manifest.Resources), "plugs": len(in.Manifest.Plugs),
				"hash": in.Manifest.Hash(),
			})
			if err != nil {
				return fmt.Errorf("encoding the result: %w", err)
			}
			return a.Printf("%s\n", text)
		},
	}
	flags.Register(c)
	return c
}
