package cli

import (
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/schema"
)

// amendHelp makes wrong usage of asking for the help of what is no command.
func amendHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, _ := root.Find([]string{"help"})
	help.Use, help.Short, help.Long, help.Run = "help [COMMAND…]", "Show the help of a command", "", nil
	help.Example = "  deployster help pipeline apply"
	help.RunE = func(_ *cobra.Command, args []string) error {
		c, rest, err := root.Find(args)
		if c == nil {
			c, rest = root, args
		}
		if err != nil || len(rest) > 0 {
			typed := args[len(args)-max(len(rest), 1)]
			return exit.Usage("there is no command %q%s", strings.Join(args, " "), suggestion(c, typed))
		}
		c.InitDefaultHelpFlag()
		return c.Help()
	}
}

func schemaCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Print the JSON Schema of a file or message; without a name, list them",
		Example: `  deployster schema
  deployster schema manifest > manifest.schema.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usage("schema takes one name; there are %s", strings.Join(schema.Names(), ", "))
			}
			return nil
		},
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

func versionCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  deployster version --output json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if a.JSON() {
				return a.Line(map[string]string{"deployster": a.Version, "platform": platform, "go": runtime.Version()})
			}
			return a.Printf("deployster %s %s %s\n", a.Version, platform, runtime.Version())
		},
	}
}
