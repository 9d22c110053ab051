package build_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

var start = time.Date(2020, 3, 6, 0, 26, 55, 0, time.UTC)

const amd, arm = "linux/amd64", "linux/arm64"

// world is a log in memory, what is folded from it, and workers.
type world struct {
	t      testing.TB
	state  *build.State
	log    []deploylog.Event
	unique map[string]bool
	now    time.Time
	slots  map[string]int // by platform
	doing  []build.Task
}

func newWorld(t testing.TB) *world {
	return &world{t: t, state: build.New(record.Entity), unique: map[string]bool{}, now: start, slots: map[string]int{amd: 2}}
}

func (w *world) append(events []deploylog.Event) {
	for _, e := range events {
		require.NoError(w.t, e.Validate(), "%s of %s", e.Name, e.Target)
		key := fmt.Sprint(e.Deployment, " ", e.Target, " ", e.Name, " ", e.Attempt)
		require.False(w.t, w.unique[key], "%s is in the log already", key)
		w.unique[key] = true
		e.Seq, e.CreatedAt = int64(len(w.log)+1), w.now
		w.log = append(w.log, e)
		w.state.Apply(e)
	}
}

func (w *world) propose(c build.Command) error {
	events, err := w.state.Propose(c, w.now)
	if err == nil {
		w.append(events)
	}
	return err
}

func (w *world) must(c build.Command)  { require.NoError(w.t, w.propose(c)) }
func (w *world) submit(c build.Submit) { w.must(c); w.decide() }

// later begins what may be begun after a while.
func (w *world) later(by time.Duration) { w.now = w.now.Add(by); w.decide() }

func (w *world) Worker(p record.Place) string {
	busy := 0
	for _, t := range w.doing {
		if t.Place.Platform == p.Platform {
			busy++
		}
	}
	if busy < w.slots[p.Platform] {
		return "worker of " + p.Platform
	}
	return ""
}

func (w *world) Resume(t build.Task) bool {
	return !slices.ContainsFunc(w.doing, func(o build.Task) bool { return o.Group == t.Group && o.Job == t.Job })
}

func (w *world) decide() {
	for {
		var steps []build.Step
		for step := range w.state.Decide(w.now, w) {
			steps = append(steps, step)
			if step.Kind == build.Dispatch || step.Kind == build.Resume {
				w.doing = append(w.doing, step.Task)
			}
		}
		if len(steps) == 0 {
			return
		}
		for _, step := range steps {
			w.append(step.Events)
		}
	}
}

// take takes a job out of what is being done.
func (w *world) take(group string, number int) build.Task {
	w.t.Helper()
	for i, t := range w.doing {
		if t.Group == group && t.Job == number {
			w.doing = slices.Delete(w.doing, i, i+1)
			return t
		}
	}
	w.t.Fatalf("job %d of %s is not being done, but %s", number, group, w.does())
	return build.Task{}
}

// does is what is being done.
func (w *world) does() string {
	var all []string
	for _, t := range w.doing {
		all = append(all, fmt.Sprintf("%s/%d", t.Group, t.Job))
	}
	return strings.Join(all, " ")
}

// As tests name them that need nothing else of the package.
type (
	deploylogEvent  = deploylog.Event
	deploylogTarget = deploylog.Target
)

// event is one as somebody else may have recorded it.
func event(target deploylog.Target, name string, data any) deploylog.Event {
	id, _, _ := record.Parse(target)
	e, _ := record.New(id, target, name, 1, data)
	return e
}

func built(t build.Task) build.Result {
	return build.Result{Finished: &record.Finished{Artifact: digest(t.Inputs), Took: time.Minute}}
}

func digest(text string) string { return "sha256:artifact of " + text }

var (
	failed   = build.Result{Failed: &record.Failed{Cause: "exit 1", Exit: 1}}
	lost     = build.Result{Lost: &record.Lost{Cause: "its worker is gone"}}
	canceled = build.Result{Canceled: &record.Canceled{}}
)

func (w *world) end(r func(build.Task) build.Result, group string, numbers ...int) {
	w.t.Helper()
	var events []deploylog.Event
	for _, n := range numbers {
		t := w.take(group, n)
		events = append(events, w.state.Ended(t, r(t), w.now)...)
	}
	w.append(events)
	w.decide()
}

func always(r build.Result) func(build.Task) build.Result {
	return func(build.Task) build.Result { return r }
}

// states are those of all jobs of a group, by their first letters, and that of the group.
func (w *world) states(group string) string {
	jobs := must.Get(w.state.Jobs(group))(w.t)
	report := must.Get(w.state.Report(group))(w.t)
	text := report.State.String() + ":"
	for _, j := range jobs {
		text += " " + short[j.State]
	}
	return text
}

var short = map[transition.Job]string{
	transition.Pending: "-", transition.Schedulable: "s", transition.Eligible: "e", transition.Dispatched: "D", transition.Built: "B", transition.JobFailed: "F",
	transition.DependencyFailed: "f", transition.JobLost: "L", transition.CancelPending: "C", transition.CancelComplete: "c",
}

func (w *world) is(group, want string) { assert.Equal(w.t, want, w.states(group), "%s", group) }

// spec is a job that uses others; a negative number is one that it only waits for, and one above 1000 is used also to run.
func spec(uses ...int) record.JobSpec {
	var s record.JobSpec
	for _, n := range uses {
		switch {
		case n < 0:
			s.Waits = append(s.Waits, -n)
		case n > 1000:
			s.Uses = append(s.Uses, record.Use{Package: fmt.Sprint("p", n-1000), Job: n - 1000, Run: true})
		default:
			s.Uses = append(s.Uses, record.Use{Package: fmt.Sprint("p", n), Job: n})
		}
	}
	return s
}

func group(name string, specs ...record.JobSpec) build.Submit {
	c := build.Submit{Triggered: record.Triggered{Name: name, MaxLost: build.DefaultMaxLost}, Places: []record.Place{{Platform: amd}, {Platform: arm}}, Jobs: specs}
	for i := range c.Jobs {
		c.Jobs[i].Package, c.Jobs[i].Inputs = fmt.Sprint("p", i+1), fmt.Sprint(name, i+1)
	}
	return c
}
