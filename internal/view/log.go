package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/runner/encoding"
)

// Clock is a time of the log as people read it, with its zone.
func Clock(t time.Time, utc bool) string {
	if utc {
		t = t.UTC()
	} else {
		t = t.Local()
	}
	return t.Format("2006-01-02 15:04:05.000Z07:00")
}

// LogLine is an event of the log, with who caused it. On a terminal it is one line where
// there is room without the deployment or the date, else two at most.
func LogLine(e deploylog.Event, by string, utc bool, width int) string {
	clock, end := Clock(e.CreatedAt, utc), logRevision(e)+logDetails(e)
	lines := []string{fmt.Sprintf("%6d  %s  %s  %-14s  %-32s %-26s%s", e.Seq, clock, clean(e.Deployment), by, clean(e.Name), clean(string(e.Target)), end)}
	if width > 0 {
		date, time, _ := strings.Cut(clock, " ")
		time = time[:len("15:04:05")]
		for _, when := range []string{clock, date + " " + time, time} {
			lines = append(lines, fmt.Sprintf("%6d  %s  %s  %s  %s%s", e.Seq, when, by, clean(e.Name), clean(string(e.Target)), end))
		}
	}
	for _, line := range lines {
		if line = strings.TrimRight(line, " "); ansi.StringWidth(line) <= terminal.Limit(width) {
			return line + "\n"
		}
	}
	const most, below = 2, "        "
	lines = indent(below, lines[len(lines)-1], width)
	if len(lines) > most {
		lines = append(lines[:most-1], ansi.Truncate(lines[most-1]+" "+strings.TrimSpace(lines[most]), terminal.Limit(width), "…"))
	}
	return strings.TrimLeft(strings.Join(lines, "\n"), " ") + "\n"
}

// logRevision is the revision of an event, without most of a hash. That of a run is nothing but
// a hash of what it applied.
func logRevision(e deploylog.Event) string {
	switch e.Target.Kind() {
	case "run", "resource", "action":
		return ""
	}
	const hash, enough = 40, 12
	revision := terminal.InLine(e.Revision)
	if len(revision) >= hash {
		revision = ansi.Truncate(revision, enough, "")
	}
	if revision == "" {
		return ""
	}
	return "  revision " + revision
}

// Latest is what of a target came last, in lines of the width of the terminal: of what is in
// progress, the newest for which it has room.
func Latest(l query.Latest, utc bool, opts PlanOptions) string {
	const labels = 13
	entry := func(label string, e *deploylog.Event) (lines []string) {
		text := "–"
		if e != nil {
			revision := "revision " + e.Revision
			if e.Revision == "" { // what is absent has none
				revision = "destroy"
			}
			text = fmt.Sprintf("%s  %s  %s  event %d%s", e.Deployment, revision, Clock(e.CreatedAt, utc), e.Seq, logDetails(*e))
		}
		for i, line := range fold(text, max(opts.Width-labels, 0)) {
			if i > 0 {
				label = ""
			}
			lines = append(lines, fmt.Sprintf("%-12s %s", label, line))
		}
		return lines
	}
	lines := append(entry("succeeded", l.Succeeded), entry("failed", l.Failed)...)
	var here []string
	room, first := max(opts.Height-len(lines)-2, 1), len(l.InProgress) // beside the prompt and what is left out
	for ; first > 0; first-- {
		one := entry("in progress", &l.InProgress[first-1])
		if opts.Height > 0 && len(here) > 0 && len(here)+len(one) > room {
			break
		}
		here = append(one, here...)
	}
	switch {
	case len(l.InProgress) == 0:
		here = entry("in progress", nil)
	case first > 0:
		lines = append(lines, OneLine(fmt.Sprintf("%-12s … %d earlier: --all", "in progress", first), opts))
	}
	return strings.Join(append(lines, here...), "\n") + "\n"
}

// logDetails picks from an event's data what a person asks for first.
func logDetails(e deploylog.Event) string {
	var data encoding.Fields
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	var parts []string
	if data.Status != "" {
		parts = append(parts, string(data.Status))
	}
	if len(data.Actions) > 0 {
		parts = append(parts, "actions "+strings.Join(data.Actions, ", "))
	}
	if e.Attempt > 1 {
		parts = append(parts, fmt.Sprintf("attempt %d", e.Attempt))
	}
	if data.Exit != nil {
		parts = append(parts, fmt.Sprintf("exit %d", *data.Exit))
	}
	if data.DurationMS != nil {
		parts = append(parts, fmt.Sprintf("%.1fs", *data.DurationMS/1000))
	}
	if why := cmp.Or(data.Error, query.Cause(e)); why != "" {
		first, _, _ := strings.Cut(why, "\n")
		parts = append(parts, first)
	}
	if len(parts) == 0 {
		return ""
	}
	return "  " + terminal.InLine(strings.Join(parts, " · "))
}
