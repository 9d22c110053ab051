package output

import (
	"maps"
	"sync"
	"time"

	buildrecord "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/internal/view/groups"
	"github.com/deployster-go/deployster/pipeline/step"
)

// Events shows what happens to pipelines, environments and build groups while a command
// works on them: a line an event, or the live table of one environment. It is a
// pipelines.Observer and a reconcile.Observer, and makes notices of what a logger
// writes.
type Events struct {
	Notices
	JobName func(group string, job int) string // what a job of a build group builds; may be nil

	printer *Printer
	live    *view.EnvironmentLive // may be nil

	mu     sync.Mutex
	seen   view.SeenReasons
	failed int // deployments of pipelines
}

// Events shows events a line each.
func (p *Printer) Events() *Events {
	s := &Events{printer: p}
	s.Notices = s.Notice
	return s
}

// LiveEvents draws a table where the output is a terminal, until it is closed, and
// shows events a line each elsewhere.
func (p *Printer) LiveEvents() *Events {
	s := p.Events()
	if !p.JSON() && p.Terminal(p.Out) {
		s.live = view.NewEnvironmentLive(p.Out, p.liveOptions(p.Out))
	}
	return s
}

// Close ends the table, if there is one. It returns the first error of writing.
func (s *Events) Close() error {
	if s.live == nil {
		return nil
	}
	return s.live.Close()
}

// Begin writes the first line of JSON: the version of the format, that of
// Deployster, the command, and what is particular to it.
func (s *Events) Begin(command string, more map[string]any) {
	line := map[string]any{"version": view.JSONVersion, "deployster": s.printer.Version, "command": command}
	maps.Copy(line, more)
	s.show(line, func() {})
}

// End writes the last line of JSON.
func (s *Events) End(line map[string]any) {
	line["type"] = "ended"
	s.show(line, func() {})
}

// Live reports whether the screen is a table.
func (s *Events) Live() bool { return s.live != nil }

// Table shows an environment and its deployment in the table, if there is one.
func (s *Events) Table(r report.Report, d report.Deployment) {
	if s.live != nil {
		s.live.Show(r, d)
	}
}

// Failed is how many deployments of pipelines have failed.
func (s *Events) Failed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Recorded implements pipelines.Observer and reconcile.Observer.
func (s *Events) Recorded(e deploylog.Event) {
	s.show(map[string]any{"type": "recorded", "event": e}, func() {
		o := s.printer.PlanOptions(s.printer.Out)
		if id, job, ofBuild := buildrecord.Parse(e.Target); ofBuild {
			name := ""
			if job > 0 && s.JobName != nil {
				name = s.JobName(id, job)
			}
			_ = groups.Event(s.printer.Out, e, name, groups.Options{Color: o.Color})
			return
		}
		o.Seen = &s.seen
		write := view.PipelineEvent
		if _, ofEnvironment := record.NameOf(e.Target); ofEnvironment {
			write = view.EnvironmentEvent
		}
		_ = write(s.printer.Out, e, o)
	})
	if e.Name == e.Target.Failed() && e.Target.Kind() == "pipeline" {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.failed++
	}
}

// Began implements pipelines.Observer.
func (s *Events) Began(step step.Step) {
	line := stepLine("working", step)
	if step.Manifest != "" {
		line["manifest"] = step.Manifest
	} else {
		line["environment"] = step.Environment
	}
	s.show(line, func() { _ = view.PipelineWork(s.printer.Out, step, s.printer.PlanOptions(s.printer.Out)) })
}

// Again implements pipelines.Observer.
func (s *Events) Again(step step.Step, cause error, after time.Duration) {
	line := stepLine("retrying", step)
	line["error"], line["after_ms"] = cause.Error(), after.Milliseconds()
	s.show(line, func() {
		_ = s.printer.Printf("        ! %s of %s failed, and is tried again in %s: %s\n", step.Event, step.Target, after, view.Clean(cause.Error()))
	})
}

// Notice implements pipelines.Observer and reconcile.Observer.
func (s *Events) Notice(text string) {
	if s.live != nil {
		s.live.Note(text)
		return
	}
	s.show(map[string]any{"type": "notice", "text": text}, func() { _ = Write(s.printer.Err, "note: %s\n", view.Clean(text)) })
}

func stepLine(kind string, step step.Step) map[string]any {
	return map[string]any{"type": kind, "target": step.Target, "event": step.Event, "revision": step.Revision, "deployment": step.Deployment}
}

// show writes a line of JSON, or text where there is no table.
func (s *Events) show(line map[string]any, text func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.printer.JSON():
		_ = s.printer.Line(line)
	case s.live == nil:
		text()
	}
}

// Unrecorded is a screen that ignores what is recorded: its user reads that in the
// log.
type Unrecorded struct{ *Events }

// Recorded implements reconcile.Observer.
func (Unrecorded) Recorded(deploylog.Event) {}
