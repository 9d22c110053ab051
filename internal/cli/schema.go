package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/schema"
)

func schemaCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schema of a file or message; without a name, list them",
		Example: `  deployster schema
  deployster schema manifest > manifest.schema.json`,
		Args: cobra.MatchAll(func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usage("schema takes one name; there are %s", strings.Join(schema.Names(), ", "))
			}
			return nil
		}),
		ValidArgs: schema.Names(),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return a.Printf("%s\n", strings.Join(schema.Names(), "\n"))
			}
			text, err := schema.Source(args[0])
			if err != nil {
				return exit.Invalid(err)
			}
			return a.Printf("%s\n", strings.TrimRight(string(text), "\n"))
		},
	}
}
