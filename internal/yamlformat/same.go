package yamlformat

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// same reports whether two documents mean the same to everybody, people included:
// values with their style, anchors, aliases, and what all comments say.
func same(a, b *yaml.Node) bool {
	return equal(a, b) && slices.Equal(comments(a), comments(b))
}

func equal(a, b *yaml.Node) bool {
	return a.Kind == b.Kind && a.Style == b.Style && a.Tag == b.Tag && a.Value == b.Value && a.Anchor == b.Anchor &&
		slices.EqualFunc(a.Content, b.Content, equal)
}

// comments are the lines of all comments, sorted: to which value the parser counts
// one also depends on how it is indented.
func comments(n *yaml.Node) []string {
	var out []string
	for _, text := range []string{n.HeadComment, n.LineComment, n.FootComment} {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); line != "" {
				out = append(out, line)
			}
		}
	}
	for _, c := range n.Content {
		out = append(out, comments(c)...)
	}
	slices.Sort(out)
	return out
}
