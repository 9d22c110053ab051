package export

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// The bounds of what is written and kept.
const (
	spansEach = 500 // of one line
	maxEvents = 128 // of one span; of more there is the number
)

// OTLP writes the log as spans of OpenTelemetry: lines of JSON, each an
// ExportTraceServiceRequest as OTLP has it, which collectors read from files and over HTTP.
//
// A span is what a marker of the log begins and another ends. Its parent is what it is part
// of: an action of a resource, that of a run, the run of the step of a pipeline, its host of a
// host group, and so on. Ids follow from the log, so the spans of two exports are the same.
func OTLP(ctx context.Context, log deploylog.Log, f Filter, version string, w io.Writer) error {
	t := &tracer{log: log.ID(), version: version, to: w, open: map[place]*span{}, runs: map[string]*span{}}
	for e, err := range selected(ctx, log, f) {
		if err != nil {
			return err
		}
		if err := t.apply(e); err != nil {
			return fmt.Errorf("exporting event %d: %w", e.Seq, err)
		}
	}
	return t.finish()
}

// place is where a span is: one at a time.
type place struct {
	deployment string
	target     deploylog.Target
}

// span is OTLP's, as its JSON has it.
type span struct {
	TraceID string      `json:"traceId"`
	SpanID  string      `json:"spanId"`
	Parent  string      `json:"parentSpanId,omitempty"`
	Name    string      `json:"name"`
	Kind    int         `json:"kind"` // 1 is internal
	Start   string      `json:"startTimeUnixNano"`
	End     string      `json:"endTimeUnixNano"`
	Says    []attribute `json:"attributes,omitempty"`
	Events  []spanEvent `json:"events,omitempty"`
	Dropped int         `json:"droppedEventsCount,omitempty"`
	Status  *status     `json:"status,omitempty"`

	began time.Time
	seq   int64
}

type spanEvent struct {
	Time string      `json:"timeUnixNano"`
	Name string      `json:"name"`
	Says []attribute `json:"attributes,omitempty"`
}

type status struct {
	Message string `json:"message,omitempty"`
	Code    int    `json:"code"` // 2 is an error
}

type attribute struct {
	Key   string `json:"key"`
	Value value  `json:"value"`
}

// value has one of its fields.
type value struct {
	String *string `json:"stringValue,omitempty"`
	Int    *string `json:"intValue,omitempty"` // of 64 bits, which JSON has as text
	Bool   *bool   `json:"boolValue,omitempty"`
}

// says adds an attribute, unless it is empty.
func (s *span) says(key, text string) {
	if text != "" {
		s.Says = append(s.Says, attribute{key, value{String: &text}})
	}
}

func (s *span) counts(key string, n int64) {
	text := strconv.FormatInt(n, 10)
	s.Says = append(s.Says, attribute{key, value{Int: &text}})
}

// nanos is a time as OTLP's JSON has it.
func nanos(t time.Time) string { return strconv.FormatInt(t.UnixNano(), 10) }

// tracer makes spans of events.
type tracer struct {
	log, version string
	to           io.Writer
	open         map[place]*span
	runs         map[string]*span // of the runs that are open, by deployment
	ended        []*span
	newest       time.Time
}

// id is an identifier of a number of bytes that follows from what it is of.
func (t *tracer) id(of string, bytes int) string {
	sum := sha256.Sum256([]byte(t.log + "\x00" + of))
	return hex.EncodeToString(sum[:bytes])
}

func (t *tracer) apply(e deploylog.Event) error {
	t.newest = e.CreatedAt
	at := place{e.Deployment, e.Target}
	switch {
	case e.Name == e.Target.Started():
		if before := t.open[at]; before != nil { // its end is not in the log
			if err := t.end(at, before, e.CreatedAt, true); err != nil {
				return err
			}
		}
		t.begin(at, e)
	case t.open[at] != nil && ends(e):
		s := t.open[at]
		t.said(s, e, e.Target.Failed() == e.Name || strings.HasSuffix(e.Name, "-lost"))
		return t.end(at, s, e.CreatedAt, false)
	default:
		if s := cmp.Or(t.open[at], t.within(e), t.runs[e.Deployment]); s != nil {
			s.notes(e)
		}
	}
	return nil
}

// ends reports whether an event is the end of what was begun.
func ends(e deploylog.Event) bool {
	word, is := strings.CutPrefix(e.Name, e.Target.Kind()+"-")
	return is && slices.Contains([]string{"finished-successfully", "failed", "lost", "cancelled", "superseded", "skipped", "terminated", "deleted"}, word)
}

// begin opens the span of what an event begins.
func (t *tracer) begin(at place, e deploylog.Event) {
	d := detailsOf(e)
	s := &span{
		TraceID: t.id("trace "+e.Deployment, 16), SpanID: t.id(fmt.Sprintf("span %d", e.Seq), 8), Kind: 1,
		Name: string(e.Target), Start: nanos(e.CreatedAt), began: e.CreatedAt, seq: e.Seq,
	}
	parent := t.within(e)
	if isRun(e) {
		parent = t.open[place{d.Details.Deployment, deploylog.Target(d.Details.Target)}]
		t.runs[e.Deployment] = s
		s.says("deployster.command", d.Details.Command)
	}
	if parent != nil {
		s.TraceID, s.Parent = parent.TraceID, parent.SpanID
	}
	s.says("deployster.kind", e.Target.Kind())
	s.says("deployster.deployment", e.Deployment)
	s.says("deployster.revision", e.Revision)
	s.says("deployster.by", cmp.Or(d.By, d.Details.User))
	s.says("host.name", d.Details.Host)
	s.counts("deployster.attempt", int64(e.Attempt))
	s.counts("deployster.event", e.Seq)
	t.open[at] = s
}

// partOf is of what kinds that may be which is above a target of a kind.
var partOf = map[string][]string{
	"action": {"resource"}, "host": {"host-group"}, "host-group": {"host-group", "stage"}, "stage": {"stage", "pipeline"},
	"task": {"environment"}, "job": {"group"},
}

// within is the open span that has a target in it; nil is none.
func (t *tracer) within(e deploylog.Event) *span {
	if e.Target.Kind() == "resource" {
		return t.runs[e.Deployment]
	}
	kinds := partOf[e.Target.Kind()]
	_, path, _ := strings.Cut(string(e.Target), "/")
	for ; path != ""; path = above(path) {
		for _, kind := range kinds {
			if s := t.open[place{e.Deployment, deploylog.Target(kind + "/" + path)}]; s != nil && deploylog.Target(kind+"/"+path) != e.Target {
				return s
			}
		}
	}
	return nil
}

// notes adds an event that is neither a beginning nor an end.
func (s *span) notes(e deploylog.Event) {
	if len(s.Events) == maxEvents {
		s.Dropped++
		return
	}
	of := &span{}
	d := detailsOf(e)
	of.says("deployster.target", string(e.Target))
	of.says("deployster.status", d.Status)
	of.says("deployster.by", d.By)
	of.counts("deployster.event", e.Seq)
	s.Events = append(s.Events, spanEvent{Time: nanos(e.CreatedAt), Name: e.Name, Says: of.Says})
}

// said adds what the event at its end says of a span.
func (t *tracer) said(s *span, e deploylog.Event, failed bool) {
	d := detailsOf(e)
	s.says("deployster.end", e.Name)
	s.says("deployster.status", d.Status)
	if d.ExitCode != nil {
		s.counts("process.exit.code", int64(*d.ExitCode))
	}
	if failed {
		s.says("error.type", cmp.Or(d.Reason, e.Name))
		s.Status = &status{Message: d.Error, Code: 2}
	}
}

// end closes a span; open is whether nothing in the log has ended it.
func (t *tracer) end(at place, s *span, when time.Time, open bool) error {
	if when.Before(s.began) { // the clock was set back
		when = s.began
	}
	s.End = nanos(when)
	if open {
		yes := true
		s.Says = append(s.Says, attribute{"deployster.unfinished", value{Bool: &yes}})
	}
	delete(t.open, at)
	if t.runs[at.deployment] == s {
		delete(t.runs, at.deployment)
	}
	t.ended = append(t.ended, s)
	if len(t.ended) < spansEach {
		return nil
	}
	return t.write()
}

// finish writes what is left. What has not ended ends with the newest event, and says so.
func (t *tracer) finish() error {
	left := make([]place, 0, len(t.open))
	for at := range t.open {
		left = append(left, at)
	}
	slices.SortFunc(left, func(a, b place) int { return cmp.Compare(t.open[a].seq, t.open[b].seq) })
	for _, at := range left {
		if err := t.end(at, t.open[at], t.newest, true); err != nil {
			return err
		}
	}
	if len(t.ended) == 0 {
		return nil
	}
	return t.write()
}

// write writes the spans that have ended as a line.
func (t *tracer) write() error {
	of := &span{}
	of.says("service.name", "deployster")
	of.says("service.version", t.version)
	of.says("deployster.log", t.log)
	line := map[string]any{"resourceSpans": []any{map[string]any{
		"resource": map[string]any{"attributes": of.Says},
		"scopeSpans": []any{map[string]any{
			"scope": map[string]any{"name": "github.com/deployster-go/deployster", "version": t.version},
			"spans": t.ended,
		}},
	}}}
	encoder := json.NewEncoder(t.to)
	encoder.SetEscapeHTML(false)
	t.ended = nil
	return encoder.Encode(line)
}
