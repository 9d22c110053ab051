package promotion

import (
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
)

// When an environment runs a revision, healthy, as a whole, a manifest of its stage may be
// applied that says whether the revision goes on. That is of one deployment of the
// environment: another one is verified anew. Each try begins with an event and ends with one;
// one that has none is made again, by whoever is at work on the pipeline then.

// Verification is how far what a stage runs is verified.
type Verification struct {
	ID          string    `json:"verification"`
	Environment string    `json:"environment"`
	Revision    string    `json:"revision"`
	Deployment  string    `json:"environment_deployment,omitempty"` // that is verified
	Attempt     int       `json:"attempt"`
	Failures    int       `json:"failures,omitempty"`
	Event       int64     `json:"event"` // the last
	Changed     time.Time `json:"changed"`
	Open        bool      `json:"open,omitempty"` // its try has no result
	Verified    bool      `json:"verified"`
	Cause       string    `json:"cause,omitempty"`

	came int64
}

// of reports whether it is of what an environment runs.
func (v *Verification) of(environment string, seen Observation) bool {
	return v != nil && v.Environment == environment && v.Revision == seen.Revision && v.came == seen.arrived() && v.Deployment == seen.Active.ID
}

// verification is how far what a stage runs is verified, nil where that has not begun. wanted
// is false where nothing verifies the stage, or it is verified.
func (s *State) verification(stage int, seen Observation) (v *Verification, wanted bool) {
	d := &s.definition.Stages[stage]
	if d.Verify == "" {
		return nil, false
	}
	if v = s.verifications[d.Name]; !v.of(d.Environment, seen) {
		return nil, true
	}
	return v, !v.Verified
}

// verifying is a verdict with what there is to say of the verification of a stage.
func (s *State) verifying(v verdict, code Code, of *Verification, now time.Time) verdict {
	v.code = code
	if of == nil {
		return v
	}
	v.try, v.open, v.cause, v.seq = of.Attempt, of.Open, of.Cause, of.Event
	if !of.Open {
		v.until = s.pausedUntil(of.Failures, of.Changed, now)
	}
	return v
}

// verify is what may be done to verify a stage: a try that is to end since something else runs
// there, one whose process may have died, or the next.
func (s *State) verify(stage int, seen Observation, now time.Time) (step Step, ok bool) {
	d := &s.definition.Stages[stage]
	of, wanted := s.verification(stage, seen)
	if last := s.verifications[d.Name]; last != nil && last.Open && of == nil {
		return Step{Events: []deploylog.Event{s.verificationEvent(d.Name, last, VerifyEnded, last.Attempt, Payload{})}}, true
	}
	if !wanted {
		return step, false
	}
	switch {
	case of == nil:
		of = &Verification{
			ID: fmt.Sprintf("%s/%s/verify@%d", s.name, d.Name, s.head), Environment: d.Environment, Revision: seen.Revision, Deployment: seen.Active.ID, came: seen.arrived(),
		}
	case of.Open:
		return s.verifyStep(stage, of, of.Attempt), true
	case now.Before(s.pausedUntil(of.Failures, of.Changed, now)):
		return step, false
	}
	step = s.verifyStep(stage, of, of.Attempt+1)
	step.Events = []deploylog.Event{s.verificationEvent(d.Name, of, Verifying, step.Attempt, Payload{Came: of.came, Deployment: of.Deployment})}
	return step, true
}

func (s *State) verifyStep(stage int, of *Verification, attempt int) Step {
	d := &s.definition.Stages[stage]
	return Step{
		Verifies: true, ID: of.ID, Target: StageTarget(s.name, d.Name), Stage: d.Name, Environment: of.Environment, Revision: of.Revision, Attempt: attempt, Deployment: of.Deployment,
	}
}

func (s *State) verificationEvent(stage string, of *Verification, name string, attempt int, data Payload) deploylog.Event {
	data.Environment = of.Environment
	return deploylog.Event{Deployment: of.ID, Target: StageTarget(s.name, stage), Revision: of.Revision, Name: name, Attempt: attempt, Data: data.Data()}
}

// Verifies reports whether a try to verify is still of use.
func (s *State) Verifies(step Step) bool {
	of := s.verifications[step.Stage]
	return of != nil && of.ID == step.ID && of.Open && of.Attempt == step.Attempt
}

// ErrUnwanted is why a try to verify a stage was ended though nothing is wrong with it: it is of
// no use any more, see Verifies.
var ErrUnwanted = errors.New("something else runs there by now, or is to verify it")

// Verified returns the event that records how a try to verify ended: nothing where it was
// ended since.
func (s *State) Verified(step Step, err error) []deploylog.Event {
	if !s.Verifies(step) {
		return nil
	}
	of := s.verifications[step.Stage]
	switch {
	case errors.Is(err, ErrUnwanted):
		return []deploylog.Event{s.verificationEvent(step.Stage, of, VerifyEnded, step.Attempt, Payload{})}
	case err != nil:
		return []deploylog.Event{s.verificationEvent(step.Stage, of, VerifyFailed, step.Attempt, Payload{Cause: deploylog.Cause(err.Error())})}
	}
	return []deploylog.Event{s.verificationEvent(step.Stage, of, Verified, step.Attempt, Payload{})}
}

// applyVerification folds in an event of a verification; is is false of any other.
func (s *State) applyVerification(stage string, e deploylog.Event, p Payload) (is bool) {
	v := s.verifications[stage]
	switch e.Name {
	case Verifying:
		if v == nil || v.ID != e.Deployment {
			v = &Verification{ID: e.Deployment, Environment: p.Environment, Revision: e.Revision, Deployment: p.Deployment, came: p.Came}
			s.verifications[stage] = v
		}
		v.Attempt, v.Open = e.Attempt, true
	case Verified, VerifyFailed, VerifyEnded:
		if v == nil || v.ID != e.Deployment || !v.Open || v.Attempt != e.Attempt {
			return true
		}
		v.Open, v.Verified, v.Cause = false, e.Name == Verified, ""
		if e.Name == VerifyFailed {
			v.Cause = p.Cause
			v.Failures++
		}
	default:
		return false
	}
	v.Event, v.Changed = e.Seq, e.CreatedAt
	return true
}

// verificationWords are what there is to say of a verification that has not succeeded, and
// what would change that.
func (s *State) verificationWords(v verdict, by string) (message, change string) {
	switch {
	case v.try == 0 || !v.open && v.cause == "": // or that try was ended
		return "is to be verified by " + by, "deployster pipeline run " + s.name
	case v.open:
		return fmt.Sprintf("is being verified by %s, try %d", by, v.try), "its result"
	default:
		return fmt.Sprintf("could not be verified by %s, try %d: %s", by, v.try, v.cause), "it is tried again at " + phrase.Moment(v.until)
	}
}
