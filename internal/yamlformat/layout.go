package yamlformat

import (
	"strings"

	"go.yaml.in/yaml/v3"
)

// position is a place in a text: line and column from 0, in characters.
type position struct{ line, column int }

// layout is what the parser knows of the lines of a text.
type layout struct {
	lines  [][]rune
	keys   map[position]position // of mappings that are indented, with where their values begin
	dashes map[position]bool     // of lists that are indented
	blocks map[int]bool          // lines on which a block of text begins (| or >)
	quoted map[int]bool          // lines that a quoted text goes on to
}

func newLayout(lines []string, doc *yaml.Node) *layout {
	l := &layout{keys: map[position]position{}, dashes: map[position]bool{}, blocks: map[int]bool{}, quoted: map[int]bool{}}
	for _, line := range lines {
		l.lines = append(l.lines, []rune(line))
	}
	l.node(doc)
	return l
}

func at(n *yaml.Node) position { return position{n.Line - 1, n.Column - 1} }

func (l *layout) node(n *yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode && n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		l.blocks[n.Line-1] = true
	case n.Kind == yaml.ScalarNode && n.Style&yaml.DoubleQuotedStyle != 0:
		l.quote(at(n), '"')
	case n.Kind == yaml.ScalarNode && n.Style&yaml.SingleQuotedStyle != 0:
		l.quote(at(n), '\'')
	case n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle == 0:
		for i := 0; i+1 < len(n.Content); i += 2 {
			l.keys[at(n.Content[i])] = at(n.Content[i+1])
		}
	case n.Kind == yaml.SequenceNode && n.Style&yaml.FlowStyle == 0:
		for _, item := range n.Content {
			l.dash(at(item))
		}
	}
	for _, c := range n.Content {
		l.node(c)
	}
}

// dash finds the dash of an item: before it, or at the end of a line above.
func (l *layout) dash(item position) {
	for line := item.line; line >= 0 && line < len(l.lines); line-- {
		text := string(l.lines[line])
		if line == item.line {
			text = string(l.lines[line][:min(item.column, len(l.lines[line]))])
		} else if i := strings.Index(text, " #"); i >= 0 {
			text = text[:i]
		}
		trimmed := strings.TrimRight(text, " \t")
		if strings.HasSuffix(trimmed, "-") {
			l.dashes[position{line, len([]rune(trimmed)) - 1}] = true
			return
		}
		if line < item.line && trimmed != "" && !strings.HasPrefix(strings.TrimSpace(trimmed), "#") {
			return
		}
	}
}

// quote finds the lines that a quoted text goes on to.
func (l *layout) quote(from position, quote rune) {
	opened := false
	for line := from.line; line >= 0 && line < len(l.lines); line++ {
		text := l.lines[line]
		column := 0
		if line == from.line {
			column = from.column
		}
		if opened {
			l.quoted[line] = true
		}
		for ; column < len(text); column++ {
			switch c := text[column]; {
			case !opened:
				opened = c == quote
			case c == '\\' && quote == '"':
				column++
			case c == quote && quote == '\'' && column+1 < len(text) && text[column+1] == '\'':
				column++
			case c == quote:
				return
			}
		}
	}
}
