package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/encoding"
	"github.com/deployster-go/deployster/runner/report"
)

// DriftOptions says how a report of drift is written.
type DriftOptions struct {
	PlanOptions
	Ignored bool // also what differs and is to be ignored
}

// lists reports whether a resource has a line; else it is only counted.
func (o DriftOptions) lists(r report.ResourceDrift) bool {
	return o.All || r.Status != report.Valid || o.Ignored && len(r.Ignored) > 0
}

// Drift writes for people what of a manifest has drifted, and a line that sums it up.
func Drift(w io.Writer, r *report.Drift, opts DriftOptions) error {
	d := newDocument(opts.PlanOptions)
	name, typ := 0, 0
	status := map[string]report.ResourceDrift{}
	for _, res := range r.Resources {
		status[res.Name] = res
		if opts.lists(res) {
			name = max(name, ansi.StringWidth(clean(res.Name)))
			typ = max(typ, ansi.StringWidth(typeText(res.Type)))
		}
	}
	for _, res := range r.Resources {
		if !opts.lists(res) {
			continue
		}
		mark, text := d.drift(res, status)
		d.line(fmt.Sprintf("  %s %s  %s  %s", mark, d.style.Bold(pad(clean(res.Name), min(name, maxNames))), d.style.Dim(pad(typeText(res.Type), typ)), text))
		for _, line := range cleanLines(res.Error) {
			for _, part := range indent("      ", line, d.width) {
				d.line(d.style.Red(part))
			}
		}
		d.changes(res.Diff)
		if opts.Ignored && len(res.Ignored) > 0 {
			d.line("      " + d.style.Dim("ignored:"))
			d.changes(res.Ignored)
		}
	}
	d.unmatched(r.Unmatched)
	d.undeclared(r.Undeclared, opts.PlanOptions)
	d.line(d.style.Bold(DriftSummary(r)))
	d.cutNote()
	if _, err := io.WriteString(w, d.String()); err != nil {
		return fmt.Errorf("writing the report of drift: %w", err)
	}
	return nil
}

// unmatched warns of paths to ignore that match nothing.
func (d *document) unmatched(all []diff.Unmatched) {
	for _, u := range all {
		d.line(fmt.Sprintf("  %s %s  %s", d.style.Yellow("!"), d.style.Bold(clean(u.Resource)), clean(u.String())))
	}
}

// drift is what is said of a resource that is not as configured, or not known
// to be.
func (d *document) drift(r report.ResourceDrift, all map[string]report.ResourceDrift) (mark, text string) {
	switch {
	case r.Status == report.Valid && len(r.Ignored) == 0:
		return d.style.Green("✔"), "as configured"
	case r.Status == report.Valid:
		return d.style.Green("✔"), "differs only in what is ignored"
	case r.Missing:
		return d.style.Green("+"), "is missing"
	case r.Status == report.Stale && len(r.Diff) == 0:
		return d.style.Yellow("~"), "has drifted; its type does not tell what differs"
	case r.Status == report.Stale:
		return d.style.Yellow("~"), "has drifted"
	case r.Status == report.Unknown:
		return d.style.Cyan("?"), "not known, because " + unknownBecause(r, all)
	case r.Status == report.Skipped:
		return d.style.Yellow("–"), "skipped"
	default:
		return d.style.Red("✘"), "failed"
	}
}

// unknownBecause says what is wrong with what a resource needs the state of.
func unknownBecause(r report.ResourceDrift, all map[string]report.ResourceDrift) string {
	why := make([]string, len(r.Because))
	for i, name := range r.Because {
		how := "failed"
		switch d := all[name]; {
		case d.Missing:
			how = "is missing"
		case d.Status == report.Stale:
			how = "has drifted, and lacks what it needs"
		case d.Status == report.Unknown:
			how = "is not known"
		}
		why[i] = clean(name) + " " + how
	}
	return strings.Join(why, " and ")
}

// DriftSummary is the last line of a report, such as
// "Drift: 2 drifted, 1 missing, 3 as configured."
func DriftSummary(r *report.Drift) string {
	n := countDrift(r)
	n.Undeclared = 0
	left := ""
	if len(r.Undeclared) > 0 {
		left = fmt.Sprintf(", %d no longer declared", len(r.Undeclared))
	}
	if n == (jsonDriftSummary{AsConfigured: n.AsConfigured, Ignored: n.Ignored}) {
		text := fmt.Sprintf("No drift: %d as configured", n.AsConfigured)
		if n.Ignored > 0 {
			text += fmt.Sprintf(", %s ignored", phrase.Count(n.Ignored, "difference"))
		}
		return text + left + "."
	}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{
		{n.Drifted, "drifted"}, {n.Missing, "missing"}, {n.Unknown, "not known"}, {n.Failed, "failed"}, {n.Skipped, "skipped"},
		{n.AsConfigured, "as configured"},
	} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if n.Ignored > 0 {
		parts = append(parts, phrase.Count(n.Ignored, "difference")+" ignored")
	}
	return "Drift: " + strings.Join(parts, ", ") + left + "."
}

type jsonDrift struct {
	Type      string           `json:"type"`
	Run       string           `json:"run,omitempty"`
	Drifted   bool             `json:"drifted"`
	Summary   jsonDriftSummary `json:"summary"`
	Resources []jsonDrifted    `json:"resources"`

	Undeclared []jsonUndeclared `json:"undeclared,omitempty"`
	Ignoring   []diff.Unmatched `json:"ignore_unmatched,omitempty"`
}

// jsonDriftSummary counts resources; Ignored counts differences.
type jsonDriftSummary struct {
	Drifted      int `json:"drifted"` // and not missing
	Missing      int `json:"missing"`
	Unknown      int `json:"unknown"`
	Failed       int `json:"failed"`
	Skipped      int `json:"skipped"`
	AsConfigured int `json:"as_configured"`
	Ignored      int `json:"ignored"`
	Undeclared   int `json:"undeclared,omitempty"`
}

type jsonDrifted struct {
	Name      string        `json:"name"`
	Type      string        `json:"type"`
	DependsOn []string      `json:"depends_on"`
	Status    report.Status `json:"status"`
	Missing   bool          `json:"missing,omitempty"`
	Diff      []jsonChange  `json:"diff,omitempty"`
	Ignored   []jsonChange  `json:"ignored,omitempty"`
	Unmatched []string      `json:"ignore_unmatched,omitempty"` // paths
	InVain    []string      `json:"ignored_in_vain,omitempty"`  // the same, under its earlier name
	Because   []string      `json:"because,omitempty"`
	encoding.Reason
	Error string `json:"error,omitempty"`
}

func countDrift(r *report.Drift) (n jsonDriftSummary) {
	n.Undeclared = len(r.Undeclared)
	for _, res := range r.Resources {
		n.Ignored += len(res.Ignored)
		switch {
		case res.Missing:
			n.Missing++
		case res.Status == report.Stale:
			n.Drifted++
		case res.Status == report.Unknown:
			n.Unknown++
		case res.Status == report.Failed:
			n.Failed++
		case res.Status == report.Skipped:
			n.Skipped++
		default:
			n.AsConfigured++
		}
	}
	return n
}

// Drift writes a report of drift as one line of type "drift".
func (j *JSON) Drift(r *report.Drift) {
	out := jsonDrift{Type: "drift", Run: r.Run, Drifted: r.Drifted(), Summary: countDrift(r), Resources: []jsonDrifted{}, Undeclared: encodeUndeclared(r.Undeclared), Ignoring: r.Unmatched}
	for _, res := range r.Resources {
		unmatched := diff.PathsOf(r.Unmatched, "ignore_drift", res.Name)
		row := jsonDrifted{
			Name: res.Name, Type: res.Type, DependsOn: append([]string{}, res.DependsOn...), Status: res.Status,
			Missing: res.Missing, Unmatched: unmatched, InVain: unmatched, Because: res.Because, Reason: encoding.ReasonOf(res.Reason, res.Error), Error: res.Error,
		}
		for _, c := range res.Diff {
			row.Diff = append(row.Diff, jsonChange(c))
		}
		for _, c := range res.Ignored {
			row.Ignored = append(row.Ignored, jsonChange(c))
		}
		out.Resources = append(out.Resources, row)
	}
	j.line(out)
}
