package cli

import (
	"runtime"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/version"
)

func versionCommand(a *app.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  deployster version --output json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if a.JSON() {
				return a.Line(map[string]string{"deployster": version.Current(), "platform": platform, "go": runtime.Version()})
			}
			return a.Printf("deployster %s %s %s\n", version.Current(), platform, runtime.Version())
		},
	}
}
