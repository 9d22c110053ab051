package export

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"unicode"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
)

// maxWriters is how many there may be: ShiViz draws a line for each, and each of them is in
// the clocks of all.
const maxWriters = 100

// ShiViz writes the log as ShiViz reads it without further settings: of each event a line with
// its writer and a vector clock, and one that says what happened.
//
// A writer is the process of a run, somebody who gave a command, or the controllers of a kind.
// An event follows what its writer had read: what it wrote before, and what happened before in
// the deployment and to the target. The first event of a run follows what happened in the
// deployment of its step, and what comes later there follows the run.
func ShiViz(ctx context.Context, log deploylog.Log, f Filter, w io.Writer) error {
	out := bufio.NewWriter(w)
	c := &clocks{writers: map[string]clock{}, deployments: map[string]clock{}, targets: map[deploylog.Target]clock{}, runs: map[string]runOf{}}
	for e, err := range selected(ctx, log, f) {
		if err != nil {
			return err
		}
		writer, now := c.apply(e)
		if len(c.writers) > maxWriters {
			return fmt.Errorf("event %d is by the writer %s, and there are more than %d before it, for each of which ShiViz draws a line: export less, with --deployment or --since", e.Seq, writer, maxWriters)
		}
		text, err := json.Marshal(now)
		if err != nil {
			return fmt.Errorf("exporting event %d: %w", e.Seq, err)
		}
		if _, err := fmt.Fprintf(out, "%s %s\n%s\n", writer, text, line(e)); err != nil {
			return fmt.Errorf("exporting event %d: %w", e.Seq, err)
		}
	}
	return out.Flush()
}

// clock is how many events of each writer an event follows, and that of its own with it.
type clock map[string]int

// merge makes a clock one that follows another, too.
func (c clock) merge(other clock) {
	for writer, n := range other {
		c[writer] = max(c[writer], n)
	}
}

// runOf is a run that has begun.
type runOf struct {
	writer string
	step   string // deployment of the step that it does; "" is none
}

// clocks are those of the newest events of a log.
type clocks struct {
	writers     map[string]clock
	deployments map[string]clock
	targets     map[deploylog.Target]clock
	runs        map[string]runOf // by deployment
}

// apply is who wrote an event, and its clock.
func (c *clocks) apply(e deploylog.Event) (writer string, now clock) {
	d := detailsOf(e)
	now = clock{}
	if isRun(e) && e.Name == e.Target.Started() {
		process := cmp.Or(d.Details.Command, "run") + "@" + cmp.Or(d.Details.Host, "?") + ":" + cmp.Or(d.Details.PID, e.Deployment)
		c.runs[e.Deployment] = runOf{word(process), d.Details.Deployment}
		now.merge(c.deployments[d.Details.Deployment])
	}
	writer = c.writer(e, d)
	now.merge(c.writers[writer])
	now.merge(c.deployments[e.Deployment])
	now.merge(c.targets[e.Target])
	now[writer]++
	c.writers[writer], c.deployments[e.Deployment], c.targets[e.Target] = now, now, now
	if step := c.runs[e.Deployment].step; step != "" && isRun(e) && e.Name != e.Target.Started() {
		after := maps.Clone(now)
		after.merge(c.deployments[step])
		c.deployments[step] = after
	}
	return writer, now
}

// writer is who wrote an event, as a word.
func (c *clocks) writer(e deploylog.Event, d details) string {
	run, known := c.runs[e.Deployment]
	if noticed, is := c.runs[d.NoticedBy]; is { // of a run that had died
		return noticed.writer
	}
	switch {
	case ofRun(e) && known:
		return run.writer
	case ofRun(e): // its beginning was not selected
		return word("run:" + e.Deployment)
	case d.By != "":
		return word(d.By)
	default:
		return word("controller:" + cmp.Or(controllers[e.Target.Kind()], e.Target.Kind()))
	}
}

// controllers are those who write of the targets of a kind.
var controllers = map[string]string{
	"pipeline": "pipelines", "stage": "pipelines", "host-group": "pipelines", "host": "pipelines",
	"environment": "environments", "task": "environments", "group": "builds", "job": "builds",
}

// line is what an event says, on one line.
func line(e deploylog.Event) string {
	text := e.Name + " " + string(e.Target)
	if e.Revision != "" {
		text += " revision " + e.Revision
	}
	if e.Attempt > 1 {
		text += fmt.Sprintf(" attempt %d", e.Attempt)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '\u2028' || r == '\u2029' {
			return ' ' // of which some end a line for ShiViz
		}
		return r
	}, phrase.Plain(fmt.Sprintf("%d %s", e.Seq, text)))
}

// word is a text without blanks, for a writer ends at the first.
func word(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) || r == '{' || r == '\ufeff' {
			return '_'
		}
		return r
	}, phrase.Plain(text))
}
