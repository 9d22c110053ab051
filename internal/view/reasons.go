package view

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/deploylog"
	environmentreason "github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/pipeline/effect"
	"github.com/deployster-go/deployster/pipeline/reason"
)

// reasonLines is how many lines a message takes on a terminal, unless all is asked for.
const reasonLines = 3

// urgencyOf is how urgent a reason is.
func urgencyOf(r reason.Reason) urgency { return urgency(query.Rank(r)) }

// wholeFailed are the deployments that have failed as a whole, for which there is a reason of
// the pipeline's own; what failed of them is in it.
func wholeFailed(reasons []query.Alike[reason.Reason]) map[string]bool {
	failed := map[string]bool{}
	for _, a := range reasons {
		if a.First.Code == reason.HasFailed && a.First.Target.Kind() == "pipeline" {
			failed[a.First.Deployment] = true
		}
	}
	return failed
}

// below reports whether a reason is said of the whole pipeline, too.
func below(r reason.Reason, failed map[string]bool) bool {
	return r.Code == reason.HasFailed && r.Target.Kind() != "pipeline" && failed[r.Deployment]
}

// message writes foreign text in lines: as it is, or on a terminal the first of those that it
// takes there, unless all is asked for.
func (d *document) message(prefix, text string, opts PlanOptions) (lines []string) {
	for _, line := range cleanLines(text) {
		lines = append(lines, indent(prefix, line, d.width)...)
	}
	if more := len(lines) - reasonLines; opts.Height > 0 && more > 0 {
		lines = lines[:reasonLines]
		lines[reasonLines-1] = ansi.Truncate(lines[reasonLines-1], max(d.width-2, 1), "") + " …"
	}
	return lines
}

// PipelineReasons writes why things do not move. On a terminal it takes no more than a
// screen, unless all is asked for, with what has failed and what somebody has to do first.
func PipelineReasons(w io.Writer, t deploylog.Target, reasons []query.Alike[reason.Reason], opts PlanOptions) error {
	d := newDocument(opts)
	if len(reasons) == 0 {
		d.sentence(fmt.Sprintf("Nothing of %s is waiting: no revision is in progress there, or everything proceeds by itself.", clean(string(t))))
	}
	failed := wholeFailed(reasons)
	all := make([]remark, len(reasons))
	for i, a := range reasons {
		r := a.First
		all[i] = remark{urgency: urgencyOf(r), under: r.Revision}
		if below(r, failed) {
			all[i].urgency = quiet
		}
		all[i].lines = indent("  ", a.Name(clean(string(r.Target)))+"  "+clean(r.Event), d.width)
		all[i].lines = append(all[i].lines, d.message("      ", r.Message(), opts)...)
		all[i].lines = append(all[i].lines, paintAll(d.message("      ", "→ "+r.Change(), opts), d.style.Dim)...)
	}
	d.remarks(all, "revision ", opts)
	return d.writeTo(w, "explanation")
}

// EnvironmentReasons writes why things are not in the desired state, as PipelineReasons does.
func EnvironmentReasons(w io.Writer, t deploylog.Target, reasons []query.Alike[environmentreason.Reason], opts PlanOptions) error {
	d := newDocument(opts)
	if len(reasons) == 0 {
		d.sentence(fmt.Sprintf("%s is in the desired state.", clean(string(t))))
	}
	all := make([]remark, len(reasons))
	for i, a := range reasons {
		r := a.First
		all[i].urgency = urgency(query.RankTask(r))
		all[i].lines = append(indent("  ", a.Name(clean(r.Target))+d.style.Dim(event(r.Seq)), d.width), d.message("      ", r.Message, opts)...)
		all[i].lines = append(all[i].lines, paintAll(d.message("      ", "→ "+r.Change, opts), d.style.Dim)...)
	}
	d.remarks(all, "", opts)
	return d.writeTo(w, "explanation")
}

// remarks writes remarks, those under one heading below it: on a terminal the most urgent of
// them.
func (d *document) remarks(all []remark, heading string, opts PlanOptions) {
	where := "--all"
	if opts.Height > 0 {
		all = mostUrgent(all, opts.Height-1, where)
	}
	for i, r := range all {
		if r.under != "" && (i == 0 || all[i-1].under != r.under) {
			d.line(d.style.Bold(ansi.Truncate(heading+clean(r.under), terminal.Limit(d.width), "…")))
		}
		for _, line := range r.lines {
			d.line(ansi.Truncate(line, terminal.Limit(d.width), "…"))
		}
	}
}

// PipelineChanges writes what a change of a pipeline means for the revisions in
// progress. On a terminal it takes no more than a screen, unless all is asked for, with what
// is skipped or refused first.
func PipelineChanges(w io.Writer, changes []query.Alike[effect.Change], exists bool, opts PlanOptions) error {
	d := newDocument(opts)
	if exists && len(changes) == 0 {
		d.sentence("No revision in progress is affected.")
	}
	marks := map[effect.Effect]string{
		effect.Runs: d.style.Green("+"), effect.Ends: d.style.Red("-"), effect.Skipped: d.style.Dim("·"), effect.Refused: d.style.Yellow("!"),
		effect.Keeps: d.style.Dim("="), effect.Takes: d.style.Green("~"),
	}
	all := make([]remark, len(changes))
	for i, a := range changes {
		c := a.First
		c.Target = deploylog.Target(a.Name(clean(string(c.Target))))
		all[i] = remark{urgency: urgency(query.RankChange(c)), under: c.Revision}
		for n, line := range d.message("    ", c.Message(), opts) {
			if n == 0 {
				line = "  " + marks[c.Effect] + " " + strings.TrimPrefix(line, "    ")
			}
			all[i].lines = append(all[i].lines, line)
		}
	}
	d.remarks(all, "revision ", opts)
	if slices.ContainsFunc(changes, func(a query.Alike[effect.Change]) bool { return a.First.Effect == effect.Keeps }) {
		for _, line := range fold("(--adopt REVISION lets a revision that is under way take what is new, in what it has not done yet)", d.width) {
			d.line(d.style.Dim(line))
		}
	}
	return d.writeTo(w, "preview")
}
