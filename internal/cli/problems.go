package cli

import (
	"errors"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/manifest"
)

// invalidJSON prints the problems of manifests as JSON, where programs read the
// output. It is the same record for all commands.
func invalidJSON(a *app.App, err error) error {
	var invalid *manifest.Error
	if !a.JSON() || !errors.As(err, &invalid) {
		return err
	}
	type problem struct {
		File    string `json:"file"`
		Line    int    `json:"line"`
		Column  int    `json:"column"`
		Path    string `json:"path,omitempty"`
		Message string `json:"message"`
		Hint    string `json:"hint,omitempty"`
	}
	problems := make([]problem, len(invalid.Problems))
	for i, p := range invalid.Problems {
		problems[i] = problem{p.Position.File, p.Position.Line, p.Position.Column, p.Path, p.Message, p.Hint}
	}
	return errors.Join(exit.Reported(err), a.Line(map[string]any{"version": 1, "type": "problems", "valid": false, "problems": problems}))
}
