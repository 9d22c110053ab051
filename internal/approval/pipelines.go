package approval

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Pipelines are those of a log at whose stages is approved: of revisions that are released, and
// of those that are observed. No name is of both kinds.
type Pipelines struct {
	Released *pipelines.Pipelines

	Observed     *promotions.Promotions
	Environments *environments.Environments // what is observed
}

// Of are the pipelines of a log.
func Of(log deploylog.Log, now func() time.Time) Pipelines {
	return Pipelines{pipelines.New(log, now), promotions.New(log, now), environments.New(log, now)}
}

// follow folds what is new, and reports whether a pipeline promotes by observed state.
func (p Pipelines) follow(ctx context.Context, name string) (observed bool, err error) {
	if err := errors.Join(p.Released.Follow(ctx, 0), p.Observed.Follow(ctx, 0)); err != nil {
		return false, err
	}
	return slices.Contains(p.Observed.Present(), name), nil
}

// Keys are the keys of a pipeline, without what they have signed.
func (p Pipelines) Keys(ctx context.Context, name string) (keys *approval.Keys, err error) {
	err = p.askKeys(ctx, name, func(k *approval.Keys) error { keys = k.Signers(); return nil })
	return keys, err
}

// admit refuses a signature that served before, or whose key may not sign now.
func (p Pipelines) admit(ctx context.Context, name, stage string, s record.Signature, now time.Time) error {
	return p.askKeys(ctx, name, func(k *approval.Keys) error { return k.Admit(s, stage, now) })
}

// askKeys calls do with the keys of a pipeline, which are not to be kept.
func (p Pipelines) askKeys(ctx context.Context, name string, do func(*approval.Keys) error) error {
	observed, err := p.follow(ctx, name)
	if err != nil {
		return err
	}
	if observed {
		return p.Observed.Ask(name, func(s *promotion.State) error { return do(s.Keys()) })
	}
	return p.Released.Ask(name, func(s *pipeline.State) error { return do(s.Keys()) })
}

// verdict is what an approval came to.
type verdict struct {
	recorded deploylog.Event
	missing  *approval.Standing // nil where the revision is approved
}

// approve records an approval that a key has signed.
func (p Pipelines) approve(ctx context.Context, b Body, by, id string, signature *record.Signature, now time.Time) (v verdict, err error) {
	observed, err := p.follow(ctx, b.Pipeline)
	if err != nil {
		return v, err
	}
	if observed {
		return p.approveObserved(ctx, b, promotion.Approve{Stage: b.Stage, Revision: b.Revision, By: by, ID: id, Reason: b.Reason, Carries: b.Carries, Signature: signature}, now)
	}
	var why error
	written, err := p.Released.Change(ctx, b.Pipeline, false, func(s *pipeline.State) (events []deploylog.Event, err error) {
		if whole, err := s.Stage(b.Stage); err == nil && whole != b.Stage {
			return nil, invalid{errMismatch}
		}
		events, err = s.Propose(pipeline.Approve{Stage: b.Stage, Revision: b.Revision, By: by, Reason: b.Reason, Carries: b.Carries, Signature: signature, ID: id}, now)
		return refusing(events, err, &why, s.Keys(), b, by, id, signature, now)
	})
	if err = errors.Join(err, why); err != nil {
		return v, err
	}
	v.recorded = written[0]
	if v.recorded.Name == record.StageApproved {
		return v, nil
	}
	return v, p.Released.Ask(b.Pipeline, func(s *pipeline.State) error {
		for _, why := range s.Explain(v.recorded.Target) {
			if why.Code == reason.AwaitsApproval && why.Revision == b.Revision {
				v.missing = why.Approval
			}
		}
		return nil
	})
}

// refusing is what an approval comes to. One that is refused though its signature is as it should
// be is recorded as refused, and why says why: it would be taken otherwise if somebody else sent
// it again, while it lives, when it is not refused any more.
func refusing(events []deploylog.Event, err error, why *error, keys *approval.Keys, b Body, by, id string, signature *record.Signature, now time.Time) ([]deploylog.Event, error) {
	if err == nil || signature == nil {
		return events, err
	}
	if refused := keys.Admit(*signature, b.Stage, now); refused != nil {
		return nil, refused
	}
	*why = err
	const longest = 300 // the revision that it names may be anything
	cause, _, _ := strings.Cut(err.Error(), "\n")
	cause = strings.ToValidUTF8(cause[:min(longest, len(cause))], "")
	return []deploylog.Event{keys.Refuse(record.Target(b.Pipeline), *signature, id, by, cause)}, nil
}

func (p Pipelines) approveObserved(ctx context.Context, b Body, c promotion.Approve, now time.Time) (v verdict, err error) {
	if err := p.Environments.Follow(ctx, 0); err != nil {
		return v, err
	}
	var why error
	written, err := p.Observed.Change(ctx, b.Pipeline, false, func(s *promotion.State) (events []deploylog.Event, err error) {
		if whole, err := s.Stage(b.Stage); err == nil && whole != b.Stage {
			return nil, invalid{errMismatch}
		}
		events, err = s.Propose(c, promotions.Observe(p.Environments, s, nil), now)
		return refusing(events, err, &why, s.Keys(), b, c.By, c.ID, c.Signature, now)
	})
	if err = errors.Join(err, why); err != nil {
		return v, err
	}
	v.recorded = written[0]
	return v, p.Observed.Ask(b.Pipeline, func(s *promotion.State) error {
		for _, why := range s.Explain(v.recorded.Target, promotions.Observe(p.Environments, s, nil), now) {
			if why.Code == promotion.AwaitsApproval && why.Revision == b.Revision {
				v.missing = why.Approval
			}
		}
		return nil
	})
}

// Awaited is the whole name of a stage, and the hash of what would be approved of a revision
// there. It fails as an approval would where the revision waits for none.
func (p Pipelines) Awaited(ctx context.Context, name, stage, revision string, now time.Time) (whole, carries string, err error) {
	observed, err := p.follow(ctx, name)
	if err != nil {
		return "", "", err
	}
	if observed {
		if err := p.Environments.Follow(ctx, 0); err != nil {
			return "", "", err
		}
		err = p.Observed.Ask(name, func(s *promotion.State) (err error) {
			if whole, err = s.Stage(stage); err != nil {
				return err
			}
			seen := promotions.Observe(p.Environments, s, nil)
			for _, r := range s.Explain(promotion.StageTarget(name, whole), seen, now) {
				if r.Code == promotion.AwaitsApproval && r.Revision == revision {
					carries = r.Approval.Carries
				}
			}
			if carries != "" {
				return nil
			}
			if _, err = s.Propose(promotion.Approve{Stage: whole, Revision: revision}, seen, now); err == nil {
				err = refusal.New(promotion.NotAwaited, "revision %s waits for no approval at stage %s", revision, whole)
			}
			return err
		})
		return whole, carries, err
	}
	err = p.Released.Ask(name, func(s *pipeline.State) (err error) {
		if whole, err = s.Stage(stage); err != nil {
			return err
		}
		for _, r := range s.Explain(record.StageTarget(name, whole)) {
			if r.Code == reason.AwaitsApproval && r.Revision == revision {
				carries = r.Approval.Carries
			}
		}
		if carries == "" {
			_, err = s.Propose(pipeline.Approve{Stage: whole, Revision: revision}, now) // says why it does not wait
		}
		return err
	})
	return whole, carries, err
}
