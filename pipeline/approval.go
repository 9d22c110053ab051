package pipeline

import (
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Approve lets a revision pass an approval stage, once as many have approved as it takes.
type Approve struct {
	Stage, Revision, By, Reason string

	Carries   string            // hash of what is approved; "" is what the revision carries now
	Signature *record.Signature // nil of who did not sign
	ID        string            // of a fresh deployment, for one of several approvals

	now time.Time
}

func (c Approve) propose(s *State) ([]deploylog.Event, error) {
	d, i, err := s.atApproval(c.Revision, c.Stage, "be approved")
	if err != nil {
		return nil, err
	}
	stage := &s.layout.Stages[i]
	standing := d.Approval(stage)
	switch deadline := d.Deadline(stage); {
	case c.Carries != "" && c.Carries != standing.Carries:
		return nil, refusal.New(CarriesOther, "revision %s does not carry what is approved at stage %s: that has the hash %s, and it carries %s; look at it again", c.Revision, stage.Name, c.Carries, standing.Carries)
	case !deadline.IsZero() && !c.now.Before(deadline):
		return nil, refusal.New(ApprovalExpired, "revision %s cannot be approved at stage %s any more: nobody did so within %s; retry it to ask again", c.Revision, stage.Name, stage.Approval.Expires)
	case slices.Contains(standing.By, c.By):
		return nil, refusal.New(AlreadyApproved, "revision %s is %w approved at stage %s by %s, who counts once; %s", c.Revision, ErrRepeated, stage.Name, c.By, standing.After(c.By))
	}
	if c.Signature != nil {
		if err := s.keys.Admit(*c.Signature, stage.Name, c.now); err != nil {
			return nil, err
		}
	}
	p := record.Payload{By: c.By, Reason: c.Reason, Approval: &record.ApprovalInfo{Carries: standing.Carries, Others: standing.By, Signature: c.Signature}}
	if standing.Missing() <= 1 {
		return []deploylog.Event{d.Event(stage.Target, record.StageApproved, p)}, nil
	}
	p.Approval.Others, p.Approval.Deployment, p.Approval.Attempt = nil, d.ID, d.Attempt
	return []deploylog.Event{{Deployment: c.ID, Target: stage.Target, Revision: d.Revision, Name: record.StageApprovalGiven, Attempt: 1, Data: p.Data()}}, nil
}

// applyApproval folds in one of several approvals.
func (s *State) applyApproval(e deploylog.Event) {
	p := record.Read(e.Data)
	if p.Approval == nil || s.byID[p.Approval.Deployment] == nil {
		return
	}
	s.byID[p.Approval.Deployment].Approve(e.Target, approval.Given{By: p.By, Seq: e.Seq, Attempt: p.Approval.Attempt, Carries: p.Approval.Carries})
}

// awaitsApproval is why a stage waits, unless it does so no more.
func (o *projection) awaitsApproval(i int) (why reason.Reason) {
	stage := &o.s.layout.Stages[i]
	if o.d.Stages[i].Begun && !o.ready[deployment.EntryKey{Target: stage.Target, Event: record.StageApproved}] {
		standing := o.d.Approval(stage)
		why = reason.Reason{Code: reason.AwaitsApproval, Name: stage.Name, Until: o.d.Deadline(stage), Approval: &standing}
	}
	return why
}

// atApproval finds the deployment of a revision that waits at an approval stage, and
// that stage.
func (s *State) atApproval(revision, name, to string) (*deployment.Deployment, int, error) {
	d, err := s.running(revision, to)
	if err != nil {
		return nil, 0, err
	}
	if name, err = s.Stage(name); err != nil {
		return nil, 0, err
	}
	i := s.layout.StageAt[record.StageTarget(s.name, name)]
	stage, run := &s.layout.Stages[i], &d.Stages[i]
	approved, done := run.Marks.Find(record.StageApproved)
	switch {
	case d.End != nil:
		return nil, 0, refusal.New(NotRunning, "revision %s cannot %s: since event %d it is to end as %s, once its stages for that have run; retry it then (deployster pipeline retry %s %s)", revision, to, d.End.Seq, d.End.As, s.name, revision)
	case stage.Approval == nil:
		return nil, 0, refusal.New(NoApprovalNeeded, "stage %s does not wait for approval: it is a %s stage", stage.Name, stage.Kind())
	case done:
		return nil, 0, refusal.New(AlreadyApproved, "revision %s is %w approved at stage %s (event %d)", revision, ErrRepeated, stage.Name, approved.Seq)
	case run.Passed:
		return nil, 0, refusal.New(Passed, "stage %s does not wait for approval: revision %s has passed it", stage.Name, revision)
	case !run.Begun:
		var reasons []string
		for _, r := range s.enteringReasons(d, i) {
			reasons = append(reasons, r.Message())
		}
		return nil, 0, refusal.New(NotReached, "stage %s does not wait for approval yet: revision %s has not reached it (%s)", stage.Name, revision, strings.Join(reasons, "; "))
	}
	return d, i, nil
}

// Reject ends a revision at an approval stage: it failed there, by the decision of a
// person. A retry waits for approval again.
type Reject struct {
	Stage, Revision, By, Reason string
}

func (c Reject) propose(s *State) ([]deploylog.Event, error) {
	d, i, err := s.atApproval(c.Revision, c.Stage, "be rejected")
	if err != nil {
		return nil, err
	}
	stage, cause := &s.layout.Stages[i], "rejected"
	if c.By != "" {
		cause += " by " + c.By
	}
	if c.Reason != "" {
		cause += ": " + c.Reason
	}
	rejected := d.Event(stage.Target, record.StageRejected, record.Payload{By: c.By, Reason: c.Reason})
	return append([]deploylog.Event{rejected}, s.failsAt(d, stage, cause)...), nil
}
