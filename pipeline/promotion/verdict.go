package promotion

import (
	"fmt"
	"time"

	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// Code says what is so at a stage. Its values never change their meaning.
type Code string

// What is so at the first stage.
const (
	IsCurrent Code = "current"  // it runs the current revision
	Settling  Code = "settling" // it has not run it for long enough
)

// What is so at a stage that a revision is to come to, in the order in which that is found out.
const (
	Unobserved      Code = "unobserved" // Cause says why its environment cannot be observed
	There           Code = "there"      // it runs the revision
	Promoting       Code = "promoting"
	Arriving        Code = "arriving"            // some of it runs the revision, and Cause says why that is not all
	Verifies        Code = "verifies"            // it runs the revision as a whole, and is to be verified
	AwaitsPromotion Code = "awaits-promotion"    // that of revision Name is under way
	WasPromoted     Code = "was-promoted"        // by event Seq, and it is not there any more
	IsStopped       Code = "line-stopped"        // by By
	IsHeld          Code = "held"                // by By
	IsRolledBack    Code = "rolled-back"         // by By, and so held
	AwaitsVerified  Code = "awaits-verification" // of stage Name
	AwaitsSoak      Code = "awaits-soak"         // of stage Name, until Until
	AwaitsProof     Code = "awaits-proof"        // of revision Name, which the stage keeps until Cause; Until is the end of its soak
	IsRejected      Code = "rejected"            // by By
	AwaitsApproval  Code = "awaits-approval"     // of which the standing is how far it is
	AwaitsWindow    Code = "awaits-window"       // Until; zero is never
	AwaitsFreeze    Code = "awaits-freeze"       // Cause says why there is one
	AwaitsMerge     Code = "awaits-merge"        // of a pull request, as Cause says
	IsDeclined      Code = "declined"            // somebody closed the pull request, as Cause says
	AwaitsRetry     Code = "awaits-retry"        // the last try failed with Cause
	Ready           Code = "ready"               // Decide yields it
	AwaitsStage     Code = "awaits-stage"        // Name has to run the revision first
	Unhealthy       Code = "unhealthy"           // of a stage of which a revision is taken: Cause says why
)

// verdict is what is so at a stage.
type verdict struct {
	stage    int
	code     Code
	revision string // that is there or is to come
	value    any
	came     int64 // see Run
	arrived  int64 // event with which all of the stage before came to run the revision the last time: approvals are bound to it
	from     int   // stage
	name     string
	cause    string
	by       string
	seq      int64
	until    time.Time
	since    time.Time
	try      int
	open     bool // the try to verify has no result

	suspended []string  // objects of the stage
	merged    time.Time // since when the repository has what is promoted
}

// verdicts are those of all stages, in order. This is the algorithm of the seed: what the
// first stage runs as a whole is current; a stage that runs it as a whole is gone by, one that
// runs it in part ends the search, and to the first that does not run it at all it is
// promoted. With the policy concurrent each stage and the next are looked at by themselves.
func (s *State) verdicts(o Observed, now time.Time) []verdict {
	d := s.definition
	if d == nil {
		return nil
	}
	all := make([]verdict, len(d.Stages))
	defer func() {
		for i := range all {
			all[i].suspended = o.of(d.Stages[i].Environment).Suspended
		}
	}()
	all[0] = s.first(o, now)
	passed := all[0].code == IsCurrent
	behind := 0 // the last stage that is not as it has to be for the next
	for i := 1; i < len(all); i++ {
		source := o.of(d.Stages[i-1].Environment)
		wanted := all[0]
		if d.Promotion.Policy == definition.Concurrent {
			passed, behind = source.Health == Whole && (i > 1 || all[0].code == IsCurrent), i-1
			wanted = verdict{revision: source.Revision, value: source.Value, came: source.Came}
		}
		if !passed {
			all[i] = verdict{stage: i, code: AwaitsStage, name: d.Stages[behind].Name, from: i - 1}
			continue
		}
		v := verdict{stage: i, revision: wanted.revision, value: wanted.value, came: wanted.came, arrived: source.arrived(), from: i - 1}
		all[i] = s.at(v, source, o.of(d.Stages[i].Environment), now)
		if all[i].code == Ready {
			all[i] = s.queued(all[i], o, now)
		}
		if all[i].code == There {
			if of, wanted := s.verification(i, o.of(d.Stages[i].Environment)); wanted {
				all[i] = s.verifying(all[i], Verifies, of, now)
			}
			continue
		}
		passed, behind = false, i
	}
	return all
}

// queued returns the verdict of a revision that could come to a stage: it waits if the stage keeps
// the revision that it runs until that is proven. Without it, revisions that come faster than they
// soak would never leave the stage.
func (s *State) queued(v verdict, o Observed, now time.Time) verdict {
	d := s.definition
	stage, seen := &d.Stages[v.stage], o.of(d.Stages[v.stage].Environment)
	if d.Promotion.Policy != definition.Concurrent || v.stage+1 == len(d.Stages) || seen.Health != Whole || seen.Revision == "" {
		return v
	}
	next := &d.Stages[v.stage+1]
	of := verdict{stage: v.stage + 1, revision: seen.Revision, value: seen.Value, came: seen.Came, arrived: seen.arrived(), from: v.stage}
	if next.Manual && s.rejects(next.Name, of) != nil {
		return v
	}
	soaked := s.passed(seen.ran(now), time.Duration(stage.Soak), now)
	verification, unverified := s.verification(v.stage, seen)
	failed := verification != nil && !verification.Open && verification.Failures > 0
	switch {
	case stage.Soak > 0 && now.Before(soaked):
		v.until, v.cause = soaked, "has soaked"
	case stage.KeepUntil == definition.UntilSoaked:
		return v
	case unverified && !failed:
		v.cause = "is verified"
	case stage.KeepUntil != definition.UntilPromoted || unverified || goesNoFurther(s.at(of, seen, o.of(next.Environment), now).code):
		return v
	default:
		v.cause = "runs in stage " + next.Name
	}
	v.code, v.name = AwaitsProof, seen.Revision
	return v
}

// goesNoFurther reports whether a revision is at a stage already, or does not come there without
// a person.
func goesNoFurther(code Code) bool {
	return code == There || code == WasPromoted || code == IsRolledBack || code == IsDeclined || code == IsRejected
}

// first is what is so at the first stage.
func (s *State) first(o Observed, now time.Time) verdict {
	seen := o.of(s.definition.Stages[0].Environment)
	v := verdict{revision: seen.Revision, value: seen.Value, came: seen.Came, since: seen.Since, cause: seen.Why}
	switch {
	case seen.Health == Unknown:
		v.code, v.since = Unobserved, seen.Unknown
	case seen.Health != Whole || seen.Revision == "":
		v.code = Unhealthy
	case s.isCurrent(v):
		v.code = IsCurrent
	default:
		v.code = IsCurrent
		settle := time.Duration(s.definition.Promotion.SettleFor)
		if until := s.passed(seen.ran(now), settle, now); settle > 0 && now.Before(until) {
			v.code, v.until = Settling, until
		}
	}
	return v
}

// isCurrent reports whether what the first stage runs is the current revision already.
func (s *State) isCurrent(v verdict) bool {
	r := s.Current()
	return r != nil && r.Revision == v.revision && r.came == v.came
}

// at is what is so at a stage to which a revision is to come that the stage before runs.
func (s *State) at(v verdict, source, seen Observation, now time.Time) verdict {
	stage := s.definition.Stages[v.stage]
	p := s.last[stage.Name]
	mine := p != nil && p.Revision == v.revision && p.came == v.came && p.Environment == stage.Environment
	switch {
	case seen.Health == Unknown:
		v.code, v.cause, v.since = Unobserved, seen.Why, seen.Unknown
		if p != nil && p.Status == Running {
			v.try, v.name = p.Attempt, p.Revision
		}
	case seen.wholly(v.revision) && !p.applying(v.revision):
		v.code, v.since = There, seen.Since
	case mine && p.Status == Running:
		v.code, v.seq, v.try, v.cause, v.since, v.merged = Promoting, p.Since, p.Attempt, seen.Why, p.Changed, p.Merged
		v.until = s.askedUntil(p, now)
		if p.open() {
			v.code, v.cause = AwaitsMerge, p.Answer
		}
	case s.arrives(stage.Name, v.revision, seen):
		v.code, v.cause = Arriving, seen.Why
	case p != nil && p.Status == Running && !p.open():
		v.code, v.name, v.seq = AwaitsPromotion, p.Revision, p.Since
	case mine && p.Status == Finished && s.released[p.Stage] < p.Since && s.rolledBack(p.Stage, seen) == nil:
		v.code, v.seq, v.since, v.cause = WasPromoted, p.Since, p.Changed, seen.Why
	default:
		return s.waits(v, source, seen, p, mine, now).ifAsked(seen)
	}
	return v
}

// ifAsked is the verdict where a revision is to come to hosts: not before they have said that they
// do not run it.
func (v verdict) ifAsked(seen Observation) verdict {
	if v.code == Ready && !coversAll(seen.Asked, []string{v.revision}) {
		v.code, v.cause = Unobserved, fmt.Sprintf("its hosts have not answered yet whether they run revision %s, which pipeline run and serve ask them", v.revision)
	}
	return v
}

// waits is what a promotion waits for that may begin by the algorithm.
func (s *State) waits(v verdict, source, seen Observation, p *Promotion, mine bool, now time.Time) verdict {
	stage := &s.definition.Stages[v.stage]
	if v, held := s.kept(v, seen); held {
		return v
	}
	if r := s.rejects(stage.Name, v); r != nil && stage.Manual {
		v.code, v.by, v.cause, v.seq = IsRejected, r.by, r.reason, r.event
		return v
	}
	before := &s.definition.Stages[v.stage-1]
	if of, wanted := s.verification(v.stage-1, source); wanted {
		v.name = before.Name
		return s.verifying(v, AwaitsVerified, of, now)
	}
	if until := s.passed(source.ran(now), time.Duration(before.Soak), now); before.Soak > 0 && now.Before(until) {
		v.code, v.name, v.until = AwaitsSoak, before.Name, until
		return v
	}
	if stage.Manual && s.standing(stage, v, now).Missing() > 0 {
		v.code = AwaitsApproval
		return v
	}
	if schedule := s.schedules[v.stage]; !schedule.Open(now) {
		v.code, v.until = AwaitsWindow, schedule.Next(now)
		if f := schedule.Frozen(now); f != nil {
			v.code, v.cause = AwaitsFreeze, f.Reason
		}
		return v
	}
	if mine && p.Status == Failed {
		if s.declines(p, stage) {
			v.code, v.cause, v.seq, v.try = IsDeclined, p.Cause, p.Since, p.Attempt
			return v
		}
		if until := s.retriedAt(p, now); now.Before(until) {
			v.code, v.until, v.cause, v.seq, v.try = AwaitsRetry, until, p.Cause, p.Since, p.Attempt
			return v
		}
	}
	v.code = Ready
	return v
}

// kept is what a person did by which nothing comes to a stage; held is false where nobody did.
func (s *State) kept(v verdict, seen Observation) (_ verdict, held bool) {
	name := s.definition.Stages[v.stage].Name
	if s.stopped != nil {
		return v.held(IsStopped, s.stopped), true
	}
	if hold := s.holds[name]; hold != nil {
		return v.held(IsHeld, hold), true
	}
	if hold := s.rolledBack(name, seen); hold != nil {
		return v.held(IsRolledBack, hold), true
	}
	return v, false
}

func (v verdict) held(code Code, h *Hold) verdict {
	v.code, v.by, v.cause, v.seq, v.since = code, h.By, h.Reason, h.Event, h.Since
	return v
}

// rolledBack is the hold of a stage whose environment somebody rolled back by hand, nil where
// nobody did, or it was released since.
func (s *State) rolledBack(stage string, seen Observation) *Hold {
	back := seen.RolledBack
	if back.Event == 0 || back.Event < max(s.created, s.released[stage]) {
		return nil
	}
	return &Hold{By: back.By, Reason: back.Reason, Event: back.Event, RolledBack: true}
}

// HoldOf is what keeps automatic promotion from a stage, nil for nothing.
func (s *State) HoldOf(stage string, o Observed) *Hold {
	if h := s.holds[stage]; h != nil {
		return h
	}
	if s.definition == nil || s.definition.Index(stage) < 1 {
		return nil
	}
	return s.rolledBack(stage, o.of(s.definition.Stages[s.definition.Index(stage)].Environment))
}

// maxRetryPause is how long a promotion rests at most between two tries.
const maxRetryPause = time.Hour

// retriedAt is when a promotion is tried again. Where the clock was set back that is at once.
func (s *State) retriedAt(p *Promotion, now time.Time) time.Time {
	return s.pausedUntil(p.Failures, p.Changed, now)
}

func (s *State) pausedUntil(failures int, changed, now time.Time) time.Time {
	const doublings = 12
	first := time.Duration(s.definition.Promotion.RetryAfter)
	pause := first << min(max(failures-1, 0), doublings)
	pause = max(first, min(pause, maxRetryPause))
	until := changed.Add(pause)
	if until.Sub(now) > pause {
		return now
	}
	return until
}
