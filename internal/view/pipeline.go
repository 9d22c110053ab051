package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/picture"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// arrived are the revisions that have reached a target and not left it.
func arrived(r query.TargetRow) []string {
	var here []string
	for _, row := range r.Revisions {
		text := row.Revision
		switch row.Progress {
		case pipeline.IsRunning:
		case pipeline.IsWaiting:
			text += " waits"
		case pipeline.HasFailure:
			text += " failed"
		default:
			continue
		}
		if row.Hosts > 0 {
			text += fmt.Sprintf(" (%d of %s done", row.Hosts-row.Open-row.Failed, phrase.Count(row.Hosts, "host"))
			if row.Failed > 0 {
				text += fmt.Sprintf(", %d failed", row.Failed)
			}
			text += ")"
		}
		here = append(here, text)
	}
	return here
}

// deployed is the revision that was applied at a target, with what it was applied without.
func deployed(r query.TargetRow) string {
	const named = 2
	text := r.Deployed
	if text != "" && len(r.Skipped) > 0 {
		text += ", " + phrase.First(r.Skipped, named) + " skipped"
	}
	if n := len(r.FailedHosts); n > 0 {
		const hosts = 5
		text += fmt.Sprintf(" (%d of %d, %d failed: %s)", r.Hosts-n, r.Hosts, n, phrase.First(r.FailedHosts, hosts))
	}
	if r.Passed != "" {
		text = strings.TrimPrefix(fmt.Sprintf("%s; %s skipped all", text, r.Passed), "; ")
	}
	return text
}

// PipelinePicture draws the stages of a pipeline with what is where.
func PipelinePicture(p query.PipelineStatus) picture.Graph {
	g := picture.Graph{Title: p.Name}
	for _, row := range p.Rows {
		if row.Stage == "" || row.Group != "" {
			continue
		}
		g.Nodes = append(g.Nodes, picture.Node{ID: row.Stage, Label: row.Stage, Detail: summary(row)})
		for _, before := range row.After {
			g.Edges = append(g.Edges, picture.Edge{From: row.Stage, To: before})
		}
	}
	return g
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
	if here := arrived(r); len(here) > 0 {
		parts = append(parts, "● "+strings.Join(here, ", "))
	}
	return strings.Join(parts, "  ")
}

// Pipeline writes the status of a pipeline for people.
func Pipeline(w io.Writer, p query.PipelineStatus, opts PlanOptions) error {
	d := newDocument(opts)
	rows := [][]string{{p.Name, "DEPLOYED", "FAILED", "IN PROGRESS"}}
	for _, r := range p.Rows {
		name, depth := r.Stage, 1
		switch {
		case r.Host != "":
			name, depth = r.Host, 3
		case r.Group != "":
			name, depth = r.Group, 2
		case r.Stage == "":
			name, depth = "pipeline", 0
		}
		here := strings.Join(arrived(r), ", ")
		rows = append(rows, []string{strings.Repeat("  ", depth) + name, orDash(deployed(r)), orDash(r.Failed), orDash(here)})
	}
	d.table(rows)
	if why := p.Elsewhere; why != nil {
		d.line("")
		d.line(Clean(why.Message()))
		d.line(d.style.dim("  → " + Clean(why.Change())))
	}
	for i, why := range p.Waiting {
		if i == 0 {
			d.line("")
		}
		text := fmt.Sprintf("%s: %s", clean(string(why.Target)), Clean(why.Message()))
		if why.Revision != "" {
			text = fmt.Sprintf("revision %s: %s", clean(why.Revision), text)
		}
		d.line(text)
	}
	return d.writeTo(w, "status")
}

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// table writes rows in aligned columns, the first as a head.
func (d *document) table(rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = clean(row[i])
			widths[i] = max(widths[i], ansi.StringWidth(row[i]))
		}
	}
	for i, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			line.WriteString(cell)
			if j < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[j]-ansi.StringWidth(cell)+2))
			}
		}
		if i == 0 {
			d.line(d.style.bold(line.String()))
			continue
		}
		d.line(line.String())
	}
}

// writeTo writes the document.
func (d *document) writeTo(w io.Writer, what string) error {
	if _, err := io.WriteString(w, d.String()); err != nil {
		return fmt.Errorf("writing the %s: %w", what, err)
	}
	return nil
}

// PipelineChanges writes what a change of a pipeline means for the revisions in
// progress.
func PipelineChanges(w io.Writer, changes []pipeline.Change, exists bool, opts PlanOptions) error {
	d := newDocument(opts)
	if exists && len(changes) == 0 {
		d.line("No revision in progress is affected.")
	}
	revision, kept := "", false
	for i, c := range changes {
		if i == 0 || c.Revision != revision {
			revision = c.Revision
			d.line(d.style.bold("revision " + clean(revision)))
		}
		kept = kept || c.Effect == pipeline.Keeps
		mark := map[pipeline.Effect]string{
			pipeline.Runs: d.style.green("+"), pipeline.Ends: d.style.red("-"), pipeline.Skipped: d.style.dim("·"), pipeline.Refused: d.style.yellow("!"),
			pipeline.Keeps: d.style.dim("="), pipeline.Takes: d.style.green("~"),
		}[c.Effect]
		d.line("  " + mark + " " + clean(c.Message()))
	}
	if kept {
		d.line(d.style.dim("(--adopt REVISION lets a revision that is under way take what is new, in what it has not done yet)"))
	}
	return d.writeTo(w, "preview")
}

// PipelineReasons writes why things do not move.
func PipelineReasons(w io.Writer, t deploylog.Target, reasons []reason.Reason, opts PlanOptions) error {
	d := newDocument(opts)
	if len(reasons) == 0 {
		d.line(fmt.Sprintf("Nothing of %s is waiting: no revision is in progress there, or everything proceeds by itself.", clean(string(t))))
	}
	revision := ""
	for i, e := range reasons {
		if e.Revision != "" && (i == 0 || e.Revision != revision) {
			revision = e.Revision
			d.line(d.style.bold("revision " + clean(revision)))
		}
		d.line(fmt.Sprintf("  %s  %s", clean(string(e.Target)), clean(e.Event)))
		for _, line := range cleanLines(e.Message()) {
			d.line("      " + line)
		}
		d.line(d.style.dim("      → " + clean(e.Change())))
	}
	return d.writeTo(w, "explanation")
}

// PipelineEvent writes a recorded event of a pipeline.
func PipelineEvent(w io.Writer, e deploylog.Event, opts PlanOptions) error {
	d := newDocument(opts)
	mark := d.style.dim("·")
	switch {
	case strings.HasSuffix(e.Name, "-failed"):
		mark = d.style.red("✘")
	case e.Name == e.Target.Succeeded():
		mark = d.style.green("✔")
	}
	text := fmt.Sprintf("%6d  %s %s  %s", e.Seq, mark, clean(e.Name), d.style.dim(clean(string(e.Target))))
	if e.Revision != "" {
		text += "  revision " + clean(e.Revision)
	}
	d.line(text)
	for _, line := range cleanLines(opts.Seen.shorten(e.Seq, record.Cause(e))) {
		d.line("          " + line)
	}
	return d.writeTo(w, "event")
}

// PipelineWork writes that work on a step begins.
func PipelineWork(w io.Writer, s step.Step, opts PlanOptions) error {
	d := newDocument(opts)
	what := "apply " + s.Manifest + " for " + s.Event
	if s.Environment != "" {
		what = "deploy to environment " + s.Environment
	}
	d.line(fmt.Sprintf("        %s %s  %s  revision %s", d.style.cyan("●"), clean(what), d.style.dim(clean(string(s.Target))), clean(s.Revision)))
	return d.writeTo(w, "step")
}
