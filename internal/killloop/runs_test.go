package killloop

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
)

// details are the fields of events that these tests read.
type details struct {
	Steps []struct {
		Deployment string           `json:"deployment"`
		Revision   string           `json:"revision"`
		Target     deploylog.Target `json:"target"`
		Event      string           `json:"event"`
		Attempt    int              `json:"attempt"`
		Try        int              `json:"try"`
		Outcome    string           `json:"outcome"`
	} `json:"steps"`
	Details struct {
		Deployment string `json:"deployment"`
		Target     string `json:"target"`
		Event      string `json:"event"`
		PID        string `json:"pid"`
	} `json:"details"`
	Rollback *struct {
		Stage string `json:"stage"`
	} `json:"rollback"`
	Abandoned  bool            `json:"abandoned"`
	Nothing    bool            `json:"nothing_applied"`
	Kind       string          `json:"kind"`
	Hosts      []string        `json:"hosts"`
	Joined     []string        `json:"joined"`
	Left       []string        `json:"left"`
	Lost       []string        `json:"lost"`
	Only       []string        `json:"only"`
	Drain      bool            `json:"drain"`
	Task       int             `json:"task_of"`
	Definition json.RawMessage `json:"definition"`
}

func (w *world) details(e deploylog.Event) (d details) {
	if len(e.Data) == 0 {
		return d
	}
	require.NoError(w, json.Unmarshal(e.Data, &d), "event %d", e.Seq)
	return d
}

// checkRuns checks that all that began has an end, once, and that nothing is done again
// within a deployment of a pipeline whose success is recorded.
func (w *world) checkRuns(events []deploylog.Event) {
	w.Helper()
	type key struct {
		deployment string
		target     deploylog.Target
		attempt    int
	}
	open, step, done := map[key]bool{}, map[string]string{}, map[string]int64{}
	for _, e := range events {
		k, d := key{e.Deployment, e.Target, e.Attempt}, w.details(e)
		switch kind := e.Target.Kind(); {
		case e.Name == "run-started":
			open[k] = true
			if d.Details.Event != "" {
				step[e.Deployment] = fmt.Sprint(d.Details.Deployment, " ", d.Details.Target, " ", d.Details.Event)
			}
		case e.Name == "action-started":
			open[k] = true
			if before := done[step[e.Deployment]]; before > 0 {
				w.Errorf("event %d begins again what event %d has recorded as done: %s", e.Seq, before, step[e.Deployment])
			}
		case (kind == "run" || kind == "action") && (e.Name == e.Target.Succeeded() || e.Name == e.Target.Failed()):
			assert.True(w, open[k], "event %d: %s of %s ended without having begun", e.Seq, e.Target, e.Deployment)
			delete(open, k)
			if s := step[e.Deployment]; e.Name == "action-finished-successfully" && !d.Abandoned && s != "" {
				done[s] = e.Seq
			}
		}
	}
	for k := range open {
		w.Errorf("%s of %s has no end in the log", k.target, k.deployment)
	}
}

// An apply on a log in a database is killed in the middle, again and again. The next one finds what
// the last has begun, waits for it, and goes on: no action is done beside another, and all has an end.
func TestAppliesGoOnWhereTheLastOneWasKilled(t *testing.T) {
	rounds(t, 10, func(w *world, kills int) {
		w.inDatabase()
		require.NoError(t, os.MkdirAll(w.path("hosts", "x"), 0o700))
		released := map[string]string{}
		next := func(n int) {
			var text strings.Builder
			text.WriteString("plugs: {dir: {path: hosts/x}, all: {path: all}}\nresources:\n")
			for i, file := range []string{"a", "b", "c"} {
				fmt.Fprintf(&text, "  %s: {type: journal:1, dependencies: {%s}, config: {file: %s, host: x, for: site %d, alone: site, wait: 150, value: %s %d}}\n",
					file, []string{"", "before: a", "before: b"}[i], file, n, file, n)
			}
			w.write("site.yaml", text.String())
			released[fmt.Sprintf("site %d", n)] = "released"
			for _, file := range []string{"a", "b", "c"} {
				released[fmt.Sprintf("site %d %s", n, file)] = fmt.Sprintf("%s %d image=0", file, n)
			}
		}
		n := 1
		for next(n); w.killed < kills; next(n) {
			w.work("apply", "site.yaml", "--confirm", "NO", "--engine", "oci")
			w.busy(2 * time.Second)
			one := w.workers[0]
			w.workers = nil
			select {
			case err := <-one.done: // it was quicker
				if err != nil {
					text, _ := os.ReadFile(one.log)
					w.Fatalf("%v\n%.4000s", err, text)
				}
			default:
				_ = one.Process.Kill()
				<-one.done
				w.killed++
			}
			if w.IntN(2) == 0 {
				n++
			}
		}
		w.must("apply", "site.yaml", "--confirm", "NO", "--engine", "oci")
		for _, file := range []string{"a", "b", "c"} {
			if got, want := w.file("x", file), fmt.Sprintf("%s %d image=0", file, n); got != want {
				w.Errorf("there is %q, want %q", got, want)
			}
		}
		w.checkRuns(w.events())
		w.checkJournal(released)
	})
}

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
