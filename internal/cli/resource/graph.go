package resource

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/app"
	"github.com/deployster-go/deployster/internal/cli/arguments"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/internal/cli/session"
	"github.com/deployster-go/deployster/internal/picture"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

// NewGraphCommand returns the command graph.
func NewGraphCommand(a *app.App) *cobra.Command {
	var flags session.Flags
	c := &cobra.Command{
		Use:   "graph MANIFEST…",
		Short: "Draw the dependency graph of manifests",
		Long: `Draw the dependency graph of manifests: as a text tree, as Graphviz dot, as
mermaid, as an SVG picture, or as JSON (--output).`,
		Example: `  deployster graph web.yaml
  deployster graph web.yaml --output svg > web.svg
  deployster graph web.yaml --output dot | dot -Tpng > web.png`,
		Args: arguments.Manifests,
		RunE: func(_ *cobra.Command, files []string) error {
			in, err := session.LoadAndWarn(a, files, flags, runner.ConfirmAction)
			if err != nil {
				return err
			}
			return a.Draw(pictureOf(in.Manifest, strings.Join(files, " + ")))
		},
	}
	flags.Register(c)
	return output.Pictures(c)
}

func pictureOf(m *manifest.Manifest, title string) picture.Graph {
	g := picture.Graph{Title: title}
	for _, r := range m.Resources {
		g.Nodes = append(g.Nodes, picture.Node{ID: r.Name, Label: r.Name, Detail: r.Type})
		for _, name := range m.Dependencies(r.Name) {
			g.Edges = append(g.Edges, picture.Edge{From: r.Name, To: name})
		}
	}
	return g
}
