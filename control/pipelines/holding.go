package pipelines

import (
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
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
	name, _ := pipeline.NameOf(key.target)
	if s.leaving[h] || s.holding[name][h] && !s.inProgress(key) {
		s.release(name, h)
	}
}

// reclaim has the slots of hosts held that are by the state of a pipeline, and no others.
func (s *Scheduler) reclaim(name string) {
	want := map[holder]bool{}
	if state := s.pipelines.States[name]; s.loop.Controls(name) && !s.loop.LeftOut(name) {
		for _, h := range state.Holding() {
			h := holder{h.Deployment, h.Target}
			if s.works(h, true) {
				continue // it is stuck, and gave its slot back
			}
			want[h] = true
			delete(s.leaving, h)
			s.hold(name, h)
			s.loop.Hold(h.host(), h.key())
		}
	}
	for h := range s.holding[name] {
		if !want[h] {
			s.release(name, h)
		}
	}
}

// noticeHolding follows what an event means for who holds slots.
func (s *Scheduler) noticeHolding(name string, e deploylog.Event) {
	switch {
	case e.Target.Kind() != "host":
		switch e.Name {
		case pipeline.EventStepsBegun, pipeline.EventStepsEnded, e.Target.Started():
		default:
			s.moved[name] = true
		}
	case e.Name == e.Target.Succeeded() || e.Name == e.Target.Failed():
		if h := (holder{e.Deployment, e.Target}); s.holding[name][h] {
			s.release(name, h)
		}
	}
}
