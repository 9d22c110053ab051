// Package tracing makes spans of OpenTelemetry of what runs do: one of each run, of each
// resource in it, of each of its actions, and of each container that is run for them.
//
// It is asked for by the variables that are usual for that, such as
// OTEL_EXPORTER_OTLP_ENDPOINT, and otherwise nothing of it exists. Spans are sent in the
// background and dropped where nobody takes them: a collector that does not answer neither
// slows a run nor fails it, and at the end it is waited for a few seconds.
//
// The exporter of OpenTelemetry for OTLP over HTTP would bring gRPC into the program, which
// nothing else here needs; so what it makes of spans is taken from it, and sent from here.
package tracing

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// flushTime is how long what is left may take to be sent at the end.
const flushTime = 3 * time.Second

// Options are what a Tracer is made of.
type Options struct {
	Getenv  func(string) string
	Version string       // of this program
	Notice  func(string) // receives once why spans are not sent
}

// Tracer makes spans and sends them.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	parent   context.Context // with what TRACEPARENT says
	notice   func(string)

	mu   sync.Mutex
	open map[*Run]bool
}

// New is a Tracer where the environment asks for one, and nil where it does not.
func New(o Options) (*Tracer, error) {
	where, err := destinationOf(o.Getenv)
	if where == nil || err != nil {
		return nil, err
	}
	var said sync.Once
	notice := func(text string) { said.Do(func() { o.Notice(text) }) }
	where.failed = func(err error) { notice(fmt.Sprintf("note: spans are not sent: %v", err)) }
	ctx := context.Background()
	exporter, err := otlptrace.New(ctx, where)
	if err != nil {
		return nil, fmt.Errorf("preparing to send spans: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "deployster"), attribute.String("service.version", o.Version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv(),
	)
	if err != nil {
		return nil, fmt.Errorf("reading OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about))
	carrier := propagation.MapCarrier{"traceparent": o.Getenv("TRACEPARENT"), "tracestate": o.Getenv("TRACESTATE")}
	return &Tracer{
		provider: provider, tracer: provider.Tracer("github.com/deployster-go/deployster", trace.WithInstrumentationVersion(o.Version)),
		parent: propagation.TraceContext{}.Extract(ctx, carrier), notice: notice, open: map[*Run]bool{},
	}, nil
}

// Close ends what is open and sends what is left, as far as that is taken within a few
// seconds.
func (t *Tracer) Close() {
	t.mu.Lock()
	var left []*Run
	for r := range t.open {
		left = append(left, r)
	}
	t.mu.Unlock()
	for _, r := range left {
		r.End()
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		t.notice(fmt.Sprintf("note: not all spans were sent within %s", flushTime))
	}
}
