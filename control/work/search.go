package work

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
	searchTimeout = 30 * time.Second // of all the time that goes by with asking
	askedAtOnce   = 16               // hosts, once the first of them does not answer
	mostReasons   = 3                // of hosts that do not answer, in an error
)

// search finds hosts that answer, for somebody to whom any of several will do. Each host is
// asked once: in a large fleet some are always away, and whoever asks them for every image
// waits for them again and again.
type search struct {
	pool     *EnginePool
	left     time.Duration
	answered map[string]*Connection
	away     map[string]error
}

func newSearch(pool *EnginePool) *search {
	return &search{pool: pool, left: searchTimeout, answered: map[string]*Connection{}, away: map[string]error{}}
}

// first is the first of the hosts that answers, with its engine: that of the default, of no
// host, where there are no hosts. Where the first of them does not, several others are asked
// at once.
func (s *search) first(ctx context.Context, hosts []string) (string, *Connection, error) {
	if len(hosts) == 0 {
		hosts = []string{""}
	}
	var open []string
	for _, host := range hosts {
		if on := s.answered[host]; on != nil {
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
		if host, on := s.ask(asking, some); on != nil {
			return host, on, nil
		}
	}
	if ctx.Err() != nil {
		return "", nil, context.Cause(ctx)
	}
	return "", nil, s.none(hosts)
}

// ask returns the first host that answers with its engine, nil if none does in time. It is
// asking no host any more when it returns.
func (s *search) ask(ctx context.Context, hosts []string) (string, *Connection) {
	ctx, found := context.WithCancel(ctx)
	defer found()
	var mu sync.Mutex
	var name string
	var first *Connection
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
			asking, cancel := context.WithTimeout(ctx, HostTimeout)
			defer cancel()
			on, err := s.pool.Answering(asking, host)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && first == nil:
				name, first, s.answered[host] = host, on, on
				found()
			case err != nil && first == nil:
				s.away[host] = err
			}
		})
	}
	group.Wait()
	return name, first
}

// none is that none of the hosts answers, with the reasons of some.
func (s *search) none(hosts []string) error {
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
	return fmt.Errorf("%w (%d of %d were asked, for at most %s): %w%s", ErrNoHostAnswers, len(asked), len(all), searchTimeout, why, more)
}
