package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/identity"
)

// eventsInput is deploylog.Filter as a query.
type eventsInput struct {
	After       int64     `query:"after" minimum:"0" doc:"Only events with a greater number."`
	Until       int64     `query:"until" minimum:"0" doc:"Only events with a number that is not greater."`
	Deployment  string    `query:"deployment" maxLength:"512"`
	Target      string    `query:"target" maxLength:"513" doc:"Exactly this target, or everything below it where it ends with a slash."`
	Name        string    `query:"name" maxLength:"128" doc:"Exactly this event."`
	Since       time.Time `query:"since" doc:"Only events that were created then or later."`
	Last        int       `query:"last" minimum:"0" maximum:"2147483647" doc:"Only so many of the newest."`
	Follow      bool      `query:"follow" doc:"Go on with the events that are appended later."`
	Accept      string    `header:"Accept" doc:"text/event-stream follows the log as server-sent events."`
	LastEventID string    `header:"Last-Event-ID" doc:"Of server-sent events: the number of the last one that was received."`
}

func (s *Server) registerEvents() {
	event := &huma.Schema{Type: huma.TypeObject, Description: "deploylog.Event, one a line."}
	register(s, Operation{
		ID: "list-events", Method: http.MethodGet, Path: "/v1/events", Role: identity.Viewer, tags: aboutLog, streams: true,
		Summary: "The events of the log, in order",
		Description: "As lines of JSON, or as server-sent events where text/event-stream is asked for. " +
			"A line that has the member problem says why no more events come. What follows sends an empty line or comment now and then; who takes none of what is sent is disconnected.",
		answers: map[string]*huma.Response{"200": {Description: "The events", Content: map[string]*huma.MediaType{
			"application/x-ndjson": {Schema: event},
			"text/event-stream":    {Schema: &huma.Schema{Type: huma.TypeString}},
		}}},
	}, func(_ context.Context, in *eventsInput) (*huma.StreamResponse, error) {
		filter, live, err := in.filter()
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(ctx huma.Context) { s.stream(ctx, filter, in.Follow || live, live) }}, nil
	})
}

// filter is what is asked for, and whether it is to be server-sent events.
func (in *eventsInput) filter() (f deploylog.Filter, live bool, err error) {
	for kind := range strings.SplitSeq(in.Accept, ",") {
		if media, _, err := mime.ParseMediaType(kind); err == nil && media == "text/event-stream" {
			live = true
		}
	}
	f = deploylog.Filter{
		After: in.After, Until: in.Until, Deployment: in.Deployment, Target: deploylog.Target(in.Target), Name: in.Name, Since: in.Since, Last: in.Last,
	}
	if live && in.LastEventID != "" {
		after, err := strconv.ParseInt(in.LastEventID, 10, 64)
		if err != nil || after < 0 {
			return f, live, huma.Error422UnprocessableEntity("Last-Event-ID must be the number of an event")
		}
		f.After, f.Last = after, 0
	}
	if (live || in.Follow) && f.Until != 0 {
		return f, live, huma.Error422UnprocessableEntity("until has no place where events are followed")
	}
	return f, live, nil
}

// stream writes events until there are no more, or who asked has gone.
func (s *Server) stream(hc huma.Context, f deploylog.Filter, follow, live bool) {
	r, w := humago.Unwrap(hc)
	ctx, cancel := context.WithCancel(hc.Context())
	defer cancel()
	out := &eventWriter{w: w, control: http.NewResponseController(w), stalled: s.Stalled, live: live}
	out.may = func() bool {
		who, err := s.Identify(r)
		return err == nil && who.MayRead()
	}
	kind := "application/x-ndjson"
	if live {
		kind = "text/event-stream"
	}
	w.Header().Set("Content-Type", kind)
	w.Header().Set("X-Accel-Buffering", "no")
	w.Header().Set("Deployster-Log", s.Log.ID())
	events := s.Log.Read(ctx, f)
	if follow {
		w.WriteHeader(http.StatusOK)
		if out.flush() != nil {
			return
		}
		events = s.Log.Watch(ctx, f)
		var beating sync.WaitGroup
		defer beating.Wait()
		defer cancel()
		beating.Go(func() {
			out.beat(ctx, s.Heartbeat)
			cancel()
		})
	}
	if err := out.all(events, follow); err != nil && ctx.Err() == nil {
		s.Logger.Debug("a stream of events has ended", "error", err)
	}
}

// eventWriter writes events to who may be slow: a write that takes longer than that ends
// it, so nothing is kept for who takes nothing.
type eventWriter struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	stalled time.Duration
	live    bool
	may     func() bool // whether who asks may still read, whose token may have ended

	buffer bytes.Buffer
}

// errEnded is why a stream ends whose reader may read no more.
var errEnded = errors.New("who follows may read no more")

// enough is how much is written at once.
const enough = 32 << 10

// all writes events; those that are followed are sent at once.
func (o *eventWriter) all(events iter.Seq2[deploylog.Event, error], follow bool) error {
	for e, err := range events {
		if follow && e.Target.Kind() == "token" && !o.may() {
			return errEnded
		}
		if err := o.event(e, err, follow); err != nil {
			return err
		}
		if err != nil {
			return o.flush()
		}
	}
	return o.flush()
}

func (o *eventWriter) event(e deploylog.Event, failed error, follow bool) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live {
		if failed != nil {
			o.buffer.WriteString("event: problem\n")
		} else {
			fmt.Fprintf(&o.buffer, "id: %d\n", e.Seq)
		}
		o.buffer.WriteString("data: ")
	}
	if failed != nil {
		err := encode(&o.buffer, map[string]any{"problem": failed.Error()})
		if err != nil {
			return err
		}
	} else if err := encodeEvent(&o.buffer, e); err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	if o.live {
		o.buffer.WriteByte('\n')
	}
	if follow || o.buffer.Len() >= enough {
		return o.send()
	}
	return nil
}

func encode(to *bytes.Buffer, document any) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(document)
}

// encodeEvent writes an event as a line. Data that does not fit into a line as it is, such as
// one with line breaks, is also there as it was appended.
func encodeEvent(to *bytes.Buffer, e deploylog.Event) error {
	before := to.Len()
	if err := encode(to, e); err != nil || bytes.Contains(to.Bytes()[before:], e.Data) {
		return err
	}
	to.Truncate(before)
	return encode(to, struct {
		deploylog.Event
		Raw []byte `json:"raw_data"`
	}{e, e.Data})
}

// flush sends what is left.
func (o *eventWriter) flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.send()
}

func (o *eventWriter) send() error {
	// A connection that knows no deadlines is one of a test.
	_ = o.control.SetWriteDeadline(time.Now().Add(o.stalled))
	if _, err := o.w.Write(o.buffer.Bytes()); err != nil {
		return err
	}
	o.buffer.Reset()
	return o.control.Flush()
}

// beat says now and then that the stream is alive, until that cannot be sent.
func (o *eventWriter) beat(ctx context.Context, every time.Duration) {
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		if !o.may() {
			return
		}
		o.mu.Lock()
		if o.live {
			o.buffer.WriteByte(':')
		}
		o.buffer.WriteByte('\n')
		if o.live {
			o.buffer.WriteByte('\n')
		}
		err := o.send()
		o.mu.Unlock()
		if err != nil {
			return
		}
	}
}
