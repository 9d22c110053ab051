// Package module is the commands of modules that are elsewhere.
package module

import (
	"context"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/cli/interrupt"
	"github.com/deployster-go/deployster/internal/modulesource"
	"github.com/deployster-go/deployster/manifest"
)

// NewCommand returns the commands of modules.
func NewCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "module",
		Short: "Push modules to registries",
		Long: `Push modules to registries, for manifests elsewhere to call. Where modules of registries and
git repositories come from is locked by "deployster lock".`,
		Example: `  deployster module push modules/web oci://registry.example/modules/web:1.2`,
	}
	c.AddCommand(newPushCommand(a))
	return c
}

func newPushCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "push DIRECTORY MODULE",
		Short: "Push a directory to a registry as a module",
		Long: `Push a directory to a registry as a module, under oci://REGISTRY/REPOSITORY:TAG. All that is
in the directory is pushed, so it must hold whatever its module.yaml calls and includes,
and no links that lead out. The credentials are those of "docker login".`,
		Example: `  deployster module push modules/web oci://registry.example/modules/web:1.2`,
		Args:    arguments.Named("a directory", "the name of the module in a registry"),
		RunE:    func(c *cobra.Command, args []string) error { return push(c.Context(), a, args[0], args[1]) },
	}
}

func push(ctx context.Context, a *app.App, dir, name string) error {
	to, err := modulesource.Parse(name)
	if err != nil {
		return exit.Invalid(err)
	}
	if info, err := os.Stat(filepath.Join(dir, manifest.ModuleFile)); err != nil || !info.Mode().IsRegular() {
		return exit.Usage("%s has no %s: a module is a directory with one", dir, manifest.ModuleFile)
	}
	return interrupt.Within(ctx, func(ctx context.Context) error {
		ref, err := modulesource.Push(ctx, dir, to)
		if err != nil {
			return err
		}
		return a.Say(map[string]any{"module": name, "pinned": ref}, "%s is pushed, as %s", name, ref)
	})
}
