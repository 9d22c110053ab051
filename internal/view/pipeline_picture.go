package view

import (
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/picture"
	"github.com/deployster-go/deployster/internal/query"
)

// PipelinePicture draws the stages of a pipeline, in the direction in which revisions go
// through them, with what is where; of host groups with how many hosts, and which fail.
// Batches are brackets.
func PipelinePicture(p query.PipelineStatus) picture.Graph {
	g := picture.Graph{Title: p.Name, Flow: true}
	at := map[string]int{}
	for _, row := range p.Rows {
		switch {
		case row.Stage == "" || row.Host != "":
		case row.Group == "":
			at[row.Stage] = len(g.Nodes)
			g.Nodes = append(g.Nodes, picture.Node{ID: row.Stage, Label: row.Stage, Detail: short(summary(row)), State: stateOf(row)})
			for _, before := range row.After {
				g.Edges = append(g.Edges, picture.Edge{From: row.Stage, To: before})
			}
		default:
			n := &g.Nodes[at[row.Stage]]
			n.Lines = append(n.Lines, short(strings.TrimSpace(row.Group+" ("+phrase.Count(row.Hosts, "host")+")  "+summary(row))))
			n.State = moreUrgent(n.State, stateOf(row))
		}
	}
	for _, b := range p.Batches {
		g.Spans = append(g.Spans, picture.Span{From: b.From, To: b.To, Label: "batch"})
	}
	return g
}

// short is a text that fits into a box.
func short(text string) string {
	const most = 72 // characters
	return phrase.Cut(text, most)
}

// states are those of pictures, the most urgent first.
var states = []picture.State{picture.Failed, picture.Waiting, picture.Running, picture.Done, ""}

func moreUrgent(a, b picture.State) picture.State {
	for _, s := range states {
		if s == a || s == b {
			return s
		}
	}
	return a
}

// stateOf is how a row is drawn.
func stateOf(r query.TargetRow) picture.State {
	row := rowOf(r, false)
	switch {
	case row.failedLast || row.urgency == failing:
		return picture.Failed
	case row.urgency == awaiting:
		return picture.Waiting
	case row.urgency == underWay:
		return picture.Running
	case r.Deployed != "":
		return picture.Done
	default:
		return ""
	}
}

// summary is a row in one short line.
func summary(r query.TargetRow) string {
	var parts []string
	if text := deployed(r); text != "" {
		parts = append(parts, "✔ "+text)
	}
	if r.Failed != "" {
		parts = append(parts, "✘ "+r.Failed)
	}
	if here := arrivedTexts(r, false); len(here) > 0 {
		parts = append(parts, "● "+strings.Join(here, ", "))
	}
	return strings.Join(parts, "  ")
}
