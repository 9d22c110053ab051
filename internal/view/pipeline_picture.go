package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/picture"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline/reason"
)

const (
	drawnHosts     = 2 // of those that failed, in a line of a box
	drawnRevisions = 3 // of those in progress, each in a line of its own
)

// PipelinePicture draws the stages of a pipeline, in the direction in which revisions go
// through them, with what is where and what lets nothing in; of host groups with how many
// hosts, and which fail. Batches are brackets.
func PipelinePicture(p query.PipelineStatus) picture.Graph {
	g := picture.Graph{Title: p.Name, Flow: true}
	at := map[string]int{}
	for _, row := range p.Rows {
		shut := obstacles(p, row.Target)
		switch {
		case row.Stage == "":
			g.Title = strings.Join(append([]string{g.Title}, shut...), ", ")
			continue
		case row.Host != "":
			continue
		case row.Group == "":
			at[row.Stage] = len(g.Nodes)
			g.Nodes = append(g.Nodes, picture.Node{ID: row.Stage, Label: row.Stage})
			for _, before := range row.After {
				g.Edges = append(g.Edges, picture.Edge{From: row.Stage, To: before})
			}
		}
		n := &g.Nodes[at[row.Stage]]
		if row.Group != "" {
			n.Lines = append(n.Lines, row.Group+" ("+phrase.Count(row.Hosts, "host")+")")
		}
		n.Lines = append(n.Lines, summary(row, shut)...)
		n.State = moreUrgent(n.State, stateOf(row))
		if len(shut) > 0 {
			n.State = moreUrgent(n.State, picture.Waiting)
		}
	}
	for _, b := range p.Batches {
		g.Spans = append(g.Spans, picture.Span{From: b.From, To: b.To, Label: "batch"})
	}
	return g
}

// obstacles are why a target lets no revision in, whether or not one waits for that.
func obstacles(p query.PipelineStatus, t deploylog.Target) (lines []string) {
	const most = 60 // characters of a reason
	for _, pause := range p.Pauses {
		if pause.Target == t {
			text := "paused by " + pause.By
			if pause.Reason != "" {
				text += ": " + phrase.Cut(pause.Reason, most)
			}
			lines = append(lines, clean(text))
		}
	}
	for _, why := range p.Shut {
		switch {
		case why.By != t:
		case why.Code == reason.AwaitsFix:
			lines = append(lines, "stopped: revision "+why.Holder+" failed")
		case why.Code == reason.AwaitsConfirmation:
			lines = append(lines, "holds: too many hosts would leave")
		default:
			lines = append(lines, "holds: its query selects no host")
		}
	}
	return lines
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

// summary is a row in lines, of what failed first; no name in it is cut.
func summary(r query.TargetRow, shut []string) (lines []string) {
	if r.Failed != "" {
		lines = append(lines, "✘ "+r.Failed)
	}
	lines = append(lines, shut...)
	here := arrived(r, drawnHosts)
	slices.SortStableFunc(here, func(a, b arrival) int { return cmp.Compare(a.urgency, b.urgency) })
	for i, a := range here {
		if i == drawnRevisions && len(here) > drawnRevisions+1 {
			lines = append(lines, fmt.Sprintf("● %d more", len(here)-i))
			break
		}
		lines = append(lines, "● "+a.text)
	}
	if text := deployed(r, drawnHosts); text != "" {
		lines = append(lines, "✔ "+text)
	}
	return lines
}
