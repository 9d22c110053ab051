package output

import (
	"encoding/json"
	"io"

	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/picture"
)

// Drawing picks how --output wants the graph drawn.
func (p *Printer) Drawing() (func(io.Writer, picture.Graph) error, error) {
	switch p.Format {
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
		return nil, exit.Usage("--output %s: a graph can be text, dot, mermaid, svg or json", p.Format)
	}
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
