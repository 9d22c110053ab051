package environments_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/tasks"
)

// world is hosts with tasks on them, and a log on which controllers keep those as
// environments want them, in a time of its own, which passes when nothing else
// happens.
type world struct {
	testing.TB
	open         logtest.Store // the log, as another process does
	log          deploylog.Log
	environments *environments.Environments // of whoever gives commands
	options      environments.Options

	mu         sync.Mutex
	version    int
	identity   string              // of the inventory
	queries    map[string][]string // the hosts that each selects
	attributes map[string]string   // by HOST.NAME
	trouble    error               // with the inventory
	slots      int
	tasks      map[string]map[string]tasks.ProbeResult // by host, "NAME:REVISION"
	bad        map[string]bool                         // revisions that do not become healthy
	unable     map[string]bool                         // tasks that cannot be started, "HOST NAME:REVISION"
	working    func(t tasks.Task) error                // while it is worked on
	probing    func(ctx context.Context, t tasks.Task)
	makes      func(t tasks.Task) []tasks.Thing // nil is not known
	changed    map[string]func()                // by host that is watched
	probes     map[string]int                   // of tasks, "HOST NAME:REVISION"
	acts       []string                         // "start|stop HOST NAME:REVISION"
	checks     int
	verify     func(ctx context.Context, v environment.Verification) error // nil succeeds
	notified   []string
	recorded   func(deploylog.Event)
	acting     map[string]map[string]int // actions that are going on, by environment and controller
	watched    map[string]bool           // "CONTROLLER HOST"

	controllers []*running // that have not ended
	doubled     int        // the most hosts that ever had two tasks of an environment
	least       int        // the fewest hosts that ever had a healthy task, since it was set
}

// worker works on the tasks of the world for a controller.
type worker struct {
	*world
	controller string
}

// inWorld runs a test in a world, whose controllers are ended after it.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reconciletest.InMemory(t))
		test(w)
		for len(w.controllers) > 0 {
			w.controllers[0].end()
		}
	})
}

func newWorld(t testing.TB, store logtest.Store) *world {
	w := &world{
		TB: t, open: store, slots: 1, queries: map[string][]string{}, tasks: map[string]map[string]tasks.ProbeResult{}, bad: map[string]bool{},
		changed: map[string]func(){}, probes: map[string]int{}, acting: map[string]map[string]int{}, watched: map[string]bool{},
	}
	w.log = w.open()
	w.environments = environments.New(w.log, time.Now)
	w.environments.Identify(w.Things)
	w.options = environments.Options{
		Options: reconcile.Options{Log: w.log, Parallelism: 10, Now: time.Now}, Tasks: worker{w, "first"}, Inventory: w, Observer: w,
	}
	return w
}

func nameOf(t tasks.Task) string { return fmt.Sprintf("%s:%d", t.Environment, t.Revision) }

// act does something to a host, and checks that only one controller does that for
// the environment.
func (k worker) act(what string, t tasks.Task, do func(on map[string]tasks.ProbeResult)) error {
	w := k.world
	w.mu.Lock()
	acting := w.acting[t.Environment]
	if acting == nil {
		acting = map[string]int{}
		w.acting[t.Environment] = acting
	}
	acting[k.controller]++
	if len(acting) > 1 {
		w.Errorf("controllers act at once for %s: %v", t.Environment, acting)
	}
	w.acts = append(w.acts, strings.Join([]string{what, t.Host, nameOf(t)}, " "))
	working := w.working
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if acting[k.controller]--; acting[k.controller] == 0 {
			delete(acting, k.controller)
		}
		if len(acting) == 0 {
			delete(w.acting, t.Environment)
		}
	}()
	if working != nil {
		if err := working(t); err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tasks[t.Host] == nil {
		w.tasks[t.Host] = map[string]tasks.ProbeResult{}
	}
	do(w.tasks[t.Host])
	w.measure()
	return nil
}

// measure counts how many hosts have two tasks, and how many a healthy one.
func (w *world) measure() {
	doubled, healthy := 0, 0
	for _, on := range w.tasks {
		of, well := map[string]int{}, false
		for name, seen := range on {
			name, _, _ := strings.Cut(name, ":")
			of[name]++
			well = well || seen.Health == tasks.Healthy
		}
		for _, n := range of {
			doubled += n - 1
		}
		if well {
			healthy++
		}
	}
	w.doubled, w.least = max(w.doubled, doubled), min(w.least, healthy)
}

// Start implements environments.Tasks.
func (k worker) Start(ctx context.Context, t tasks.Task) (tasks.ProbeResult, error) {
	err := k.act("start", t, func(on map[string]tasks.ProbeResult) {
		on[nameOf(t)] = tasks.ProbeResult{Health: tasks.Healthy}
		if k.bad[nameOf(t)] {
			on[nameOf(t)] = tasks.ProbeResult{Health: tasks.Unhealthy, Detail: "it crashes"}
		}
	})
	return k.see(t), err
}

// Check implements environments.Tasks.
func (k worker) Check(_ context.Context, t tasks.Task) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.checks++
	if k.unable[t.Host+" "+nameOf(t)] {
		return errors.New("there is no attribute rack")
	}
	return nil
}

// Verify implements environments.Tasks.
func (k worker) Verify(ctx context.Context, v environment.Verification) error {
	k.mu.Lock()
	verify := k.verify
	k.mu.Unlock()
	if verify == nil {
		return nil
	}
	return verify(ctx, v)
}

// Terminate implements environments.Tasks.
func (k worker) Terminate(_ context.Context, t tasks.Task) error {
	return k.act("stop", t, func(on map[string]tasks.ProbeResult) { delete(on, nameOf(t)) })
}

// Observe implements environments.Tasks.
func (k worker) Observe(ctx context.Context, t tasks.Task) tasks.ProbeResult {
	k.mu.Lock()
	k.probes[t.Host+" "+nameOf(t)]++
	probing := k.probing
	k.mu.Unlock()
	if probing != nil {
		probing(ctx, t)
	}
	if ctx.Err() != nil {
		return tasks.ProbeResult{Health: tasks.Unknown, Detail: "no answer"}
	}
	return k.see(t)
}

func (w *world) see(t tasks.Task) tasks.ProbeResult {
	w.mu.Lock()
	defer w.mu.Unlock()
	if seen, ok := w.tasks[t.Host][nameOf(t)]; ok {
		return seen
	}
	return tasks.ProbeResult{Health: tasks.Unhealthy, Detail: "it is not there"}
}

// Things implements environments.Tasks.
func (w *world) Things(t tasks.Task) []tasks.Thing {
	w.mu.Lock()
	makes := w.makes
	w.mu.Unlock()
	if makes == nil {
		return nil
	}
	return makes(t)
}

// Watch implements environments.Tasks.
func (k worker) Watch(ctx context.Context, host string, changed func()) {
	watch := k.controller + " " + host
	k.set(func() {
		if k.watched[watch] {
			k.Errorf("%s is watched twice", watch) // however many tasks it has
		}
		k.watched[watch], k.changed[host] = true, changed
	})
	<-ctx.Done()
	k.set(func() {
		delete(k.changed, host)
		delete(k.watched, watch)
	})
}

// Version implements environments.Inventory.
func (w *world) Version() int { return under(w, func() int { return w.version }) }

// Identity implements environments.Inventory.
func (w *world) Identity() string { return under(w, func() string { return w.identity }) }

// Selected implements environments.Inventory.
func (w *world) Selected(query string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.queries[query]), w.trouble
}

// Known implements environments.Inventory.
func (w *world) Known(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, hosts := range w.queries {
		if slices.Contains(hosts, host) {
			return true
		}
	}
	return false
}

// Attribute implements environments.Inventory.
func (w *world) Attribute(host, name string) string {
	return under(w, func() string { return w.attributes[host+"."+name] })
}

// Slots implements environments.Inventory.
func (w *world) Slots(string) int { return under(w, func() int { return w.slots }) }

// Recorded implements environments.Observer.
func (w *world) Recorded(e deploylog.Event) {
	w.notify("%s %s", e.Name, e.Target)
	if w.recorded != nil {
		w.recorded(e)
	}
}

// Notice implements environments.Observer.
func (w *world) Notice(text string) { w.notify("notice: %s", text) }

func (w *world) notify(format string, values ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notified = append(w.notified, fmt.Sprintf(format, values...))
}

func (w *world) notices(text string) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.notified {
		if strings.Contains(t, text) {
			all = append(all, t)
		}
	}
	return all
}

// under is something of the world as it is now.
func under[T any](w *world, get func() T) T {
	w.mu.Lock()
	defer w.mu.Unlock()
	return get()
}

// set changes how the world is.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// inventory has a query select other hosts from now on.
func (w *world) inventory(query string, hosts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.queries[query] = hosts
}

// becomes makes a task be in another way, of which nobody is notified.
func (w *world) becomes(host, task string, health tasks.Health) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tasks[host][task] = tasks.ProbeResult{Health: health, Detail: "somebody was at it"}
}

func (w *world) hint(host string) {
	w.mu.Lock()
	changed := w.changed[host]
	w.mu.Unlock()
	if changed == nil {
		w.Errorf("host %s is not watched", host)
		return
	}
	changed()
}

func (w *world) probesOf(task string) int { return under(w, func() int { return w.probes[task] }) }

func (w *world) hasDone() []string { return under(w, func() []string { return slices.Clone(w.acts) }) }

// running are the tasks of the hosts, "HOST NAME:REVISION" sorted.
func (w *world) running() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for host, on := range w.tasks {
		for name := range maps.Keys(on) {
			all = append(all, host+" "+name)
		}
	}
	slices.Sort(all)
	return all
}

func (w *world) wantRunning(want ...string) {
	w.Helper()
	if got := w.running(); !slices.Equal(got, want) {
		w.Errorf("there are %q, not %q; the log tells\n%s", got, want, strings.Join(w.story(), "\n"))
	}
}

// wait lets so much time pass, and everything happen that then does.
func wait(d time.Duration) { reconciletest.Wait(d) }
