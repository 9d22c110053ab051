package pipelines

import (
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/record"
)

// A deployment that has begun its steps on a host holds a slot of it until they are done, so
// that those of another pipeline do not come in between. Who holds which follows from the
// log, so it is the same after a takeover. What holds a slot waits for nothing that another
// holder could keep from it: at most for one of the loop's slots, which work gives back
// when it ends, and for the pause before another try.

// holder is a deployment on a host, as a member of a group.
type holder struct {
	deployment string
	target     deploylog.Target
}

// key is that of no step, which the loop knows it by.
func (h holder) key() stepKey { return stepKey{deployment: h.deployment, target: h.target} }

// host is the machine; hosts of several groups may be the same.
func (h holder) host() string {
	return string(h.target)[strings.LastIndexByte(string(h.target), '/')+1:]
}

// hold notes that a deployment holds a slot of a host.
func (s *Scheduler) hold(pipeline string, h holder) {
	if s.holding[pipeline] == nil {
		s.holding[pipeline] = map[holder]bool{}
	}
	s.holding[pipeline][h] = true
}

// release gives a slot back, unless something is being done on the host: then it is free
// when that ends.
func (s *Scheduler) release(pipeline string, h holder) {
	if s.works(h, false) {
		s.leaving[h] = true
		return
	}
	delete(s.leaving, h)
	delete(s.holding[pipeline], h)
	s.loop.Release(h.host(), h.key())
}

// works reports whether work of a holder goes on that has its slots, or that gave them back.
func (s *Scheduler) works(h holder, freed bool) bool {
	for key, r := range s.running {
		if key.deployment == h.deployment && key.target == h.target && r.freed == freed {
			return true
		}
	}
	return false
}

// ceases gives a slot back when the last work has ended of a deployment that goes on no more.
func (s *Scheduler) ceases(key stepKey) {
	h := holder{key.deployment, key.target}
	name, _ := record.NameOf(key.target)
	if s.leaving[h] || s.holding[name][h] && !s.inProgress(key) {
		s.release(name, h)
	}
}

// reclaim has the slots of hosts held that are by the state of a pipeline, and no others. Who
// goes on after a pause, a retry or the hold of a group finds the slot taken where another one
// has begun there in the meantime, and waits in line for it as everybody does.
func (s *Scheduler) reclaim(name string) {
	want := map[holder]bool{}
	if state := s.pipelines.States[name]; s.loop.Controls(name) && !s.loop.LeftOut(name) {
		for _, h := range state.Holding() {
			h := holder{h.Deployment, h.Target}
			if s.works(h, true) {
				continue // it is stuck, and gave its slot back
			}
			if !s.loop.Hold(h.host(), h.key()) && (!s.left(name, h) || !s.displace(h)) {
				continue
			}
			want[h] = true
			delete(s.leaving, h)
			s.hold(name, h)
		}
	}
	for h := range s.holding[name] {
		if !want[h] {
			s.release(name, h)
		}
	}
}

// left reports whether work of a holder is under way that this scheduler has not begun: who
// did may have died, and it may still be running on the host.
func (s *Scheduler) left(pipeline string, h holder) bool {
	state := s.pipelines.States[pipeline]
	return state != nil && state.At(h.deployment, h.target) && !s.works(h, false)
}

// displace has somebody hold a slot instead of one of whom nothing is being done on the host:
// after a takeover the pipelines come in any order, and one that only waited there for
// another to end may have come before that other.
func (s *Scheduler) displace(by holder) bool {
	for name, all := range s.holding {
		for h := range all {
			if h.host() == by.host() && !s.works(h, false) && !s.left(name, h) {
				s.release(name, h)
				return s.loop.Hold(by.host(), by.key())
			}
		}
	}
	return false
}

// noticeHolding follows what an event means for who holds slots.
func (s *Scheduler) noticeHolding(name string, e deploylog.Event) {
	switch {
	case e.Target.Kind() != "host":
		switch e.Name {
		case record.StepsBegun, record.StepsEnded, e.Target.Started():
		default:
			s.moved[name] = true
		}
	case e.Name == e.Target.Succeeded() || e.Name == e.Target.Failed():
		if h := (holder{e.Deployment, e.Target}); s.holding[name][h] {
			s.release(name, h)
		}
	}
}
