package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// errCut is why what was read is not all.
var errCut = errors.New("the answer was cut off")

// uncut asks for what changes nothing, again as long as the answer is cut off: by a server that is
// stopped, for one, whose place another one takes.
func (c *Client) uncut(ctx context.Context, do func() error) error {
	pause := firstPause
	for n := 1; ; n++ {
		err := do()
		if err == nil || n == tries || !errors.Is(err, errCut) {
			return err
		}
		c.http.CloseIdleConnections() // each leads to the same server as before
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		pause *= 2
	}
}

// Read implements deploylog.Log. An answer that is cut off is taken up again behind the last event
// that it had, perhaps by another server of the log, up to the event to which the first one went.
func (l *Log) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		r := &reading{log: l, rest: f, until: unknown}
		pause := time.Duration(0)
		for n := 0; ; {
			some := false
			whole, stopped, err := r.once(ctx, func(e deploylog.Event) bool {
				some = true
				return yield(e, nil)
			})
			if some { // it goes on
				n, pause = 0, 0
			}
			n++
			switch {
			case stopped || whole:
				return
			case !r.begun || n == tries || r.lasts(ctx, err):
				yield(deploylog.Event{}, r.why(ctx, err))
				return
			}
			l.http.CloseIdleConnections() // each leads to the same server as before
			select {
			case <-ctx.Done():
			case <-l.closed.Done():
			case <-time.After(pause):
			}
			pause = max(firstPause, 2*pause)
		}
	}
}

// unknown is where a log ended whose server has not said it.
const unknown = -1

// reading is what is read of a log that may take several answers.
type reading struct {
	log    *Log
	rest   deploylog.Filter // what was not read yet
	begun  bool             // an answer has
	until  int64            // the event to which the first answer went
	marked bool             // its server marks the end of answers
	last   int64            // event that was read
}

// once reads as much as one answer has.
func (r *reading) once(ctx context.Context, each func(deploylog.Event) bool) (whole, stopped bool, err error) {
	query := queryOf(r.rest)
	query.Set("end", "true")
	again, some := r.begun, false
	end, err := r.log.stream(ctx, query, r.begin, func(e deploylog.Event) bool {
		some = true
		r.last = e.Seq
		r.rest.After, r.rest.Last = e.Seq, 0
		stopped = !each(e)
		return !stopped
	})
	switch {
	case err != nil || stopped:
		return false, stopped, err
	case end != unmarked:
		whole = end >= r.until
	case r.marked:
	default:
		// A server that marks nothing is believed where it has nothing more behind what it sent.
		whole = r.until == unknown || r.last >= r.until || again && !some
	}
	if !whole {
		err = fmt.Errorf("reading the log of server %s: %w", r.log.server, errCut)
	}
	return whole, false, err
}

// begin takes from the first answer how far it goes: the others are to go as far, and no further.
func (r *reading) begin(header http.Header) {
	if r.begun {
		return
	}
	r.begun = true
	said := header.Get("Deployster-Until")
	r.marked = said != ""
	if !r.marked { // that of an older server begins with the same
		said, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(header.Get("ETag"), "W/"), `"`), "-")
	}
	if until, err := strconv.ParseInt(said, 10, 64); err == nil && until > 0 {
		r.until, r.rest.Until = until, until
	}
}

// lasts reports whether another answer would end in the same way.
func (r *reading) lasts(ctx context.Context, err error) bool {
	var refused *Refusal
	return ctx.Err() != nil || errors.As(err, &refused) && refused.lasts() || errors.Is(err, errForeign) || errors.Is(err, errClosed) || errors.Is(err, errOther)
}

// why is why not all was read.
func (r *reading) why(ctx context.Context, err error) error {
	if !r.begun || r.lasts(ctx, err) {
		return err
	}
	cut := fmt.Errorf("reading the log of server %s: %w after event %d, %d times in a row", r.log.server, errCut, r.last, tries)
	if !errors.Is(err, errCut) && !errors.Is(err, io.ErrUnexpectedEOF) {
		cut = fmt.Errorf("%w, at last by this: %w", cut, err)
	}
	return fmt.Errorf("%w: try again when the server runs", cut)
}
