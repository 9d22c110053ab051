package environment

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// When the hosts of a step are healthy, a manifest may be applied that says whether the
// deployment goes on. Each try begins with an event and ends with one; one that has none is
// made again, by whoever controls the environment then. A deployment does not end before
// all its steps that are to be verified are, also where no host is left for them.

// verification is how far the present step is verified, since its hosts are healthy.
type verification struct {
	attempt  int   // of the last try; 0 is none
	seq      int64 // event with which it began
	open     bool  // it has no result
	done     bool  // it has succeeded
	failures int
	failed   time.Time // the last
	retryAt  time.Time
	cause    string
}

// Verification is a try to verify a step of a deployment.
type Verification struct {
	Environment string
	Deployment  string
	Revision    int
	Step        int               // from 1
	Hosts       []string          // that have the new task
	Manifest    string            // path below the workspace
	Files       map[string]string // what it carries: SHA-256 by path
	Vars        map[string]any    // of the task
	Bounds      *tasks.Bounds     // of what it may bring
}

// Variables are what the manifest knows of it. Nobody else can set them.
func (v Verification) Variables() map[string]any {
	hosts := make([]any, len(v.Hosts))
	for i, name := range v.Hosts {
		hosts[i] = name
	}
	return map[string]any{"environment": v.Environment, "revision": v.Revision, "verify": map[string]any{"step": v.Step, "hosts": hosts}}
}

// Verification is that of a step of the kind tasks.Verify.
func (s *State) Verification(step tasks.Step) Verification {
	v := Verification{Environment: s.name, Deployment: step.Deployment, Revision: step.Revision, Step: step.Number, Hosts: []string{}}
	for _, h := range s.hosts {
		if h.Status.Begun && h.Status.Runs {
			v.Hosts = append(v.Hosts, h.Name)
		}
	}
	slices.Sort(v.Hosts)
	if step.Revision < 1 || step.Revision > len(s.revisions) {
		return v
	}
	d := s.revisions[step.Revision-1].Definition
	if step.Number >= 1 && step.Number <= len(d.Deployment.Steps) {
		v.Manifest = d.Deployment.Steps[step.Number-1].Verify
	}
	v.Files, v.Vars, v.Bounds = d.Deployment.VerifyFiles, d.Task.Vars, s.bounds(step.Revision)
	return v
}

// ErrUnwanted is why a try to verify a step was ended though nothing is wrong with it: it is
// of no use any more; see Verifies.
var ErrUnwanted = errors.New("the deployment or its step has ended before")

// Verifies reports whether a try to verify a step is still of use: the deployment, or its
// step, may be another one by now.
func (s *State) Verifies(step tasks.Step) bool {
	v := s.wave.verify
	return s.awaitsVerification() && s.active.ID == step.Deployment && s.wave.step+1 == step.Number && v.open && v.attempt == step.Attempt
}

// verifiesLeft reports whether the present step of the deployment, or one after it, is to be
// verified and is not.
func (s *State) verifiesLeft() bool {
	if !s.waves() {
		return false
	}
	left := s.active.Configuration.Steps[s.wave.step:]
	if s.wave.verify.done {
		left = left[1:]
	}
	return slices.ContainsFunc(left, func(w definition.Wave) bool { return w.Verify != "" })
}

// verifiedBy is the manifest that verifies the present step, "" is none.
func (s *State) verifiedBy() string {
	if !s.waves() {
		return ""
	}
	return s.active.Configuration.Steps[s.wave.step].Verify
}

// awaitsVerification reports whether the hosts of the present step are healthy, and the
// deployment waits for what verifies it.
func (s *State) awaitsVerification() bool {
	return s.verifiedBy() != "" && s.wave.seq > 0 && !s.wave.verify.done
}

// unverified reports whether verifying the present step has failed for good.
func (s *State) unverified() bool {
	v := s.wave.verify
	return s.awaitsVerification() && !v.open && v.failures >= tasks.MaxRetries
}

// verifyStep is the next try to verify the present step; ok is false when there is none now.
func (s *State) verifyStep(now time.Time, can Can) (step tasks.Step, ok bool) {
	v := s.wave.verify
	early := v.retryAt.After(now) && !v.failed.After(now) // else the clock was set back
	if !s.awaitsVerification() || s.unverified() || s.pause != nil || !s.waiting.IsZero() || early || !can.Disrupt || !s.stepDone() || can.Verify != nil && !can.Verify() {
		return step, false
	}
	step = tasks.Step{
		Kind: tasks.Verify, Deployment: s.active.ID, Target: s.target, Revision: s.active.Revision, Number: s.wave.step + 1,
		Timeout: time.Duration(s.active.Configuration.ProgressDeadline),
	}
	begin := s.event(record.StepVerifying, record.Payload{StepNumber: step.Number})
	step.Attempt, step.Events = begin.Attempt, []deploylog.Event{begin}
	return step, true
}

// verified are the events that record the result of a try, also of one that nobody waits for
// any more.
func verified(step tasks.Step, cause string, err error) []deploylog.Event {
	if errors.Is(err, ErrUnwanted) {
		return []deploylog.Event{step.Event(record.StepVerifyEnded, record.Payload{StepNumber: step.Number, Reason: ErrUnwanted.Error()})}
	}
	if cause != "" {
		return []deploylog.Event{step.Event(record.StepVerifyFailed, record.Payload{StepNumber: step.Number, Error: cause})}
	}
	return []deploylog.Event{step.Event(record.StepVerified, record.Payload{StepNumber: step.Number})}
}

// applyVerify folds in that a try has begun or ended. What ends is of no use when the hosts
// of the step were not healthy any more since it began.
func (s *State) applyVerify(e deploylog.Event, p record.Payload) {
	v := &s.wave.verify
	if !s.awaitsVerification() || p.StepNumber != s.wave.step+1 {
		return
	}
	switch {
	case e.Name == record.StepVerifying:
		v.attempt, v.seq, v.open, v.retryAt = e.Attempt, e.Seq, true, time.Time{}
	case !v.open || v.attempt != e.Attempt:
	case e.Name == record.StepVerifyEnded:
		v.open = false
	case e.Name == record.StepVerified:
		v.open, v.done, v.cause = false, true, ""
		s.progressed(e)
	default:
		v.open, v.cause, v.failed = false, p.Error, e.CreatedAt
		v.failures++
		v.retryAt = e.CreatedAt.Add(tasks.RetryPause(v.failures))
	}
}

// notVerified is why a deployment is stuck whose step could not be verified.
func (s *State) notVerified() string {
	return fmt.Sprintf("step %d of %d could not be verified by %s: %s", s.wave.step+1, len(s.active.Configuration.Steps), s.verifiedBy(), s.wave.verify.cause)
}

// verifyInfo fills in how far the present step is verified.
func (s *State) verifyInfo(info *reason.StepInfo) {
	v := s.wave.verify
	info.Verify, info.Verified = s.verifiedBy(), v.done
	if !s.awaitsVerification() {
		return
	}
	info.Attempt, info.Failures, info.Cause = v.attempt, v.failures, v.cause
	switch {
	case v.open:
		info.Verifying = v.seq
	case v.failures > 0 && v.failures < tasks.MaxRetries:
		info.Next = v.retryAt
	}
}
