package environment

import (
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// Explain returns, for what is at or below a target, why it is not in the desired
// state. It is made of the verdicts by which Decide yields steps or does not.
func (s *State) Explain(t deploylog.Target, now time.Time) []reason.Reason {
	asked := s.askedReasons(t, now)
	if s.active == nil {
		return append(asked, s.undeployedReasons()...)
	}
	s.advance(now)
	if name, revision, host, ok := record.TaskOf(t); ok && name == s.name {
		t = s.TaskTarget(revision, host)
	}
	all := asked
	if t == s.target {
		all = append(all, s.deploymentReasons()...)
	}
	for _, h := range s.hosts {
		if h.Status.Settled && !h.Status.Passed && h.Status.Class == hosts.None && !h.Lost || h.Lost && len(h.Tasks) == 0 {
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
func (s *State) NoController(others string) reason.Reason {
	d := s.details()
	d.Others = others
	return d.Explain(reason.NoController, s.target)
}

// SilentController is the reason of an environment whose controller does nothing, as is
// said of it.
func (s *State) SilentController(cause string) reason.Reason {
	d := s.details()
	d.Cause = cause
	return d.Explain(reason.SilentController, s.target)
}

// askedReasons say which revision waits to be accepted.
func (s *State) askedReasons(t deploylog.Target, now time.Time) []reason.Reason {
	a, waits := s.Asked(now)
	if !waits || t != s.target {
		return nil
	}
	d := s.details()
	d.Seq, d.By, d.Cause, d.Revision, d.Content, d.Deadline, d.Diff = a.Seq, a.By, a.Cause(), a.Revision, a.Content, a.Expires, a.Diff(s.name)
	return []reason.Reason{d.Explain(reason.AwaitsAcceptance, s.target)}
}

func (s *State) undeployedReasons() []reason.Reason {
	d := s.details()
	switch {
	case s.deleted:
		return []reason.Reason{d.Explain(reason.EnvironmentDeleted, s.target)}
	case len(s.revisions) == 0:
		return nil
	default:
		d.Seq = s.revisions[len(s.revisions)-1].Seq
		return []reason.Reason{d.Explain(reason.NotDeployed, s.target)}
	}
}

// deploymentReasons are those that hold the deployment as a whole.
func (s *State) deploymentReasons() (all []reason.Reason) {
	f := s.active
	add := func(code reason.Code, seq int64) {
		d := s.details()
		if d.Seq, d.Cause = seq, f.Cause; s.pause != nil {
			d.By, d.Reason = s.pause.By, s.pause.Reason
		}
		all = append(all, d.Explain(code, s.target))
	}
	if s.pause != nil {
		add(reason.Paused, s.pause.Seq)
	}
	switch {
	case s.kept != nil:
		d := s.details()
		d.Seq, d.Cause = s.kept.Seq, s.kept.Reason
		all = append(all, d.Explain(reason.AwaitsConfirmation, s.target))
	case !s.hostsKnown:
		add(reason.HostsUnknown, f.Seq)
	case s.total.desired == 0 && f.Kind != record.ByDelete:
		add(reason.NoHosts, 0)
	}
	if f.BakeFailed != "" {
		d := s.details()
		d.Cause = f.BakeFailed
		all = append(all, d.Explain(reason.FailedInBake, s.target))
	}
	switch {
	case s.awaitsVerification():
		add(reason.AwaitsVerification, s.wave.seq)
	case s.waves() && s.wave.seq > 0:
		add(reason.AwaitsPromotion, s.wave.seq)
	}
	if at := s.deadline(); !at.IsZero() && len(s.unwatched) > 0 {
		d := s.details()
		d.Seq, d.Unwatched, d.Absences, d.Deadline = s.unwatched[len(s.unwatched)-1].Seq, s.unwatchedTime(), len(s.unwatched), at
		all = append(all, d.Explain(reason.Unwatched, s.target))
	}
	if f.Status == report.DeploymentStuck {
		add(reason.IsStuck, f.Since)
	}
	return all
}

// hostReason is why a host is not in the desired state.
func (s *State) hostReason(h *hosts.Host, now time.Time) reason.Reason {
	code, t := s.verdict(h, now)
	d, revision := s.details(), h.Status.Task
	d.Absent = h.Absent
	if c := h.Check; h.Status.Kind == tasks.Check {
		d.Seq, d.Cause, d.Failures, d.RetryAt = c.Seq, c.Cause, c.Failures, c.RetryAt
	}
	if t != nil {
		revision = t.Revision
		d.Seq, d.Cause, d.Attempt, d.Failures, d.RetryAt = t.Seq, t.Cause, t.Attempt, t.Failures, t.RetryAt
	}
	if c := h.Cordon; c != nil && code == reason.Cordoned {
		d.Seq, d.By, d.Reason, d.Host = c.Seq, c.By, c.Reason, h.Name
	}
	d.Awaited = map[tasks.Kind]string{tasks.Start: "started", tasks.Check: "checked", tasks.Terminate: "terminated", tasks.Confirm: "healthy for " + d.Config.MinHealthyTime.String()}[h.Status.Kind]
	if code == reason.MinHealthy && h.Status.Kind == tasks.Start {
		d.Awaited = "repaired"
	}
	if s.turn().repairs(h) {
		if d.Awaited = "restarted"; h.Status.RepairKind == tasks.Confirm {
			d.Awaited = "healthy for " + d.Config.MinHealthyTime.String()
		}
	}
	if h.Status.Class == hosts.Drain {
		d.Healthy = s.total.available
	}
	r := d.Explain(code, record.TaskTarget(s.name, revision, h.Name))
	if code == reason.HostLost {
		return r
	}
	return r.WithCause(d.Cause)
}

// details are those of the environment.
func (s *State) details() reason.Details {
	d := reason.Details{Environment: s.name, Revision: len(s.revisions), Query: s.Query()}
	if f := s.active; f != nil {
		d.Config, d.Deleting, d.Back = *s.configuration(), f.Kind == record.ByDelete, s.RollbackCommand()
		d.Tolerates = f.Tolerates
		turn := s.turn()
		d.Step = s.stepInfo()
		d.Zone, d.Zoned = turn.zone, turn.known
		d.Failed, d.Healthy, d.Desired, d.Double, d.Minimum = s.total.failed, s.total.serving, s.total.desired, s.total.double, s.minimum()
	}
	return d
}
