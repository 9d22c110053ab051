package resource

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/runner"
)

// NewValidateCommand returns the command validate.
func NewValidateCommand(a *app.App) *cobra.Command {
	var flags session.Flags
	c := &cobra.Command{
		Use:   "validate MANIFEST…",
		Short: "Check manifests without running anything",
		Long: `Check manifests without running anything: their form, names, dependencies,
plugs, and the syntax and names of expressions; of resources whose type ships
with Deployster also their configuration, their plugs, and that no two manage
one thing. All problems are reported at once. What other types accept, only they
know: plan asks them.`,
		Example: "  deployster validate base.yaml prod.yaml --var tag=1.2",
		Args:    arguments.Manifests,
		RunE: func(_ *cobra.Command, files []string) error {
			in, err := session.LoadAndWarn(a, files, flags, runner.ConfirmAction)
			if err == nil {
				err = in.Check()
			}
			if err != nil {
				return err
			}
			resources, plugs := len(in.Manifest.Resources), len(in.Manifest.Plugs)
			return a.Say(map[string]any{"valid": true, "resources": resources, "plugs": plugs, "hash": in.Manifest.Hash()},
				"%s: valid, %s, %s", strings.Join(files, " + "), phrase.Count(resources, "resource"), phrase.Count(plugs, "plug"))
		},
	}
	flags.Register(c)
	return c
}
