// Package reachable finds a host that answers, for a caller to whom any of several will do.
package reachable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// The bounds of a search for a host that answers.
const (
	Timeout     = 30 * time.Second // of all the time that goes by with asking
	askedAtOnce = 16               // hosts, once the first of them does not answer
	mostReasons = 3                // of hosts that do not answer, in an error
)

// ErrNone is wrapped if no host answers.
var ErrNone = errors.New("no host answers")

// Search finds hosts that answer, each with a connection C to it. It asks each host once: in a large
// fleet some are always away, and a caller who asks them for every image waits for them each time.
type Search[C any] struct {
	ask      func(ctx context.Context, host string) (C, error)
	each     time.Duration // how long a host may take
	left     time.Duration
	answered map[string]C
	away     map[string]error
}

// New returns a search that asks a host with ask, each for so long at most.
func New[C any](each time.Duration, ask func(ctx context.Context, host string) (C, error)) *Search[C] {
	return &Search[C]{ask: ask, each: each, left: Timeout, answered: map[string]C{}, away: map[string]error{}}
}

// First is the first of the hosts that answers, with its engine: that of the default, of no
// host, where there are no hosts. Where the first of them does not, several others are asked
// at once.
func (s *Search[C]) First(ctx context.Context, hosts []string) (host string, on C, err error) {
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	var open []string
	for _, host := range hosts {
		if on, known := s.answered[host]; known {
			return host, on, nil
		}
		if s.away[host] == nil && !slices.Contains(open, host) {
			open = append(open, host)
		}
	}
	began := time.Now()
	defer func() { s.left -= time.Since(began) }()
	asking, cancel := context.WithTimeout(ctx, s.left)
	defer cancel()
	for _, some := range [][]string{open[:min(len(open), 1)], open[min(len(open), 1):]} {
		if host, on, found := s.among(asking, some); found {
			return host, on, nil
		}
	}
	if ctx.Err() != nil {
		return "", on, context.Cause(ctx)
	}
	return "", on, s.none(hosts)
}

// among returns the first host that answers in time. It asks no host any more when it returns.
func (s *Search[C]) among(ctx context.Context, hosts []string) (name string, first C, found bool) {
	ctx, done := context.WithCancel(ctx)
	defer done()
	var mu sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, askedAtOnce)
	for _, host := range hosts {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		group.Go(func() {
			defer func() { <-slots }()
			asking, cancel := context.WithTimeout(ctx, s.each)
			defer cancel()
			on, err := s.ask(asking, host)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && !found:
				name, first, found, s.answered[host] = host, on, true, on
				done()
			case err != nil && !found:
				s.away[host] = err
			}
		})
	}
	group.Wait()
	return name, first, found
}

// none is that none of the hosts answers, with the reasons of some.
func (s *Search[C]) none(hosts []string) error {
	asked := map[string]bool{}
	all := map[string]bool{}
	var reasons []error
	for _, host := range hosts {
		if err := s.away[host]; err != nil && !asked[host] {
			asked[host] = true
			reasons = append(reasons, err)
		}
		all[host] = true
	}
	more := ""
	if len(reasons) > mostReasons {
		more = fmt.Sprintf(", and %d more", len(reasons)-mostReasons)
		reasons = reasons[:mostReasons]
	}
	why := cmp.Or(errors.Join(reasons...), errors.New("there was no time left to ask"))
	return fmt.Errorf("%w (%d of %d were asked, for at most %s): %w%s", ErrNone, len(asked), len(all), Timeout, why, more)
}
