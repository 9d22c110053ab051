package promotions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/pullrequest"
	"github.com/deployster-go/deployster/internal/pullrequest/limit"
	"github.com/deployster-go/deployster/internal/pullrequest/provider"
	"github.com/deployster-go/deployster/internal/pullrequest/value"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// lookedAt is when it was looked what became of a proposal.
type lookedAt struct {
	next     time.Time
	failures int
}

// placeOf is where a stage of a pipeline proposes.
func (c *Controller) placeOf(pipeline string, d *definition.PullRequest) (p pullrequest.Place, err error) {
	var values []pullrequest.Value
	for _, v := range d.Values() {
		path, err := value.Parse(v.Path)
		if err != nil {
			return p, fmt.Errorf("value %s: %w", v.Path, err)
		}
		values = append(values, pullrequest.Value{File: v.File, Path: path, Tag: v.Part == definition.Tag})
	}
	if len(values) == 0 { // the log may have what no file could say
		return p, errors.New("no value is set to the revision")
	}
	if d.TokenEnv != "" && !definition.IsTokenVariable(d.TokenEnv) {
		return p, fmt.Errorf("the token is not read: token_env %.60q %s", d.TokenEnv, definition.TokenVariableRule)
	}
	for _, file := range d.SecretFiles() {
		if !definition.IsSecretFile(*file.Path) {
			return p, fmt.Errorf("%s is not read: %s %.200q %s", file.What, file.Key, *file.Path, definition.SecretFileRule)
		}
	}
	return pullrequest.Place{
		Repository: d.Repository, Values: values, Base: d.Base, Branch: d.Branch, Owner: "pipeline " + pipeline + " of log " + c.Log.ID(),
		Provider: provider.Kind(d.Provider), API: d.API, User: d.User, TokenFile: d.TokenFile, TokenEnv: d.TokenEnv,
		Style: pullrequest.Style{
			Title: d.Title, Message: d.Commit.Message, Trailers: d.Commit.Trailers, Author: d.Commit.Author, Committer: d.Commit.Committer,
			SignOff: d.Commit.SignOff, SigningKey: d.Commit.SigningKey, SigningPassphrase: d.Commit.SigningPassphrase,
		},
	}, nil
}

// propose proposes a revision to a repository. A process that died may have done it, or a part
// of it: that is found there.
func (c *Controller) propose(ctx context.Context, pipeline string, s promotion.Step, variable string, to *definition.PullRequest) (begun promotion.Begun, err error) {
	place, err := c.placeOf(pipeline, to)
	if err == nil {
		w := pullrequest.Wanted{Key: c.promotionKey(s.ID), Pipeline: pipeline, Stage: s.Stage, Environment: s.Environment, Revision: s.Revision, Since: s.Since}
		var o pullrequest.Outcome
		o, err = c.pulls.Propose(ctx, place, w, func(ctx context.Context) error { return c.mayAsk(ctx, pipeline, s, variable) })
		begun = promotion.Begun{Answer: o.Detail, Taken: o.Status == pullrequest.Taken, Declined: o.Status == pullrequest.Declined}
	}
	if err != nil {
		return begun, fmt.Errorf("pull request of %s: %w", s.Target, err)
	}
	return begun, nil
}

// promotionKey is what all tries of a promotion are known by, in all logs.
func (c *Controller) promotionKey(id string) string {
	const half = 16
	sum := sha256.Sum256([]byte(c.Log.ID() + "\x00" + id))
	return "promotion-" + hex.EncodeToString(sum[:half])
}

// proposals has what is proposed looked at from time to time, and withdrawn where nobody wants
// it any more.
func (c *Controller) proposals(name string, s *promotion.State, o promotion.Observed, d *reconcile.Decision[workKey]) {
	for _, of := range s.Unwanted(o, d.Now) {
		if slot := slotOf(of, "withdraw "); d.Can(slot) {
			d.Add(nil, d.Begin(c.withdraw(name, slot, of)))
		}
	}
	c.lookAtAll(s.Open(), d, func(at reconcile.Slot[workKey], of promotion.Proposal) *reconcile.Work[workKey] {
		return c.lookAt(name, at, of)
	})
	c.lookAtAll(s.Taken(), d, func(at reconcile.Slot[workKey], of promotion.Proposal) *reconcile.Work[workKey] {
		return c.lookAtTaken(name, at, of)
	})
}

// lookAtAll has those of some proposals looked at of which it is time.
func (c *Controller) lookAtAll(all []promotion.Proposal, d *reconcile.Decision[workKey], look func(reconcile.Slot[workKey], promotion.Proposal) *reconcile.Work[workKey]) {
	for _, of := range all {
		slot := slotOf(of, "")
		at := c.looks[slot.Key]
		if every := time.Duration(of.Pull.CheckEvery); at.next.After(d.Now) && at.next.Sub(d.Now) <= max(every, mostRest) {
			d.WakeAt(at.next)
			continue
		}
		if d.Can(slot) {
			d.Add(nil, d.Begin(look(slot, of)))
		}
	}
}

// slotOf is where a proposal is looked after: it waits for others, so it takes no slot of what
// has something to do.
func slotOf(of promotion.Proposal, what string) reconcile.Slot[workKey] {
	return reconcile.Slot[workKey]{Key: workKey{what + of.ID}, Attempt: of.Attempt, Unslotted: true}
}

// mostRest is how long it is at most not looked at a proposal because a provider does not want
// to be asked.
const mostRest = time.Hour

// patientLooks is how many times in a row it may fail to look at a proposal before the try has
// failed: what is proposed is there all the same.
const patientLooks = 5

// lookAt is the work of looking what became of a proposal, and of mending it where somebody
// changed it.
func (c *Controller) lookAt(name string, at reconcile.Slot[workKey], of promotion.Proposal) *reconcile.Work[workKey] {
	variable := c.variableOf(c.promotions.States[name])
	var begun promotion.Begun
	return &reconcile.Work[workKey]{
		Slot: at, What: "looking at what is proposed for " + string(of.Target),
		Do: func(ctx context.Context) (err error) {
			begun, err = c.propose(ctx, name, of.Step, variable, of.Pull)
			return err
		},
		Result: func(err error, _ int) ([]deploylog.Event, bool) {
			looked := lookedAt{next: c.Now().Add(time.Duration(of.Pull.CheckEvery))}
			var limited *limit.Error
			switch {
			case errors.As(err, &limited):
				looked.next = limited.Until
				err = nil
			case errors.Is(err, pullrequest.ErrForbidden):
				err = nil
			case err != nil:
				if looked.failures = c.looks[at.Key].failures + 1; looked.failures < patientLooks {
					err = nil
				}
			}
			c.looks[at.Key] = looked
			events := c.promotions.States[name].Looked(of, begun, err)
			if len(events) > 0 && !begun.Taken { // what is taken is looked at again later
				delete(c.looks, at.Key)
			}
			return events, false
		},
	}
}

// lookAtTaken is the work of looking whether a repository still has what was merged. Where that
// cannot be read nothing has failed: the environment may come to run it all the same.
func (c *Controller) lookAtTaken(name string, at reconcile.Slot[workKey], of promotion.Proposal) *reconcile.Work[workKey] {
	var has string
	return &reconcile.Work[workKey]{
		Slot: at, What: "looking whether what is merged for " + string(of.Target) + " is still there",
		Do: func(ctx context.Context) error {
			place, err := c.placeOf(name, of.Pull)
			if err == nil {
				has, err = c.pulls.Has(ctx, place, of.Revision)
			}
			return err
		},
		Result: func(err error, _ int) ([]deploylog.Event, bool) {
			looked := lookedAt{next: c.Now().Add(time.Duration(of.Pull.CheckEvery))}
			var limited *limit.Error
			if errors.As(err, &limited) {
				looked.next = limited.Until
			}
			c.looks[at.Key] = looked
			if err != nil {
				return nil, false
			}
			return c.promotions.States[name].Reverted(of, has), false
		},
	}
}

// withdraw is the work of closing what nobody wants any more.
func (c *Controller) withdraw(name string, at reconcile.Slot[workKey], of promotion.Proposal) *reconcile.Work[workKey] {
	return &reconcile.Work[workKey]{
		Slot: at, What: "withdrawing what is proposed for " + string(of.Target),
		Do: func(ctx context.Context) error {
			place, err := c.placeOf(name, of.Pull)
			if err != nil {
				return err
			}
			return c.pulls.Withdraw(ctx, place, func(ctx context.Context) error { return c.mayWithdraw(ctx, name, of) })
		},
		Result: func(err error, failures int) ([]deploylog.Event, bool) {
			c.unwithdrawn[at.Key] = failures
			if err != nil && !errors.Is(err, errWanted) {
				c.Observer.Notice(fmt.Sprintf("what is proposed for %s, and nobody wants any more, is not closed: %v", of.Target, err))
				return nil, true
			}
			delete(c.unwithdrawn, at.Key)
			if err != nil {
				return nil, false
			}
			return c.promotions.States[name].Withdrew(of), false
		},
	}
}

// errWanted is that a proposal is wanted again.
var errWanted = errors.New("it is wanted again")

func (c *Controller) mayWithdraw(ctx context.Context, pipeline string, of promotion.Proposal) error {
	return c.tries.Hold(ctx, func() error {
		p, err := c.tries.Find(pipeline)
		if err == nil && !p.StillUnwanted(of) {
			err = errWanted
		}
		return err
	})
}

// awaitsLooks reports whether something proposed was not looked at yet since this process
// began, or is to be withdrawn, which did not fail again and again.
func (c *Controller) awaitsLooks(s *promotion.State, o promotion.Observed) bool {
	const patient = 3
	for _, of := range s.Unwanted(o, c.Now()) {
		if c.unwithdrawn[slotOf(of, "withdraw ").Key] < patient {
			return true
		}
	}
	for _, of := range s.Open() {
		if c.looks[slotOf(of, "").Key].next.IsZero() {
			return true
		}
	}
	return false
}
