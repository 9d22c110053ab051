package pipeline

import (
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Approve lets a revision pass an approval stage.
type Approve struct {
	Stage, Revision, By string
}

func (c Approve) propose(s *State) ([]deploylog.Event, error) {
	d, i, err := s.atApproval(c.Revision, c.Stage, "be approved")
	if err != nil {
		return nil, err
	}
	return []deploylog.Event{d.Event(s.layout.Stages[i].Target, record.StageApproved, record.Payload{By: c.By})}, nil
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
