package output

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/deployster-go/deployster/internal/picture"
)

// Draw draws a graph in the format that --output asks for.
func (p *Printer) Draw(g picture.Graph) error {
	draw := map[string]func(io.Writer, picture.Graph) error{
		"text": picture.Text, "json": graphJSON, "dot": picture.Dot, "mermaid": picture.Mermaid, "svg": picture.SVG,
	}[p.Format]
	if err := draw(p.Out, g); err != nil {
		return fmt.Errorf("drawing the graph: %w", err)
	}
	return nil
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
