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
	"github.com/deployster-go/deployster/internal/feed"
	"github.com/deployster-go/deployster/internal/identity"
	"github.com/deployster-go/deployster/internal/scope"
)

// Until is the header that says up to which event an answer goes.
const Until = "Deployster-Until"

// eventsInput is deploylog.Filter as a query.
type eventsInput struct {
	Conditional
	After       int64     `query:"after" minimum:"0" doc:"Only events with a greater number."`
	Until       int64     `query:"until" minimum:"0" doc:"Only events with a number that is not greater."`
	Deployment  string    `query:"deployment" maxLength:"512"`
	Target      string    `query:"target" maxLength:"513" doc:"Exactly this target, or everything below it where it ends with a slash."`
	Name        string    `query:"name" maxLength:"128" doc:"Exactly this event."`
	Since       time.Time `query:"since" doc:"Only events that were created then or later."`
	Last        int       `query:"last" minimum:"0" maximum:"2147483647" doc:"Only so many of the newest."`
	Follow      bool      `query:"follow" doc:"Go on with the events that are appended later."`
	End         bool      `query:"end" doc:"End with a line that has the member end, the number of the event up to which there are no others. An answer without this line was cut off. What is followed has no end."`
	Accept      string    `header:"Accept" doc:"text/event-stream follows the log as server-sent events."`
	LastEventID string    `header:"Last-Event-ID" doc:"Of server-sent events: the number of the last one that was received."`
}

func (s *Server) registerEvents() {
	event := &huma.Schema{Type: huma.TypeObject, Description: "deploylog.Event, one a line."}
	register(s, Operation{
		ID: "list-events", Method: http.MethodGet, Path: "/v1/events", Role: identity.Viewer, Kind: anyKind, tags: aboutLog, streams: true,
		Summary: "The events of the log, in order",
		Description: "As lines of JSON, or as server-sent events where text/event-stream is asked for. " +
			"A line that has the member problem says why no more events come. An answer that is cut off in another way, as where the server ends or a token is revoked, is aborted, and server-sent events end with the event cut; end=true also shows it where something between hides that. What follows sends an empty line or comment now and then; a client that takes none of what is sent is disconnected. A caller who reads some pipelines and environments alone gets the events of these; last counts those of all.",
		answers: map[string]*huma.Response{"200": {
			Description: "The events",
			Headers:     map[string]*huma.Param{Until: {Description: "The event up to which it answers. What is followed has none.", Schema: &huma.Schema{Type: huma.TypeInteger}}},
			Content: map[string]*huma.MediaType{
				"application/x-ndjson": {Schema: event},
				"text/event-stream":    {Schema: &huma.Schema{Type: huma.TypeString}},
			},
		}, "304": unchanged()["304"]},
	}, func(ctx context.Context, in *eventsInput) (*huma.StreamResponse, error) {
		filter, live, err := in.filter()
		if err != nil {
			return nil, err
		}
		if (in.Follow || live) && filter.After > 0 {
			// Who has received an event that there is not has followed another log, and would wait.
			head, err := s.head(ctx)
			if err != nil {
				return nil, err
			}
			if filter.After > head {
				return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("there is no event %d yet: the log ends with event %d", filter.After, head))
			}
		}
		if in.Follow || live {
			return &huma.StreamResponse{Body: func(ctx huma.Context) { s.stream(ctx, filter, live) }}, nil
		}
		return s.past(ctx, in.Conditional, filter, in.End)
	})
}

// past sends the events that there are by now, unless who asks has them: what a filter selects
// up to an event never changes. With marked, the last line says that the answer is whole.
func (s *Server) past(ctx context.Context, in Conditional, f deploylog.Filter, marked bool) (*huma.StreamResponse, error) {
	head, err := s.head(ctx)
	if err != nil {
		return nil, err
	}
	tag := ""
	if head > 0 { // otherwise nothing says where it ends
		if f.Until == 0 || f.Until > head {
			f.Until = head
		}
		tag = s.tag(f.Until, "events", fmt.Sprint(f.After), f.Deployment, string(f.Target), f.Name, f.Since.UTC().Format(time.RFC3339Nano), fmt.Sprint(f.Last), scope.Named(ctx), fmt.Sprint(marked))
	}
	until := min(f.Until, head)
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		if tag != "" {
			ctx.SetHeader("ETag", tag)
			ctx.SetHeader("Cache-Control", revalidated)
		}
		if tag != "" && in.names(tag) {
			ctx.SetStatus(http.StatusNotModified)
			return
		}
		ctx.SetHeader(Until, strconv.FormatInt(until, 10))
		out := s.writer(ctx, false)
		err := out.all(s.Log.Read(ctx.Context(), f))
		if err == nil && marked {
			err = out.last(map[string]any{"end": until})
		}
		if err != nil {
			s.cutOff(ctx.Context(), out, err)
		}
	}}, nil
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

// writer writes events to who asks for them, as lines or as server-sent ones.
func (s *Server) writer(hc huma.Context, live bool) *eventWriter {
	r, w := humago.Unwrap(hc)
	out := &eventWriter{w: w, control: http.NewResponseController(w), stalled: s.Stalled, live: live, asked: time.Now(), who: identity.Of(hc.Context())}
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
	return out
}

// stream writes events, also those that come, until who asked has gone or may read no more, or the
// server ends: it never ends as an answer does that is whole.
func (s *Server) stream(hc huma.Context, f deploylog.Filter, live bool) {
	ctx, cancel := context.WithCancel(hc.Context())
	out := s.writer(hc, live)
	out.w.WriteHeader(http.StatusOK)
	err := out.flush()
	if err == nil {
		var beating sync.WaitGroup
		beating.Go(func() {
			out.beat(ctx, s.Heartbeat)
			cancel()
		})
		if err = s.follow(ctx, f, out); ctx.Err() != nil { // then the log is not why
			err = errEnded
		}
		cancel()
		beating.Wait()
	}
	cancel()
	s.cutOff(hc.Context(), out, err)
}

// unreadable is why there are no more events, where that is not because of who asked.
type unreadable struct{ error }

// cutOff ends an answer that is not whole: with the reason where the log cannot be read, and
// otherwise by aborting it, so that it is not taken for a whole one. Server-sent events, which have no
// end, end with one that says so: browsers complain of what is aborted.
func (s *Server) cutOff(ctx context.Context, out *eventWriter, err error) {
	var why unreadable
	if ctx.Err() == nil && errors.As(err, &why) {
		s.Logger.Error("the log cannot be read on", "error", why.error)
		if out.problem("the log cannot be read on; the log of the server says why") == nil {
			return
		}
	}
	s.Logger.Debug("events were cut off", "error", err)
	if !out.live || out.cut() != nil {
		panic(http.ErrAbortHandler)
	}
}

// follow writes what there is already, and what comes then, which one reader reads for all
// who follow.
func (s *Server) follow(ctx context.Context, f deploylog.Filter, out *eventWriter) error {
	who, head, err := s.feed.Follow(ctx)
	if err != nil {
		return unreadable{err}
	}
	defer who.Leave()
	if f.After < head {
		before := f
		before.Until = head
		if err := s.backlog(ctx, before, out); err != nil {
			return err
		}
		f.After = head
	}
	for after := f.After; ; {
		items, through, more, err := who.Take(ctx, after, f)
		if err != nil {
			return unreadable{err}
		}
		if err := out.items(items, f); err != nil {
			return err
		}
		if through > after { // there may be more
			after = through
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
	}
}

// The backlog of a follower is read so many events at a time that they fit into what is sent at once,
// and sent when the log is read no more: nothing else is kept for a follower that takes nothing.
const (
	firstWindow, leastWindow, mostWindow = 16, 8, 1 << 20 // events that are looked at
	sentAtOnce                           = enough / 4
)

// backlog writes what there is already.
func (s *Server) backlog(ctx context.Context, f deploylog.Filter, out *eventWriter) error {
	if f.Last > 0 {
		return out.all(s.Log.Read(ctx, f))
	}
	window := int64(firstWindow)
	for part := f; part.After < f.Until; {
		part.Until = min(part.After+window, f.Until)
		through := part.Until
		if err := out.some(s.Log.Read(ctx, part), &through); err != nil {
			return err
		}
		if err := out.flush(); err != nil {
			return err
		}
		if through < part.Until {
			window = max(leastWindow, through-part.After)
		} else {
			window = min(2*window, mostWindow)
		}
		part.After = through
	}
	return nil
}

// eventWriter writes events to who may be slow: a write that takes longer than that ends
// it, so nothing is kept for who takes nothing.
type eventWriter struct {
	mu      sync.Mutex
	w       http.ResponseWriter
	control *http.ResponseController
	stalled time.Duration
	live    bool
	may     func() bool       // whether who asks may still read, whose token may have ended
	who     identity.Identity // events that they may not read are left out
	asked   time.Time         // when that was asked, before something was sent

	buffer bytes.Buffer
}

// errEnded is why a stream ends whose reader has gone or may read no more.
var errEnded = errors.New("who follows has gone, or may read no more")

// mayFor is for how long it is taken for granted that who may read still may: events are sent
// to very many at once.
const mayFor = time.Second

// enough is how much is written at once.
const enough = 32 << 10

// all writes events.
func (o *eventWriter) all(events iter.Seq2[deploylog.Event, error]) error {
	var text bytes.Buffer
	for e, err := range events {
		if err != nil {
			return unreadable{err}
		}
		if !scope.Target(o.who, e.Target) {
			continue
		}
		text.Reset()
		if err := encodeEvent(&text, e); err != nil {
			return fmt.Errorf("event %d: %w", e.Seq, err)
		}
		if err := o.event(e.Seq, text.Bytes()); err != nil {
			return err
		}
	}
	return o.flush()
}

// some writes events until there is enough to send at once. through is the last of them then.
func (o *eventWriter) some(events iter.Seq2[deploylog.Event, error], through *int64) error {
	for e, err := range events {
		if err != nil {
			return unreadable{err}
		}
		if !scope.Target(o.who, e.Target) {
			continue
		}
		text, err := textOf(e)
		if err != nil {
			return err
		}
		if !o.fits(len(text)) {
			*through = e.Seq - 1
			return nil
		}
		if err := o.event(e.Seq, text); err != nil {
			return err
		}
	}
	return nil
}

// fits reports whether an event fits into what is sent at once, with what is to be sent already. The first one
// always does: the buffer is made as large as it needs to be, and no larger.
func (o *eventWriter) fits(text int) bool {
	const around = 64 // bytes, as of server-sent events
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.buffer.Len() > 0 {
		return o.buffer.Len()+text+around <= sentAtOnce
	}
	if text < enough { // else it is not copied
		o.buffer.Grow(max(sentAtOnce, text+around))
	}
	return true
}

// items writes those that a filter selects, and sends them.
func (o *eventWriter) items(some []feed.Item, f deploylog.Filter) error {
	sends := false
	for _, i := range some {
		if i.Event.Target.Kind() == "token" && !o.may() {
			return errEnded
		}
		if !f.Selects(i.Event) || !scope.Target(o.who, i.Event.Target) {
			continue
		}
		sends = true
		if err := o.event(i.Event.Seq, i.Text); err != nil {
			return err
		}
	}
	if !sends {
		return nil
	}
	return o.flush()
}

// event writes an event, which is sent when there is enough to send.
func (o *eventWriter) event(seq int64, text []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.live {
		fmt.Fprintf(&o.buffer, "id: %d\n", seq)
	}
	return o.line(text)
}

// problem writes and sends why there are no more events.
func (o *eventWriter) problem(why string) error {
	if o.live {
		o.mu.Lock()
		o.buffer.WriteString("event: problem\n")
		o.mu.Unlock()
	}
	return o.last(map[string]any{"problem": why})
}

// cut sends that server-sent events are cut off, in the place of what was not sent yet: any client that may
// read no more may still know that.
func (o *eventWriter) cut() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buffer.Reset()
	_ = o.control.SetWriteDeadline(time.Now().Add(o.stalled)) // a connection that knows no deadlines is one of a test
	// The line before ends an event of which all but its end was sent.
	if _, err := o.w.Write([]byte("\nevent: cut\ndata: {}\n\n")); err != nil {
		return err
	}
	return o.control.Flush()
}

// last writes and sends a document that is no event.
func (o *eventWriter) last(document map[string]any) error {
	var text bytes.Buffer
	if err := encode(&text, document); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return errors.Join(o.line(text.Bytes()), o.send())
}

// line writes a line that ends with a line break. A long one is not copied.
func (o *eventWriter) line(text []byte) error {
	if o.live {
		o.buffer.WriteString("data: ")
	}
	if len(text) < enough {
		o.buffer.Write(text)
	} else if err := o.sendWith(text); err != nil {
		return err
	}
	if o.live {
		o.buffer.WriteByte('\n')
	}
	if o.buffer.Len() >= enough {
		return o.send()
	}
	return nil
}

// textOf is an event as a line.
func textOf(e deploylog.Event) ([]byte, error) {
	var text bytes.Buffer
	if err := encodeEvent(&text, e); err != nil {
		return nil, fmt.Errorf("event %d: %w", e.Seq, err)
	}
	return text.Bytes(), nil
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
	if err := o.sendWith(nil); err != nil {
		return err
	}
	return o.control.Flush()
}

// sendWith sends what was written, and a text behind it.
func (o *eventWriter) sendWith(text []byte) error {
	if now := time.Now(); now.Sub(o.asked) >= mayFor && o.buffer.Len()+len(text) > 0 {
		if !o.may() {
			return errEnded
		}
		o.asked = now
	}
	// A connection that knows no deadlines is one of a test.
	_ = o.control.SetWriteDeadline(time.Now().Add(o.stalled))
	for _, part := range [][]byte{o.buffer.Bytes(), text} {
		if len(part) == 0 {
			continue
		}
		if _, err := o.w.Write(part); err != nil {
			return err
		}
	}
	o.buffer.Reset()
	return nil
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
