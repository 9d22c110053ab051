package pullrequest

import (
	"context"

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

// pulls finds those of the branch. Somebody may have edited the mark out of a text: then the
// commits have it.
func (s *session) pulls(ctx context.Context) (all pulls, err error) {
	if s.provider == nil {
		return nil, nil
	}
	found, err := s.provider.Find(ctx, s.Branch, s.Base)
	if err != nil {
		return nil, err
	}
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
