package runner

import (
	"context"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/redact"
	"github.com/deployster-go/deployster/runner/report"
)

// emit stamps and masks an event, has it recorded where its kind asks for it,
// and shows it. It fails when recording fails, and from then on always.
func (r *Runner) emit(ctx context.Context, e report.Event) (err error) {
	defer r.panics.Catch(&err, "telling of "+string(e.Kind))
	e.Time = r.now()
	redact.Event(r.secrets, &e)
	if broken := r.broken.Load(); broken != nil {
		return *broken
	}
	if e.Kind.Recorded() && r.applying && r.caller.Recorder != nil {
		// A cancelled run still tells the truth about how it ended.
		if err := r.caller.Recorder.Record(context.WithoutCancel(ctx), e); err != nil {
			err = fmt.Errorf("recording %s: %w", e.Kind, err)
			r.broken.CompareAndSwap(nil, &err)
			return err
		}
	}
	if e.Kind != report.ResourceKept {
		r.show(e.Public())
	}
	return nil
}

// event is one of a resource, of a kind.
func (res *resource) event(kind report.EventKind) report.Event {
	e := report.Event{Kind: kind, Resource: res.Name, Removing: res.undeclared != nil, ID: res.past.ID}
	if res.undeclared != nil {
		e.Thing = res.undeclared.Identity.Mark
	}
	if res.shadowed {
		e.Attempt = res.attempt()
	}
	if res.undeclared != nil && res.unprepared { // nothing has told of it before
		e.Image = res.Type
	}
	return e
}

// having is an event of a resource that has a status.
func (res *resource) having(kind report.EventKind, status report.Status) report.Event {
	e := res.event(kind)
	e.Status = status
	return e
}

// failed is the event of a resource that failed.
func failed(res *resource, err error) report.Event {
	e := res.having(report.ResourceFailed, report.Failed)
	e.Reason, e.Error = failure.Reason(err), err.Error()
	return e
}

// skipped is the event of a resource that is skipped.
func skipped(res *resource, why report.Skip) report.Event {
	e := res.having(report.ResourceSkipped, report.Skipped)
	e.Reason, e.Error = why.Code, why.Error()
	return e
}

// lasted is the event of an end.
func lasted(e report.Event, took time.Duration) report.Event {
	e.Duration = took
	return e
}

// show notifies the Observer of something that is not recorded.
func (r *Runner) show(e report.Event) {
	if r.caller.Observer == nil {
		return
	}
	r.observing.Lock()
	defer r.observing.Unlock()
	r.caller.Observer.Observe(e)
}

// notify shows something about a resource that is not recorded.
func (r *Runner) notify(kind report.EventKind, resource, action, text string) {
	r.show(report.Event{Kind: kind, Time: r.now(), Resource: resource, Action: action, Text: r.secrets.Mask(text)})
}

// callObserver makes events of what happens while calls are made.
type callObserver struct{ r *Runner }

func (o callObserver) Pulling(resource, image string, p engine.Progress) {
	e := report.Event{Kind: report.Pulling, Time: o.r.now(), Resource: resource, Image: image, Current: p.Current, Total: p.Total}
	if p.Sent {
		e.Text = "sending"
	}
	o.r.show(e)
}

func (o callObserver) Calling(resource, action string) {
	o.r.notify(report.Working, resource, action, "")
}

func (o callObserver) Warn(resource, action, text string) {
	o.r.notify(report.Warning, resource, action, text)
}

func (o callObserver) Output(l invoke.Line) {
	o.r.show(report.Event{
		Kind: report.Line, Time: o.r.now(), Resource: l.Resource, Action: l.Action, Attempt: l.Attempt, Stream: l.Stream, Text: l.Text, File: l.File,
	})
}
