package cli

import (
	"encoding/json"
	"fmt"
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
			asJSON, err := a.AsJSON()
			if err != nil {
				return err
			}
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if !asJSON {
				return a.Printf("deployster %s %s %s\n", version.Current(), platform, runtime.Version())
			}
			text, err := json.Marshal(map[string]string{"deployster": version.Current(), "platform": platform, "go": runtime.Version()})
			if err != nil {
				return fmt.Errorf("encoding the version: %w", err)
			}
			return a.Printf("%s\n", text)
		},
	}
}
