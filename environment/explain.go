package environment

import (
	"time"

	"github.com/deployster-go/deployster/environment/record"

	"github.com/deployster-go/deployster/deploylog"
)

// Explain returns, for what is at or below a target, why it is not in the desired
// state. It is made of the verdicts by which Decide yields steps or does not.
func (s *State) Explain(t deploylog.Target, now time.Time) []Reason {
	if s.active == nil {
		return s.undeployedReasons()
	}
	s.advance(now)
	if name, revision, host, ok := record.TaskOf(t); ok && name == s.name {
		t = s.TaskTarget(revision, host)
	}
	var all []Reason
	if t == s.target {
		all = s.deploymentReasons()
	}
	for _, h := range s.hosts {
		if h.status.settled && !h.status.passed && h.status.class == classNone && !h.lost || h.lost && len(h.tasks) == 0 {
			continue
		}
		r := s.hostReason(h, now)
		if t == s.target || t == deploylog.Target(r.Target) {
			all = append(all, r)
		}
	}
	return all
}

// NoController is the reason of an environment that nobody reconciles, which is
// not known from its state; others are the controllers that are at work on others.
func (s *State) NoController(others string) Reason {
	d := s.details()
	d.others = others
	return d.explain(NoController, s.target)
}

// SilentController is the reason of an environment whose controller does nothing, as is
// said of it.
func (s *State) SilentController(cause string) Reason {
	d := s.details()
	d.cause = cause
	return d.explain(SilentController, s.target)
}

func (s *State) undeployedReasons() []Reason {
	d := s.details()
	switch {
	case s.deleted:
		return []Reason{d.explain(EnvironmentDeleted, s.target)}
	case len(s.revisions) == 0:
		return nil
	default:
		d.seq = s.revisions[len(s.revisions)-1].Seq
		return []Reason{d.explain(NotDeployed, s.target)}
	}
}

// deploymentReasons are those that hold the deployment as a whole.
func (s *State) deploymentReasons() (all []Reason) {
	f := s.active
	add := func(code ReasonCode, seq int64) {
		d := s.details()
		if d.seq, d.cause = seq, f.Cause; s.pause != nil {
			d.by, d.reason = s.pause.By, s.pause.Reason
		}
		all = append(all, d.explain(code, s.target))
	}
	if s.pause != nil {
		add(Paused, s.pause.Seq)
	}
	switch {
	case s.kept != nil:
		d := s.details()
		d.seq, d.cause = s.kept.Seq, s.kept.Reason
		all = append(all, d.explain(AwaitsConfirmation, s.target))
	case !s.hostsKnown:
		add(HostsUnknown, f.Seq)
	case s.total.desired == 0 && f.Kind != record.ByDelete:
		add(NoHosts, 0)
	}
	if f.BakeFailed != "" {
		d := s.details()
		d.cause = f.BakeFailed
		all = append(all, d.explain(FailedInBake, s.target))
	}
	if s.waves() && s.wave.seq > 0 {
		add(AwaitsPromotion, s.wave.seq)
	}
	if f.Status == DeploymentStuck {
		add(IsStuck, f.Since)
	}
	return all
}

// hostReason is why a host is not in the desired state.
func (s *State) hostReason(h *host, now time.Time) Reason {
	code, t := s.verdict(h, now)
	d, revision := s.details(), h.status.task
	d.absent = h.absent
	if c := h.check; h.status.kind == Check {
		d.seq, d.cause, d.failures, d.retryAt = c.seq, c.cause, c.failures, c.retryAt
	}
	if t != nil {
		revision = t.revision
		d.seq, d.cause, d.attempt, d.failures, d.retryAt = t.seq, t.cause, t.attempt, t.failures, t.retryAt
	}
	if c := h.cordon; c != nil && code == Cordoned {
		d.seq, d.by, d.reason, d.host = c.Seq, c.By, c.Reason, h.name
	}
	d.awaited = map[Kind]string{Start: "started", Check: "checked", Terminate: "terminated", Confirm: "healthy for " + d.config.MinHealthyTime.String()}[h.status.kind]
	if code == MinHealthy && h.status.kind == Start {
		d.awaited = "repaired"
	}
	if h.status.class == classDrain {
		d.healthy = s.total.available
	}
	r := d.explain(code, record.TaskTarget(s.name, revision, h.name))
	if code == HostLost {
		return r
	}
	return r.withCause(d.cause)
}
