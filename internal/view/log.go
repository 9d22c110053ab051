package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/runner"
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

// LogLine is an event of the log, with who caused it.
func LogLine(e deploylog.Event, by string, utc bool) string {
	return fmt.Sprintf("%6d  %s  %s  %-14s  %-32s %-26s%s\n", e.Seq, Clock(e.CreatedAt, utc), e.Deployment, by, e.Name, e.Target, logDetails(e))
}

// Latest is what of a target came last, in lines.
func Latest(l query.Latest, utc bool) string {
	var b strings.Builder
	line := func(label string, e *deploylog.Event) {
		text := "–"
		if e != nil {
			revision := "revision " + e.Revision
			if e.Revision == "" { // what is absent has none
				revision = "destroy"
			}
			text = fmt.Sprintf("%s  %s  %s  event %d%s", e.Deployment, revision, Clock(e.CreatedAt, utc), e.Seq, logDetails(*e))
		}
		fmt.Fprintf(&b, "%-12s %s\n", label, text)
	}
	line("succeeded", l.Succeeded)
	line("failed", l.Failed)
	for i := range l.InProgress {
		line("in progress", &l.InProgress[i])
	}
	if len(l.InProgress) == 0 {
		line("in progress", nil)
	}
	return b.String()
}

// logDetails picks from an event's data what a person asks for first.
func logDetails(e deploylog.Event) string {
	var data runner.EventData
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
	why := data.Error
	if _, ok := record.NameOf(e.Target); ok && why == "" {
		why = record.Cause(e)
	}
	if why != "" {
		first, _, _ := strings.Cut(why, "\n")
		parts = append(parts, first)
	}
	if len(parts) == 0 {
		return ""
	}
	return "  " + phrase.Plain(strings.Join(parts, " · "))
}
