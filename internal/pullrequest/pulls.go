package pullrequest

import (
	"context"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest/provider"
)

// pull is a pull request, and what it was made for.
type pull struct {
	provider.PullRequest
	mark
}

// has is the mark of a pull request, which may be none.
func (p *pull) has() mark {
	if p == nil {
		return mark{}
	}
	return p.mark
}

// pulls are the pull requests of a branch, newest first.
type pulls []pull

// mostRead is of how many pull requests without a mark in their texts the commits are read.
const mostRead = 10

// pulls finds those of the branch that are open, and of the others at least the one of what is
// wanted, where nothing is open; nil is that nothing is. Somebody may have edited the mark out of
// a text: then the commits have it.
func (s *session) pulls(ctx context.Context, w *Wanted) (all pulls, err error) {
	if s.provider == nil {
		return nil, nil
	}
	found, err := s.provider.Find(ctx, s.Branch, s.Base)
	if err != nil {
		return nil, err
	}
	if all, err = s.marked(ctx, found); err != nil || w == nil || all.open().has().made() {
		return all, err
	}
	past, err := s.provider.Past(ctx, s.Branch, s.Base, s.earliest(w), func(p provider.PullRequest) bool { return markOf(p.Body).of(w.Key) })
	if err != nil {
		return nil, err
	}
	more, err := s.marked(ctx, past)
	return append(all, more...), err
}

// earliest is since when there may be a pull request of what is wanted, by the clock of a server.
func (s *session) earliest(w *Wanted) time.Time {
	const apart = 24 * time.Hour // clocks
	since := s.Now()
	if !w.Since.IsZero() && w.Since.Before(since) {
		since = w.Since
	}
	return since.Add(-apart)
}

// marked finds the marks of pull requests.
func (s *session) marked(ctx context.Context, found []provider.PullRequest) (all pulls, err error) {
	read := 0
	for _, p := range found {
		m := markOf(p.Body)
		if !m.made() && read < mostRead {
			read++
			if m, err = s.committed(ctx, p); err != nil {
				return nil, err
			}
		}
		all = append(all, pull{p, m})
	}
	return all, nil
}

// committed is the mark that a commit of a pull request has.
func (s *session) committed(ctx context.Context, p provider.PullRequest) (mark, error) {
	messages, err := s.provider.Messages(ctx, p.Number)
	if err != nil {
		return mark{}, err
	}
	for _, message := range messages {
		if m := markOf(message); m.made() {
			return m, nil
		}
	}
	return mark{}, nil
}

// open is the one that is open: one that was opened here, if there is one.
func (all pulls) open() (found *pull) {
	for i := range all {
		if all[i].State != provider.Open {
			continue
		}
		if found == nil || !found.made() && all[i].made() {
			found = &all[i]
		}
	}
	return found
}

// of is the newest of a promotion, nil for none.
func (all pulls) of(key string) *pull {
	for i := range all {
		if all[i].of(key) {
			return &all[i]
		}
	}
	return nil
}
