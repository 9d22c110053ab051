package promotion

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// Step is something that may be done now.
type Step struct {
	Events []deploylog.Event // recorded first; none of a try that was recorded and whose process died

	// Promotes is whether the rest is to be done then: the environment is to be deployed with
	// the revision. Otherwise that is all.
	Promotes    bool
	Verifies    bool   // what it runs is to be verified; Deployment is that of the environment
	Deployment  string //
	ID          string // of the promotion; "" where it is of none. Nothing is done of a try at which somebody is at work
	Target      deploylog.Target
	Stage       string
	Environment string
	Revision    string
	Value       any // the revision as the variable of the environment before has it; nil where that is not known
	Attempt     int
	Since       time.Time // when its first try began; zero where this is it
}

// Decide yields what may be done now. What is only recorded comes alone: once it is, decide
// again. All promotions that are yielded may begin together.
func (s *State) Decide(o Observed, now time.Time) iter.Seq[Step] {
	return func(yield func(Step) bool) {
		if s.definition == nil {
			return
		}
		all := s.verdicts(o, now)
		if events := s.facts(o, all, now); len(events) > 0 {
			yield(Step{Events: events})
			return
		}
		for i, stage := range s.definition.Stages {
			p := s.last[stage.Name]
			if p != nil && i > 0 && p.Status == Running && !p.triggered() {
				if step, known := s.resumed(p, all[i], o, now); known && !yield(step) {
					return
				}
			}
			if all[i].code == Ready && !yield(s.begin(all[i])) {
				return
			}
			seen := o.of(stage.Environment)
			if !s.runsFor(i, all[i], seen) {
				continue
			}
			if step, ok := s.verify(i, seen, now); ok && !yield(step) {
				return
			}
		}
	}
}

// runsFor reports whether what a stage runs as a whole may go on to another, and so is to be
// verified: the current revision, or, where each stage is by itself, any.
func (s *State) runsFor(stage int, v verdict, seen Observation) bool {
	switch {
	case seen.Health != Whole || seen.Revision == "":
		return false
	case stage == 0:
		return v.code == IsCurrent
	default:
		return s.definition.Promotion.Policy == definition.Concurrent || v.code == There || v.code == Verifies
	}
}

func (s *State) stepOf(p *Promotion) Step {
	return Step{
		Promotes: true, ID: p.ID, Target: StageTarget(s.name, p.Stage), Stage: p.Stage, Environment: p.Environment, Revision: p.Revision, Attempt: p.Attempt, Since: p.Started,
	}
}

// Key is what a deployment of an environment is known again by: the try that began it.
func (s Step) Key() string { return fmt.Sprintf("%s/%d", s.ID, s.Attempt) }

// resumed is what becomes of a try that was recorded, and whose process may have died before
// it recorded a deployment: the deployment that it began is recorded; where it began none the
// try goes on, or fails where it may not begin any more. known is false where neither can be
// told, for its environment is not observed.
func (s *State) resumed(p *Promotion, v verdict, o Observed, now time.Time) (step Step, known bool) {
	step = s.stepOf(p)
	source := o.of(s.definition.Stages[v.stage-1].Environment)
	from := source
	if s.definition.Promotion.Policy == definition.Single {
		from = o.of(s.definition.Stages[0].Environment)
	}
	if from.Revision == p.Revision {
		step.Value = from.Value
	}
	seen := o.of(p.Environment)
	if begun, found := seen.Begun[step.Key()]; found {
		step.Promotes, step.Events = false, s.Completed(step, begun, nil)
		return step, true
	}
	again := s.waits(verdict{stage: v.stage, revision: p.Revision, value: step.Value, came: p.came, arrived: s.arrivedFor(p, source), from: v.from}, source, seen, p, false, now)
	if again.code == Ready {
		return step, true
	}
	cause := "its process ended before it deployed, and it may not begin any more: " + s.reason(again, now).Message
	step.Promotes, step.Events = false, []deploylog.Event{s.event(p, StageFailed, p.Attempt, Payload{Cause: deploylog.Cause(cause)})}
	return step, seen.Health != Unknown || seen.Event > 0
}

// arrivedFor returns the event with which the stage before came to run the revision of a try.
func (s *State) arrivedFor(p *Promotion, source Observation) int64 {
	single := s.definition.Promotion.Policy == definition.Single
	if source.Revision == p.Revision && (single || source.Came == p.came) {
		return max(source.arrived(), p.came)
	}
	return p.came
}

// Forbids is why the work of a step may not go on that Decide yielded, as of what was recorded
// since; nil is nothing.
func (s *State) Forbids(step Step, seen Observation) error {
	if s.definition == nil || !s.Wanted(step.ID, step.Attempt) {
		return errors.New("the try was given up")
	}
	v := verdict{stage: s.definition.Index(step.Stage), revision: step.Revision}
	if v.stage < 1 {
		return errors.New("its stage is not in the definition any more")
	}
	if v, held := s.kept(v, seen); held {
		return errors.New(s.reason(v, time.Time{}).Message)
	}
	return nil
}

// begin is the next try of a promotion, or the first of a new one.
func (s *State) begin(v verdict) Step {
	stage := s.definition.Stages[v.stage]
	p := s.last[stage.Name]
	var events []deploylog.Event
	if p != nil && p.Status == Running { // what it proposed is proposed no more
		events = append(events, s.event(p, StageFailed, p.Attempt, Payload{SupersededBy: v.revision}))
	}
	if p == nil || p.Status != Failed || p.Declined || p.Revision != v.revision || p.came != v.came || p.Environment != stage.Environment {
		id := fmt.Sprintf("%s/%s@%d", s.name, stage.Name, s.head)
		p = &Promotion{ID: id, Stage: stage.Name, Revision: v.revision, Environment: stage.Environment}
	}
	step := s.stepOf(p)
	step.Attempt, step.Value = p.Attempt+1, v.value
	step.Events = append(events, deploylog.Event{
		Deployment: p.ID, Target: step.Target, Revision: p.Revision, Name: StageStarted, Attempt: step.Attempt,
		Data: Payload{From: s.definition.Stages[v.from].Name, Came: v.came, Environment: p.Environment, Strategy: string(stage.Strategy)}.Data(),
	})
	return step
}

// facts are the events of what has come about: a try has ended, another revision is current,
// all stages run it.
func (s *State) facts(o Observed, all []verdict, now time.Time) (events []deploylog.Event) {
	first := all[0]
	single := s.definition.Promotion.Policy == definition.Single
	if single && first.code == IsCurrent && !s.isCurrent(first) {
		p := Payload{From: s.definition.Stages[0].Name, Came: first.came}
		if r := s.Current(); r != nil {
			p.Supersedes = r.Revision
		}
		run := deploylog.Event{
			Deployment: fmt.Sprintf("%s@%d", s.name, s.head), Target: Target(s.name), Revision: first.revision, Name: RunStarted, Attempt: 1, Data: p.Data(),
		}
		return append(s.giveUp(first.revision, "", func(*Promotion) bool { return true }), run)
	}
	for _, stage := range s.definition.Stages {
		if p := s.last[stage.Name]; p != nil && p.Status == Running {
			if e, ended := s.ended(p, o.of(p.Environment), now); ended {
				events = append(events, e)
			}
		}
	}
	events = append(events, s.asks(all, now)...)
	events = append(events, s.rolledBackHolds(o)...)
	if r := s.Current(); len(events) == 0 && single && r != nil && r.Finished.IsZero() && s.isCurrent(first) {
		for _, v := range all[1:] {
			if v.code != There {
				return nil
			}
		}
		events = append(events, deploylog.Event{Deployment: r.ID, Target: Target(s.name), Revision: r.Revision, Name: RunFinished, Attempt: 1})
	}
	return events
}

// rolledBackHolds are the events that say of stages that a rollback by hand holds them, once of
// each. They decide nothing: what holds follows from the environment.
func (s *State) rolledBackHolds(o Observed) (events []deploylog.Event) {
	for i := range s.definition.Stages[1:] {
		stage := &s.definition.Stages[i+1]
		hold := s.rolledBack(stage.Name, o.of(stage.Environment))
		if hold == nil || s.rolled[stage.Name] == hold.Event {
			continue
		}
		cause := "environment " + stage.Environment + " was rolled back" + after(hold.By, " by ") + after(hold.Reason, ": ")
		events = append(events, deploylog.Event{
			Deployment: fmt.Sprintf("%s/%s@%d", s.name, stage.Name, s.head), Target: StageTarget(s.name, stage.Name), Name: RolledBackHolds, Attempt: 1,
			Data: Payload{Came: hold.Event, By: hold.By, Reason: hold.Reason, Cause: deploylog.Cause(cause), Environment: stage.Environment}.Data(),
		})
	}
	return events
}

// giveUp ends the tries that are under way and are not wanted any more.
func (s *State) giveUp(by, cause string, which func(*Promotion) bool) (events []deploylog.Event) {
	for _, p := range s.promotions {
		if p.Status == Running && which(p) {
			events = append(events, s.event(p, StageFailed, p.Attempt, Payload{SupersededBy: by, Cause: cause}))
		}
	}
	return events
}

func (s *State) event(p *Promotion, name string, attempt int, data Payload) deploylog.Event {
	data.Environment = p.Environment
	return deploylog.Event{Deployment: p.ID, Target: StageTarget(s.name, p.Stage), Revision: p.Revision, Name: name, Attempt: attempt, Data: data.Data()}
}

// ended is how a try has ended whose environment is observed; ended is false where it has not,
// or where that is not known. A promotion succeeds once, so that event has one number.
func (s *State) ended(p *Promotion, seen Observation, now time.Time) (e deploylog.Event, ended bool) {
	d := seen.Active
	failed := func(format string, args ...any) (deploylog.Event, bool) {
		return s.event(p, StageFailed, p.Attempt, Payload{Cause: fmt.Sprintf(format, args...), Deployment: p.Deployment}), true
	}
	succeeded := func() (deploylog.Event, bool) {
		return s.event(p, StageFinished, 1, Payload{Deployment: p.Deployment, EnvironmentRevision: p.EnvironmentRevision}), true
	}
	if p.applies() && !p.triggered() { // what is applied may be VALID before that has ended
		return e, false
	}
	if p.asks() {
		switch why := s.unanswered(p, seen, now); {
		case seen.Health != Unknown && seen.wholly(p.Revision):
			return succeeded()
		case why != "":
			return failed("%s", why)
		}
		return e, false
	}
	switch {
	case p.Deployment == "" || seen.Event < p.deploymentEvent:
		return e, false
	case seen.Deleted:
		return failed("environment %s was deleted", p.Environment)
	case seen.Health == Unknown && d.ID == "":
		return e, false
	case d.ID == p.Deployment || d.Revision == p.Revision: // somebody may have deployed the same again
		switch d.Status {
		case Deployed:
			return succeeded()
		case Stuck:
			return failed("deployment %s of environment %s is stuck: %s", d.ID, p.Environment, d.Cause)
		default:
			return e, false
		}
	case d.ID == "":
		return failed("environment %s was deleted", p.Environment)
	default:
		return failed("deployment %s of environment %s came before %s had finished", d.ID, p.Environment, p.Deployment)
	}
}

// Begun is the environment's deployment by which a step promotes.
type Begun struct {
	Deployment string
	Event      int64 // with which it started
	Revision   int
	Answer     string // of who was asked to deploy it, or on which hosts it was applied
	Taken      bool   // the repository has what was proposed to it
	Declined   bool   // somebody closed what was proposed
}

// Completed returns the event that records what became of the work of a step: nothing where
// the try has been given up since.
func (s *State) Completed(step Step, begun Begun, err error) []deploylog.Event {
	p := s.byID[step.ID]
	if p == nil || !s.Wanted(step.ID, step.Attempt) || p.triggered() {
		return nil
	}
	if err != nil {
		return []deploylog.Event{s.event(p, StageFailed, step.Attempt, Payload{Cause: deploylog.Cause(err.Error())})}
	}
	if begun.Declined {
		return s.declined(p, begun)
	}
	return []deploylog.Event{s.event(p, Triggered, step.Attempt, Payload{Answer: begun.Answer, Taken: begun.Taken, Deployment: begun.Deployment, DeploymentEvent: begun.Event, EnvironmentRevision: begun.Revision})}
}

// Wake is when something may become possible by the passing of time alone; zero is never.
func (s *State) Wake(o Observed, now time.Time) (at time.Time) {
	soonest := func(until time.Time) {
		if until.After(now) && (at.IsZero() || until.Before(at)) {
			at = until
		}
	}
	for _, v := range s.verdicts(o, now) {
		soonest(v.until)
	}
	if s.definition != nil {
		for until := range s.awaited(now) {
			soonest(until)
		}
	}
	return at
}

// patientTries is how many failures in a row are worth waiting for the next try.
const patientTries = 3

// Idle reports whether nothing will be done until somebody does something: nothing is being
// promoted or deployed, no program that was asked to do so has time left, and what waits for
// time to pass waits for a window, or has failed again and again.
func (s *State) Idle(o Observed, now time.Time) bool {
	if s.definition == nil {
		return true
	}
	for range s.Decide(o, now) {
		return false
	}
	for range s.awaited(now) {
		return false
	}
	for _, v := range s.verdicts(o, now) {
		stage := s.definition.Stages[v.stage]
		seen := o.of(stage.Environment)
		if p := s.last[stage.Name]; p != nil && p.Status == Running && seen.Event < p.deploymentEvent {
			return false // what has begun is not observed yet
		}
		switch v.code {
		case Settling, AwaitsSoak:
			return false
		case AwaitsProof:
			if !v.until.IsZero() {
				return false
			}
		case AwaitsRetry, Verifies, AwaitsVerified:
			if v.try < patientTries {
				return false
			}
		default: // somebody has to do something, or an environment
		}
		if seen.Moving && v.code != There && v.code != IsCurrent {
			return false
		}
	}
	return true
}
