package environment

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
)

// adopted wants these tasks to have been adopted since an event, as "2 h1 from 1".
func (w *world) adopted(since int, want ...string) {
	w.Helper()
	got := []string{}
	for _, e := range w.events[since:] {
		if _, _, host, _ := record.TaskOf(e.Target); e.Name == record.TaskAdopted {
			got = append(got, fmt.Sprintf("%s %s from %d", e.Revision, host, record.Read(e.Data).From))
		}
	}
	if !slices.Equal(got, want) && len(got)+len(want) > 0 {
		w.Errorf("adopted were %q, want %q", got, want)
	}
}

func TestAnUpdateOfTheConfigurationRestartsNothing(t *testing.T) {
	w := deployed(t, 3, func(d *definition.Definition) { d.Deployment.Drift = definition.ReportDrift })
	w.sees(1, "h2", tasks.Drifted, "~ content")
	before := len(w.events)
	w.update(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 50 }, hostNames(3))
	w.can()
	w.adopted(before, "2 h1 from 1", "2 h2 from 1", "2 h3 from 1")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 3 3`)
	if r := w.state.Revisions()[1]; r.TaskOf != 1 {
		t.Errorf("revision 2 has the task of %d", r.TaskOf)
	}
	row := w.state.Report().Hosts[0].Tasks[0]
	if row.Revision != 2 || row.TaskOf != 1 || row.Target != "task/SomeEnvironment/Prod/1/h1" || row.Status != report.TaskHealthy {
		t.Errorf("it is reported as %+v", row)
	}

	// What is said about drift takes effect, too.
	w.update(func(d *definition.Definition) { d.Deployment.Drift = definition.RepairDrift }, hostNames(3))
	w.can("start 1 h2")
	w.done("start 1 h2")
	w.can()

	// With a percentage of 100, Replace could stop nothing; but nothing is to be stopped.
	w.update(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 100 }, hostNames(3))
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Inactive 0 0
	         SomeEnvironment/Prod:3 Undeploying 0 3
	         SomeEnvironment/Prod:4 Deploying 3 0`)
	w.can()
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Inactive 0 0
	         SomeEnvironment/Prod:3 Inactive 0 0
	         SomeEnvironment/Prod:4 Active 3 3`)
}

// What was made under the first number is terminated by that, after however many
// adoptions; so nothing is left over, and Surge never starts it beside itself.
func TestAnAdoptedTaskKeepsTheNameUnderWhichItWasMade(t *testing.T) {
	w := deployed(t, 2, func(d *definition.Definition) {
		d.Deployment.Method, d.Deployment.MinHealthyPercent = definition.Surge, 100
	})
	name := w.state.Task(1, "h1").Name()
	for i := range 3 {
		before := len(w.events)
		w.update(func(d *definition.Definition) { d.Deployment.MaxOver++ }, hostNames(2))
		w.can()
		w.adopted(before, fmt.Sprintf("%d h1 from %d", i+2, i+1), fmt.Sprintf("%d h2 from %d", i+2, i+1))
	}
	for task := range w.state.ProbeTargets() {
		if task.Revision != 1 || task.Host == "h1" && task.Name() != name {
			t.Errorf("probed is %+v", task)
		}
	}
	w.update(image("log-daemon:2"), hostNames(2))
	w.done("start 5 h1", "terminate 1 h1", "start 5 h2", "terminate 1 h2")
	before := len(w.events)
	w.propose(Rollback{Revision: 3, Hosts: hostNames(2)})
	w.done("start 1 h1", "terminate 5 h1", "start 1 h2", "terminate 5 h2")
	w.adopted(before) // they are new
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Inactive 0 0
	         SomeEnvironment/Prod:3 Active 2 2
	         SomeEnvironment/Prod:4 Inactive 0 0
	         SomeEnvironment/Prod:5 Reverted 0 0`)
	w.propose(Rollback{Revision: 2, Hosts: hostNames(2)})
	w.can()
	w.adopted(before, "2 h1 from 3", "2 h2 from 3")
	w.propose(Delete{TerminateTasks: true})
	w.done("terminate 1 h1", "terminate 1 h2")
	if w.state.Exists() {
		t.Error("it is still there")
	}
}

// A task that is not healthy is started again, under its name; one that nobody can see
// is left alone until it is seen.
func TestOnlyHealthyTasksAreAdopted(t *testing.T) {
	w := deployed(t, 4, nil)
	w.sees(1, "h2", tasks.Unhealthy, "it ended")
	w.sees(1, "h3", tasks.Unknown, "no answer")
	w.after(time.Second)
	before := len(w.events)
	w.update(func(d *definition.Definition) { d.Deployment.MaxFailed = most(2) }, append(hostNames(4), "h5"))
	w.can("start 1 h2", "start 1 h5")
	w.adopted(before, "2 h1 from 1", "2 h4 from 1")
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 2
	         SomeEnvironment/Prod:2 Deploying 5 2`)
	w.done("start 1 h2", "start 1 h5")
	w.table(`SomeEnvironment/Prod:1 Undeploying 0 1
	         SomeEnvironment/Prod:2 Active 5 4`) // with h3 as an exception
	w.sees(1, "h3", tasks.Healthy, "")
	w.adopted(before, "2 h1 from 1", "2 h4 from 1", "2 h3 from 1")
	w.table(`SomeEnvironment/Prod:1 Inactive 0 0
	         SomeEnvironment/Prod:2 Active 5 5`)
	why := w.state.Explain(record.TaskTarget("SomeEnvironment/Prod", 2, "h1"), w.now)
	if len(why) != 0 {
		t.Errorf("explained is %+v", why)
	}
}

// Nothing is said to be adopted before it was seen to be healthy by this controller.
func TestNothingIsAdoptedUnseen(t *testing.T) {
	w := deployed(t, 2, nil)
	w.update(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 }, hostNames(2))
	if steps := slices.Collect(w.state.Decide(w.now, Can{})); len(steps) != 0 {
		t.Errorf("it decides %v", texts(steps))
	}
}

// The task may be that of any revision since the environment was created, not only of the
// one before; what makes it another is anything that it carries.
func TestWhichRevisionsHaveOneTask(t *testing.T) {
	w := deployed(t, 1, func(d *definition.Definition) {
		d.Deployment.MinHealthyPercent, d.Task.Digest, d.Task.Includes = 0, "d", nil
	})
	change := func(change func(*definition.TaskSpec)) int {
		w.update(func(d *definition.Definition) { d.Deployment.MaxOver++; change(&d.Task) }, hostNames(1))
		return w.state.taskOf(len(w.state.Revisions()))
	}
	first := w.state.Revisions()[0].Definition.Task
	for i, test := range []struct {
		task   int
		change func(*definition.TaskSpec)
	}{
		{1, func(t *definition.TaskSpec) { t.Includes = map[string]string{} }}, // as of former versions
		{3, func(t *definition.TaskSpec) { t.Includes = map[string]string{"a": "b"} }},
		{4, func(t *definition.TaskSpec) { t.Includes = map[string]string{"a": "c"} }},
		{5, func(t *definition.TaskSpec) { t.Digest = "e" }},
		{6, func(t *definition.TaskSpec) { t.Vars = map[string]any{"image": "log-daemon:1", "n": int64(1)} }},
		{6, func(t *definition.TaskSpec) { t.Vars = map[string]any{"n": float64(1), "image": "log-daemon:1"} }},
		{1, func(t *definition.TaskSpec) { *t = first }},
	} {
		if got := change(test.change); got != test.task {
			t.Errorf("revision %d has the task of revision %d, not %d", i+2, got, test.task)
		}
	}
	w.propose(Delete{})
	w.propose(Create{Definition: w.state.Revisions()[0].Definition})
	if got := w.state.taskOf(9); got != 9 {
		t.Errorf("what was created anew has the task of %d", got) // those tasks are unmanaged
	}
}

// Logs of former versions say of no revision that it has the task of another: what they
// have restarted was made under the later number.
func TestWhatFormerVersionsRestartedKeepsItsNumber(t *testing.T) {
	w := deployed(t, 1, func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 })
	d := *w.state.Revisions()[0].Definition
	d.InstanceGroup.MaxLeaving = &budget.Budget{Count: 7}
	events, err := w.state.Propose(Update{Base: 1, Definition: &d}, w.now)
	if err != nil {
		t.Fatal(err)
	}
	old := record.Read(events[0].Data)
	if old.Task != 1 {
		t.Fatalf("it is made of the task of %d", old.Task)
	}
	old.Task = 0
	events[0].Data = old.Data()
	w.append(events...)
	w.propose(Deploy{Revision: 2, Hosts: hostNames(1)})
	w.done("terminate 1 h1", "start 2 h1")
	w.update(func(d *definition.Definition) { d.Deployment.MaxOver++ }, hostNames(1))
	w.can()
	if got := w.state.taskOf(3); got != 2 {
		t.Errorf("the next one has the task of %d", got)
	}
	for _, wrong := range []int{-1, 4, 5} { // as no version writes it
		s, number := New("SomeEnvironment/Prod"), 0
		for _, e := range w.events {
			if p := record.Read(e.Data); p.Definition != nil {
				p.Task = wrong
				e.Data = p.Data()
				number++
			}
			s.Apply(e)
		}
		if got := s.taskOf(number); got != number {
			t.Errorf("with %d revision %d has the task of %d", wrong, number, got)
		}
	}
}

func TestManyAreAdoptedInParts(t *testing.T) {
	w := deployed(t, 1, nil)
	w.propose(SetHosts{Selected: hostNames(2*maxAdopted + 1)})
	for _, s := range w.steps() {
		w.append(s.Events...)
		w.append(w.state.Completed(s, tasks.ProbeResult{Health: tasks.Healthy}, nil)...)
	}
	before := len(w.events)
	w.update(func(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 }, hostNames(2*maxAdopted+1))
	steps := slices.Collect(w.state.Decide(w.now, Can{Disrupt: true}))
	if len(steps) != 1 || len(steps[0].Events) != maxAdopted {
		t.Errorf("it decides %d steps", len(steps))
	}
	w.can()
	n := 0
	for _, e := range w.events[before:] {
		if strings.HasPrefix(e.Name, "task-") {
			n++
		}
	}
	if n != 2*maxAdopted+1 {
		t.Errorf("%d events of tasks", n)
	}
}
