// Package checks writes what checks of resource types found, for people.
package checks

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/authoring"
	"github.com/deployster-go/deployster/internal/terminal"
)

// Text is what a check of a resource type found, for people: a line, and below
// it what there is to be done.
func Text(r authoring.Result, color bool) string {
	line := mark(r.Outcome, color) + " " + r.Name
	switch {
	case r.Detail == "":
	case r.Outcome == authoring.Skipped:
		line += ": skipped, " + r.Detail
	case r.Outcome == authoring.Passed:
		line += ": " + r.Detail
	default:
		line += "\n    " + terminal.Line(r.Detail)
	}
	return line + "\n"
}

// Verdict sums up the checks of a resource type in a line. configured is that a
// configuration was given, without which most checks are skipped.
func Verdict(image string, counts map[authoring.Outcome]int, configured, color bool) string {
	outcome, text := authoring.Passed, "keeps to the protocol"
	if counts[authoring.Skipped] > 0 && !configured {
		text += ", as far as it was asked (--config asks for more)"
	}
	if counts[authoring.Failed] > 0 {
		outcome, text = authoring.Failed, "does not keep to the protocol"
	}
	var parts []string
	for _, o := range []authoring.Outcome{authoring.Passed, authoring.Failed, authoring.Warning, authoring.Skipped} {
		if n := counts[o]; n > 0 {
			word := string(o)
			if o == authoring.Warning && n > 1 {
				word += "s"
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
	}
	return fmt.Sprintf("%s %s %s: %s\n", mark(outcome, color), image, text, strings.Join(parts, ", "))
}

func mark(o authoring.Outcome, color bool) string {
	s := terminal.Style(color)
	switch o {
	case authoring.Passed:
		return s.Green("✔")
	case authoring.Failed:
		return s.Red("✘")
	case authoring.Warning:
		return s.Yellow("!")
	default:
		return s.Dim("–")
	}
}
