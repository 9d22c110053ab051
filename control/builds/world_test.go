package builds_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
)

// world is a log with dispatchers, and workers whose containers outlive them, in a time of
// its own. It is the Builder of the dispatchers, their Workers and their observer.
type world struct {
	*reconciletest.World
	builds  *builds.Builds // of whoever gives commands
	options builds.Options

	mu           sync.Mutex
	hosts        []inventory.Host
	noHosts      error
	inventoryIs  string                                          // what it is known as
	down         map[string]error                                // engines that do not answer
	takes        func(build.Task) time.Duration                  // of a job; nil is a second
	ends         func(build.Task) build.Result                   // how a job ends; nil is well
	hook         func(context.Context, build.Task) *build.Result // instead of all that; nil is none, or not of this one
	shelf        *shelf                                          // of the artifacts; nil is that all are there
	uses         map[attempt][]build.Dependency
	containers   map[deploylog.Target]*container
	begun        []string // "GROUP/JOB.ATTEMPT WORKER"
	resumed      []string
	atOnce, most map[string]int
}

// container is what is left of a job when the process dies that began it.
type container struct {
	attempt int
	worker  string
	ends    time.Time
	result  build.Result
}

// inWorld runs a test in a world of a worker "a" with two slots.
func inWorld(t *testing.T, test func(*world)) {
	synctest.Test(t, func(t *testing.T) { test(newWorld(t, reconciletest.InMemory(t))) })
}

func newWorld(t testing.TB, store logtest.Store) *world {
	w := &world{World: reconciletest.NewWorld(t, store), hosts: []inventory.Host{host("a", 2)}, down: map[string]error{}, containers: map[deploylog.Target]*container{}, uses: map[attempt][]build.Dependency{}, atOnce: map[string]int{}, most: map[string]int{}}
	w.builds = builds.New(w.DeployLog, time.Now)
	w.options = builds.Options{Options: reconcile.Options{Log: w.DeployLog, Parallelism: 100, Now: time.Now}, Builder: w, Workers: w, Observer: w}
	return w
}

func host(name string, slots int, platforms ...string) inventory.Host {
	if len(platforms) == 0 {
		platforms = []string{"linux/amd64"}
	}
	return inventory.Host{Name: name, Engine: inventory.OCI, Slots: slots, Platforms: platforms}
}

func (w *world) Workers() ([]inventory.Host, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hosts), w.noHosts
}

func (w *world) Identity() string { w.mu.Lock(); defer w.mu.Unlock(); return w.inventoryIs }

func (w *world) Look(_ context.Context, name string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return []string{"linux/amd64"}, w.down[name]
}

func (w *world) set(change func()) { w.mu.Lock(); defer w.mu.Unlock(); change() }

func (w *world) inventory(err error, hosts ...inventory.Host) {
	w.set(func() { w.hosts, w.noHosts = hosts, err })
}

// engine has the engine of a worker answer, or not. Those containers are gone that it had.
func (w *world) engine(name string, err error) { w.set(func() { w.down[name] = err }) }
func say(t build.Task) string                  { return fmt.Sprintf("%s/%d.%d %s", t.Group, t.Job, t.Attempt, t.Worker) }

// built is what a job makes: the same of the same inputs.
func built(t build.Task) build.Result {
	return build.Result{Finished: &record.Finished{Artifact: fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(t.Inputs))), Inputs: t.Inputs, Worker: t.Worker}}
}

func failed(cause string) build.Result { return build.Result{Failed: &record.Failed{Cause: cause}} }
func lost(cause string) build.Result   { return build.Result{Lost: &record.Lost{Cause: cause}} }

func (w *world) Build(ctx context.Context, t build.Task) build.Result {
	w.mu.Lock()
	w.begun = append(w.begun, say(t))
	w.uses[attempt{t.Target(), t.Attempt}] = t.Uses
	for _, d := range t.Uses {
		if d.Artifact == "" && d.Job > 0 {
			w.Errorf("%s begins without the artifact of job %d", say(t), d.Job)
		}
	}
	if c := w.containers[t.Target()]; c != nil && c.worker == t.Worker {
		w.Errorf("%s begins beside attempt %d", say(t), c.attempt)
	}
	assert.Less(w, w.atOnce[t.Worker], w.slotsOf(t.Worker))
	w.atOnce[t.Worker]++
	w.most[t.Worker] = max(w.most[t.Worker], w.atOnce[t.Worker])
	took, result, hook := time.Second, built(t), w.hook
	if w.shelf != nil {
		if r := w.shelf.begin(t); r != nil {
			w.atOnce[t.Worker]--
			w.mu.Unlock()
			return *r
		}
	}
	if w.takes != nil {
		took = w.takes(t)
	}
	if w.ends != nil {
		result = w.ends(t)
	}
	c := &container{attempt: t.Attempt, worker: t.Worker, ends: time.Now().Add(took), result: result}
	w.containers[t.Target()] = c
	w.mu.Unlock()
	defer w.release(t)
	if hook != nil {
		if r := hook(ctx, t); r != nil {
			w.remove(t, c)
			return *r
		}
	}
	return w.wait(ctx, t, c)
}

// slotsOf are those of a worker; of one that has left as many as you like.
func (w *world) slotsOf(name string) int {
	for _, h := range w.hosts {
		if h.Name == name {
			return h.Slots
		}
	}
	return 1 << 30
}

func (w *world) release(t build.Task) { w.set(func() { w.atOnce[t.Worker]-- }) }

func (w *world) remove(t build.Task, c *container) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.containers[t.Target()] == c {
		delete(w.containers, t.Target())
	}
}

// wait waits for the end of a container, as long as its engine answers.
func (w *world) wait(ctx context.Context, t build.Task, c *container) build.Result {
	for {
		w.mu.Lock()
		down := w.down[c.worker]
		w.mu.Unlock()
		left := time.Until(c.ends)
		switch {
		case down != nil:
			w.remove(t, c)
			return lost(down.Error())
		case left <= 0:
			w.remove(t, c)
			w.keep(c.result)
			return c.result
		}
		select {
		case <-time.After(min(left, 100*time.Millisecond)):
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), builds.ErrCanceled) {
				w.remove(t, c)
				return build.Result{Canceled: &record.Canceled{Worker: t.Worker}}
			}
			return build.Result{} // the process dies; the container goes on
		}
	}
}

func (w *world) keep(r build.Result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shelf != nil && r.Finished != nil {
		w.shelf.there[r.Finished.Artifact] = true
	}
}

func (w *world) Resume(ctx context.Context, t build.Task) build.Result {
	w.mu.Lock()
	w.resumed = append(w.resumed, say(t))
	w.atOnce[t.Worker]++
	c := w.containers[t.Target()]
	w.mu.Unlock()
	defer w.release(t)
	if c == nil || c.attempt != t.Attempt {
		if ctx.Err() != nil {
			return build.Result{Canceled: &record.Canceled{}}
		}
		return lost("its container is gone")
	}
	return w.wait(ctx, t, c)
}

func (w *world) hasBegun() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.begun)
}

func (w *world) wantBegun(want ...string) {
	assert.Equal(w, slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(w.hasBegun())))
}

var amd64 = []record.Place{{Platform: "linux/amd64"}}

func jobs(uses ...string) (all []record.JobSpec) {
	for i, text := range uses {
		j := record.JobSpec{Package: fmt.Sprintf("p%d", i+1), Inputs: fmt.Sprintf("sha256:%064d", i+1)}
		for _, number := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' }) {
			n := 0
			if _, err := fmt.Sscan(number, &n); err != nil {
				panic(err)
			}
			j.Uses = append(j.Uses, record.Use{Package: fmt.Sprintf("p%d", n), Job: n})
		}
		all = append(all, j)
	}
	return all
}

// submit queues a group, and returns its id. Nothing is reused unless a test is about that.
func (w *world) submit(name string, jobs []record.JobSpec, more ...func(*build.Submit)) string {
	s := build.Submit{Triggered: record.Triggered{Name: name, NoReuse: true, MaxLost: 3}, Places: amd64, Jobs: jobs}
	for _, change := range more {
		change(&s)
	}
	return w.do(s)[0].Deployment
}

func (w *world) do(c build.Command) []deploylog.Event {
	return must.Get(w.builds.Command(context.Background(), c))(w)
}

// story are the events of a group in the log, as "EVENT" or "EVENT JOB".
func (w *world) story(id string) (story []string) {
	for _, e := range w.Events() {
		if e.Deployment != id {
			continue
		}
		text := e.Name
		if _, n, _ := record.Parse(e.Target); n > 0 {
			text += fmt.Sprintf(" %d", n)
		}
		story = append(story, text)
	}
	return story
}

func (w *world) state(id string) (state transition.Group) {
	require.NoError(w, w.builds.Follow(context.Background(), 0))
	require.NoError(w, w.builds.State(func(s *build.State) error {
		r, err := s.Report(id)
		state = r.State
		return err
	}))
	return state
}

func (w *world) wantState(id string, want transition.Group) {
	assert.Equal(w, want, w.state(id), "group %s", id)
}

func (w *world) untilIdle() {
	o := w.options
	o.UntilIdle = true
	require.NoError(w, builds.NewController(o).Run(context.Background()))
}

// completes runs a dispatcher until it is idle, and fails unless a group is complete then.
func (w *world) completes(id string) { w.untilIdle(); w.wantState(id, transition.Complete) }

type dispatcher struct {
	*reconciletest.Process
	w *world
}

func (w *world) start() *dispatcher {
	o := w.options
	o.Log = w.Open()
	return &dispatcher{w: w, Process: reconciletest.Start(w, func(ctx context.Context, drain <-chan struct{}) error {
		o.Drain = drain
		return builds.NewController(o).Run(ctx)
	})}
}

func (d *dispatcher) completes(id string) { d.w.wantState(id, transition.Complete); d.End() }

// wait lets so much time pass, and everything happen that then does.
func wait(d time.Duration) { reconciletest.Wait(d) }
