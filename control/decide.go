package control

import (
	"context"
	"errors"
	"fmt"
	"time"

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
	unlock, err := s.Log.Lock(ctx, gate)
	if err != nil {
		return nil, false, fmt.Errorf("locking the pipelines: %w", err)
	}
	defer unlock()
	p := s.pipelines
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.follow(ctx, 0); err != nil {
		return nil, false, err
	}
	for _, known := range s.answer() {
		defer func() { <-known }() // before anything else may happen to pipelines
	}
	events, begin, err := s.decide()
	if err != nil || len(events) == 0 {
		return begin, false, err
	}
	head := p.head
	_, err = p.append(ctx, events)
	if errors.Is(err, deploylog.ErrDuplicate) && p.follow(ctx, 0) == nil && p.head > head {
		err = nil // somebody recorded it without the gate: decide again
	}
	return begin, err == nil, err
}

// answer lets work begin, but for that of deployments which have ended. What it
// returns are closed when it is known that the work has begun.
func (s *Scheduler) answer() (begun []<-chan struct{}) {
	for _, a := range s.asked {
		if !s.active(keyOf(a.step), a.step.Attempt) {
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

// batchSize is how many events are appended at once, about.
const batchSize = 1000

// decide goes through the pipelines and returns what to record and what to work
// on.
func (s *Scheduler) decide() (events []deploylog.Event, begin []handed, err error) {
	started := s.Now()
	whole := s.wholly(started)
	s.wake = time.Time{}
	for name, state := range s.pipelines.states { // in any order, which favours none
		if !s.schedules(name) {
			continue
		}
		if changed := s.members(name, state); len(changed) > 0 {
			events = append(events, changed...) // and decide with the new ones
			continue
		}
		passed := 0
		for step := range state.Decide(s.Now()) {
			if !step.Work() {
				completed, err := step.Completed(nil)
				if err != nil {
					return nil, begin, err
				}
				if events = append(events, completed...); len(events) >= batchSize {
					break
				}
				continue
			}
			if s.begins(step) {
				begin = append(begin, handed{step, state.Artifacts(step.Deployment)})
			} else if passed++; !whole && len(s.working) == s.Parallelism && passed > len(s.working)+margin {
				break
			}
		}
	}
	if whole && len(events) < batchSize {
		now := s.Now()
		s.scan = scan{last: now, took: now.Sub(started)}
	}
	return events, begin, nil
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

// members are the events that tell of hosts that came or went.
func (s *Scheduler) members(name string, state *pipeline.State) (events []deploylog.Event) {
	d := state.Definition()
	if d == nil || s.looked[name] == d {
		return nil
	}
	s.looked[name] = d
	members, err := s.Hosts.Members(d)
	if err == nil {
		events, err = state.Propose(pipeline.SetMembers{Members: members, ID: s.NewID()}, s.Now())
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
	if len(s.working) >= s.Parallelism || step.Host != "" && s.busy[step.Host] >= s.Hosts.Slots(step.Host) {
		return false
	}
	s.working[key] = true
	s.busy[step.Host]++
	return true
}
