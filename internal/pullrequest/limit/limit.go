// Package limit knows when servers want not to be asked, by what they answer: too many
// requests, or not now.
package limit

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	mostWait  = time.Hour
	leastWait = time.Minute // where a server says that it is asked too often, and not until when
)

// Error is that a server wants not to be asked before a time.
type Error struct{ Until time.Time }

func (e *Error) Error() string {
	return "the server is asked too often, and wants to be left alone until " + e.Until.UTC().Format("15:04:05") + " UTC"
}

// Of is until when a server wants not to be asked by its answer; zero is that it may be. refused
// is whether it did not do what it was asked for because of that.
func Of(now time.Time, status int, h http.Header) (until time.Time, refused bool) {
	spent := h.Get("X-RateLimit-Remaining") == "0" || h.Get("RateLimit-Remaining") == "0"
	after := h.Get("Retry-After")
	refused = status == http.StatusTooManyRequests || status == http.StatusForbidden && (spent || after != "") ||
		status == http.StatusServiceUnavailable && after != ""
	if !refused && !spent {
		return time.Time{}, false
	}
	until = said(now, h)
	if until.IsZero() && refused {
		until = now.Add(leastWait)
	}
	if latest := now.Add(mostWait); until.After(latest) {
		until = latest
	}
	return until, refused
}

// said is when a server may be asked again by the headers of its answer, zero where they do not
// say, or it is over.
func said(now time.Time, h http.Header) (until time.Time) {
	if after := h.Get("Retry-After"); after != "" {
		if seconds, err := strconv.Atoi(after); err == nil {
			until = now.Add(time.Duration(min(max(seconds, 0), int(mostWait/time.Second))) * time.Second)
		} else if at, err := http.ParseTime(after); err == nil {
			until = at
		}
	}
	for _, name := range []string{"X-RateLimit-Reset", "RateLimit-Reset"} {
		if unix, err := strconv.ParseInt(h.Get(name), 10, 64); err == nil && until.IsZero() {
			until = time.Unix(unix, 0)
		}
	}
	if !until.After(now) {
		return time.Time{}
	}
	return until
}

// Servers are those that want to be left alone, each by whom it was asked. They are safe for
// concurrent use.
type Servers struct {
	Now func() time.Time

	mu    sync.Mutex
	alone map[string]time.Time
}

// Leave notes until when one wants to be left alone.
func (s *Servers) Leave(who string, until time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone == nil {
		s.alone = map[string]time.Time{}
	}
	s.alone[who] = until
}

// May returns an *Error while one wants to be left alone. Where the clock was set back that is
// over.
func (s *Servers) May(who string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, now := s.alone[who], s.Now()
	if now.Before(until) && until.Sub(now) <= mostWait {
		return &Error{until}
	}
	delete(s.alone, who)
	return nil
}
