package environment

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// running is a task that runs whenever one looks, and had ended by itself so often before.
func running(restarts int) tasks.ProbeResult {
	return tasks.ProbeResult{Health: tasks.Healthy, Restarts: &restarts, Restarted: "web ended by itself"}
}

// What keeps a task there starts it again before anybody looks. It has died all the same.
func TestWhatEndedByItselfSinceItWasSeenHasDied(t *testing.T) {
	for name, tc := range map[string]struct {
		launched, then tasks.ProbeResult
		dies           bool
	}{
		"it never ended":                         {running(0), running(0), false},
		"it ended once":                          {running(0), running(1), true},
		"it ended as often before it was begun":  {running(7), running(7), false},
		"it ended again":                         {running(7), running(9), true},
		"it was made anew by somebody":           {running(7), running(0), false},
		"it is not said any more":                {running(0), tasks.ProbeResult{Health: tasks.Healthy}, false},
		"it was not said by an earlier version":  {tasks.ProbeResult{Health: tasks.Healthy}, running(9), false},
		"it ended, and is not as configured now": {running(0), tasks.ProbeResult{Health: tasks.Drifted, Detail: "x", Restarts: running(1).Restarts, Restarted: "web ended by itself"}, true},
	} {
		t.Run(name+", while it is to stay healthy", func(t *testing.T) {
			w := newWorld(t)
			w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MinHealthyTime = definition.Duration(10 * time.Second) }), By: "alice@host"})
			w.propose(Deploy{Revision: 1, Hosts: hostNames(1)})
			w.append(w.state.Completed(w.begin("start 1 h1"), tc.launched, nil)...)
			w.after(10 * time.Second)
			w.append(w.state.Completed(w.begin("confirm 1 h1"), tc.then, nil)...)
			if got := w.times(record.TaskFailed) == 1; got != tc.dies || got == (w.times(record.TaskFinished) == 1) {
				t.Errorf("it failed: %t, want %t", got, tc.dies)
			}
		})
		t.Run(name+", as a probe finds before that", func(t *testing.T) {
			w := newWorld(t)
			w.propose(Create{Definition: defined(func(d *definition.Definition) { d.Deployment.MinHealthyTime = definition.Duration(10 * time.Second) }), By: "alice@host"})
			w.propose(Deploy{Revision: 1, Hosts: hostNames(1)})
			w.append(w.state.Completed(w.begin("start 1 h1"), tc.launched, nil)...)
			w.append(w.state.Probed(w.state.Task(1, "h1"), tc.then)...)
			if got := w.times(record.TaskFailed) == 1; got != tc.dies {
				t.Errorf("it failed: %t, want %t", got, tc.dies)
			}
		})
		t.Run(name+", later", func(t *testing.T) {
			w := newWorld(t)
			w.propose(Create{Definition: defined(nil), By: "alice@host"})
			w.propose(Deploy{Revision: 1, Hosts: hostNames(1)})
			w.append(w.state.Completed(w.begin("start 1 h1"), tc.launched, nil)...)
			w.append(w.state.Probed(w.state.Task(1, "h1"), tc.then)...)
			if got := w.times(record.TaskDied) == 1; got != tc.dies {
				t.Errorf("it died: %t, want %t", got, tc.dies)
			}
			if !tc.dies {
				return
			}
			if died := w.events[len(w.events)-1]; !strings.Contains(string(died.Data), "web ended by itself") {
				t.Errorf("the log says %s", died.Data)
			}
			w.append(w.state.Probed(w.state.Task(1, "h1"), tasks.ProbeResult{Health: tasks.Healthy, Restarts: tc.then.Restarts})...)
			if w.times(record.TaskDied) != 1 || w.times(record.TaskRecovered) != 1 {
				t.Error("it has not recovered, though it has not ended since")
			}
		})
	}
}

// From the first number that is said, or one that somebody began anew, it is counted on: what
// was counted before hides nothing, and nobody is blamed for it.
func TestRestartsAreCountedFromWhereTheyBegin(t *testing.T) {
	for name, launched := range map[string]tasks.ProbeResult{
		"an earlier version did not count": {Health: tasks.Healthy},
		"it had restarted more often":      running(7),
	} {
		w := newWorld(t)
		w.propose(Create{Definition: defined(nil), By: "alice@host"})
		w.propose(Deploy{Revision: 1, Hosts: hostNames(1)})
		w.append(w.state.Completed(w.begin("start 1 h1"), launched, nil)...)
		since := w.state.Report().Hosts
		for range 3 {
			w.after(time.Minute)
			w.append(w.state.Probed(w.state.Task(1, "h1"), running(2))...)
		}
		if w.times(record.TaskCounted) != 1 || w.times(record.TaskDied) != 0 || !reflect.DeepEqual(w.state.Report().Hosts, since) {
			t.Errorf("%s: it was counted %d times and died %d times; hosts are %+v", name, w.times(record.TaskCounted), w.times(record.TaskDied), w.state.Report().Hosts)
		}
		w.append(w.state.Probed(w.state.Task(1, "h1"), running(3))...)
		if w.times(record.TaskDied) != 1 {
			t.Errorf("%s: it has restarted once more, and has not died", name)
		}
	}
}

// It counts for the bake, also when other controllers are at work that know only the log.
func TestWhatEndsByItselfInTheBakeRollsBack(t *testing.T) {
	w := newWorld(t)
	w.propose(Create{Definition: defined(nil), By: "alice@host"})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(5)})
	for _, h := range hostNames(5) {
		w.done("start 1 " + h)
	}
	w.update(func(d *definition.Definition) {
		image("log-daemon:2")(d)
		d.Deployment.Bake, d.Deployment.AutoRollback = definition.Duration(10*time.Minute), true
	}, hostNames(5))
	for _, h := range hostNames(5) {
		w.done("terminate 1 " + h)
		w.append(w.state.Completed(w.begin("start 2 "+h), running(0), nil)...)
		w.steps()
	}
	w.after(time.Minute)
	other := New("SomeEnvironment/Prod")
	for _, e := range w.events {
		other.Apply(e)
	}
	w.append(other.Probed(other.Task(2, "h1"), running(3))...)
	w.steps()
	if d, _ := w.state.ActiveDeployment(); d.Revision != 1 || !d.Automatic {
		t.Errorf("in force is %+v", d)
	}
	if !strings.Contains(lastCause(w.events, record.BakeFailed), "web ended by itself") {
		t.Errorf("the cause is %q", lastCause(w.events, record.BakeFailed))
	}
}

func lastCause(events []deploylog.Event, name string) (cause string) {
	for _, e := range events {
		if e.Name == name {
			cause = record.Read(e.Data).Error
		}
	}
	return cause
}
