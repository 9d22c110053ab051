package pullrequest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/internal/pullrequest/provider"
	"github.com/deployster-go/deployster/internal/pullrequest/remote"
)

// propose brings about what is missing, in an order in which a process that dies anywhere
// leaves what the next one finds: the branch before the pull request, the pull request before
// what it says.
func (s *session) propose(ctx context.Context, w Wanted) (o Outcome, err error) {
	branches, err := s.repository.Branches(ctx)
	if err != nil {
		return o, err
	}
	base, err := s.base(branches)
	if err != nil {
		return o, err
	}
	tip := branches.Head(s.Branch)
	v, commits, err := s.view(ctx, branches, base, tip, w.Revision)
	if err != nil {
		return o, err
	}
	pulls, err := s.pulls(ctx, &w)
	if err != nil {
		return o, err
	}
	if v.base == w.Revision {
		return s.taken(ctx, w, v, tip, pulls)
	}
	open := pulls.open()
	if err := s.owned(v, open); err != nil {
		return o, err
	}
	last := pulls.of(w.Key)
	switch {
	case last == nil || open.has().made():
		last = nil
	case last.State != provider.Merged:
		return declined(last), nil
	default:
		if err := s.unchanged(ctx, base, last); err != nil {
			return o, err
		}
	}
	reverted := last != nil && v.parent != base // what was merged once is nothing new to the base branch
	if tip != "" && v.proposes(w.Revision) && !reverted {
		return s.opened(ctx, w, open, v.made.made())
	}
	if err := s.replaceable(v, tip, open, w.Key); err != nil {
		return o, err
	}
	if err := s.push(ctx, branches, w, base, tip, commits); err != nil {
		return o, err
	}
	return s.opened(ctx, w, open, tip == "" || v.made.made())
}

// proposes reports whether the branch has a value, in a commit that need not be made anew.
func (v view) proposes(value string) bool {
	return v.tip == value && (v.current || !v.made.made())
}

// mostLag is for how long a provider may show a pull request as merged before its branches do, and
// how far its clock may be from the one here.
const mostLag = 2 * time.Minute

// unchanged fails where the base branch is not at a commit any more, or may not show yet what was
// merged: that would be taken for something reverted, and proposed a second time.
func (s *session) unchanged(ctx context.Context, base remote.Hash, last *pull) error {
	if since := s.Now().Sub(last.Merged); since.Abs() < mostLag {
		return fmt.Errorf("pull request %d is merged just now, and branch %s does not have it: either it has it soon, or somebody has set it back: %s", last.Number, s.Base, oneLine(last.URL))
	}
	if now, err := s.repository.Branches(ctx); err != nil || now.Head(s.Base) != base {
		return errors.Join(err, fmt.Errorf("pull request %d is merged just now, or branch %s was changed at the same time: %s", last.Number, s.Base, oneLine(last.URL)))
	}
	return nil
}

// push makes the branch a commit on the base branch as that is now.
func (s *session) push(ctx context.Context, b *remote.Branches, w Wanted, base, tip remote.Hash, commits []*remote.Commit) (err error) {
	if commits == nil {
		if commits, err = s.read(ctx, b, base, ""); err != nil {
			return err
		}
	}
	contents, err := s.set(commits[0], w.Revision)
	if err != nil {
		return err
	}
	now := s.Now()
	sign, err := s.signer(s.Style, now)
	if err != nil {
		return err
	}
	message, err := s.message(w)
	if err != nil {
		return err
	}
	if err := s.allowed(ctx); err != nil {
		return err
	}
	_, err = s.repository.Push(ctx, remote.Change{
		Branch: s.Branch, Was: tip, On: commits[0], Contents: contents, Message: message,
		Author: s.Style.author(), Committer: s.Style.committer(), When: now, Sign: sign,
	})
	if err != nil {
		return fmt.Errorf("pushing branch %s: %w", s.Branch, err)
	}
	return nil
}

// owned fails where somebody else proposes from the branch: two that do so would undo what the
// other one does, without end.
func (s *session) owned(v view, open *pull) error {
	for _, m := range []mark{v.made, open.has()} {
		if m.made() && !m.by(s.Owner) {
			return fmt.Errorf("branch %s is used by another: %s proposes from it, and not %s; name a branch for each (branch), or delete it and close its pull request where nobody needs them any more", s.Branch, oneLine(m.owner), s.Owner)
		}
	}
	return nil
}

// replaceable fails where somebody else has changed a branch, which is then left as it is.
func (s *session) replaceable(v view, tip remote.Hash, open *pull, key string) error {
	const shown = 10
	if tip == "" || v.made.made() || open.has().made() && !open.withdrawn && !open.of(key) {
		return nil
	}
	return fmt.Errorf("branch %s has commit %s by %s, not by Deployster, with the value %q: merge it or delete the branch, or name another one (branch)", s.Branch, tip[:min(len(tip), shown)], oneLine(v.author), oneLine(v.tip))
}

// taken is what there is to say where the base branch has the value. What was proposed before
// would set it back, so that is closed.
func (s *session) taken(ctx context.Context, w Wanted, v view, tip remote.Hash, pulls pulls) (Outcome, error) {
	o := Outcome{Status: Taken, Detail: fmt.Sprintf("branch %s has it", s.Base)}
	if p := pulls.of(w.Key); p != nil && p.State == provider.Merged {
		o.Number, o.URL = p.Number, p.URL
		o.Detail = fmt.Sprintf("pull request %d is merged: %s", p.Number, oneLine(p.URL))
	}
	open := pulls.open()
	outstanding := open.has().by(s.Owner) || s.provider == nil && tip != "" && v.made.by(s.Owner) && v.tip != w.Revision
	if outstanding {
		if err := s.withdraw(ctx); err != nil {
			return Outcome{}, err
		}
	}
	return o, nil
}

// declined is what becomes of a promotion whose pull request somebody closed.
func declined(p *pull) Outcome {
	return Outcome{
		Status: Declined, Number: p.Number, URL: p.URL, Detail: fmt.Sprintf("pull request %d was closed without being merged: %s", p.Number, oneLine(p.URL)),
	}
}

// opened has a pull request be open that says what the branch has. ours is whether nobody else
// has made the branch.
func (s *session) opened(ctx context.Context, w Wanted, open *pull, ours bool) (Outcome, error) {
	if s.provider == nil {
		return Outcome{Status: Proposed, Detail: "branch " + s.Branch + " has it"}, nil
	}
	text, err := s.text(w)
	if err != nil {
		return Outcome{}, err
	}
	switch {
	case open == nil:
	case open.of(w.Key), ours && !open.made(): // what people made of its texts is theirs
		return found(open.PullRequest), nil
	case !open.made():
		return Outcome{}, fmt.Errorf("branch %s has pull request %d, which is not of Deployster: close it and delete the branch, or name another one (branch)", s.Branch, open.Number)
	}
	if err := s.allowed(ctx); err != nil {
		return Outcome{}, err
	}
	if open == nil {
		p, err := s.provider.Open(ctx, text, s.Branch, s.Base)
		if err != nil {
			return Outcome{}, err
		}
		return found(p), nil
	}
	if err := s.provider.Edit(ctx, open.Number, text); err != nil {
		return Outcome{}, err
	}
	return found(open.PullRequest), nil
}

func found(p provider.PullRequest) Outcome {
	return Outcome{Status: Proposed, Number: p.Number, URL: p.URL, Detail: fmt.Sprintf("pull request %d: %s", p.Number, oneLine(p.URL))}
}

// withdraw closes what was proposed, whoever's turn it was.
func (s *session) withdraw(ctx context.Context) error {
	pulls, err := s.pulls(ctx, nil)
	if err != nil {
		return err
	}
	if err := s.allowed(ctx); err != nil {
		return err
	}
	for _, p := range pulls {
		if p.State != provider.Open || !p.by(s.Owner) {
			continue
		}
		// First, so that nobody takes its end for a decline, whoever dies in between.
		if err := s.provider.Edit(ctx, p.Number, provider.Text{Title: p.Title, Body: withdrawn(p.Body, p.mark)}); err != nil {
			return err
		}
		if err := s.provider.Close(ctx, p.Number); err != nil {
			return err
		}
	}
	branches, err := s.repository.Branches(ctx)
	if err != nil {
		return err
	}
	tip := branches.Head(s.Branch)
	if tip == "" {
		return nil
	}
	commits, err := branches.Read(ctx, nil, tip)
	if err != nil || !markOf(commits[0].Message).by(s.Owner) {
		return err // what others committed is theirs
	}
	if err := s.repository.Delete(ctx, s.Branch, tip); err != nil && !errors.Is(err, remote.ErrMoved) {
		return fmt.Errorf("deleting branch %s: %w", s.Branch, err)
	}
	return nil
}
