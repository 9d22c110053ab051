package promotion

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
	"github.com/deployster-go/deployster/pipeline/record"
)

// A revision comes to a stage that is manual once as many have approved it as the stage says.
// An approval is of one revision as it came to the stage before at one time: it counts after
// that, until it expires, and once for each identity. A rejection keeps the revision from the
// stage, and makes the approvals before it void.

// rejection is that somebody decided that a revision does not come to a stage.
type rejection struct {
	revision, by, reason string
	event                int64
}

// asked is that a revision was the first time seen to wait for approval.
type asked struct {
	revision string
	came     int64
	event    int64
}

// applyApproval folds in what people said of a revision that waits for approval.
func (s *State) applyApproval(stage string, e deploylog.Event, p Payload) (is bool) {
	switch e.Name {
	case Approved:
		if p.Approval != nil && p.Approval.Signature != nil {
			s.keys.Use(*p.Approval.Signature)
		}
		if s.approvals[stage] == nil {
			s.approvals[stage] = map[string][]approval.Given{}
		}
		given := s.approvals[stage][e.Revision]
		given = slices.DeleteFunc(given, func(g approval.Given) bool { return g.By == p.By }) // the last counts
		of := approval.Given{By: p.By, Seq: e.Seq, At: e.CreatedAt}
		if p.Approval != nil {
			of.Carries = p.Approval.Carries
		}
		s.approvals[stage][e.Revision] = append(given, of)
	case Rejected:
		s.rejected[stage] = rejection{e.Revision, p.By, p.Reason, e.Seq}
	case Waiting:
		s.asked[stage] = asked{e.Revision, p.Came, e.Seq}
	default:
		return false
	}
	return true
}

// standing is how far the approval of a revision is that is to come to a stage. Approvals of an earlier
// arrival are not mentioned.
func (s *State) standing(stage *definition.Stage, v verdict, now time.Time) approval.Standing {
	given := slices.Clone(s.approvals[stage.Name][v.revision])
	given = slices.DeleteFunc(given, func(g approval.Given) bool { return g.Seq <= v.arrived })
	return approval.Terms{Needed: stage.Approvals, Carries: s.carries(v), Void: func(g approval.Given) string {
		switch r := s.rejected[stage.Name]; {
		case r.revision == v.revision && r.event > g.Seq:
			return "the revision was rejected since"
		case stage.Expires > 0 && !now.Before(g.At.Add(time.Duration(stage.Expires))):
			return fmt.Sprintf("it was given more than %s ago", stage.Expires)
		default:
			return ""
		}
	}}.Of(given)
}

// rejects is the rejection of a revision that is to come to a stage, nil where there is none.
func (s *State) rejects(stage string, v verdict) *rejection {
	r := s.rejected[stage]
	if r.event == 0 || r.revision != v.revision || r.event <= v.arrived || r.event < s.released[stage] {
		return nil
	}
	return &r
}

// carries is the hash of what is approved: that revision, as it came to the stage before.
func (s *State) carries(v verdict) string {
	stage := &s.definition.Stages[v.stage]
	text, err := json.Marshal(struct {
		Pipeline    string `json:"pipeline"`
		Stage       string `json:"stage"`
		Environment string `json:"environment"`
		Revision    string `json:"revision"`
		Value       any    `json:"value"`
		Came        int64  `json:"came"`
	}{s.name, stage.Name, stage.Identity(), v.revision, v.value, v.arrived})
	if err != nil { // the value was decoded from JSON
		return ""
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Keys are those that may sign approvals. They must not be changed.
func (s *State) Keys() *approval.Keys { return &s.keys }

// Approve lets a revision come to a stage that is manual: that revision, as it came to the
// stage before this time.
type Approve struct {
	Stage, Revision string
	ID, By, Reason  string

	Carries   string            // hash of what is approved; "" is whatever the revision is now
	Signature *record.Signature // nil of who did not sign
}

func (c Approve) propose(s *State, o Observed, now time.Time) ([]deploylog.Event, error) {
	v, err := s.toApprove(c.Stage, c.Revision, "approved", o, now)
	if err != nil {
		return nil, err
	}
	stage := &s.definition.Stages[v.stage]
	standing := s.standing(stage, v, now)
	carries := standing.Carries
	if c.Signature != nil {
		if err := s.keys.Admit(*c.Signature, stage.Name, now); err != nil {
			return nil, err
		}
	}
	if r := s.rejects(stage.Name, v); r != nil {
		return nil, refusal.New(AlreadyRejected, "revision %s is not approved: it was rejected at stage %s%s (event %d); deployster pipeline release-hold %s %s asks for approval again", c.Revision, stage.Name, after(r.by, " by "), r.event, s.name, stage.Name)
	}
	switch {
	case c.Carries != "" && c.Carries != carries:
		return nil, refusal.New(CarriesOther, "revision %s is not what is approved at stage %s: that has the hash %s, and it has %s; look at it again", c.Revision, stage.Name, c.Carries, carries)
	case slices.Contains(standing.By, c.By) && (standing.Missing() > 0 || c.Signature != nil):
		return nil, refusal.New(AlreadyApproved, "revision %s is already approved at stage %s by %s, who counts once; %s", c.Revision, stage.Name, c.By, standing.Text())
	case standing.Missing() == 0 && c.Signature == nil:
		return nil, nil
	}
	e := s.command(StageTarget(s.name, stage.Name), c.Revision, Approved, c.ID, c.By, c.Reason)
	e.Data = Payload{By: c.By, Reason: c.Reason, Approval: &record.ApprovalInfo{Carries: carries, Others: standing.By, Signature: c.Signature}}.Data()
	return []deploylog.Event{e}, nil
}

// Reject keeps a revision from a stage that is manual, until another one comes to the stage
// before, or ReleaseHold.
type Reject struct {
	Stage, Revision string
	ID, By, Reason  string
}

func (c Reject) propose(s *State, o Observed, now time.Time) ([]deploylog.Event, error) {
	v, err := s.toApprove(c.Stage, c.Revision, "rejected", o, now)
	if err != nil {
		return nil, err
	}
	stage := s.definition.Stages[v.stage].Name
	if r := s.rejects(stage, v); r != nil {
		return nil, refusal.New(AlreadyRejected, "revision %s was rejected at stage %s already%s (event %d)", c.Revision, stage, after(r.by, " by "), r.event)
	}
	return []deploylog.Event{s.command(StageTarget(s.name, stage), c.Revision, Rejected, c.ID, c.By, c.Reason)}, nil
}

// toApprove is the verdict of a stage that is manual, and to which a revision is the next to come.
func (s *State) toApprove(name, revision, verb string, o Observed, now time.Time) (v verdict, err error) {
	stage, err := s.Stage(name)
	if err != nil {
		return v, err
	}
	i := s.definition.Index(stage)
	if !s.definition.Stages[i].Manual {
		return v, refusal.New(NotManual, "stage %s of pipeline %s waits for no approval: it is not manual; with manual: true in the definition it would", stage, s.name)
	}
	v = s.verdicts(o, now)[i]
	switch next := v.revision; {
	case v.code == AwaitsStage || v.code == Unobserved:
		return v, refusal.New(NotAwaited, "revision %s is not %s: nothing can come to stage %s at present: %s", revision, verb, stage, s.reason(v, now).Message)
	case next != revision:
		return v, refusal.New(NotAwaited, "revision %s is not %s: what comes to stage %s next is revision %s; %s is of one revision", revision, verb, stage, next, map[string]string{"approved": "an approval", "rejected": "a rejection"}[verb])
	case v.code == There || v.code == Verifies || v.code == Promoting || v.code == AwaitsMerge || v.code == Arriving:
		return v, refusal.New(NotAwaited, "revision %s waits for no approval at stage %s: %s", revision, stage, s.reason(v, now).Message)
	}
	return v, nil
}

// asks are the events that say of stages that they wait for approval: once of each revision
// that has come to the stage before, and again where all that was approved is void by now.
func (s *State) asks(all []verdict, now time.Time) (events []deploylog.Event) {
	for _, v := range all {
		if v.code != AwaitsApproval {
			continue
		}
		stage := &s.definition.Stages[v.stage]
		if was := s.asked[stage.Name]; was.revision == v.revision && was.came == v.arrived && was.event > s.reopened(stage, v, now) {
			continue
		}
		events = append(events, deploylog.Event{
			Deployment: fmt.Sprintf("%s/%s@%d", s.name, stage.Name, s.head), Target: StageTarget(s.name, stage.Name), Revision: v.revision, Name: Waiting, Attempt: 1,
			Data: Payload{From: s.definition.Stages[v.from].Name, Came: v.arrived, Environment: stage.Environment}.Data(),
		})
	}
	return events
}

// reopened is the last event after which a revision has to be approved from the beginning: of
// an approval, where none counts any more, or of a release after its rejection; 0 of none.
func (s *State) reopened(stage *definition.Stage, v verdict, now time.Time) (event int64) {
	standing := s.standing(stage, v, now)
	if len(standing.By) > 0 {
		return 0
	}
	for _, void := range standing.Void {
		event = max(event, void.Seq)
	}
	if r := s.rejected[stage.Name]; r.revision == v.revision && r.event > v.arrived && s.released[stage.Name] > r.event {
		event = max(event, s.released[stage.Name])
	}
	return event
}

// approvalWords are those of a stage that waits for approval.
func (s *State) approvalWords(v verdict, stage *definition.Stage, standing approval.Standing) (message, change string) {
	message = fmt.Sprintf("revision %s waits for approval", v.revision)
	if len(standing.By)+len(standing.Void) > 0 || standing.Needed > 1 {
		message += ": " + standing.Text()
	}
	return message, fmt.Sprintf("deployster pipeline approve %s %s %s", s.name, stage.Name, v.revision)
}
