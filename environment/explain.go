package environment

import (
	"fmt"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
)

// Explain tells of what is at or below a target why it is not as it is to be.
func (s *State) Explain(t deploylog.Target, now time.Time) []Reason {
	if s.force == nil {
		return s.undeployed()
	}
	s.awake(now)
	var all []Reason
	if t == s.target {
		all = s.overall()
	}
	for _, h := range s.hosts {
		if h.now.settled && h.now.class == nothing && !h.lost || h.lost && len(h.tasks) == 0 {
			continue
		}
		r := s.reason(h, now)
		if t == s.target || t == deploylog.Target(r.Target) {
			all = append(all, r)
		}
	}
	return all
}

func (s *State) undeployed() []Reason {
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
func (s *State) overall() (all []Reason) {
	f := s.force
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
	case !s.known:
		add(f.Seq, EventHostsChanged+", by the controller", "its hosts are not known yet")
	case s.total.wanted == 0 && f.Kind != ByDelete:
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
func (s *State) reason(h *host, now time.Time) Reason {
	st, f := h.now, s.force
	if h.lost {
		t := h.tasks[0]
		return Reason{
			Target: string(TaskTarget(s.name, t.revision, h.name)), Seq: t.seq,
			Message: "its host is not in the inventory any more, so it can not be terminated", Change: "the host in the inventory",
		}
	}
	r := Reason{Target: string(TaskTarget(s.name, st.task, h.name))}
	do := map[Kind]string{Start: "started", Terminate: "terminated", Confirm: "healthy for " + f.Configuration.MinHealthyTime.String()}[st.kind]
	t := h.find(st.task)
	if t != nil {
		r.Seq = t.seq
	}
	up := s.total.serves
	if st.class == cleans {
		up = s.total.up
	}
	switch {
	case st.kind == await:
		return s.unseen(h, r)
	case t != nil && t.begun() && st.class != nothing:
		r.Message, r.Change = fmt.Sprintf("being %s since event %d (attempt %d)", do, t.seq, t.attempt), "its end"
	case s.pause != nil && st.kind != Confirm:
		r.Message, r.Change = "to be "+do+", but the environment is paused", "deployster env resume "+s.name
	case t != nil && !t.waitsUntil(now).IsZero():
		r.Message = fmt.Sprintf("failed %s, and is tried again at %s: %s", times(t.failures), t.next.Format("15:04:05 MST"), t.cause)
		r.Change = "the next try"
	case st.kind == Confirm:
		r.Message, r.Change = "launched, and not yet "+do, EventTaskFinished
	case st.class == fresh && s.halted(), st.class == takesDown && s.halted(), st.class == cleans && s.halted(), st.class == doubles && s.halted():
		r.Message = fmt.Sprintf("to be %s, but %s failed, and max_failed is %s", do, count(s.total.failed, "host"), f.Configuration.MaxFailed)
		r.Change = "a failed task becoming healthy, or another deployment"
	case st.class == takesDown && s.spareServing() <= 0, st.class == cleans && s.spare() <= 0:
		r.Message = fmt.Sprintf("to be %s, but only %d of %s are healthy, and %d must stay so (min_healthy_percent %d)",
			map[Kind]string{Start: "repaired", Terminate: "terminated"}[st.kind], up, count(s.total.wanted, "host"), s.minimum(), f.Configuration.MinHealthyPercent)
		r.Change = "another task becoming healthy, or a deployment with a lower --min-healthy-percent"
	case st.class == doubles && s.over() <= 0:
		r.Message = fmt.Sprintf("to be started, but %s have two tasks, and max_over is %d", count(s.total.double, "host"), f.Configuration.MaxOver)
		r.Change = "an old task being terminated"
	default:
		r.Message, r.Change = "to be "+do+": the controller does it as soon as it has a hand free", map[Kind]string{Start: EventTaskStarted, Terminate: EventTaskTerminating}[st.kind]
	}
	if t != nil && t.cause != "" && !strings.Contains(r.Message, t.cause) {
		r.Message += ": " + t.cause
	}
	return r
}

// unseen is why nothing is done on a host with a task that is lost.
func (s *State) unseen(h *host, r Reason) Reason {
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
