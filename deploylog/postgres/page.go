package postgres

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/chain"
	"github.com/deployster-go/deployster/internal/crash"
)

const (
	pageEvents = 4096    // of one page
	pageBytes  = 8 << 20 // of data, after which a page ends early
	reachMore  = 4       // times as far is looked for the next page where few events were selected
)

// span is the events after one of them, until another one.
type span struct{ after, until int64 }

// first is the beginning of a span, of so many sequence numbers at most.
func (s span) first(n int64) span { return span{s.after, s.after + min(n, s.until-s.after)} }

// stored is an event, and what is stored with it, where that was asked for.
type stored struct {
	deploylog.Event
	registered int64
	hash       []byte
}

// page is some of the selected events of a span.
type page struct {
	events  []stored
	through int64 // up to which sequence number was looked for them
	err     error
}

// pages are the selected events of a span, as they are stored with what is chained to them or
// without. No transaction lasts while they are taken: since nothing ever changes, they need no
// common snapshot. Who has taken a whole page likely takes the others, so from then on the next one
// is read ahead; nothing is read any more when the iteration has ended.
//
// Each page is looked for in a part of the span that is likely enough for it, and not in all of it:
// as long as the server has no statistics of a log it finds all that is selected, and then sorts it.
// The events of one deployment it finds by an index, wherever they are.
func (l *Log) pages(ctx context.Context, f deploylog.Filter, of span, chained bool, reading reader) iter.Seq2[[]stored, error] {
	return func(yield func([]stored, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var ahead chan page
		defer func() {
			cancel() // who has what it wants does not wait for more
			if ahead != nil {
				<-ahead
			}
		}()
		reach, indexed := int64(pageEvents), f.Deployment != ""
		if indexed {
			reach = of.until
		}
		part := of.first(reach)
		for first := true; of.after < of.until; first = false {
			var p page
			if ahead == nil {
				p = l.page(ctx, f, part, chained, reading)
			} else {
				p, ahead = <-ahead, nil
			}
			switch {
			case indexed:
			case p.through < part.until:
				reach = max(reach/reachMore, pageEvents)
			case len(p.events) < pageEvents/2:
				reach = min(reach, of.until/reachMore) * reachMore
			}
			of.after = p.through
			if part = of.first(reach); p.err == nil && !first && of.after < of.until {
				next := make(chan page, 1)
				go func(part span) {
					var p page
					defer func() { next <- p }()
					defer crash.Catch(&p.err, "reading the deployment log")
					p = l.page(ctx, f, part, chained, reading)
				}(part)
				ahead = next
			}
			if !yield(p.events, p.err) || p.err != nil {
				return
			}
		}
	}
}

// page reads the selected events of a span until the page is full.
func (l *Log) page(ctx context.Context, f deploylog.Filter, of span, chained bool, reading reader) (p page) {
	p.err = reading(ctx, func(ctx context.Context) (err error) {
		p.events, p.through, err = l.fill(ctx, f, of, chained)
		return err
	})
	return p
}

// fill reads a page. Data that may be too long for it is read apart, once it is known how long it
// is: what is read but not wanted would have to come over the network.
func (l *Log) fill(ctx context.Context, f deploylog.Filter, of span, chained bool) (events []stored, through int64, err error) {
	q := selecting(f, of)
	short := pageBytes / min(of.until-of.after, pageEvents)
	text := "SELECT seq, id, deployment, target, revision, event, attempt, created_at, coalesce(octet_length(data), 0), CASE WHEN octet_length(data) <= " + q.arg(short) + " THEN data END"
	if chained {
		text += ", registered, hash"
	}
	rows, err := l.readers.Query(ctx, text+" FROM events WHERE "+q.where+" ORDER BY seq LIMIT "+q.arg(pageEvents), q.args...)
	if err != nil {
		return nil, 0, err
	}
	var (
		s                                      stored
		id, deployment, target, revision, name repeated
		created, size, bytes, read             int64
		data                                   []byte
		long                                   []int64 // of events, whose data is read apart
		into                                   = []any{&s.Seq, &id, &deployment, &target, &revision, &name, &s.Attempt, &created, &size, &data}
	)
	if chained {
		into = append(into, &s.registered, &s.hash)
	}
	full := false
	_, err = pgx.ForEachRow(rows, into, func() error {
		read++
		if full = full || bytes >= pageBytes; full {
			return nil
		}
		if bytes += size; size > short {
			long = append(long, s.Seq)
		}
		s.ID, s.Deployment, s.Target, s.Revision, s.Name = string(id), string(deployment), deploylog.Target(target), string(revision), string(name)
		s.CreatedAt, s.Data = time.Unix(0, created).UTC(), json.RawMessage(data)
		events, through = append(events, s), s.Seq
		return nil
	})
	if err == nil && len(long) > 0 {
		err = l.fillLong(ctx, events, long)
	}
	if !full && read < pageEvents {
		through = of.until
	}
	return events, through, err
}

// fillLong reads the data of some events of a page.
func (l *Log) fillLong(ctx context.Context, events []stored, long []int64) error {
	rows, err := l.readers.Query(ctx, "SELECT seq, data FROM events WHERE seq = ANY($1) ORDER BY seq", long)
	if err != nil {
		return err
	}
	var seq int64
	var data []byte
	_, err = pgx.ForEachRow(rows, []any{&seq, &data}, func() error {
		for len(events) > 0 && events[0].Seq < seq {
			events = events[1:]
		}
		if len(long) == 0 || long[0] != seq || len(events) == 0 {
			return chain.Missing(seq)
		}
		events[0].Data, long = json.RawMessage(data), long[1:]
		return nil
	})
	if err == nil && len(long) > 0 {
		return chain.Missing(long[0])
	}
	return err
}

// repeated is a text that is often that of the row before, too.
type repeated string

// ScanBytes implements pgtype.BytesScanner.
func (r *repeated) ScanBytes(text []byte) error {
	if string(*r) != string(text) {
		*r = repeated(text)
	}
	return nil
}
