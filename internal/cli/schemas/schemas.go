// Package schemas is the command schema: it prints the JSON Schemas of files and messages,
// and that of the manifests of a workspace with what their types accept.
package schemas

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/schema"
)

// workspaceName asks for the schema of the workspace.
const workspaceName = "workspace"

// names are what can be asked for.
func names() []string {
	all := append(schema.Names(), workspaceName)
	slices.Sort(all)
	return all
}

// NewCommand returns the command.
func NewCommand(a *app.App) *cobra.Command {
	write := false
	c := &cobra.Command{
		Use:   "schema [NAME] [MANIFEST…]",
		Short: "Print the JSON Schema of a file or message; without a name, list them",
		Long: `Print the JSON Schema of a file or message; without a name, list them.

"schema workspace" is that of manifests with the configurations of their types, for
editors: of those that ship, and of those in the given manifests, or in the YAML
files in this directory, as these types answered when they were last asked.
Nothing is run. With --write it is put where editors find it.`,
		Example: `  deployster schema
  deployster schema manifest > manifest.schema.json
  deployster schema workspace --write`,
		ValidArgs: names(),
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && args[0] == workspaceName:
			case write:
				return exit.Usage("--write is for deployster schema %s: write the output of another one to a file", workspaceName)
			case len(args) > 1:
				return exit.Usage("schema takes one name; there are %s", strings.Join(names(), ", "))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return a.Printf("%s\n", strings.Join(names(), "\n"))
			case args[0] == workspaceName:
				return workspace(a, args[1:], write)
			}
			text, err := schema.Source(args[0])
			switch {
			case err != nil && suggest.Closest(args[0], names()) == workspaceName:
				return exit.Usage("there is no schema %q, did you mean %q?", args[0], workspaceName)
			case err != nil:
				return exit.Invalid(err)
			}
			return a.Printf("%s\n", strings.TrimRight(string(text), "\n"))
		},
	}
	c.Flags().BoolVar(&write, "write", false, fmt.Sprintf("of a workspace: write it to %s instead", file))
	return c
}
