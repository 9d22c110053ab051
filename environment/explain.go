package environment

import (
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Explain tells of what is at or below a target why it is not as it is to be.
func (s *State) Explain(t deploylog.Target, now time.Time) []Reason {
	if s.active == nil {
		return s.undeployedReasons()
	}
	s.advance(now)
	var all []Reason
	if t == s.target {
		all = s.deploymentReasons()
	}
	for _, h := range s.hosts {
		if h.status.settled && h.status.class == classNone && !h.lost || h.lost && len(h.tasks) == 0 {
			continue
		}
		r := s.hostReason(h, now)
		if t == s.target || t == deploylog.Target(r.Target) {
			all = append(all, r)
		}
	}
	return all
}

func (s *State) undeployedReasons() []Reason {
	r := Reason{Target: string(s.target)}
	switch {
	case s.deleted:
		r.Message, r.Change = "it was deleted", "a new revision: env create"
	case len(s.revisions) == 0:
		return nil
	default:
		r.Message, r.Change, r.Seq = "no revision was deployed", fmt.Sprintf("deployster env deploy %s --revision %d", s.name, len(s.revisions)), s.revisions[len(s.revisions)-1].Seq
	}
	return []Reason{r}
}

// overall is what holds the whole deployment.
func (s *State) deploymentReasons() (all []Reason) {
	f := s.active
	add := func(seq int64, change, format string, args ...any) {
		all = append(all, Reason{Target: string(s.target), Message: fmt.Sprintf(format, args...), Change: change, Seq: seq})
	}
	if p := s.pause; p != nil {
		why := ""
		if p.Reason != "" {
			why = ": " + p.Reason
		}
		add(p.Seq, "deployster env resume "+s.name+", or another deployment", "paused by %s (event %d)%s", p.By, p.Seq, why)
	}
	switch {
	case !s.hostsKnown:
		add(f.Seq, EventHostsChanged+", by the controller", "its hosts are not known yet")
	case s.total.desired == 0 && f.Kind != ByDelete:
		add(0, "a host that the query selects", "the query %s selects no hosts", s.Query())
	}
	if f.Status == DeploymentStuck {
		change := fmt.Sprintf("a task becoming healthy, or deployster env rollback %s, or a new revision", s.name)
		if f.Kind == ByDelete {
			change = "a task being terminated"
		}
		add(f.Since, change, "stuck (event %d): %s", f.Since, f.Cause)
	}
	return all
}

// reason is why a host is not as it is to be.
func (s *State) hostReason(h *host, now time.Time) Reason {
	st, f := h.status, s.active
	if h.lost {
		t := h.tasks[0]
		return Reason{
			Target: string(TaskTarget(s.name, t.revision, h.name)), Seq: t.seq,
			Message: "its host is not in the inventory any more, so it can not be terminated", Change: "the host in the inventory",
		}
	}
	r := Reason{Target: string(TaskTarget(s.name, st.task, h.name))}
	done := map[Kind]string{Start: "started", Terminate: "terminated", Confirm: "healthy for " + f.Configuration.MinHealthyTime.String()}[st.kind]
	t := h.find(st.task)
	if t != nil {
		r.Seq = t.seq
	}
	up := s.total.serving
	if st.class == classDrain {
		up = s.total.available
	}
	switch {
	case st.kind == awaitProbe:
		return s.lostReason(h, r)
	case t != nil && t.inFlight() && st.class != classNone:
		r.Message, r.Change = fmt.Sprintf("being %s since event %d (attempt %d)", done, t.seq, t.attempt), "its end"
	case s.pause != nil && st.kind != Confirm:
		r.Message, r.Change = "to be "+done+", but the environment is paused", "deployster env resume "+s.name
	case t != nil && !t.retryAfter(now).IsZero():
		r.Message = fmt.Sprintf("failed %s, and is tried again at %s: %s", times(t.failures), t.retryAt.Format("15:04:05 MST"), t.cause)
		r.Change = "the next try"
	case st.kind == Confirm:
		r.Message, r.Change = "launched, and not yet "+done, EventTaskFinished
	case st.class == classFirst && s.halted(), st.class == classReplace && s.halted(), st.class == classDrain && s.halted(), st.class == classSurge && s.halted():
		r.Message = fmt.Sprintf("to be %s, but %s failed, and max_failed is %s", done, count(s.total.failed, "host"), f.Configuration.MaxFailed)
		r.Change = "a failed task becoming healthy, or another deployment"
	case st.class == classReplace && s.servingDisruptionsLeft() <= 0, st.class == classDrain && s.disruptionsLeft() <= 0:
		r.Message = fmt.Sprintf("to be %s, but only %d of %s are healthy, and %d must stay so (min_healthy_percent %d)",
			map[Kind]string{Start: "repaired", Terminate: "terminated"}[st.kind], up, count(s.total.desired, "host"), s.minimum(), f.Configuration.MinHealthyPercent)
		r.Change = "another task becoming healthy, or a deployment with a lower --min-healthy-percent"
	case st.class == classSurge && s.surgeLeft() <= 0:
		r.Message = fmt.Sprintf("to be started, but %s have two tasks, and max_over is %d", count(s.total.double, "host"), f.Configuration.MaxOver)
		r.Change = "an old task being terminated"
	default:
		r.Message, r.Change = "to be "+done+": the controller does it as soon as it has a hand free", map[Kind]string{Start: EventTaskStarted, Terminate: EventTaskTerminating}[st.kind]
	}
	if t != nil && t.cause != "" && !strings.Contains(r.Message, t.cause) {
		r.Message += ": " + t.cause
	}
	return r
}

// unseen is why nothing is done on a host with a task that is lost.
func (s *State) lostReason(h *host, r Reason) Reason {
	for _, t := range h.tasks {
		if t.status == TaskLost {
			return Reason{
				Target: string(TaskTarget(s.name, t.revision, h.name)), Seq: t.seq,
				Message: "nobody can tell how it is, so nothing is done with it: " + t.cause, Change: "a look at it: its host has to answer",
			}
		}
	}
	return r
}

func times(n int) string {
	switch n {
	case 0, 1:
		return "once"
	case 2:
		return "twice"
	}
	return fmt.Sprintf("%d times", n)
}
