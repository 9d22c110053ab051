package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/encoding"
	"github.com/deployster-go/deployster/runner/report"
)

// PlanOptions says how a plan or a question is written.
type PlanOptions struct {
	Color  bool         // see ColorWanted
	Width  int          // of the terminal in cells, for cutting long values; 0 is no limit
	Height int          // of the terminal in lines, where not everything is to be shown; 0 is no limit
	Full   bool         // values are not cut, however long they are
	All    bool         // also what is as configured, or gone already; else it is only counted
	Seen   *SeenReasons // by earlier events; may be nil: then each event shows its reason
}

// Plan writes a plan for people: every resource to which something would happen,
// with what and why, and a line that sums it up.
func Plan(w io.Writer, p *report.Plan, opts PlanOptions) error {
	d := newDocument(opts)
	var listed []report.ResourcePlan
	for _, r := range p.Resources {
		if opts.All || r.Status != report.Valid && r.Status != report.Absent || r.Replaces != "" && r.Deposed == "" {
			listed = append(listed, r)
		}
	}
	name, typ := 0, 0
	for _, r := range listed {
		name = max(name, ansi.StringWidth(shownName(r)))
		typ = max(typ, ansi.StringWidth(typeText(r.Type)))
	}
	for _, r := range listed {
		d.resource(r, min(name, maxNames), typ)
	}
	d.unmatched(p.Unmatched)
	d.undeclared(p.Undeclared, opts)
	d.line(d.style.Bold(PlanSummary(p)))
	d.cutNote()
	if _, err := io.WriteString(w, d.String()); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	return nil
}

// SavedPlan writes a plan as Plan does, below a line that says where it is from.
func SavedPlan(w io.Writer, origin string, p *report.Plan, opts PlanOptions) error {
	if _, err := io.WriteString(w, terminal.Style(opts.Color).Bold(clean(origin))+"\n"); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	return Plan(w, p, opts)
}

// PlanSummary is the last line of a plan, such as
// "Plan: 2 to change, 3 unchanged, 1 known after apply."
func PlanSummary(p *report.Plan) string {
	n := map[report.Status]int{}
	for _, r := range p.Resources {
		n[r.Status]++
	}
	parts := []string{fmt.Sprintf("%d to change", n[report.Stale]), fmt.Sprintf("%d unchanged", n[report.Valid])}
	if p.Destroy {
		parts = []string{fmt.Sprintf("%d to remove", n[report.Present]), fmt.Sprintf("%d gone already", n[report.Absent])}
		n[report.Present], n[report.Absent] = 0, 0
	}
	for _, extra := range []struct {
		status report.Status
		what   string
	}{{report.Present, "to remove"}, {report.Absent, "gone already"}, {report.Unknown, "known after apply"}, {report.Failed, "failed"}, {report.Skipped, "skipped"}} {
		if n[extra.status] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[extra.status], extra.what))
		}
	}
	if len(p.Undeclared) > 0 {
		parts = append(parts, fmt.Sprintf("%d no longer declared", len(p.Undeclared)))
	}
	return "Plan: " + strings.Join(parts, ", ") + "."
}

// document is text about changes, line by line.
type document struct {
	strings.Builder
	style terminal.Style
	width int
	short bool // it is to take no more than a screen
	full  bool
	cut   bool     // some value is not whole
	after []string // by whose apply what is not known in a value becomes known
}

func newDocument(opts PlanOptions) *document {
	return &document{style: terminal.Style(opts.Color), width: opts.Width, short: opts.Height > 0, full: opts.Full}
}

// cutNote says how to see what was cut.
func (d *document) cutNote() {
	if d.cut {
		d.line(d.style.Dim("Some values are cut (…): --full shows them whole."))
	}
}

func (d *document) line(text string) {
	d.WriteString(text + "\n")
}

// sentence writes a text in lines of the width of the terminal.
func (d *document) sentence(text string) {
	for _, line := range fold(text, d.width) {
		d.line(line)
	}
}

func (d *document) resource(r report.ResourcePlan, name, typ int) {
	mark, text := d.style.Dim("○"), strings.ToLower(clean(string(r.Status)))
	switch r.Status {
	case report.Valid:
		mark, text = d.style.Green("✔"), "VALID"
	case report.Stale:
		mark, text = d.style.Green("+"), "STALE, does not exist"
		if r.Exists {
			mark, text = d.style.Yellow("~"), "STALE, differs"
		}
		if r.Replace {
			mark, text = d.style.Red("-")+"/"+d.style.Green("+"), "to be removed, and made again"
		}
	case report.Present:
		mark, text = d.style.Red("-"), "to be removed"
	case report.Absent:
		mark, text = d.style.Dim("○"), "gone already"
	case report.Unknown:
		mark, text = d.tentative(r)
		d.after = r.After
	case report.Failed:
		mark, text = d.style.Red("✘"), "failed"
	case report.Skipped:
		mark, text = d.style.Yellow("–"), "skipped"
	default: // not of a plan; shown by its name
	}
	switch {
	case r.From != "":
		text += ": made by run " + clean(r.MadeBy) + " of " + clean(r.From)
	case r.Deposed != "":
		text += ": " + clean(r.Replaces) + ", made by run " + clean(r.MadeBy) + ", the old thing of " + clean(r.Name)
	case r.Replaces != "":
		text += ", a new thing: " + clean(r.Replaces)
	case r.MadeBy != "":
		text += ": no longer declared, made by run " + clean(r.MadeBy)
	}
	d.line(fmt.Sprintf("  %s %s  %s  %s", mark, d.style.Bold(pad(shownName(r), name)), d.style.Dim(pad(typeText(r.Type), typ)), text))
	for _, line := range cleanLines(r.Error) {
		for _, part := range indent("      ", line, d.width) {
			d.line(d.style.Red(part))
		}
	}
	d.changes(r.Diff)
	d.actions(r.Actions)
	d.after = nil
}

// shownName is the name of a resource; that of a late one stands for instances.
func shownName(r report.ResourcePlan) string {
	if r.Late {
		return clean(r.Name) + "[…]"
	}
	return clean(r.Name)
}

// tentative marks a resource of which it is known only after others were applied what it needs,
// by what it seems to need before.
func (d *document) tentative(r report.ResourcePlan) (mark, text string) {
	after := strings.Join(cleanAll(r.After), ", ")
	switch {
	case r.Tentative == report.Stale && !r.Exists:
		return d.style.Green("+"), "does not exist; known after apply of " + after
	case r.Tentative == report.Stale:
		return d.style.Yellow("~"), "differs, tentative: known after apply of " + after
	case r.Tentative == report.Valid && len(r.Diff) == 0:
		return d.style.Cyan("?"), "as configured now; known after apply of " + after
	default:
		return d.style.Cyan("?"), "known after apply of " + after
	}
}

// mostUndeclared is how many resources that are no longer declared are listed, unless all are.
const mostUndeclared = 10

// undeclared lists what is no longer declared and stays.
func (d *document) undeclared(all []report.Undeclared, opts PlanOptions) {
	shown := all
	if !opts.All && len(all) > mostUndeclared {
		shown = all[:mostUndeclared]
	}
	for _, u := range shown {
		d.line(fmt.Sprintf("  %s %s  %s  no longer declared, %s: %s", d.style.Yellow("!"), d.style.Bold(clean(u.Name)), d.style.Dim(typeText(u.Type)), clean(u.Origin()), clean(u.WayOut())))
	}
	if more := len(all) - len(shown); more > 0 {
		d.line(fmt.Sprintf("  %s %d more are no longer declared", d.style.Yellow("!"), more))
	}
}

func (d *document) actions(actions []protocol.Action) {
	names := 0
	for _, a := range actions {
		names = max(names, ansi.StringWidth(clean(a.Name)))
	}
	for _, a := range actions {
		text := "      " + d.style.Cyan("→") + " " + pad(clean(a.Name), min(names, 32))
		if a.Description != "" {
			text += "  " + d.style.Dim(clean(strings.ReplaceAll(a.Description, "\n", " ")))
		}
		d.line(strings.TrimRight(text, " "))
	}
}

type jsonPlan struct {
	Type      string         `json:"type"`
	Run       string         `json:"run,omitempty"`
	Destroy   bool           `json:"destroy,omitempty"`
	Changes   bool           `json:"changes"`
	Summary   jsonSummary    `json:"summary"`
	Resources []jsonResource `json:"resources"`

	Undeclared []jsonUndeclared `json:"undeclared,omitempty"`
	Unmatched  []diff.Unmatched `json:"ignore_unmatched,omitempty"` // paths in ignore_changes
}

// jsonUndeclared is something that a run made, and that stays although it is no longer declared.
type jsonUndeclared struct {
	Name   string    `json:"name"`
	Type   string    `json:"type"`
	MadeBy string    `json:"made_by"` // a run
	MadeAt time.Time `json:"made_at"`
	Of     string    `json:"of,omitempty"` // the manifest that made it, which is gone
}

func encodeUndeclared(all []report.Undeclared) (rows []jsonUndeclared) {
	for _, u := range all {
		rows = append(rows, jsonUndeclared{u.Name, u.Type, u.Run, u.At.UTC(), u.Of})
	}
	return rows
}

type jsonSummary struct {
	Change    int `json:"change"`    // of a destroy: to remove
	Unchanged int `json:"unchanged"` // of a destroy: gone already
	Unknown   int `json:"unknown"`
	Failed    int `json:"failed"`
	Skipped   int `json:"skipped"`

	Remove     int `json:"remove,omitempty"`     // of what is no longer declared
	Undeclared int `json:"undeclared,omitempty"` // and stays
}

type jsonResource struct {
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	ImageID   string            `json:"image_id,omitempty"`
	DependsOn []string          `json:"depends_on"`
	Replaces  string            `json:"replaces,omitempty"` // which parts of its identity are others: what it was is removed; of that, what it is
	Deposed   bool              `json:"deposed,omitempty"`  // it is what a resource was before, and removed
	Of        string            `json:"of,omitempty"`       // the resource that it is an instance of, where that was found out late
	Late      bool              `json:"late,omitempty"`     // of UNKNOWN: it stands for instances that are not known yet
	Status    report.Status     `json:"status"`
	After     []string          `json:"after,omitempty"`
	Tentative report.Status     `json:"tentative,omitempty"` // of UNKNOWN: as things are now, before those are applied
	ReadOnly  bool              `json:"read_only,omitempty"`
	Exists    *bool             `json:"exists,omitempty"`
	Replace   bool              `json:"replace,omitempty"` // what there is is removed first, by the actions
	From      string            `json:"from,omitempty"`    // of what is removed since nobody declares it: the manifest that made it
	MadeBy    string            `json:"made_by,omitempty"` // of what is removed since it is no longer declared: the run
	Diff      []jsonChange      `json:"diff,omitempty"`
	Actions   []protocol.Action `json:"actions,omitempty"`
	Config    map[string]any    `json:"config,omitempty"`
	State     map[string]any    `json:"state,omitempty"`
	encoding.Reason
	Error string `json:"error,omitempty"`
}

type jsonChange struct {
	Path string  `json:"path"`
	Op   diff.Op `json:"op"`
	Old  any     `json:"old"`
	New  any     `json:"new"`
}

// PlanJSON writes a plan as one line of JSON, with the type "plan".
func PlanJSON(w io.Writer, p *report.Plan) error {
	out := jsonPlan{Type: "plan", Run: p.Run, Destroy: p.Destroy, Changes: p.Changes(), Resources: []jsonResource{}, Undeclared: encodeUndeclared(p.Undeclared), Unmatched: p.Unmatched}
	out.Summary.Undeclared = len(p.Undeclared)
	for _, r := range p.Resources {
		status := r.Status
		if status == report.Present && !p.Destroy {
			out.Summary.Remove++
			status = ""
		}
		switch status {
		case report.Stale, report.Present:
			out.Summary.Change++
		case report.Valid, report.Absent:
			out.Summary.Unchanged++
		case report.Unknown:
			out.Summary.Unknown++
		case report.Failed:
			out.Summary.Failed++
		case report.Skipped:
			out.Summary.Skipped++
		default: // not of a plan
		}
		row := jsonResource{
			Name: r.Name, Type: r.Type, ImageID: r.ImageID, DependsOn: append([]string{}, r.DependsOn...), Of: r.Of, Late: r.Late, Status: r.Status,
			After: r.After, Tentative: r.Tentative, ReadOnly: r.ReadOnly, Replace: r.Replace, MadeBy: r.MadeBy, From: r.From, Replaces: r.Replaces, Deposed: r.Deposed != "" && r.From == "", Actions: r.Actions, Config: r.Config, State: r.State,
			Reason: encoding.ReasonOf(r.Reason, r.Error), Error: r.Error,
		}
		if r.Status == report.Stale || r.Tentative == report.Stale {
			row.Exists = &r.Exists
		}
		for _, c := range r.Diff {
			row.Diff = append(row.Diff, jsonChange(c))
		}
		out.Resources = append(out.Resources, row)
	}
	line, err := encode(out)
	if err != nil {
		return fmt.Errorf("writing the plan as JSON: %w", err)
	}
	if _, err := io.WriteString(w, line); err != nil {
		return fmt.Errorf("writing the plan: %w", err)
	}
	return nil
}
