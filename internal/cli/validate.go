package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

func (a *app) validateCommand() *cobra.Command {
	var flags inputFlags
	c := &cobra.Command{
		Use:   "validate MANIFEST…",
		Short: "Check manifests without running anything",
		Long: `Check manifests without running anything: their form, names, dependencies,
plugs, and the syntax and names of expressions; of resources whose type ships
with Deployster also their configuration, their plugs, and that no two manage
one thing. All problems are told at once. What other types accept, only they
know: plan asks them.`,
		Example: "  deployster validate base.yaml prod.yaml --var tag=1.2",
		Args:    manifests,
		RunE: func(_ *cobra.Command, files []string) error {
			asJSON, err := a.json()
			if err != nil {
				return err
			}
			in, err := a.loadHeeded(files, flags, runner.ConfirmAction)
			if err == nil {
				err = in.Check()
			}
			if err != nil {
				return err
			}
			if !asJSON {
				return write(a.out, "%s: valid, %s, %s\n", strings.Join(files, " + "),
					count(len(in.Manifest.Resources), "resource"), count(len(in.Manifest.Plugs), "plug"))
			}
			text, err := json.Marshal(map[string]any{
				"version": 1, "valid": true, "resources": len(in.Manifest.Resources), "plugs": len(in.Manifest.Plugs),
				"hash": in.Manifest.Hash(),
			})
			if err != nil {
				return fmt.Errorf("encoding the result: %w", err)
			}
			return write(a.out, "%s\n", text)
		},
	}
	flags.register(c)
	return c
}

// invalidJSON tells what is wrong with manifests in the machine-readable form,
// where that is asked for. It is the same record for all commands.
func (a *app) invalidJSON(err error) error {
	var invalid *manifest.Error
	if a.global.output != "json" || !errors.As(err, &invalid) {
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
	text, broken := json.Marshal(map[string]any{"version": 1, "type": "problems", "valid": false, "problems": problems})
	if broken != nil {
		return fmt.Errorf("encoding the problems: %w", broken)
	}
	return errors.Join(told(err), write(a.out, "%s\n", text))
}

func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
