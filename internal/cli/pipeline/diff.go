package pipeline

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/view"
)

func newDiffCommand(a *app.App) *cobra.Command {
	c := &cobra.Command{
		Use:   "diff PIPELINE A B",
		Short: "Show how two revisions differ",
		Long: `Show how two revisions differ: what the pipeline was when they were released,
what they take of other pipelines, and the manifests with what they include, the
variables and the images that they carry. It names the resources that B would remove
from hosts, since no step declares them any more. On a terminal as much as it shows at once, as
JSON the first 1000 lines of each part, and how much is left out: --all shows everything.`,
		Example: "  deployster pipeline diff gateway 41 42",
		Args:    arguments.Named("a pipeline", "a revision", "a revision"),
		RunE:    func(c *cobra.Command, args []string) error { return runDiff(c.Context(), a, args[0], args[1], args[2]) },
	}
	a.RegisterWhole(c)
	return c
}

func runDiff(ctx context.Context, a *app.App, name, before, after string) error {
	return withPipelines(ctx, a, []string{name}, 0, func(p *query.Pipelines) error {
		texts, err := a.Texts()
		if err != nil {
			return err
		}
		d, err := p.Differences(ctx, name, before, after, texts)
		if err != nil {
			return err
		}
		for _, r := range []query.Release{d.Before, d.After} {
			if r.Carries == nil {
				fmt.Fprintf(a.Err, "note: revision %s carries nothing that could be compared, for an older version released it\n", view.Clean(r.Revision))
			}
		}
		bounded := query.Bounded{All: a.All}
		document := map[string]any{
			"pipeline": name, "from": before, "to": after, "inputs": bounded.Text("inputs", d.Inputs),
			"definition": bounded.Text("definition", d.Definition), "carried": bounded.Text("carried", d.Carried),
			"undeclared": append([]string{}, d.Undeclared...),
		}
		return a.Show(bounded.In(document), func() error {
			if d.Definition+d.Inputs+d.Carried == "" {
				return a.Printf("revisions %s and %s of pipeline %s do not differ\n", view.Clean(before), view.Clean(after), view.Clean(name))
			}
			if err := view.TextDifferences(a.Out, d.Definition+d.Inputs+d.Carried, a.PlanOptions(a.Out)); err != nil || len(d.Undeclared) == 0 {
				return err
			}
			return a.Printf("no step of revision %s declares %s: it removes that from its hosts\n", view.Clean(after), view.Clean(strings.Join(d.Undeclared, ", ")))
		})
	})
}
