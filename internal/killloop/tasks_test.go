package killloop

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
)

// tasks is an environment as the log tells it.
type tasks struct {
	*world
	members  map[string]bool
	health   map[deploylog.Target]string // healthy, died, drifted, lost, or nothing
	wanted   string                      // revision of the newest deployment, whose task may be that of an earlier one
	of       map[string]string           // revision → the one with whose task it came
	restarts bool                        // the newest deployment is a restart
	again    map[string]bool             // hosts that it has taken a healthy task of
	percent  int                         // of the hosts that keep a healthy task
	drained  map[string]bool
	deleting bool
}

// checkTasks checks in the log that no healthy task was terminated without a deployment of
// another revision, a restart or the host leaving, and that so many of the hosts kept theirs.
// In the end the hosts have the tasks of the active revision, and no others.
func (w *world) checkTasks(events []deploylog.Event, name string, active, percent int) {
	w.Helper()
	s := tasks{world: w, members: map[string]bool{}, health: map[deploylog.Target]string{}, of: map[string]string{}, drained: map[string]bool{}, again: map[string]bool{}, percent: percent}
	for _, e := range events {
		switch {
		case e.Target == deploylog.Target("environment/"+name):
			s.environment(e)
		case strings.HasPrefix(string(e.Target), "task/"+name+"/"):
			s.task(e)
		}
	}
	for target, health := range s.health {
		parts := strings.Split(string(target), "/")
		revision, host := parts[len(parts)-2], parts[len(parts)-1]
		if health != "" && s.members[host] && revision != s.task1(fmt.Sprint(active)) {
			w.Errorf("in the end there is %s, which is %s, and revision %d is active", target, health, active)
		}
	}
}

// task1 is the revision with which the task of a revision came.
func (s *tasks) task1(revision string) string {
	if of := s.of[revision]; of != "" {
		return of
	}
	return revision
}

func (s *tasks) environment(e deploylog.Event) {
	d := s.details(e)
	switch e.Name {
	case "environment-created", "environment-updated":
		if d.Task > 0 {
			s.of[e.Revision] = fmt.Sprint(d.Task)
		}
	case "environment-started":
		s.wanted, s.restarts = e.Revision, d.Kind == "restart"
		s.deleting = d.Kind == "delete"
		clear(s.again)
		if d.Hosts != nil {
			clear(s.members)
		}
		for _, host := range d.Hosts {
			s.members[host] = true
		}
	case "environment-hosts-changed":
		for _, host := range d.Joined {
			s.members[host] = true
		}
		for _, host := range append(d.Left, d.Lost...) {
			delete(s.members, host)
		}
	case "environment-hosts-cordoned":
		for _, host := range d.Hosts {
			s.drained[host] = s.drained[host] || d.Drain
		}
	case "environment-hosts-uncordoned":
		for _, host := range d.Hosts {
			delete(s.drained, host)
		}
	}
}

var healths = map[string]string{
	"task-started": "starting", "task-finished-successfully": "healthy", "task-recovered": "healthy", "task-adopted": "healthy",
	"task-died": "died", "task-lost": "lost", "task-drifted": "drifted", "task-failed": "failed", "task-terminating": "terminating",
	"task-terminated": "",
}

func (s *tasks) task(e deploylog.Event) {
	parts := strings.Split(string(e.Target), "/")
	revision, host := parts[len(parts)-2], parts[len(parts)-1]
	if e.Name == "task-terminating" && up(s.health[e.Target]) {
		s.minimum(e, host)
	}
	if e.Name == "task-terminating" && s.health[e.Target] == "healthy" {
		other := revision != s.task1(s.wanted)
		restart := s.restarts && !s.again[host]
		if !other && !restart && !s.drained[host] && s.members[host] && !s.deleting {
			s.Errorf("event %d takes the healthy task %s, and nothing asks for that", e.Seq, e.Target)
		}
		s.again[host] = true
	}
	if health, ok := healths[e.Name]; ok {
		s.health[e.Target] = health
	}
}

// up reports whether a task does its work, if differently from how it is configured.
func up(health string) bool { return health == "healthy" || health == "drifted" }

// minimum checks that enough hosts have a healthy task without the one that is taken.
func (s *tasks) minimum(e deploylog.Event, taken string) {
	if !s.members[taken] || s.deleting {
		return
	}
	healthy := map[string]bool{}
	for target, health := range s.health {
		host := string(target[strings.LastIndexByte(string(target), '/')+1:])
		if up(health) && s.members[host] && target != e.Target {
			healthy[host] = true
		}
	}
	if least := (len(s.members)*s.percent + 99) / 100; !healthy[taken] && len(healthy) < least {
		s.Errorf("event %d takes %s, and leaves %d healthy tasks of %d hosts, with a minimum of %d", e.Seq, e.Target, len(healthy), len(s.members), least)
	}
}
