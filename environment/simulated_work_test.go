package environment

import (
	"errors"
	"slices"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
)

// work is a step that was begun. It may be nobody's any more, and still go on.
type work struct {
	at      place
	step    tasks.Step
	replace bool // no other revision may be there
	of      *controller
	begins  time.Time // when older work on the task is over
	ends    time.Time
	lost    bool // its process died with the controller
	seen    tasks.ProbeResult
	err     error
}

// lasts is how long work takes.
func (s *simulation) lasts(w *work) time.Duration {
	switch {
	case w.step.Kind == tasks.Confirm || w.step.Kind == tasks.Check:
		return s.between(0, 2*time.Second)
	case w.step.Kind == tasks.Verify:
		return s.between(0, time.Minute)
	case !s.calm && s.chance(0.01):
		return s.between(time.Minute, 20*time.Minute) // the engine hangs
	case w.step.Kind == tasks.Start && s.behaves(w.at) == slow:
		return s.between(30*time.Second, 4*time.Minute)
	}
	return s.between(0, 15*time.Second)
}

var errAway = errors.New("the host does not answer")

// starts is when work really begins.
func (s *simulation) starts(w *work) {
	m := s.machine(w.at.host)
	switch {
	case w.lost:
	case !m.up:
		w.err = errAway
	case w.step.Kind == tasks.Start:
		s.alone(w, m)
		if now := m.tasks[w.at.revision]; now != "" && now != sound {
			m.tasks[w.at.revision] = half
		}
	}
	s.at(w.ends, func() { s.ends(w, m) })
}

// alone wants no other revision to be on a host where one is started by Replace.
func (s *simulation) alone(w *work, m *machine) {
	for revision := range m.tasks {
		if w.replace && revision != w.at.revision {
			s.fail("revision %d is started on %s while revision %d really is there", w.at.revision, m.name, revision)
		}
	}
	for _, other := range s.works {
		if w.replace && !other.lost && other.step.Kind == tasks.Start && other.at.host == m.name && other.at.revision != w.at.revision {
			s.fail("revision %d is started on %s while revision %d is being started there", w.at.revision, m.name, other.at.revision)
		}
	}
}

func (s *simulation) over(w *work) {
	s.works = slices.DeleteFunc(s.works, func(other *work) bool { return other == w })
}

// ends is when work has its effect.
func (s *simulation) ends(w *work, m *machine) {
	s.over(w)
	if !w.lost {
		s.takesEffect(w, m)
	}
	if c := s.control; c != nil && w.of == c {
		delete(c.working, w.at.host)
		c.ended, c.news = append(c.ended, w), true
		c.resume(w.at.host)
	}
}

func (s *simulation) takesEffect(w *work, m *machine) {
	if w.err == nil && !m.up {
		w.err = errAway
	}
	if w.err != nil {
		return
	}
	fails := 0
	if !s.calm && s.chance(s.nature.failures) {
		fails = 1 + s.IntN(3)
		w.err = errors.New("the engine failed")
	}
	revision := w.at.revision
	_, exists := m.tasks[revision]
	switch {
	case w.step.Kind == tasks.Check && s.unfit(w.at):
		w.err = errors.New("the host has no attribute rack")
	case w.step.Kind == tasks.Check && w.of != nil:
		w.of.checked[w.at.host] = w.step.Deployment
	case w.step.Kind == tasks.Confirm:
		w.seen, w.err = s.observe(w.at), nil
	case fails == 1: // without any effect
	case w.step.Kind == tasks.Terminate && fails == 2 && exists:
		m.tasks[revision] = half
	case w.step.Kind == tasks.Terminate:
		delete(m.tasks, revision)
	case fails == 2:
		if m.tasks[revision] != sound {
			m.tasks[revision] = half
		}
	default:
		s.made(w, m)
	}
}

// made is when the task's manifest was applied.
func (s *simulation) made(w *work, m *machine) {
	revision := w.at.revision
	switch s.behaves(w.at) {
	case bad, unable:
		m.tasks[revision] = half
		if s.chance(0.5) {
			w.err = errors.New("bad image")
		}
	case sickening:
		if m.tasks[revision] = sound; !s.calm {
			s.after(s.between(5*time.Second, 3*time.Minute), func() {
				if !s.calm && m.tasks[revision] == sound {
					m.tasks[revision] = sick
					s.hint(m)
				}
			})
		}
	default:
		m.tasks[revision] = sound
	}
	w.seen = s.observe(w.at)
}

// observe looks at a task.
func (s *simulation) observe(at place) tasks.ProbeResult {
	m := s.machine(at.host)
	switch now := m.tasks[at.revision]; {
	case !m.up:
		return tasks.ProbeResult{Health: tasks.Unknown, Detail: errAway.Error()}
	case now == sound:
		return tasks.ProbeResult{Health: tasks.Healthy}
	case now == drifted:
		return tasks.ProbeResult{Health: tasks.Drifted, Detail: "~ content"}
	case now == "":
		return tasks.ProbeResult{Health: tasks.Unhealthy, Detail: "it is missing"}
	default:
		return tasks.ProbeResult{Health: tasks.Unhealthy, Detail: string("it is " + now)}
	}
}

// noteProgress counts the first task that the deployment begins, and the first end
// of each: of those of its revision that they are healthy, of all that they are gone.
func (n *naive) noteProgress(e deploylog.Event, h *naiveHost, own bool) {
	f := n.force
	progress := func() {
		f.progress, f.moved = e.CreatedAt, true
		f.stuck = f.stuck && (f.reached || n.halted())
	}
	if e.Name == record.TaskStarted && own {
		h.begun, h.tasks[f.task].of = true, f.revision
		if !f.tried {
			f.tried = true
			progress()
		}
	}
	key := e.Name + string(e.Target)
	if again := f.counted[key]; !again && (e.Name == record.TaskFinished && own || e.Name == record.TaskTerminated) {
		f.counted[key] = true
		progress()
	}
}

func (t *naiveTask) note(e deploylog.Event) {
	was := t.status
	t.since = e.CreatedAt
	fails := func(as report.TaskStatus) {
		t.status, t.blamed = as, e.Deployment
		t.failures++
		t.rests = e.CreatedAt.Add(min(time.Minute, time.Second<<min(t.failures-1, 10)))
	}
	switch e.Name {
	case record.TaskStarted:
		t.made = e.Seq
		if t.firstBy != e.Deployment {
			t.firstBy, t.first = e.Deployment, e.CreatedAt
		}
		if was == report.TaskTerminating {
			t.failures = 0
		}
		t.status, t.rests = report.TaskStarting, time.Time{}
	case record.TaskTerminating:
		if was != report.TaskTerminating {
			t.failures = 0
		}
		t.status, t.rests, t.vain = report.TaskTerminating, time.Time{}, false
	case record.TaskLaunched:
		t.status = report.TaskLaunched
	case record.TaskFinished, record.TaskRecovered:
		t.status, t.blamed, t.healthy = report.TaskHealthy, "", e.CreatedAt
	case record.TaskLost:
		t.status = report.TaskLost
	case record.TaskDrifted:
		if e.CreatedAt.Sub(t.drifted) < 10*time.Minute {
			fails(report.TaskDrifted)
		} else {
			t.failures = 0
		}
		t.status, t.drifted, t.blamed = report.TaskDrifted, e.CreatedAt, ""
	case record.TaskDied:
		if e.CreatedAt.Sub(t.healthy) >= 10*time.Minute {
			t.failures = 0
		}
		fails(report.TaskDied)
	case record.TaskFailed:
		fails(report.TaskFailed)
	case record.TaskTerminationFailed:
		fails(report.TaskTerminating)
		t.vain = true
	}
}
