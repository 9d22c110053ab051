// Package picture draws a graph of things that depend on each other: as a text
// tree, as Graphviz dot, as a mermaid flowchart, as JSON, and as SVG with a layout
// of its own, so that a picture needs no other program.
//
// Every drawing is a pure function of the graph. Labels are untrusted: each
// form escapes what it would otherwise read as its own syntax.
package picture

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
)

// Graph is what is drawn. Edges and spans name nodes by ID; those that name an unknown
// node are ignored.
type Graph struct {
	Title string
	Nodes []Node // drawn in this order where there is a choice
	Edges []Edge
	Spans []Span
	Flow  bool // arrows point at what depends on a node, as things go through it, and not at what it depends on
}

// Node is one thing.
type Node struct {
	ID     string
	Label  string
	Detail string   // smaller, below or beside the label; may be empty
	Lines  []string // smaller still, below; not in trees and JSON
	State  State
}

// State is how something is, which pictures show by its colour.
type State string

// The states; others have no colour.
const (
	Failed  State = "failed"
	Waiting State = "waiting"
	Running State = "running"
	Done    State = "done"
)

// Span says that From and To, and all between them, belong together.
type Span struct {
	From, To, Label string
}

// colour is that of a state, dark enough to be read on a light ground and light enough on a
// dark one.
func (s State) colour() string {
	return map[State]string{Failed: "#d1242f", Waiting: "#bf8700", Running: "#0969da", Done: "#2da44e"}[s]
}

// below are the texts that stand below the label.
func (n Node) below() []string {
	if n.Detail == "" {
		return n.Lines
	}
	return append([]string{n.Detail}, n.Lines...)
}

// Edge says that From depends on To.
type Edge struct {
	From, To string
}

// index is a graph by positions in Nodes.
type index struct {
	Graph
	at           map[string]int // by ID
	dependencies [][]int        // node → what it depends on, in the order of nodes
	dependents   [][]int
}

func newIndex(g Graph) *index {
	at := map[string]int{}
	for i, n := range g.Nodes {
		at[n.ID] = i
	}
	x := &index{Graph: g, at: at, dependencies: make([][]int, len(g.Nodes)), dependents: make([][]int, len(g.Nodes))}
	for _, e := range g.Edges {
		from, okFrom := at[e.From]
		to, okTo := at[e.To]
		if !okFrom || !okTo || slices.Contains(x.dependencies[from], to) {
			continue
		}
		x.dependencies[from] = append(x.dependencies[from], to)
		x.dependents[to] = append(x.dependents[to], from)
	}
	for i := range g.Nodes {
		slices.Sort(x.dependencies[i])
		slices.Sort(x.dependents[i])
	}
	return x
}

// Text writes the graph as a tree: under each thing, what depends on it. What
// would stand in several places is written out in the first and marked with …
// in the others.
func Text(w io.Writer, g Graph) error {
	x := newIndex(g)
	t := tree{index: x, written: make([]bool, len(g.Nodes))}
	if g.Title != "" {
		t.WriteString(phrase.Plain(g.Title) + "\n")
	}
	var roots []int
	for i := range g.Nodes {
		if len(x.dependencies[i]) == 0 {
			roots = append(roots, i)
		}
	}
	t.children(roots, "")
	_, err := io.WriteString(w, t.String())
	return err
}

type tree struct {
	strings.Builder
	*index
	written []bool
}

func (t *tree) children(nodes []int, indent string) {
	for i, n := range nodes {
		branch, below := "├─ ", "│  "
		if i == len(nodes)-1 {
			branch, below = "└─ ", "   "
		}
		t.WriteString(indent + branch + phrase.Plain(t.Nodes[n].Label))
		if t.Nodes[n].Detail != "" {
			t.WriteString("  (" + phrase.Plain(t.Nodes[n].Detail) + ")")
		}
		if t.written[n] {
			if len(t.dependents[n]) > 0 {
				t.WriteString(" …")
			}
			t.WriteByte('\n')
			continue
		}
		t.written[n] = true
		t.WriteByte('\n')
		t.children(t.dependents[n], indent+below)
	}
}

// Dot writes the graph for Graphviz.
func Dot(w io.Writer, g Graph) error {
	var b strings.Builder
	direction := "BT"
	if g.Flow {
		direction = "TB"
	}
	fmt.Fprintf(&b, "digraph {\n  rankdir=%s\n  node [shape=box style=rounded fontname=\"sans-serif\"]\n", direction)
	if g.Title != "" {
		fmt.Fprintf(&b, "  label=%s\n", dotQuote(g.Title))
	}
	for _, n := range g.Nodes {
		label := dotQuote(strings.Join(append([]string{n.Label}, n.below()...), "\n"))
		colour := ""
		if c := n.State.colour(); c != "" {
			colour = fmt.Sprintf(" color=%q penwidth=2", c)
		}
		fmt.Fprintf(&b, "  %s [label=%s%s]\n", dotQuote(n.ID), label, colour)
	}
	for _, e := range g.Edges {
		from, to := e.From, e.To
		if g.Flow {
			from, to = to, from
		}
		fmt.Fprintf(&b, "  %s -> %s\n", dotQuote(from), dotQuote(to))
	}
	for _, s := range g.Spans {
		fmt.Fprintf(&b, "  %s -> %s [style=dashed dir=none constraint=false label=%s]\n", dotQuote(s.From), dotQuote(s.To), dotQuote(s.Label))
	}
	b.WriteString("}\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func dotQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", "").Replace(s) + `"`
}

// Mermaid writes the graph as a mermaid flowchart. Its nodes are numbered, because
// mermaid reads some names as keywords.
func Mermaid(w io.Writer, g Graph) error {
	x := newIndex(g)
	var b strings.Builder
	if g.Flow {
		b.WriteString("flowchart TB\n")
	} else {
		b.WriteString("flowchart BT\n")
	}
	for i, n := range g.Nodes {
		label := mermaidText(n.Label)
		for _, text := range n.below() {
			label += "<br/><small>" + mermaidText(text) + "</small>"
		}
		fmt.Fprintf(&b, "  n%d[\"%s\"]\n", i, label)
		if c := n.State.colour(); c != "" {
			fmt.Fprintf(&b, "  style n%d stroke:%s,stroke-width:2px\n", i, c)
		}
	}
	for from, dependencies := range x.dependencies {
		for _, to := range dependencies {
			if g.Flow {
				fmt.Fprintf(&b, "  n%d --> n%d\n", to, from)
			} else {
				fmt.Fprintf(&b, "  n%d --> n%d\n", from, to)
			}
		}
	}
	for _, s := range g.Spans {
		from, okFrom := x.at[s.From]
		to, okTo := x.at[s.To]
		if okFrom && okTo {
			fmt.Fprintf(&b, "  n%d -.\"%s\".- n%d\n", from, mermaidText(s.Label), to)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// mermaidText writes anything but letters, digits and a few harmless marks as
// a character code.
func mermaidText(s string) string {
	var b strings.Builder
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.ContainsRune(" -_./:", c):
			b.WriteRune(c)
		default:
			fmt.Fprintf(&b, "#%d;", c)
		}
	}
	return b.String()
}

// JSON writes the graph as a document: each thing with what it depends on.
func JSON(w io.Writer, g Graph) error {
	type node struct {
		Name      string   `json:"name"`
		Type      string   `json:"type"`
		DependsOn []string `json:"depends_on"`
	}
	nodes := []node{}
	for _, n := range g.Nodes {
		depends := []string{}
		for _, e := range g.Edges {
			if e.From == n.ID {
				depends = append(depends, e.To)
			}
		}
		nodes = append(nodes, node{n.ID, n.Detail, depends})
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(struct {
		Version   int    `json:"version"`
		Resources []node `json:"resources"`
	}{1, nodes})
}

// layers puts every node one below the lowest of what it depends on. Nodes on
// a cycle are put where the cycle is first entered.
func (x *index) layers() []int {
	layer := make([]int, len(x.Nodes))
	state := make([]byte, len(x.Nodes)) // 0 new, 1 being placed, 2 placed
	var place func(int) int
	place = func(n int) int {
		if state[n] != 0 {
			return layer[n]
		}
		state[n] = 1
		for _, d := range x.dependencies[n] {
			layer[n] = max(layer[n], place(d)+1)
		}
		state[n] = 2
		return layer[n]
	}
	for n := range x.Nodes {
		place(n)
	}
	return layer
}

// sortStable orders by a key and leaves ties as they are.
func sortStable[T any, K cmp.Ordered](s []T, key func(T) K) {
	slices.SortStableFunc(s, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}
