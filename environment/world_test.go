package environment

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/hosts"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/refusal"
)

// world is an environment and its log, without a controller.
type world struct {
	*testing.T
	state  *State
	events []deploylog.Event
	now    time.Time
	unique map[string]bool
}

func newWorld(t *testing.T) *world {
	return &world{T: t, state: New("SomeEnvironment/Prod"), now: time.Date(2017, 9, 6, 11, 47, 23, 10_000_000, time.UTC), unique: map[string]bool{}}
}

// append appends events as a log does.
func (w *world) append(events ...deploylog.Event) {
	w.Helper()
	for _, e := range events {
		key := fmt.Sprint(e.Deployment, "\x00", e.Target, "\x00", e.Name, "\x00", e.Attempt)
		if err := e.Validate(); err != nil {
			w.Fatalf("%s of %s: %v", e.Name, e.Target, err)
		}
		if w.unique[key] {
			w.Fatalf("%s of %s, attempt %d, is there twice in %s", e.Name, e.Target, e.Attempt, e.Deployment)
		}
		w.unique[key] = true
		e.Seq, e.CreatedAt = int64(len(w.events)+1), w.now
		w.events = append(w.events, e)
		w.state.Apply(e)
	}
}

func (w *world) propose(c Command) {
	w.Helper()
	events, err := w.state.Propose(c, w.now)
	if err != nil {
		w.Fatalf("%T: %v", c, err)
	}
	w.append(events...)
}

func (w *world) refuses(c Command, code refusal.Code) error {
	w.Helper()
	_, err := w.state.Propose(c, w.now)
	var refused *refusal.Error
	if !errors.As(err, &refused) {
		w.Fatalf("%T is not refused: %v", c, err)
	}
	if refused.Code != code {
		w.Errorf("%T is refused as %s (%v), not %s", c, refused.Code, err, code)
	}
	return err
}

// steps are all the work that may be done now, after the facts are recorded.
func (w *world) steps() []tasks.Step {
	w.Helper()
	for range 100 {
		steps := slices.Collect(w.state.Decide(w.now, Can{Disrupt: true}))
		if len(steps) == 0 || steps[0].Kind != tasks.Record {
			w.explained(steps)
			return steps
		}
		w.append(steps[0].Events...)
	}
	w.Fatal("there is no end of facts")
	return nil
}

// explained wants the verdicts that Explain gives to be those of the decision.
func (w *world) explained(steps []tasks.Step) {
	w.Helper()
	yielded := map[string]bool{}
	for _, s := range steps {
		yielded[s.Host] = true
	}
	turn := w.state.turn()
	for _, h := range w.state.hosts {
		if h.Lost || h.Status.Settled && h.Status.Class == hosts.None {
			continue
		}
		code, _ := w.state.verdict(h, w.now)
		switch may := code == reason.Ready || code == reason.InProgress || code == reason.AwaitsHealth; {
		case yielded[h.Name] && !may:
			w.Errorf("a step on %s is yielded, and explained as %s", h.Name, code)
		case !yielded[h.Name] && code == reason.Ready && w.state.hostsKnown && w.state.room(h.Status.Class) > len(steps) && (!turn.waves || turn.left > len(steps)):
			w.Errorf("no step on %s is yielded, and it is explained as ready", h.Name)
		}
	}
}

// begin begins the step that the words describe, "start 2 h3".
func (w *world) begin(what string) tasks.Step {
	w.Helper()
	var all []string
	for _, s := range w.steps() {
		text := fmt.Sprintf("%s %d %s", s.Kind, s.Revision, s.Host)
		if all = append(all, text); text == what {
			w.append(s.Events...)
			return s
		}
	}
	w.Fatalf("%s cannot be done now, but %q", what, all)
	return tasks.Step{}
}

// done does a step from its beginning to its good end.
func (w *world) done(all ...string) {
	w.Helper()
	for _, what := range all {
		w.append(w.state.Completed(w.begin(what), tasks.ProbeResult{Health: tasks.Healthy}, nil)...)
	}
	w.steps()
}

// fails does a step that does not end well.
func (w *world) fails(what, cause string) {
	w.Helper()
	w.append(w.state.Completed(w.begin(what), tasks.ProbeResult{}, fmt.Errorf("%s", cause))...)
	w.steps()
}

// can wants just these steps to be possible now.
func (w *world) can(want ...string) {
	w.Helper()
	got := []string{}
	for _, s := range w.steps() {
		got = append(got, fmt.Sprintf("%s %d %s", s.Kind, s.Revision, s.Host))
	}
	if !slices.Equal(got, want) && len(got)+len(want) > 0 {
		w.Errorf("can be done: %q\nwant:        %q", got, want)
	}
}

// table wants the status to be this, as the seed writes it.
func (w *world) table(want string) {
	w.Helper()
	var got strings.Builder
	for _, r := range w.state.Report().Rows {
		fmt.Fprintf(&got, "%s:%d %s %d %d\n", w.state.Name(), r.Revision, r.Status, r.Desired, r.Current)
	}
	fields := ""
	for line := range strings.Lines(want) {
		if words := strings.Fields(line); len(words) > 0 {
			fields += strings.Join(words, " ") + "\n"
		}
	}
	if got.String() != fields {
		w.Errorf("status:\n%swant:\n%s", got.String(), fields)
	}
}

// after lets time pass.
func (w *world) after(d time.Duration) { w.now = w.now.Add(d) }

func hostNames(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("h%d", i+1)
	}
	return all
}

func defined(change func(*definition.Definition)) *definition.Definition {
	d := &definition.Definition{
		Name: "SomeEnvironment/Prod", Type: definition.Daemon, Task: definition.TaskSpec{Manifest: "log-daemon.yaml", Vars: map[string]any{"image": "log-daemon:1"}},
		InstanceGroup: definition.InstanceGroup{Query: "attribute:stack == prod"},
		Deployment: definition.Configuration{
			Method: definition.Replace, MinHealthyPercent: 80, MaxOver: 1,
			HealthyDeadline: definition.Duration(5 * time.Minute), ProgressDeadline: definition.Duration(10 * time.Minute), Drift: definition.RepairDrift,
		},
	}
	if change != nil {
		change(d)
	}
	return d
}

func image(name string) func(*definition.Definition) {
	return func(d *definition.Definition) { d.Task.Vars = map[string]any{"image": name} }
}

// deployed is an environment whose revision 1 is active on n hosts.
func deployed(t *testing.T, n int, change func(*definition.Definition)) *world {
	t.Helper()
	w := newWorld(t)
	w.propose(Create{Definition: defined(change), By: "alice@host"})
	w.propose(Deploy{Revision: 1, Hosts: hostNames(n)})
	for _, h := range hostNames(n) {
		w.done("start 1 " + h)
	}
	return w
}

// update makes a revision, and deploys it.
func (w *world) update(change func(*definition.Definition), hosts []string) {
	w.Helper()
	base := len(w.state.Revisions())
	d := *w.state.Revisions()[base-1].Definition
	change(&d)
	w.propose(Update{Base: base, Definition: &d, By: "alice@host"})
	w.propose(Deploy{Revision: base + 1, Hosts: hosts})
}
