package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Log is the log of a server, to read.
type Log struct {
	*Client
	id     string
	closed context.Context
	close  context.CancelCauseFunc
}

// errClosed is why nothing is read any more.
var errClosed = errors.New("the log is closed")

// Open is the log of a server, which must answer.
func (c *Client) Open(ctx context.Context) (*Log, error) {
	var info struct {
		ID string `json:"id"`
	}
	if err := c.get(ctx, "/v1/log", nil, &info); err != nil {
		return nil, err
	}
	l := &Log{Client: c, id: info.ID}
	l.closed, l.close = context.WithCancelCause(context.WithoutCancel(ctx))
	return l, nil
}

// ErrRemote is wrapped where something is to be done with the log of a server that only
// who has the log can do.
var ErrRemote = errors.New("only commands can be sent to a server")

func (l *Log) remote(what string) error {
	return fmt.Errorf("%s the log of server %s: %w: what does work runs where the log is, without --server and DEPLOYSTER_SERVER; the server does the work of pipelines, environments and build groups itself", what, l.server, ErrRemote)
}

// ID implements deploylog.Log.
func (l *Log) ID() string { return l.id }

// Close implements deploylog.Log.
func (l *Log) Close() error {
	l.close(errClosed)
	l.http.CloseIdleConnections()
	return nil
}

// Append implements deploylog.Log: it refuses.
func (l *Log) Append(context.Context, ...deploylog.Event) ([]deploylog.Event, error) {
	return nil, l.remote("appending to")
}

// Lock implements deploylog.Log: it refuses.
func (l *Log) Lock(context.Context, string) (unlock func(), err error) {
	return nil, l.remote("locking")
}

// TryLock implements deploylog.Log: it refuses.
func (l *Log) TryLock(string) (unlock func(), err error) { return nil, l.remote("locking") }

// shortly is how long what has no context of its own may take.
const shortly = 30 * time.Second

// Locked implements deploylog.Log.
func (l *Log) Locked(name string) (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), shortly)
	defer cancel()
	var out struct {
		Locked bool `json:"locked"`
	}
	err := l.get(ctx, "/v1/log/locked", url.Values{"name": {name}}, &out)
	return out.Locked, err
}

// Heart implements deploylog.HeartbeatLog: it refuses.
func (l *Log) Heart() (deploylog.Heart, error) { return nil, l.remote("keeping a heartbeat beside") }

// Heartbeats implements deploylog.HeartbeatLog.
func (l *Log) Heartbeats() ([]deploylog.Heartbeat, error) {
	ctx, cancel := context.WithTimeout(context.Background(), shortly)
	defer cancel()
	var out struct {
		Heartbeats []struct {
			deploylog.Heartbeat
			Last time.Time `json:"last"`
		} `json:"heartbeats"`
	}
	err := l.get(ctx, "/v1/log/heartbeats", nil, &out)
	var all []deploylog.Heartbeat
	for _, h := range out.Heartbeats {
		h.Heartbeat.Last = h.Last
		all = append(all, h.Heartbeat)
	}
	return all, err
}

// Latest implements deploylog.Log.
func (l *Log) Latest(ctx context.Context, t deploylog.Target, o deploylog.Outcome) (e deploylog.Event, ok bool, err error) {
	var out struct {
		Event *deploylog.Event `json:"event"`
	}
	err = l.get(ctx, "/v1/log/latest", url.Values{"target": {string(t)}, "outcome": {string(o)}}, &out)
	if err != nil || out.Event == nil {
		return e, false, err
	}
	return *out.Event, true, nil
}

// InProgress implements deploylog.Log.
func (l *Log) InProgress(ctx context.Context, t deploylog.Target) ([]deploylog.Event, error) {
	var out struct {
		Events []deploylog.Event `json:"events"`
	}
	err := l.get(ctx, "/v1/log/in-progress", url.Values{"target": {string(t)}}, &out)
	if len(out.Events) == 0 {
		return nil, err
	}
	return out.Events, err
}

// Verify implements deploylog.Log.
func (l *Log) Verify(ctx context.Context, known ...deploylog.Head) (v deploylog.Verification, err error) {
	query := url.Values{}
	for _, h := range known {
		query.Add("anchor", h.String())
	}
	var out struct {
		Events int64  `json:"events"`
		Head   string `json:"head"`
	}
	err = l.get(ctx, "/v1/log/verify", query, &out)
	var refused *Refusal
	if errors.As(err, &refused) && refused.Status == http.StatusConflict {
		err = fmt.Errorf("%w%w", hidden{deploylog.ErrCorrupt}, err)
	}
	return deploylog.Verification{Events: out.Events, Head: out.Head}, err
}

// hidden is an error that the text of the next one says already.
type hidden struct{ error }

// Error says nothing.
func (hidden) Error() string { return "" }

// Unwrap returns what is said already.
func (h hidden) Unwrap() error { return h.error }

// errOther is why a log is not read on: the numbers of events mean something else in another.
var errOther = errors.New("it has another log than it had")

// rewatch is how long Watch waits before it asks a server again that has gone.
const rewatch = time.Second

// Watch implements deploylog.Log. Where the connection ends it goes on with a new one, behind
// the last event that it has yielded; what a server refuses ends it.
func (l *Log) Watch(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		if f.Until != 0 {
			yield(deploylog.Event{}, errors.New("watch deployment log: a watch has no end, do not set Until"))
			return
		}
		for begun := false; ; {
			stopped := false
			query := queryOf(f)
			query.Set("follow", "true")
			_, err := l.stream(ctx, query, func(http.Header) { begun = true }, func(e deploylog.Event) bool {
				f.After, f.Last = e.Seq, 0
				stopped = !yield(e, nil)
				return !stopped
			})
			var refused *Refusal
			switch {
			case stopped || ctx.Err() != nil:
				return
			case err != nil && (!begun || errors.As(err, &refused) && refused.lasts() || errors.Is(err, errClosed) || errors.Is(err, errOther)):
				yield(deploylog.Event{}, err)
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-l.closed.Done():
			case <-time.After(rewatch):
			}
		}
	}
}

// queryOf is a filter as the server is asked for it.
func queryOf(f deploylog.Filter) url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"deployment": f.Deployment, "target": string(f.Target), "name": f.Name} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, value := range map[string]int64{"after": f.After, "until": f.Until, "last": int64(f.Last)} {
		if value != 0 {
			query.Set(name, strconv.FormatInt(value, 10))
		}
	}
	if !f.Since.IsZero() {
		query.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	return query
}

// quiet is how long a stream may send nothing: servers say that they are alive more often.
const quiet = 2 * time.Minute

// maxLine is how long the line of an event may be.
const maxLine = 4 * deploylog.MaxData

// unmarked is the end of an answer that does not say where it ends.
const unmarked = -1

// stream reads events until there are no more, or enough of them, and returns the event up to which
// there are no more, as the server says. begun is called with what the server begins to answer.
func (l *Log) stream(ctx context.Context, query url.Values, begun func(http.Header), each func(deploylog.Event) bool) (end int64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.closed, func() { cancel(errClosed) })()
	alive := time.AfterFunc(quiet, func() { cancel(fmt.Errorf("it has sent nothing for %v", quiet)) })
	defer alive.Stop()
	failed := func(err error) error {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return fmt.Errorf("reading the log of server %s: %w", l.server, err)
	}
	answer, err := l.do(ctx, request{method: http.MethodGet, path: "/v1/events", query: query})
	if err != nil {
		var refused *Refusal
		if errors.As(err, &refused) && refused.log != "" && refused.log != l.id {
			return unmarked, failed(errOther)
		}
		if errors.Is(context.Cause(ctx), errClosed) {
			err = failed(err)
		}
		return unmarked, err
	}
	defer answer.Body.Close() //nolint:errcheck // it is read only
	if id := answer.Header.Get("Deployster-Log"); id != l.id {
		return unmarked, failed(errOther)
	}
	begun(answer.Header)
	lines := bufio.NewReaderSize(answer.Body, 64<<10)
	for {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF) && len(line) == 0:
			return unmarked, nil
		case err != nil:
			return unmarked, failed(err)
		}
		if len(line) <= 1 {
			alive.Reset(quiet)
			continue
		}
		var e struct {
			deploylog.Event
			Raw     []byte `json:"raw_data"` // where its data is no part of a line
			Problem string `json:"problem"`
			End     *int64 `json:"end"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return unmarked, failed(err)
		}
		if e.Problem != "" {
			return unmarked, &Refusal{Detail: fmt.Sprintf("server %s: %s", l.server, e.Problem)}
		}
		if e.End != nil {
			return *e.End, nil
		}
		if e.Raw != nil {
			e.Data = e.Raw
		}
		alive.Stop() // whoever receives it may take long
		if !each(e.Event) {
			return unmarked, nil
		}
		alive.Reset(quiet)
	}
}

// readLine is a line, which may be longer than the buffer, and no longer than any is.
func readLine(from *bufio.Reader) (line []byte, err error) {
	for {
		part, err := from.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return nil, errors.New("a line is too long")
		case err == nil:
			return line, nil
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
