package cli

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

// releaseVersion is the version of binaries that were not built as a module at
// a version.
const releaseVersion = "0.1.0-dev"

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  deployster version --output json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			platform := runtime.GOOS + "/" + runtime.GOARCH
			if !asJSON {
				return write(a.out, "deployster %s %s %s\n", version(), platform, runtime.Version())
			}
			text, err := json.Marshal(map[string]string{"deployster": version(), "platform": platform, "go": runtime.Version()})
			if err != nil {
				return fmt.Errorf("encoding the version: %w", err)
			}
			return write(a.out, "%s\n", text)
		},
	}
}
