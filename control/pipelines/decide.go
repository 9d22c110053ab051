package pipelines

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
)

// handed is a step whose work is to be done.
type handed struct {
	step      pipeline.Step
	artifacts map[string]string
}

// round answers who asked whether to begin, records what may be recorded
// without work, and returns what is to be worked on. It holds the gate, so what
// is decided is still so when it is in the log. More tells that something was
// recorded, which may make more possible.
func (s *Scheduler) round(ctx context.Context) (begin []handed, more bool, err error) {
	err = s.pipelines.Hold(ctx, func() (err error) {
		for _, known := range s.answer() {
			defer func() { <-known }() // before anything else may happen to pipelines
		}
		begin, more, err = s.decide(ctx)
		return err
	})
	return begin, more, err
}

// answer lets work begin, but for what is no longer to be done: its deployment
// has ended, or its pipeline has changed. What it returns are closed when it is
// known that the work has begun.
func (s *Scheduler) answer() (begun []<-chan struct{}) {
	for _, a := range s.asked {
		if !s.due(a.step) {
			a.answer <- errOver
			continue
		}
		s.tell(func(to Spectator) { to.Began(a.step) })
		begun = append(begun, a.known)
		a.answer <- nil
	}
	s.asked = nil
	return begun
}

// decide goes through the pipelines, records of each what may be recorded, and
// returns what to work on. One whose events are refused keeps no other back.
func (s *Scheduler) decide(ctx context.Context) (begin []handed, more bool, err error) {
	started := s.Now()
	whole := s.wholly(started)
	s.wake = time.Time{}
	room := reconcile.BatchSize
	for name, state := range s.pipelines.States { // in any order, which favours none
		if !s.schedules(name) || s.refused.Out(name) || state.Definition() == nil {
			continue
		}
		if room <= 0 || !s.looked[name].of(state) {
			more = true // when there is room, or the hosts were looked at
			continue
		}
		events := s.members(name, state)
		if len(events) == 0 { // else decide with the new ones
			var works []handed
			if events, works, err = s.steps(state, room, whole); err != nil {
				return begin, false, err
			}
			begin = append(begin, works...)
		}
		room -= len(events)
		recorded, err := s.decided(ctx, name, state, events)
		if err != nil {
			return begin, false, err
		}
		more = more || recorded
	}
	if whole && room > 0 {
		now := s.Now()
		s.scan = scan{last: now, took: now.Sub(started)}
	}
	return begin, more, nil
}

// steps are what may be recorded of a pipeline, and what is to be worked on.
func (s *Scheduler) steps(state *pipeline.State, room int, whole bool) (events []deploylog.Event, begin []handed, err error) {
	passed := 0
	for step := range state.Decide(s.Now(), pipeline.Can{}) {
		if !step.Work() {
			completed, err := step.Completed(nil)
			if err != nil {
				return nil, begin, err
			}
			if events = append(events, completed...); len(events) >= room {
				break
			}
			continue
		}
		if s.begins(step) {
			begin = append(begin, handed{step, state.Artifacts(step.Deployment)})
		} else if passed++; !whole && s.hands() == 0 && passed > len(s.working)+margin {
			break
		}
	}
	return events, begin, nil
}

// decided records what was decided of a pipeline. More may be possible then, and
// when somebody recorded it meanwhile without the gate.
func (s *Scheduler) decided(ctx context.Context, name string, state *pipeline.State, events []deploylog.Event) (more bool, err error) {
	if len(events) > 0 {
		p, head := s.pipelines, state.Head()
		_, err = p.Append(ctx, events)
		if errors.Is(err, deploylog.ErrDuplicate) {
			if err := p.CatchUp(ctx, 0); err != nil {
				return false, err
			}
			if state.Head() > head {
				return true, nil
			}
		}
		if errors.Is(err, deploylog.ErrDuplicate) || errors.Is(err, deploylog.ErrInvalid) {
			s.leaveOut(name, err)
			return false, nil
		}
	}
	if err == nil {
		s.refused.Clear(name)
	}
	return len(events) > 0, err
}

// margin is how many steps that can not be worked on are gone through, besides
// those that are, when every hand is busy.
const margin = 100

// wholly tells whether to look at every step that may be done. With all hands
// busy there is nothing to gain among thousands of waiting hosts but what needs
// no work, and that is found near those that are worked on, unless it is of
// another stage or revision. So the whole is looked at whenever something comes
// from outside, and otherwise as often as costs a small part of the time.
func (s *Scheduler) wholly(now time.Time) bool {
	const part = 20
	return s.scan.whole || now.Sub(s.scan.last) >= part*s.scan.took
}

// look is one at the hosts of a pipeline.
type look struct {
	definition *pipeline.Definition
	members    map[string][]string
	err        error
	taken      bool // account of
}

// of tells whether it was at the hosts of the present definition.
func (l look) of(state *pipeline.State) bool { return l.definition == state.Definition() }

// look looks at the hosts of all pipelines whose definition is new, or of which
// it was told to look again. That may take long, so no lock is held.
func (s *Scheduler) look() {
	for name, state := range s.pipelines.States {
		if d := state.Definition(); d != nil && s.schedules(name) && !s.refused.Out(name) && !s.looked[name].of(state) {
			members, err := s.Hosts.Members(d)
			s.looked[name] = look{definition: d, members: members, err: err}
		}
	}
}

// members are the events that tell of hosts that came or went.
func (s *Scheduler) members(name string, state *pipeline.State) (events []deploylog.Event) {
	seen := s.looked[name]
	if seen.taken {
		return nil
	}
	s.looked[name] = look{definition: seen.definition, taken: true}
	err := seen.err
	if err == nil {
		events, err = state.Propose(pipeline.SetMembers{Members: seen.members, ID: s.NewID()}, s.Now())
	}
	trouble := ""
	if err != nil {
		trouble = err.Error()
	}
	if s.noticed[name] != trouble {
		if s.noticed[name] = trouble; trouble != "" {
			s.tell(func(to Spectator) {
				to.Notice(fmt.Sprintf("pipeline %s goes on with the hosts it knows: %s", name, trouble))
			})
		}
	}
	return events // none when there is trouble: the next look may see better
}

// begins tells whether the work of a step is to be done now: it is not being
// done, it does not rest after a failure, and there is room.
func (s *Scheduler) begins(step pipeline.Step) bool {
	key := keyOf(step)
	if s.working[key] {
		return false
	}
	if f, ok := s.failures[key]; ok && f.attempt == step.Attempt && s.Now().Before(f.until) {
		if s.wake.IsZero() || f.until.Before(s.wake) {
			s.wake = f.until
		}
		return false
	}
	if step.Environment == "" && s.hands() == 0 || step.Host != "" && s.busy[step.Host] >= s.Hosts.Slots(step.Host) {
		return false
	}
	s.working[key] = true
	if step.Environment != "" {
		s.promoting++
	}
	s.busy[step.Host]++
	return true
}

// hands is how many steps more may be worked on. Those that only wait for an
// environment need none.
func (s *Scheduler) hands() int {
	return max(0, s.Parallelism-(len(s.working)-s.promoting))
}
