package view

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/runner/report"
)

// The phrases that Live and Plain share, so that both say the same of one
// event. All of them return clean text.

// doing is what a started action does: its description, else its name.
func doing(e report.Event) string {
	text := clean(e.Action)
	if e.Plan != nil && strings.TrimSpace(e.Plan.Description) != "" {
		text = clean(e.Plan.Description)
	}
	if e.Attempt > 1 && !e.Removing { // what is removed may have had a name that another has by now
		text += fmt.Sprintf(" (attempt %d)", e.Attempt)
	}
	return text
}

func pulling(image string, e report.Event) string {
	text := cmp.Or(clean(e.Text), "pulling") + " " + image
	if e.Current > 0 || e.Total > 0 {
		text += "  " + megabytes(e.Current, e.Total)
	}
	return text
}

// brief is an image reference without its registry, and with little of its
// digest: enough to tell what is being pulled where there is little room.
func brief(image string) string {
	name, digest, _ := strings.Cut(image, "@sha256:")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if digest != "" {
		name += "@" + digest[:min(len(digest), 12)]
	}
	return name
}

func resolution(e report.Event) string {
	switch e.Status {
	case report.Valid:
		return "valid"
	case report.Stale:
		if len(e.Actions) == 0 {
			return "stale"
		}
		return "stale, to do: " + strings.Join(cleanAll(e.Actions), ", ")
	case report.Unknown:
		return "known after apply of what it depends on"
	case report.Absent:
		if e.Data["by"] == "log" {
			return "already gone, by the log (it cannot be asked: its configuration needs what is gone)"
		}
		return "already gone"
	case report.Present:
		if len(e.Actions) == 0 {
			return "there"
		}
		return "there, to do: " + strings.Join(cleanAll(e.Actions), ", ")
	default:
		return strings.ToLower(clean(string(e.Status)))
	}
}

func result(status report.Status, changed bool, acts []string) string {
	switch {
	case status == report.Absent:
		return "was gone already"
	case status == report.Destroyed && len(acts) == 0:
		return "removed"
	case status == report.Destroyed:
		return "removed: " + strings.Join(acts, ", ")
	case !changed:
		return "unchanged"
	case len(acts) == 0:
		return "changed"
	default:
		return "changed: " + strings.Join(acts, ", ")
	}
}

// actionFailed says in a few words that an action failed.
func actionFailed(e report.Event) string {
	if e.Exit != nil && *e.Exit != 0 {
		return fmt.Sprintf("%s exited with %d", clean(e.Action), *e.Exit)
	}
	return clean(e.Action) + " failed"
}

func actionFailure(e report.Event) string {
	switch {
	case e.Error != "" && strings.Contains(e.Error, e.Action):
		return e.Error
	case e.Error != "":
		return "action " + e.Action + ": " + e.Error
	case e.Exit != nil:
		return fmt.Sprintf("action %s failed with exit code %d", e.Action, *e.Exit)
	default:
		return "action " + e.Action + " failed"
	}
}

func skippedBecause(e report.Event) string {
	if e.Error == "" {
		return "skipped"
	}
	return "skipped: " + clean(strings.ReplaceAll(e.Error, "\n", "; "))
}

func cleanAll(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = clean(line)
	}
	return out
}
