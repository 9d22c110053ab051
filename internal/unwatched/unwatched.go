// Package unwatched holds the times in which no process watched an entity. Deadlines do not
// count them: time that nobody watched is no failure.
package unwatched

import (
	"slices"
	"time"
)

const (
	// Grace is how long after the last event of a process it counts as watching. Nothing may have
	// happened for longer, so an absence can only be told from silence by what follows.
	Grace = time.Minute

	// Most is how many absences one deployment has that deadlines do not count, so that it ends
	// also if its processes die again and again.
	Most = 100
)

// Span is a time in which nobody watched.
type Span struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Seq  int64     `json:"event"` // that says so
}

// Spans are in the order of time, and do not overlap.
type Spans []Span

// Since returns when the absence began that ends now, of an entity that was watched at a time for
// sure; zero is none.
func Since(watched, now time.Time) time.Time {
	if now.Sub(watched) <= Grace {
		return time.Time{}
	}
	return watched.Add(Grace)
}

// Add returns the spans with another one, of which only what is later than the last counts.
func (s Spans) Add(span Span) Spans {
	if len(s) > 0 && s[len(s)-1].To.After(span.From) {
		span.From = s[len(s)-1].To
	}
	if !span.To.After(span.From) || len(s) >= Most {
		return s
	}
	return append(slices.Clip(s), span)
}

// After returns when a time of length d has passed after another one, not counting the spans.
func (s Spans) After(from time.Time, d time.Duration) time.Time {
	at := from.Add(d)
	for _, span := range s {
		if span.To.After(from) && span.From.Before(at) {
			begin := span.From
			if begin.Before(from) {
				begin = from
			}
			at = at.Add(span.To.Sub(begin))
		}
	}
	return at
}

// Between returns how much of the time between two others nobody watched.
func (s Spans) Between(from, to time.Time) (sum time.Duration) {
	for _, span := range s {
		begin, end := span.From, span.To
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		sum += max(0, end.Sub(begin))
	}
	return sum
}

// Before returns the spans without what is after a time, for a clock that was set back.
func (s Spans) Before(now time.Time) Spans {
	var kept Spans
	for _, span := range s {
		if span.To.After(now) {
			span.To = now
		}
		kept = kept.Add(span)
	}
	return kept
}
