package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
)

const (
	pageEvents = 2048    // sequence numbers looked at within one page
	pageBytes  = 4 << 20 // of data, after which a page ends early
	pickEvents = 64      // sequence numbers looked up at once
	selected   = 65536   // up to so many matches of an index are remembered at once
)

// Read implements deploylog.Log. It ends with what was in the log when the
// iteration began.
func (l *Log) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		ctx, cancel := l.whileOpen(ctx)
		defer cancel()
		after, until, err := l.span(ctx, f)
		if err != nil {
			yield(deploylog.Event{}, l.readError(ctx, err))
			return
		}
		l.deliver(ctx, newSelection(f), after, until, yield)
	}
}

// deliver yields the selected events in (after, until] and reports whether there
// is any use in going on.
func (l *Log) deliver(ctx context.Context, s selection, after, until int64, yield func(deploylog.Event, error) bool) bool {
	for page, err := range l.pages(ctx, s, after, until) {
		if err != nil {
			yield(deploylog.Event{}, l.readError(ctx, err))
			return false
		}
		for _, e := range page {
			if !yield(e, nil) {
				return false
			}
		}
	}
	return true
}

// whileOpen is ctx, ended by Close as well.
func (l *Log) whileOpen(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	go func() {
		select {
		case <-l.closed:
			cancel(errClosed)
		case <-stop:
		}
	}()
	return ctx, func() { close(stop); cancel(nil) }
}

func (l *Log) readError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return fmt.Errorf("read deployment log: %w", explain(l.path, err))
}

// span is the range (after, until] of sequence numbers that a filter covers at
// this moment.
func (l *Log) span(ctx context.Context, f deploylog.Filter) (after, until int64, err error) {
	if until, err = l.newest(ctx); err != nil {
		return 0, 0, err
	}
	if f.Until > 0 {
		until = min(until, f.Until)
	}
	after = max(f.After, 0)
	s := newSelection(f)
	if f.Last > 0 && s.and == "" { // every number has its event
		return max(after, until-int64(f.Last)), until, nil
	}
	if f.Last > 0 {
		var first *int64
		err = l.readers.QueryRowContext(ctx,
			"SELECT min(seq) FROM (SELECT seq FROM events WHERE seq > ? AND seq <= ?"+s.and+" ORDER BY seq DESC LIMIT ?)",
			append(append([]any{after, until}, s.args...), f.Last)...).Scan(&first)
		if first != nil {
			after = *first - 1
		}
	}
	return after, until, err
}

func (l *Log) newest(ctx context.Context) (seq int64, err error) {
	err = l.last.QueryRowContext(ctx).Scan(&seq)
	return seq, err
}

// selection is a filter as SQL, without its range.
type selection struct {
	and     string
	args    []any
	indexed bool // an index finds the matches: those of a deployment
}

func newSelection(f deploylog.Filter) selection {
	var s selection
	if f.Deployment != "" {
		s.and, s.args, s.indexed = s.and+" AND deployment = ?", append(s.args, f.Deployment), true
	}
	switch target := string(f.Target); {
	case strings.HasSuffix(target, "/"):
		s.and, s.args = s.and+" AND substr(target, 1, ?) = ?", append(s.args, len([]rune(target)), target)
	case target != "":
		s.and, s.args = s.and+" AND target = ?", append(s.args, target)
	}
	if f.Name != "" {
		s.and, s.args = s.and+" AND event = ?", append(s.args, f.Name)
	}
	if !f.Since.IsZero() {
		s.and, s.args = s.and+" AND created_at >= ?", append(s.args, nanoseconds(f.Since))
	}
	return s
}

// pages yields the selected events of (after, until] in order, some at a time.
func (l *Log) pages(ctx context.Context, s selection, after, until int64) iter.Seq2[[]deploylog.Event, error] {
	return func(yield func([]deploylog.Event, error) bool) {
		if s.indexed && until-after > pageEvents {
			seqs, err := l.seqs(ctx, "SELECT seq FROM events WHERE +seq > ? AND +seq <= ?"+s.and+" LIMIT ?",
				append(append([]any{after, until}, s.args...), selected+1)...)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(seqs) <= selected {
				slices.Sort(seqs)
				l.picked(ctx, seqs, yield)
				return
			}
		}
		l.scan(ctx, s, after, until, yield)
	}
}

// picked yields the events of the given sequence numbers, some at a time.
func (l *Log) picked(ctx context.Context, seqs []int64, yield func([]deploylog.Event, error) bool) {
	for part := range slices.Chunk(seqs, pickEvents) {
		events, err := l.pick(ctx, part)
		if !yield(events, err) || err != nil {
			return
		}
	}
}

// pick returns the events of the given sequence numbers, in that order.
func (l *Log) pick(ctx context.Context, seqs []int64) ([]deploylog.Event, error) {
	if len(seqs) == 0 {
		return nil, nil
	}
	list, err := json.Marshal(seqs)
	if err != nil {
		return nil, err
	}
	s := selection{and: " AND seq IN (SELECT value FROM json_each(?))", args: []any{string(list)}}
	bySeq := make(map[int64]deploylog.Event, len(seqs))
	for after, until := slices.Min(seqs)-1, slices.Max(seqs); after < until; {
		var events []deploylog.Event
		if events, after, err = l.page(ctx, s, after, until); err != nil {
			return nil, err
		}
		for _, e := range events {
			bySeq[e.Seq] = e
		}
	}
	picked := make([]deploylog.Event, len(seqs))
	for i, seq := range seqs {
		e, ok := bySeq[seq]
		if !ok {
			return nil, corrupt("event %d is missing", seq)
		}
		picked[i] = e
	}
	return picked, nil
}

// scan yields page after page of a range.
func (l *Log) scan(ctx context.Context, s selection, after, until int64, yield func([]deploylog.Event, error) bool) {
	for after < until {
		events, through, err := l.page(ctx, s, after, min(until, after+pageEvents))
		if !yield(events, err) || err != nil {
			return
		}
		after = through
	}
}
