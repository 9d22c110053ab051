package resource

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner/report"
)

// NewOutputCommand returns the command output.
func NewOutputCommand(a *app.App) *cobra.Command {
	var files []string
	c := &cobra.Command{
		Use:   "output [NAME]",
		Short: "Show the outputs of what was applied last",
		Long: `Show the outputs of what was applied last, as the manifest declares them and as
they were then. With a NAME only its value is printed, also that of a secret: a
text as it is, anything else as JSON. With --output json both are JSON.`,
		Example: `  deployster output
  curl "$(deployster output url)"
  deployster output --manifest web.yaml --output json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usage("output takes the name of one output, or none for all; it got %s", strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return runOutput(c.Context(), a, files, args) },
	}
	c.Flags().StringArrayVar(&files, "manifest", nil, "of these manifests, files or the name of one, as they were applied together, and not of those that were applied last (repeatable)")
	return c
}

func runOutput(ctx context.Context, a *app.App, files, args []string) error {
	target := deploylog.Target("run/")
	if len(files) > 0 {
		target = runs.RunTarget(a.Workspace, files)
	}
	return a.WithLog(ctx, func(log deploylog.Log, _ string) error {
		if len(files) == 1 { // a manifest with a name is that one whatever its file is called
			named, err := query.TargetNamed(ctx, log, cmp.Or(runs.NameIn(files[0]), files[0]))
			if err != nil {
				return err
			}
			target = cmp.Or(named, target)
		}
		all, err := query.LastOutputs(ctx, log, target)
		switch {
		case err != nil:
			return err
		case len(args) == 0:
			return printOutputs(a, all)
		}
		one, err := all.Named(args[0])
		if err != nil {
			return err
		}
		return printOutput(a, log, args[0], one)
	})
}

func printOutputs(a *app.App, all *query.Outputs) error {
	outputs := make(map[string]report.Output, len(all.Outputs))
	for name, one := range all.Outputs {
		outputs[name] = one.Output
	}
	return a.Show(map[string]any{"target": all.Target, "outputs": outputs}, func() error {
		lines := view.Outputs(report.Outputs{Outputs: outputs})
		if len(lines) == 0 {
			return a.Printf("no outputs\n")
		}
		return a.Printf("%s\n", strings.Join(lines, "\n"))
	})
}

// printOutput prints the value of an output alone, also of a secret one: who asks for it by its
// name means to see it.
func printOutput(a *app.App, log deploylog.Log, name string, o runs.Told) error {
	m := runs.Memory{Log: log}
	if a.Server() == "" {
		m.Protected = a.Protected()
	}
	value, err := m.Output(name, o)
	if err != nil {
		return err
	}
	text, ok := value.(string)
	if a.JSON() || !ok {
		encoded, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("output %s: %w", name, err)
		}
		text = string(encoded)
	}
	if a.Terminal(a.Out) {
		text = view.Clean(text)
	}
	return a.Printf("%s\n", text)
}
