package environment

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/phrase"
)

// transitions returns the events of what has become true and is not recorded.
func (s *State) transitions(now time.Time, can Can) []deploylog.Event {
	f := s.active
	if s.hostsKnown && can.Disrupt { // otherwise what is recorded as healthy may not be
		if adopted := s.adoptionEvents(); len(adopted) > 0 {
			return adopted
		}
	}
	if watched := s.watchedEvents(can); len(watched) > 0 {
		return watched
	}
	if s.hostsKnown && (s.done() || s.excused(now)) && !s.verifiesLeft() {
		switch {
		case f.Kind == record.ByDelete:
			return []deploylog.Event{s.event(record.EnvironmentDeleted, record.Payload{By: f.By, Reason: f.Reason})}
		case !s.finished && can.Disrupt: // otherwise what is recorded as healthy may not be
			return []deploylog.Event{s.event(record.EnvironmentFinished, s.finishedWith())}
		}
	}
	if s.pause != nil || !can.Disrupt { // who has not looked yet finds nothing to have failed
		return nil
	}
	if late := s.deadlineEvents(); len(late) > 0 {
		return late
	}
	if s.finished {
		return s.bakeEvents(now, can)
	}
	if f.Status == report.DeploymentStuck && s.halted() {
		return nil
	}
	return s.progressEvents(now, can)
}

// done reports whether all is as the active deployment wants it, and its task runs on a host
// at least: what is cordoned everywhere, or has no hosts, has shown nothing of a revision.
func (s *State) done() bool {
	return s.total.unsettled == 0 && (s.active.Kind == record.ByDelete || s.total.runs > 0)
}

// AwaitsHosts reports whether nothing is left to do before the query of the deployment that
// is under way selects a host. It goes on then, and no deadline passes until that.
func (s *State) AwaitsHosts() bool {
	f := s.active
	return f != nil && f.Kind != record.ByDelete && !s.finished && s.hostsKnown && s.total.desired == 0 && s.total.unsettled == 0
}

// progressEvents record that the active deployment is stuck, or at another of its steps.
func (s *State) progressEvents(now time.Time, can Can) []deploylog.Event {
	f, step := s.active, s.stepEvents(now, can)
	switch deadline := s.deadline(); {
	case f.Clean && !deadline.IsZero() && !now.Before(deadline):
		return s.endCleaning()
	case s.halted():
		return s.stuckEvents(reason.TooManyFailed, s.details().TooManyFailed(), now, can)
	case len(step) > 0:
		return step
	case s.unverified() && f.Status != report.DeploymentStuck:
		return s.stuckEvents(reason.NotVerified, s.notVerified(), now, can)
	case f.Status == report.DeploymentStuck:
		return nil
	case !deadline.IsZero() && !now.Before(deadline):
		d := s.details()
		d.Unwatched = s.unwatched.Between(s.lastProgress, now).Round(time.Second)
		message, _ := d.Text(reason.NoProgress)
		return s.stuckEvents(reason.NoProgress, message, now, can)
	default:
		return nil
	}
}

// maxDeadlineEvents is how many passed deadlines are recorded at once.
const maxDeadlineEvents = 500

// deadlineEvents records the healthy deadlines that have passed.
func (s *State) deadlineEvents() (events []deploylog.Event) {
	message := "" // made when it is needed: most decisions find no deadline passed
	for i := range s.overdue.All() {
		if message == "" {
			message, _ = s.details().Text(reason.DeadlinePassed)
		}
		h := s.hosts[i]
		events = append(events, deploylog.Event{
			Deployment: s.active.ID, Target: record.TaskTarget(s.name, s.activeTask(), h.Name), Revision: strconv.Itoa(s.activeTask()), Name: record.TaskDeadlinePassed, Attempt: 1,
			Data: record.Payload{Code: string(reason.DeadlinePassed), Error: message}.Data(),
		})
		if len(events) == maxDeadlineEvents {
			break
		}
	}
	return events
}

// stuckEvents records that a deployment is stuck, and the rollback that follows.
func (s *State) stuckEvents(code reason.Code, message string, now time.Time, can Can) []deploylog.Event {
	f := s.active
	if causes := s.failureCauses(); causes != "" {
		message += ": " + deploylog.Cause(causes)
	}
	var back []deploylog.Event
	if s.shouldRollBack() {
		back, message = s.automaticRollback(s.goodBefore(f.Revision), fmt.Sprintf("revision %d is stuck, and auto_rollback is set", f.Revision), message, now, can)
	}
	return append([]deploylog.Event{s.event(record.EnvironmentStuck, record.Payload{Code: string(code), Error: message})}, back...)
}

// automaticRollback are the events of a rollback that nobody asked for, at the pace of
// what it reverts: with that it can proceed. There are none where it would be on hosts that
// are left to other environments, and what failed says so, too.
func (s *State) automaticRollback(to int, reason, failed string, now time.Time, can Can) (events []deploylog.Event, message string) {
	d := deploymentRequest{
		kind: record.ByRollback, revision: to, automatic: true, by: "deployster", change: paceOf(s.active.Configuration), reason: reason,
	}
	if can.Back == nil {
		return s.startEvents(d, now), failed
	}
	has := s.hostsBackAt(to)
	hosts, err := can.Back(to, has)
	if err == nil && len(hosts) < len(has) {
		d.hosts = &hosts
	}
	if events = s.startEvents(d, now); err == nil && d.hosts != nil && !beginsWith(events, hosts) {
		err = fmt.Errorf("it would leave more hosts to other environments than may leave at once (max_leaving)")
	}
	if err != nil {
		return nil, fmt.Sprintf("%s; it is not rolled back to revision %d: %s", failed, to, deploylog.Cause(err.Error()))
	}
	return events, failed
}

// hostsBackAt are the hosts that the environment keeps when it goes back to a revision; none
// where the query of that is another one, or it is not known which they are.
func (s *State) hostsBackAt(revision int) (names []string) {
	if !s.hostsKnown || s.revisions[revision-1].Definition.InstanceGroup.Query != s.Query() {
		return nil
	}
	for _, h := range s.hosts {
		if h.Desired {
			names = append(names, h.Name)
		}
	}
	return names
}

// beginsWith reports whether events start a deployment on these hosts and no others.
func beginsWith(events []deploylog.Event, hosts []string) bool {
	n, started := 0, false
	for _, e := range events {
		p := record.Read(e.Data)
		switch {
		case e.Name == record.EnvironmentStarted && p.Hosts != nil:
			return len(*p.Hosts) == len(hosts)
		case e.Name == record.EnvironmentStarted:
			started = true
		case e.Name == record.HostsChanged:
			n += len(p.Joined)
		}
	}
	return started && n == len(hosts)
}

// shouldRollBack reports whether a stuck deployment is rolled back. It is not when
// none of its tasks was ever tried, because no controller was running.
func (s *State) shouldRollBack() bool {
	f := s.active
	return f.Configuration.AutoRollback && f.Kind == record.ByDeploy && s.goodBefore(f.Revision) != 0 && (s.started || s.total.failed > 0 || s.unverified())
}

// failureCauses lists what is wrong on the first unhealthy hosts.
func (s *State) failureCauses() string {
	const most = 3
	var all []string
	more := 0
	for _, h := range s.hosts {
		if h.Lost || h.Status.Settled {
			continue
		}
		if h.Status.Kind == tasks.Check && len(all) < most {
			all = append(all, h.Name+": "+h.Check.Cause)
			continue
		}
		for _, t := range h.Tasks {
			if t.Failures == 0 && t.Status != report.TaskLost || t.Cause == "" {
				continue
			}
			if len(all) == most {
				more++
				break
			}
			all = append(all, h.Name+": "+t.Cause)
			break
		}
	}
	if more > 0 {
		all = append(all, fmt.Sprintf("and %s more", phrase.Count(more, "host")))
	}
	return strings.Join(all, "\n")
}

// event is an event of the active deployment.
func (s *State) event(name string, p record.Payload) deploylog.Event {
	return deploylog.Event{
		Deployment: s.active.ID, Target: s.target, Revision: strconv.Itoa(s.active.Revision), Name: name, Attempt: s.attempts[name] + 1, Data: p.Data(),
	}
}
