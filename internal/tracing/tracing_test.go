package tracing_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/tracing"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// collector takes spans as a collector of OpenTelemetry does.
type collector struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*tracepb.Span
	about map[string]string
	asked []*http.Request
}

func newCollector(t *testing.T) *collector {
	c := &collector{about: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err == nil {
			err = proto.Unmarshal(body, &data)
		}
		assert.NoError(t, err)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked = append(c.asked, r)
		for _, of := range data.ResourceSpans {
			for _, a := range of.Resource.Attributes {
				c.about[a.Key] = a.Value.GetStringValue()
			}
			for _, scope := range of.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) named(t *testing.T, name string) *tracepb.Span {
	var found []*tracepb.Span
	for _, s := range c.spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	require.True(t, len(found) == 1, "there are %d spans called %q of %v", len(found), name, c.spans)
	return found[0]
}

func says(of []*commonpb.KeyValue, key string) string {
	for _, a := range of {
		if a.Key == key {
			return strings.Trim(strings.TrimPrefix(strings.TrimPrefix(a.Value.String(), "string_value:"), "int_value:"), `"`)
		}
	}
	return ""
}

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

type recorded struct{ all []report.Event }

func (r *recorded) Record(_ context.Context, e report.Event) error {
	r.all = append(r.all, e)
	return nil
}

// ran is an engine whose containers end as they are told.
type ran struct {
	exit engine.Exit
	err  error
}

func (r ran) Run(context.Context, engine.Spec, engine.IO) (engine.Exit, error) { return r.exit, r.err }

func labels(resource, action, kind string) map[string]string {
	return map[string]string{invoke.LabelResource: resource, invoke.LabelAction: action, invoke.LabelAttempt: "1", invoke.LabelKind: kind}
}

func TestARunIsATraceOfItsResourcesActionsAndContainers(t *testing.T) {
	c := newCollector(t)
	tracer, err := tracing.New(tracing.Options{Version: "1.2", Notice: func(text string) { t.Error(text) }, Getenv: environment(map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT": c.URL + "/", "OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20b, x=y",
		"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})})
	require.True(t, err == nil && tracer != nil, "%v %v", tracer, err)
	r := tracer.Run(map[string]string{"command": "apply", "run": "01R", "manifest": "web.yaml"}, "host1")
	r.Begin()
	var log recorded
	to, at, code := r.Recorder(&log), time.Now(), 3
	record := func(e report.Event) {
		e.Time = at
		at = at.Add(time.Second)
		assert.NoError(t, to.Record(t.Context(), e))
	}
	run := func(spec engine.Spec, exit engine.Exit, err error) {
		got, failed := r.Engine(ran{exit, err}).Run(t.Context(), spec, engine.IO{})
		assert.True(t, got == exit && errors.Is(failed, err), "%v, %v", got, failed)
	}
	released, never := make(chan struct{}), make(chan struct{})
	close(released)
	run(engine.Spec{Image: "sha256:1", Labels: labels("db@host1", "init", invoke.KindObserve)}, engine.Exit{}, nil)
	record(report.Event{Kind: report.RunStarted})
	record(report.Event{Kind: report.ResourceStarted, Resource: "db"})
	run(engine.Spec{Labels: labels("db@host1", "state", invoke.KindObserve), Hold: released}, engine.Exit{}, errors.New("the password is hunter2"))
	run(engine.Spec{Labels: labels("db@host1", "never", invoke.KindObserve), Hold: never}, engine.Exit{}, context.Canceled)
	record(report.Event{Kind: report.ActionStarted, Resource: "db", Action: "create", Attempt: 1})
	run(engine.Spec{Labels: labels("db@host1", "create", invoke.KindAct)}, engine.Exit{Code: 3}, nil)
	record(report.Event{Kind: report.ActionFailed, Resource: "db", Action: "create", Attempt: 1, Exit: &code, Error: "create failed"})
	record(report.Event{Kind: report.ResourceFailed, Resource: "db", Reason: "action-failed", Error: "create failed"})
	record(report.Event{Kind: report.RunFailed, Error: "1 failed"})
	r.End()
	r.End() // as at the end of the command
	assert.Len(t, log.all, 6, "passed on were %v", log.all)
	tracer.Close()
	c.wantTrace(t)
}

// wantTrace checks what the collector got of a run that failed.
func (c *collector) wantTrace(t *testing.T) {
	t.Helper()
	if c.about["service.name"] != "deployster" || c.about["service.version"] != "1.2" || c.asked[0].URL.Path != "/v1/traces" || c.asked[0].Header.Get("Api-Key") != "a b" {
		t.Errorf("sent were %v to %s with %v", c.about, c.asked[0].URL, c.asked[0].Header)
	}
	parents := map[string]string{"apply": "", "resource db": "apply", "action create": "resource db", "container init": "apply", "container state": "resource db", "container create": "action create"}
	for name, parent := range parents {
		s := c.named(t, name)
		above := []byte("\xb7\xad\x6b\x71\x69\x20\x33\x31")
		if parent != "" {
			above = c.named(t, parent).SpanId
		}
		assert.True(t, slices.Equal(s.ParentSpanId, above) && s.TraceId[0] == 0x0a && s.EndTimeUnixNano >= s.StartTimeUnixNano, "%q is %v", name, s)
		assert.Equal(t, (s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR), name != "container init", "%q ended with %v", name, s.Status)
		assert.False(t, strings.Contains(s.String(), "hunter2"), "%q tells a secret: %v", name, s)
	}
	assert.Len(t, c.spans, len(parents))
	if a := c.named(t, "action create"); says(a.Attributes, "process.exit.code") != "3" || says(a.Attributes, "deployster.resource") != "db@host1" || a.Status.Message != "create failed" {
		t.Errorf("the action is %v", a)
	}
	a := c.named(t, "apply")
	assert.True(t, says(a.Attributes, "deployster.manifest") == "web.yaml" && says(a.Attributes, "error.type") == "run-failed", "the run is %v", a)
}

// Nothing of a run waits for a collector that takes nothing, and its end waits a moment.
func TestACollectorThatTakesNothingNeitherSlowsNorFails(t *testing.T) {
	silent := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close() // whoever connects is never answered
	broken := httptest.NewServer(http.NotFoundHandler())
	defer broken.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, at := range map[string]string{"silent": "http://" + silent.Addr().String(), "broken": broken.URL, "gone": closed.URL} {
		var mu sync.Mutex
		var said []string
		tracer, err := tracing.New(tracing.Options{Getenv: environment(map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": at, "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret"}), Notice: func(text string) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, text)
		}})
		require.NoError(t, err)
		began := time.Now()
		for range 5000 { // more than are kept
			r := tracer.Run(map[string]string{"command": "apply"}, "")
			r.Begin()
			assert.NoError(t, r.Recorder(&recorded{}).Record(t.Context(), report.Event{Kind: report.RunStarted, Time: began}))
			r.End()
		}
		tracer.Close()
		mu.Lock()
		assert.True(t, len(said) == 1 && strings.Contains(said[0], "sent") && !strings.Contains(said[0], "secret"), "%s: said was %q", name, said)
		mu.Unlock()
	}
}

func TestOnlyWhoAsksForTracesGetsThem(t *testing.T) {
	const at = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, c := range []struct {
		environment map[string]string
		wrong       string
		asked       bool
	}{
		{environment: map[string]string{}},
		{environment: map[string]string{"TRACEPARENT": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "OTEL_SERVICE_NAME": "x"}},
		{environment: map[string]string{at: "http://127.0.0.1:1"}, asked: true},
		{environment: map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, asked: true},
		{environment: map[string]string{at: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"}},
		{environment: map[string]string{at: "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "TRUE"}},
		{environment: map[string]string{at: "http://127.0.0.1:1", "TRACEPARENT": "nonsense\n"}, asked: true},
		{environment: map[string]string{at: "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "zipkin"}, wrong: "otlp and none are possible"},
		{environment: map[string]string{at: "127.0.0.1:4317"}, wrong: "must be a URL"},
		{environment: map[string]string{at: "http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, wrong: "http/protobuf is possible"},
		{environment: map[string]string{at: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT": "soon"}, wrong: "milliseconds"},
		{environment: map[string]string{at: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_CERTIFICATE": "/none"}, wrong: "CERTIFICATE"},
	} {
		tracer, err := tracing.New(tracing.Options{Getenv: environment(c.environment), Notice: func(string) {}})
		if (err != nil) != (c.wrong != "") || err != nil && !strings.Contains(err.Error(), c.wrong) || (tracer != nil) != c.asked {
			t.Errorf("%v: %v, %v", c.environment, tracer, err)
		}
		if tracer != nil {
			tracer.Close()
		}
	}
}
