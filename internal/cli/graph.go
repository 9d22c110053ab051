package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/picture"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
)

func (a *app) graphCommand() *cobra.Command {
	var flags inputFlags
	c := &cobra.Command{
		Use:   "graph MANIFEST…",
		Short: "Draw what depends on what",
		Long: `Draw what depends on what: as a text tree, as Graphviz dot, as mermaid, as an
SVG picture, or as JSON (--output).`,
		Example: `  deployster graph web.yaml
  deployster graph web.yaml --output svg > web.svg
  deployster graph web.yaml --output dot | dot -Tpng > web.png`,
		Args: manifests,
		RunE: func(_ *cobra.Command, files []string) error {
			draw, err := a.drawing()
			if err != nil {
				return err
			}
			in, err := a.loadHeeded(files, flags, runner.ConfirmAction)
			if err != nil {
				return err
			}
			if err := draw(a.out, pictureOf(in.Manifest, strings.Join(files, " + "))); err != nil {
				return fmt.Errorf("drawing the graph: %w", err)
			}
			return nil
		},
	}
	flags.register(c)
	return c
}

// drawing picks how --output wants the graph drawn.
func (a *app) drawing() (func(io.Writer, picture.Graph) error, error) {
	switch a.global.output {
	case "text":
		return picture.Text, nil
	case "dot":
		return picture.Dot, nil
	case "mermaid":
		return picture.Mermaid, nil
	case "svg":
		return picture.SVG, nil
	case "json":
		return graphJSON, nil
	default:
		return nil, usage("--output %s: a graph can be text, dot, mermaid, svg or json", a.global.output)
	}
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

func graphJSON(w io.Writer, g picture.Graph) error {
	type node struct {
		Name      string   `json:"name"`
		Type      string   `json:"type"`
		DependsOn []string `json:"depends_on"`
	}
	document := struct {
		Version   int    `json:"version"`
		Resources []node `json:"resources"`
	}{1, make([]node, 0, len(g.Nodes))}
	for _, n := range g.Nodes {
		depends := []string{}
		for _, e := range g.Edges {
			if e.From == n.ID {
				depends = append(depends, e.To)
			}
		}
		document.Resources = append(document.Resources, node{n.ID, n.Detail, depends})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}
