package environment

import (
	"fmt"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/phrase"
)

// A deployment that has finished bakes for a while: what dies until then counts for
// max_failed and auto_rollback as if it had failed before the end. Which hosts that were
// is folded from their events, so it is the same whenever it is decided upon.

// beginBake begins the bake of a deployment that has just finished. Its exceptions count.
func (s *State) beginBake(e deploylog.Event) {
	bake := time.Duration(s.active.Configuration.Bake)
	if bake <= 0 || s.active.Kind == record.ByDelete {
		return
	}
	s.active.BakeUntil = e.CreatedAt.Add(bake)
	for _, h := range s.hosts {
		if !h.Lost && !h.Status.Settled {
			h.Baked = true
			s.baked++
		}
	}
}

// endBake forgets what failed in the bake of the last deployment.
func (s *State) endBake() {
	s.baked = 0
	for _, h := range s.hosts {
		h.Baked = false
	}
}

// boundBake lets a clock that was set back make the bake no longer.
func (s *State) boundBake(now time.Time) {
	if f := s.active; f != nil && f.BakeUntil.Sub(now) > time.Duration(f.Configuration.Bake) {
		f.BakeUntil = now.Add(time.Duration(f.Configuration.Bake))
	}
}

// bakes reports whether what fails at a time counts for the bake.
func (s *State) bakes(at time.Time) bool { return s.finished && at.Before(s.active.BakeUntil) }

// countBaked counts a host where a task of the active revision has failed in the bake.
func (s *State) countBaked(h *hosts.Host, t *tasks.State, e deploylog.Event) {
	failed := e.Name == record.TaskDied || e.Name == record.TaskFailed
	if t == nil || !failed || !s.bakes(e.CreatedAt) || t.Revision != s.activeTask() || !h.Desired || h.Baked || h.Absent || h.Cordon != nil {
		return
	}
	h.Baked = true
	s.baked++
}

// bakeBroken reports whether more hosts failed in the bake than max_failed, which is not
// recorded yet.
func (s *State) bakeBroken() bool {
	f := s.active
	return s.finished && !f.BakeUntil.IsZero() && f.BakeFailed == "" && s.baked > s.tolerated()
}

// bakeEvents record that a deployment failed in its bake, and the rollback that follows.
func (s *State) bakeEvents(now time.Time, can Can) []deploylog.Event {
	if !s.bakeBroken() {
		return nil
	}
	f, most := s.active, "max_failed is not set"
	if b := f.Configuration.MaxFailed; b != nil {
		most = fmt.Sprintf("max_failed is %s", b)
	}
	message := fmt.Sprintf("%s failed within %s after the end, and %s", phrase.Count(s.baked, "host"), f.Configuration.Bake, most)
	if causes := s.failureCauses(); causes != "" {
		message += ": " + deploylog.Cause(causes)
	}
	var rollback []deploylog.Event
	if back := s.goodBeforeTask(f.Revision); f.Configuration.AutoRollback && f.Kind == record.ByDeploy && back != 0 {
		why := fmt.Sprintf("revision %d failed in its bake, and auto_rollback is set", f.Revision)
		rollback, message = s.automaticRollback(back, why, message, now, can)
	}
	return append([]deploylog.Event{s.event(record.BakeFailed, record.Payload{Code: string(reason.TooManyFailed), Error: message})}, rollback...)
}
