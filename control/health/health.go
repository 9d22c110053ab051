// Package health tells how the task of an environment is going, by what its resources say
// of themselves and by what differs from their configurations, in words for the log.
package health

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// Applied is the state of a task all resources of which are VALID.
func Applied(resources []string, state func(resource string) map[string]any) tasks.ProbeResult {
	var unhealthy []string
	for _, name := range resources {
		if reason := unhealthyReason(state(name)); reason != "" {
			unhealthy = append(unhealthy, name+" "+reason)
		}
	}
	found := result(unhealthy, nil, nil)
	for _, name := range resources {
		addRestarts(&found, name, state(name), nil)
	}
	return found
}

// Probed is the state of a task, by its drift and the states of its resources. In what one
// differs whose configuration is doubtful is not known, so it has not drifted.
func Probed(drift *report.Drift, state func(resource string) map[string]any, doubtful func(resource string) bool) tasks.ProbeResult {
	var unhealthy, unknown, drifted []string
	for _, r := range drift.Resources {
		reason := unhealthyReason(state(r.Name))
		switch {
		case r.Missing:
			unhealthy = append(unhealthy, r.Name+" does not exist")
		case reason != "":
			unhealthy = append(unhealthy, r.Name+" "+reason+told(r))
		case r.Status == report.Unknown:
			unknown = append(unknown, r.Name+": its state needs the state of "+strings.Join(r.Because, ", "))
		case r.Error != "":
			unknown = append(unknown, r.Name+": "+r.Error)
		case r.Status == report.Stale && doubtful(r.Name):
		case r.Status == report.Stale && len(r.Diff) == 0:
			drifted = append(drifted, r.Name+" is not as configured; its type does not say in what")
		case r.Status == report.Stale:
			for _, c := range r.Diff {
				drifted = append(drifted, r.Name+" "+difference(c))
			}
		}
	}
	found := result(unhealthy, unknown, drifted)
	for _, r := range drift.Resources {
		addRestarts(&found, r.Name, state(r.Name), r.Output)
	}
	return found
}

// UnansweredError is that resources were asked for their states, and did not answer in time.
type UnansweredError struct{ Resources []string }

func (e *UnansweredError) Error() string {
	const most = 3
	return "asked for the state of " + phrase.First(e.Resources, most)
}

// Unanswered says which resources did not answer before the look at them was ended, nil for none.
func Unanswered(drift *report.Drift) error {
	var all []string
	for _, r := range drift.Resources {
		if r.Status == report.Failed && r.Reason == report.ReasonInterrupted {
			all = append(all, r.Name)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &UnansweredError{all}
}

// mostRestarts is what no count of them exceeds: a type may say anything.
const mostRestarts = 1 << 30

// addRestarts adds how often what a resource makes has ended by itself, where its state says so.
func addRestarts(to *tasks.ProbeResult, resource string, state map[string]any, output []string) {
	var n float64
	switch said := state["restarts"].(type) {
	case float64:
		n = said
	case int64:
		n = float64(said)
	case json.Number:
		var err error
		if n, err = said.Float64(); err != nil {
			return
		}
	default:
		return
	}
	if !(n >= 0) || n >= mostRestarts || n != math.Trunc(n) {
		return
	}
	sum := int(n)
	if to.Restarts != nil {
		sum = min(sum+*to.Restarts, mostRestarts)
	}
	to.Restarts = &sum
	if n == 0 {
		return
	}
	text := resource + " ended by itself, and was started again: it has restarted " + phrase.Count(int(n), "time")
	for _, line := range output {
		text += "\n  │ " + line
	}
	to.Restarted = strings.TrimPrefix(to.Restarted+"\n"+text, "\n")
}

// longest is how much of a text that differs gets into the log.
const longest = 80

// difference is a change as the log may keep it. A long text, or one of several lines, is the
// content of something, such as of a file on a host, and may hold secrets that are in no
// configuration; so may what is called content and is short.
func difference(c diff.Change) string {
	old, oldHidden := hidden(c.Path, c.Old)
	now, nowHidden := hidden(c.Path, c.New)
	switch {
	case !oldHidden && !nowHidden:
		return strings.TrimSpace(diff.Text([]diff.Change{c}))
	case c.Op == diff.Modify:
		return fmt.Sprintf("%s %s: %s → %s", c.Op, c.Path, old, now)
	case c.Op == diff.Remove:
		return fmt.Sprintf("%s %s: %s", c.Op, c.Path, old)
	default:
		return fmt.Sprintf("%s %s: %s", c.Op, c.Path, now)
	}
}

// hidden describes a value without showing what must not get into the log; is reports
// whether it is such a one.
func hidden(path string, v any) (text string, is bool) {
	s, isText := v.(string)
	if isText && (path == "content" || len(s) > longest || strings.Contains(s, "\n")) {
		return fmt.Sprintf("a text of length %d", len(s)), true
	}
	return "another value", false
}

// told is what the type of a resource that is not healthy says of it: what it would do
// and why, such as after which exit, and its last output.
func told(r report.ResourceDrift) string {
	if r.Status != report.Stale || r.Asked == "" {
		return ""
	}
	text := ": state asks for " + r.Asked
	for _, line := range r.Output {
		text += "\n  │ " + line
	}
	return text
}

// joined puts reasons into one line, unless one of them has several.
func joined(reasons []string) string {
	if slices.ContainsFunc(reasons, func(reason string) bool { return strings.Contains(reason, "\n") }) {
		return strings.Join(reasons, "\n")
	}
	return strings.Join(reasons, "; ")
}

// result names what is worst of a task.
func result(unhealthy, unknown, drifted []string) tasks.ProbeResult {
	switch {
	case len(unhealthy) > 0:
		return tasks.ProbeResult{Health: tasks.Unhealthy, Detail: joined(unhealthy)}
	case len(unknown) > 0:
		return tasks.ProbeResult{Health: tasks.Unknown, Detail: strings.Join(unknown, "; ")}
	case len(drifted) > 0:
		return tasks.ProbeResult{Health: tasks.Drifted, Detail: firstLines(drifted)}
	default:
		return tasks.ProbeResult{Health: tasks.Healthy}
	}
}

// unhealthyReason is why a resource in this state is not healthy; "" when it is
// healthy, or its state does not say.
func unhealthyReason(state map[string]any) string {
	switch {
	case state["running"] == false:
		return "does not run"
	case state["healthy"] == false:
		return "is not healthy"
	default:
		return ""
	}
}

// firstLines joins as many lines as people read.
func firstLines(lines []string) string {
	const most = 5
	if more := len(lines) - most; more > 0 {
		lines = append(lines[:most:most], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(lines, "\n")
}

// OutputTail is a Recorder that keeps the last output of failed actions.
type OutputTail struct {
	runner.Recorder
	mu    sync.Mutex
	lines []string
}

// Record implements runner.Recorder.
func (t *OutputTail) Record(ctx context.Context, e report.Event) error {
	if lines := e.Output; e.Kind == report.ActionFailed && len(lines) > 0 {
		if last := len(lines) - 1; strings.HasSuffix(e.Error, lines[last]) { // the error ends with it
			lines = lines[:last]
		}
		t.mu.Lock()
		t.lines = append(t.lines, lines...)
		t.mu.Unlock()
	}
	return t.Recorder.Record(ctx, e)
}

// With is an error followed by the output.
func (t *OutputTail) With(err error) error {
	if err == nil || len(t.lines) == 0 {
		return err
	}
	return fmt.Errorf("%w\n%s", err, strings.Join(t.lines, "\n"))
}
