package environment

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/refusal"
)

// A deployment may go in steps: so many hosts get the new task, and when they are healthy
// it waits for some time, or for a person, before it goes on. A host is begun once the
// deployment has taken its task away or given it the new one. Rollbacks, and restarts of
// hosts that are named, take no steps.

// wave is how far a deployment is in its steps.
type wave struct {
	step    int // steps that are over
	reached time.Time
	seq     int64 // event with which the hosts of the present step were healthy; 0 while they are not
	lost    bool  // they were healthy, and one of them was not any more then
	verify  verification
}

// Promote lets a deployment go on that waits after a step.
type Promote struct{ By, Reason string }

func (Promote) isCommand() {}

// waves reports whether the present step bounds how many hosts are begun.
func (s *State) waves() bool {
	return s.active != nil && !s.finished && s.active.Kind != record.ByDelete && s.wave.step < len(s.active.Configuration.Steps)
}

// mostBegun is how many hosts may be begun in the present step.
func (s *State) mostBegun() int {
	return definition.MostHosts(s.active.Configuration.Steps[:s.wave.step+1], s.total.desired)
}

// stepDone reports whether all hosts of the present step are begun and healthy, but for as
// many as max_failed lets fail of so many, and one is healthy at least. Where no host is
// left for another step there is nothing to wait for, but that it is verified.
func (s *State) stepDone() bool {
	if s.allDone() {
		return s.verifiesLeft() || s.wave.verify.done
	}
	most, may := s.mostBegun(), 0
	if b := s.active.Configuration.MaxFailed; b != nil {
		may = min(b.Of(most), most-1)
	}
	return s.total.waiting > 0 && s.total.runs > 0 && s.total.begun >= most && s.total.begunOpen == s.total.begunFailed && s.total.begunFailed <= may
}

// allDone reports whether all hosts are as they should be, but for exceptions that have had
// their chance.
func (s *State) allDone() bool {
	return s.done() || s.excusable() && s.total.exhausted == s.total.unsettled
}

// pauseEnd is when the deployment goes on by itself after a step that is done; ok is false
// when a person must say so.
func (s *State) pauseEnd() (at time.Time, ok bool) {
	pause := s.active.Configuration.Steps[s.wave.step].Pause
	if pause == nil {
		return time.Time{}, false
	}
	return s.unwatched.After(s.wave.reached, time.Duration(*pause)), true
}

// awaitsPromotion reports whether nothing goes on before somebody promotes the deployment.
func (s *State) awaitsPromotion() bool {
	if !s.waves() || s.wave.seq == 0 || !s.stepDone() || s.awaitsVerification() || s.allDone() {
		return false
	}
	_, timed := s.pauseEnd()
	return !timed
}

// stepEvents record that the present step is done, or over.
func (s *State) stepEvents(now time.Time, can Can) []deploylog.Event {
	if !s.waves() || !s.hostsKnown || !can.Disrupt || !s.waiting.IsZero() || !s.stepDone() {
		return nil
	}
	p := record.Payload{StepNumber: s.wave.step + 1}
	if s.wave.seq == 0 {
		return []deploylog.Event{s.event(record.StepReached, p)}
	}
	if s.awaitsVerification() {
		return nil
	}
	if end, ok := s.pauseEnd(); ok && !now.Before(end) || s.allDone() {
		p.Automatic, p.By = true, "deployster"
		return []deploylog.Event{s.event(record.EnvironmentPromoted, p)}
	}
	return nil
}

func (s *State) promote(c Promote) ([]deploylog.Event, error) {
	switch {
	case !s.waves():
		return nil, refusal.New(NothingToPromote, "environment %s has nothing to promote: no deployment waits after one of its steps", s.name)
	case s.wave.seq == 0 || !s.stepDone():
		return nil, refusal.New(StepNotDone, "step %d of %d of deployment %s is not done: %s begun, and not all of them are healthy (deployster explain %s)",
			s.wave.step+1, len(s.active.Configuration.Steps), s.active.ID, phrase.Count(s.total.begun, "host"), s.target)
	case s.wave.verify.open:
		return nil, refusal.New(StepNotDone, "step %d of %d of deployment %s is being verified by %s since event %d: when that has ended, it goes on by itself or can be promoted all the same",
			s.wave.step+1, len(s.active.Configuration.Steps), s.active.ID, s.verifiedBy(), s.wave.verify.seq)
	}
	return []deploylog.Event{s.event(record.EnvironmentPromoted, record.Payload{StepNumber: s.wave.step + 1, By: c.By, Reason: c.Reason})}, nil
}

// applyStep folds in that a step is done, verified, or over.
func (s *State) applyStep(e deploylog.Event, p record.Payload) {
	if e.Name != record.StepReached && e.Name != record.EnvironmentPromoted {
		s.applyVerify(e, p)
		return
	}
	if !s.waves() || p.StepNumber != s.wave.step+1 {
		return
	}
	since := s.lastProgress
	if s.progressed(e); s.wave.lost && e.Name == record.StepReached {
		s.lastProgress = since
	}
	if s.wave.reached, s.wave.seq = e.CreatedAt, e.Seq; e.Name == record.EnvironmentPromoted {
		s.wave = wave{step: p.StepNumber}
		s.refreshAll(e.CreatedAt) // after the last step all may begin
	}
}

// noteReplaced folds in that the active deployment takes away what was on a host.
func (s *State) noteReplaced(h *hosts.Host, t *tasks.State, e deploylog.Event) {
	h.Replaced = h.Replaced || e.Deployment == s.active.ID && e.Name == record.TaskTerminating && h.Replaces(t)
}

// loseStep folds in that the hosts of the present step are not healthy any more: it has to
// be done again, in the time that there is for that. That counts from the first time, or a
// task that keeps dying would have the deployment go on forever.
func (s *State) loseStep(e deploylog.Event) {
	if s.waves() && s.wave.seq > 0 && !s.stepDone() {
		if !s.wave.lost {
			s.lastProgress = e.CreatedAt
		}
		s.wave = wave{step: s.wave.step, lost: true}
	}
}

// stepInfo is the present step, nil where none bounds anything.
func (s *State) stepInfo() *reason.StepInfo {
	if !s.waves() {
		return nil
	}
	info := &reason.StepInfo{Number: s.wave.step + 1, Of: len(s.active.Configuration.Steps), Hosts: min(s.mostBegun(), s.total.desired), Begun: s.total.begun, Seq: s.wave.seq}
	if end, ok := s.pauseEnd(); info.Seq > 0 && ok {
		info.Until = end
	} else if info.Seq > 0 {
		info.Promote = true
	}
	if s.verifyInfo(info); info.Seq > 0 && (s.awaitsVerification() || s.allDone()) {
		info.Until, info.Promote = time.Time{}, s.unverified()
	}
	return info
}
