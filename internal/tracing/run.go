package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// Run makes the spans of one run.
type Run struct {
	of      *Tracer
	details map[string]string
	place   string

	mu   sync.Mutex
	root trace.Span            // nil before the run begins, and after its end
	open map[string]trace.Span // of resources and actions
}

// Run is the run that its details describe, of resources in a place; "" is none.
func (t *Tracer) Run(details map[string]string, place string) *Run {
	return &Run{of: t, details: details, place: place, open: map[string]trace.Span{}}
}

// named are the attributes of a run, by what details call them.
var named = [][2]string{
	{"deployster.run", "run"}, {"deployster.manifest", "manifest"}, {"deployster.manifest_hash", "manifest_hash"},
	{"deployster.deployment", "deployment"}, {"deployster.target", "target"}, {"deployster.revision", "revision"}, {"deployster.by", "user"},
}

// Begin begins the span of the run.
func (r *Run) Begin() {
	var says []attribute.KeyValue
	for _, name := range named {
		if text := r.details[name[1]]; text != "" {
			says = append(says, attribute.String(name[0], text))
		}
	}
	if r.place != "" {
		says = append(says, attribute.String("deployster.place", r.place))
	}
	_, span := r.of.tracer.Start(r.of.parent, r.details["command"], trace.WithAttributes(says...))
	r.mu.Lock()
	r.root = span
	r.mu.Unlock()
	r.of.mu.Lock()
	r.of.open[r] = true
	r.of.mu.Unlock()
}

// End ends the span of the run, and what is left open in it.
func (r *Run) End() {
	r.mu.Lock()
	root, open := r.root, r.open
	r.root, r.open = nil, map[string]trace.Span{}
	r.mu.Unlock()
	for _, span := range open {
		span.End()
	}
	if root != nil {
		root.End()
	}
	r.of.mu.Lock()
	delete(r.of.open, r)
	r.of.mu.Unlock()
}

func (r *Run) resource(name string) string { return invoke.Placed(name, r.place) }

// action is the key of an action's span.
func action(resource, name string, attempt int) string {
	return resource + "\x00" + name + "\x00" + strconv.Itoa(max(1, attempt))
}

// Recorder makes spans of what is recorded, which it passes on.
func (r *Run) Recorder(to runner.Recorder) runner.Recorder { return recorder{r, to} }

type recorder struct {
	run *Run
	to  runner.Recorder
}

// Record implements runner.Recorder.
func (o recorder) Record(ctx context.Context, e report.Event) error {
	err := o.to.Record(ctx, e)
	o.run.observe(e)
	return err
}

// observe follows what happens in the run.
func (r *Run) observe(e report.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.root == nil {
		return
	}
	at := trace.WithTimestamp(e.Time)
	resource := r.resource(e.Resource)
	switch e.Kind {
	case report.ResourceStarted:
		r.open[resource] = r.begin(r.root, "resource "+e.Resource, at, attribute.String("deployster.resource", resource))
	case report.ActionStarted:
		r.open[action(resource, e.Action, e.Attempt)] = r.begin(r.above(resource), "action "+e.Action, at,
			attribute.String("deployster.resource", resource), attribute.String("deployster.action", e.Action), attribute.Int("deployster.attempt", max(1, e.Attempt)))
	case report.ActionFinished, report.ActionFailed:
		r.ended(action(resource, e.Action, e.Attempt), e)
	case report.ResourceFinished, report.ResourceFailed:
		r.ended(resource, e)
	case report.ResourceResolved, report.ResourceVerified, report.ResourceDestroyed, report.ResourceInitialized, report.ResourceSkipped, report.ResourceExpanded:
		r.above(resource).AddEvent(string(e.Kind), at, trace.WithAttributes(attribute.String("deployster.resource", resource), attribute.String("deployster.status", string(e.Status))))
	case report.RunFinished, report.RunFailed:
		says(r.root, e)
		r.root.SetAttributes(attribute.Int("deployster.changed", e.Counts.Changed), attribute.Int("deployster.unchanged", e.Counts.Unchanged),
			attribute.Int("deployster.failed", e.Counts.Failed), attribute.Int("deployster.skipped", e.Counts.Skipped))
	default: // the span of the run begins before, and what is not recorded is in no span
	}
}

// begin begins a span within another.
func (r *Run) begin(within trace.Span, name string, at trace.SpanStartOption, attributes ...attribute.KeyValue) trace.Span {
	_, span := r.of.tracer.Start(trace.ContextWithSpan(context.Background(), within), name, at, trace.WithAttributes(attributes...))
	return span
}

// above is the span of a resource, and that of the run where there is none.
func (r *Run) above(resource string) trace.Span {
	if span := r.open[resource]; span != nil {
		return span
	}
	return r.root
}

// ended ends a span.
func (r *Run) ended(key string, e report.Event) {
	span := r.open[key]
	if span == nil {
		return
	}
	delete(r.open, key)
	says(span, e)
	span.End(trace.WithTimestamp(e.Time))
}

// says adds what the last event of a span says.
func says(span trace.Span, e report.Event) {
	if e.Status != "" {
		span.SetAttributes(attribute.String("deployster.status", string(e.Status)))
	}
	if e.Exit != nil {
		span.SetAttributes(attribute.Int("process.exit.code", *e.Exit))
	}
	if e.Kind == report.ActionFailed || e.Kind == report.ResourceFailed || e.Kind == report.RunFailed {
		span.SetAttributes(attribute.String("error.type", cmp.Or(string(e.Reason), string(e.Kind))))
		span.SetStatus(codes.Error, e.Error) // in which secrets are masked
	}
}

// Engine makes spans of the containers that are run on an engine.
func (r *Run) Engine(on invoke.Engine) invoke.Engine { return traced{r, on} }

type traced struct {
	run *Run
	on  invoke.Engine
}

// Run implements invoke.Engine. What an error says is not in the span: nothing has masked it.
func (t traced) Run(ctx context.Context, spec engine.Spec, io engine.IO) (engine.Exit, error) {
	began := time.Now()
	released := make(chan time.Time, 1)
	if spec.Hold != nil { // it is prepared, and its program does not run yet
		ended := make(chan struct{})
		defer close(ended)
		go func() {
			select {
			case <-spec.Hold:
				released <- time.Now()
			case <-ended:
			}
		}()
	}
	exit, err := t.on.Run(ctx, spec, io)
	if spec.Hold != nil {
		select {
		case <-spec.Hold:
			began = <-released
		default:
			return exit, err // nobody needed it
		}
	}
	t.run.contained(spec, began, exit, err)
	return exit, err
}

// contained makes the span of a container that has ended.
func (r *Run) contained(spec engine.Spec, began time.Time, exit engine.Exit, err error) {
	attempt, _ := strconv.Atoi(spec.Labels[invoke.LabelAttempt])
	resource, name := spec.Labels[invoke.LabelResource], spec.Labels[invoke.LabelAction]
	if name == "" {
		name = spec.Labels[invoke.LabelKind]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.root == nil {
		return
	}
	within := r.open[action(resource, name, attempt)]
	if within == nil {
		within = r.above(resource)
	}
	span := r.begin(within, "container "+name, trace.WithTimestamp(began),
		attribute.String("container.image.id", spec.Image), attribute.String("deployster.kind", spec.Labels[invoke.LabelKind]))
	if resource != "" {
		span.SetAttributes(attribute.String("deployster.resource", resource))
	}
	switch {
	case err != nil:
		span.SetAttributes(attribute.String("error.type", kindOf(err)))
		span.SetStatus(codes.Error, "")
	case exit.Code != 0:
		span.SetAttributes(attribute.Int("process.exit.code", exit.Code), attribute.String("error.type", "exit code"))
		span.SetStatus(codes.Error, fmt.Sprintf("exit code %d", exit.Code))
	default:
		span.SetAttributes(attribute.Int("process.exit.code", 0))
	}
	span.End()
}

// kindOf is of what kind an error of an engine is.
func kindOf(err error) string {
	switch {
	case errors.Is(err, engine.ErrTimeout):
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	default:
		return "engine"
	}
}
