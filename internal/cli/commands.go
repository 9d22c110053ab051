package cli

import (
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
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
