package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// refusal is why a pipeline is left out: the log refuses for good what is to be
// recorded of it. Whatever is wrong with it, the others go on.
type refusal struct {
	head  int64 // of the pipeline, when it was refused
	cause error
}

// leaveOut leaves a pipeline out until something new of it is in the log. That
// is told once, also when what is new does not help.
func (s *Scheduler) leaveOut(name string, cause error) {
	if _, known := s.out[name]; !known {
		s.tell(func(to Spectator) {
			to.Notice(fmt.Sprintf("pipeline %s is left out until something new of it is in the log: %v", name, cause))
		})
	}
	s.out[name] = refusal{s.pipelines.states[name].Head(), cause}
}

func (s *Scheduler) isOut(name string) bool {
	r, ok := s.out[name]
	return ok && s.pipelines.states[name].Head() == r.head
}

// leftOut tells which pipelines are left out, and why.
func (s *Scheduler) leftOut() error {
	var all []error
	for _, name := range slices.Sorted(maps.Keys(s.out)) {
		if s.isOut(name) {
			all = append(all, fmt.Errorf("pipeline %s was left out: %w", name, s.out[name].cause))
		}
	}
	return errors.Join(all...)
}
