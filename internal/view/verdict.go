package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/runner/report"
)

// verdict is the end of a run in a line, with why it failed and where to read
// more: at the right end of the line where there is room, else below. Width 0
// is no limit.
func (b *board) verdict(width int, s terminal.Style) []string {
	e := b.ended
	if e == nil {
		return nil
	}
	mark, head, tally := s.Green("✔"), "", tally(b.command, e.Counts)
	switch {
	case e.Kind == report.RunFinished && b.command == "destroy" && e.Counts.Changed == 0:
		head = fmt.Sprintf("nothing to remove: %s in %s", tally, seconds(e.Duration))
	case e.Kind == report.RunFinished:
		head = fmt.Sprintf("%s: %s in %s", past(b.command), tally, seconds(e.Duration))
	case e.Data["interrupted"] == "true":
		mark = s.Red("✘")
		head = fmt.Sprintf("interrupted after %s: %s", seconds(e.Duration), tally)
	default:
		mark = s.Red("✘")
		head = fmt.Sprintf("%s failed after %s: %s", present(b.command), seconds(e.Duration), tally)
	}
	head = mark + " " + s.Bold(head)

	var lines []string
	hint := ""
	if b.run != "" && !b.planning() {
		hint = "deployster log list --deployment " + b.run
	}
	gap := 6
	if width > 0 {
		gap = min(gap, width-ansi.StringWidth(head)-ansi.StringWidth(hint))
	}
	if hint != "" && gap >= 3 {
		head += strings.Repeat(" ", gap) + s.Dim(hint)
		hint = ""
	}
	lines = append(lines, fold(head, width)...)
	if e.Kind == report.RunFailed {
		for _, line := range b.untold(e.Error) {
			lines = append(lines, indent("  ", line, width)...)
		}
	}
	if e.Data["interrupted"] == "true" {
		lines = append(lines, indent("  ", "What was done is in the log; run the same command again to go on.", width)...)
	}
	if hint != "" {
		lines = append(lines, paintAll(indent("  ", hint, width), s.Dim)...)
	}
	return append(lines, outputLines(e.Outputs)...)
}

// untold is what the error of a run says that its resources have not said.
func (b *board) untold(err string) []string {
	told := map[string]bool{"interrupted": true}
	for _, r := range b.rows {
		for _, line := range r.errors {
			told[line], told[r.name+": "+line] = true, true
		}
	}
	return slices.DeleteFunc(cleanLines(err), func(line string) bool { return told[line] })
}

func past(command string) string {
	switch command {
	case "", "apply":
		return "applied"
	case "plan":
		return "planned"
	case "destroy":
		return "destroyed"
	default:
		return command + " done"
	}
}

func present(command string) string {
	if command == "" {
		return "apply"
	}
	return command
}

// tally lists what happened to how many resources, leaving out what did not.
func tally(command string, c report.Counts) string {
	changed, unchanged := "changed", "unchanged"
	switch command {
	case "destroy":
		changed, unchanged = "removed", "gone already"
	case "adopt":
		unchanged = "adopted"
	}
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{c.Failed, "failed"}, {c.Skipped, "skipped"}, {c.Changed, changed}, {c.Removed, "removed"}, {c.Unchanged, unchanged}} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "nothing done"
	}
	return strings.Join(parts, ", ")
}

// fold wraps a line to the width; 0 is no limit.
func fold(line string, width int) []string {
	if width <= 0 {
		return []string{line}
	}
	return wrap(line, width)
}

// indent puts a prefix before every line that text takes.
func indent(prefix, text string, width int) []string {
	if width > 0 {
		width = max(width-ansi.StringWidth(prefix), 1)
	}
	lines := fold(text, width)
	for i := range lines {
		lines[i] = prefix + lines[i]
	}
	return lines
}

func paintAll(lines []string, paint func(string) string) []string {
	for i := range lines {
		lines[i] = paint(lines[i])
	}
	return lines
}
