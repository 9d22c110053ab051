package environment

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/must"
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

func (w *world) append(events ...deploylog.Event) {
	for _, e := range events {
		key := fmt.Sprint(e.Deployment, "\x00", e.Target, "\x00", e.Name, "\x00", e.Attempt)
		require.NoError(w, e.Validate(), "%s of %s", e.Name, e.Target)
		require.False(w, w.unique[key], "%s of %s, attempt %d, is there twice in %s", e.Name, e.Target, e.Attempt, e.Deployment)
		w.unique[key] = true
		e.Seq, e.CreatedAt = int64(len(w.events)+1), w.now
		w.events = append(w.events, e)
		w.state.Apply(e)
	}
}

func (w *world) propose(c Command) {
	events, err := w.state.Propose(c, w.now)
	require.NoError(w, err, "%T", c)
	w.append(events...)
}

func (w *world) refuses(c Command, code refusal.Code, words ...string) {
	_, err := w.state.Propose(c, w.now)
	var refused *refusal.Error
	require.ErrorAs(w, err, &refused, "%T", c)
	assert.Equal(w, code, refused.Code, "%T is refused: %v", c, err)
	for _, word := range words {
		assert.Contains(w, err.Error(), word)
	}
}

// steps are all the work that may be done now, after the facts are recorded.
func (w *world) steps() []tasks.Step {
	w.Helper()
	for range 100 {
		steps := slices.Collect(w.state.Decide(w.now, Can{Disrupt: true}))
		if len(steps) == 0 || steps[0].Kind != tasks.Record {
			assert.NoError(w, explains(w.state, w.now, steps))
			return steps
		}
		w.append(steps[0].Events...)
	}
	w.Fatal("there is no end of facts")
	return nil
}

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

func (w *world) fails(what, cause string) {
	w.Helper()
	w.append(w.state.Completed(w.begin(what), tasks.ProbeResult{}, fmt.Errorf("%s", cause))...)
	w.steps()
}

func (w *world) can(want ...string) {
	w.Helper()
	got := []string{}
	for _, s := range w.steps() {
		got = append(got, fmt.Sprintf("%s %d %s", s.Kind, s.Revision, s.Host))
	}
	assert.True(w, slices.Equal(got, want) || len(got)+len(want) == 0, "can be done: %q\nwant:        %q", got, want)
}

func (w *world) table(want string) {
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
	assert.Equal(w, fields, got.String(), "status")
}

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

func (w *world) revise(change func(*definition.Definition)) (revision int) {
	base := len(w.state.Revisions())
	d := *w.state.Revisions()[base-1].Definition
	change(&d)
	w.propose(Update{Base: base, Definition: &d, By: "alice@host"})
	return base + 1
}

func (w *world) update(change func(*definition.Definition), hosts []string) {
	w.propose(Deploy{Revision: w.revise(change), Hosts: hosts})
}

func (w *world) replaced(from, to int, hosts ...string) {
	w.Helper()
	for _, h := range hosts {
		w.done(fmt.Sprintf("terminate %d %s", from, h), fmt.Sprintf("start %d %s", to, h))
	}
}

// nothing wants a command to be fine, and to change nothing.
func (w *world) nothing(c Command) {
	assert.Empty(w, must.Get(w.state.Propose(c, w.now))(w), "%T", c)
}

func (w *world) named(event string) (all []string) {
	for _, e := range w.events {
		if e.Name == event {
			all = append(all, string(e.Target))
		}
	}
	return all
}

func (w *world) times(event string) int { return len(w.named(event)) }

func (w *world) last(event string) (found record.Payload) {
	require.NotZero(w, w.times(event), event)
	for _, e := range w.events {
		if e.Name == event {
			found = record.Read(e.Data)
		}
	}
	return found
}

func (w *world) sees(revision int, host string, health tasks.Health, detail string) {
	w.Helper()
	w.append(w.state.Probed(w.state.Task(revision, host), tasks.ProbeResult{Health: health, Detail: detail})...)
	w.steps()
}

// explains wants the first reason of the environment, or the only one of the task of a host.
func (w *world) explains(revision int, host string, code reason.Code, words ...string) {
	w.Helper()
	target := w.state.target
	if host != "" {
		target = record.TaskTarget(w.state.name, revision, host)
	}
	all := w.state.Explain(target, w.now)
	require.True(w, len(all) != 0 && all[0].Code == code &&
		(host == "" || len(all) <= 1), "of %s it explains %+v, not %s", target, all, code)
	for _, word := range words {
		assert.Contains(w, all[0].Message+" → "+all[0].Change, word)
	}
}

// active wants this revision to be in force, as a rollback that nobody asked for or not.
func (w *world) active(revision int, automatic bool) report.Deployment {
	d, _ := w.state.ActiveDeployment()
	assert.True(w, d.Revision == revision && d.Automatic == automatic, "in force is %+v", d)
	return d
}

// anew has somebody go on who knows only the log.
func (w *world) anew() {
	w.state = New(w.state.Name())
	for _, e := range w.events {
		w.state.Apply(e)
	}
}

func most(n int) *budget.Budget        { return &budget.Budget{Count: n} }
func percent(p float64) *budget.Budget { return &budget.Budget{Percent: p} }

// none lets all tasks be down at once.
func none(d *definition.Definition) { d.Deployment.MinHealthyPercent = 0 }
