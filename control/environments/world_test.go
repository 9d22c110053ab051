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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
)

// world is hosts with tasks on them, and a log on which controllers keep those as environments want them, in a time of
// its own, which passes when nothing else happens.
type world struct {
	*reconciletest.World
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
	acting     map[string]map[string]int                                   // actions that are going on, by environment and controller
	watched    map[string]bool                                             // "CONTROLLER HOST"

	controllers []*running // that have not ended
	doubled     int        // the most hosts that ever had two tasks of an environment
	least       int        // the fewest hosts that ever had a healthy task, since it was set
}

// worker works on the tasks of the world for a controller.
type worker struct {
	*world
	controller string
}

func inWorld(t *testing.T, test func(*world)) {
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
		World: reconciletest.NewWorld(t, store), slots: 1, queries: map[string][]string{}, tasks: map[string]map[string]tasks.ProbeResult{}, bad: map[string]bool{},
		changed: map[string]func(){}, probes: map[string]int{}, acting: map[string]map[string]int{}, watched: map[string]bool{},
	}
	w.environments = environments.New(w.DeployLog, time.Now)
	w.environments.Identify(w.Things, nil)
	w.options = environments.Options{
		Options: reconcile.Options{Log: w.DeployLog, Parallelism: 10, Now: time.Now}, Tasks: worker{w, "first"}, Inventory: w, Observer: w,
	}
	return w
}

func nameOf(t tasks.Task) string { return fmt.Sprintf("%s:%d", t.Environment, t.Revision) }

// act does something to a host, and checks that only one controller does that for the environment.
func (k worker) act(what string, t tasks.Task, do func(on map[string]tasks.ProbeResult)) error {
	w := k.world
	w.mu.Lock()
	acting := w.acting[t.Environment]
	if acting == nil {
		acting = map[string]int{}
		w.acting[t.Environment] = acting
	}
	acting[k.controller]++
	assert.LessOrEqual(w, len(acting), 1, "controllers act at once for %s: %v", t.Environment, acting)
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

func (k worker) Start(ctx context.Context, t tasks.Task) (tasks.ProbeResult, error) {
	err := k.act("start", t, func(on map[string]tasks.ProbeResult) {
		on[nameOf(t)] = tasks.ProbeResult{Health: tasks.Healthy}
		if k.bad[nameOf(t)] {
			on[nameOf(t)] = tasks.ProbeResult{Health: tasks.Unhealthy, Detail: "it crashes"}
		}
	})
	return k.see(t), err
}

func (k worker) Check(_ context.Context, t tasks.Task) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.checks++
	if k.unable[t.Host+" "+nameOf(t)] {
		return errors.New("there is no attribute rack")
	}
	return nil
}

func (k worker) Verify(ctx context.Context, v environment.Verification) error {
	k.mu.Lock()
	verify := k.verify
	k.mu.Unlock()
	if verify == nil {
		return nil
	}
	return verify(ctx, v)
}

func (k worker) Terminate(_ context.Context, t tasks.Task) error {
	return k.act("stop", t, func(on map[string]tasks.ProbeResult) { delete(on, nameOf(t)) })
}

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

func (w *world) Things(t tasks.Task) []tasks.Thing {
	w.mu.Lock()
	makes := w.makes
	w.mu.Unlock()
	if makes == nil {
		return nil
	}
	return makes(t)
}

func (k worker) Watch(ctx context.Context, host string, changed func()) {
	watch := k.controller + " " + host
	k.set(func() {
		if k.watched[watch] {
			k.Errorf("%s is watched twice", watch) // however many tasks it has
		}
		k.watched[watch], k.changed[host] = true, changed
	})
	<-ctx.Done()
	k.set(func() { delete(k.changed, host); delete(k.watched, watch) })
}

func (w *world) Version() int     { return under(w, func() int { return w.version }) }
func (w *world) Identity() string { return under(w, func() string { return w.identity }) }

func (w *world) Selected(query string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.queries[query]), w.trouble
}

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

func (w *world) Attribute(host, name string) string {
	return under(w, func() string { return w.attributes[host+"."+name] })
}

func (w *world) Slots(string) int { return under(w, func() int { return w.slots }) }

func under[T any](w *world, get func() T) T { w.mu.Lock(); defer w.mu.Unlock(); return get() }
func (w *world) set(change func())          { w.mu.Lock(); defer w.mu.Unlock(); change() }

func (w *world) inventory(query string, hosts ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	w.queries[query] = hosts
}

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
func (w *world) hasDone() []string        { return under(w, func() []string { return slices.Clone(w.acts) }) }

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

func daemon(name string, configure ...func(*definition.Definition)) *definition.Definition {
	d := &definition.Definition{
		Name: name, Type: definition.Daemon, Task: definition.TaskSpec{Manifest: name + ".yaml"}, InstanceGroup: definition.InstanceGroup{Query: name},
		Deployment: definition.Configuration{
			Method: definition.Replace, MinHealthyPercent: 50, MaxOver: 1, Drift: definition.RepairDrift,
			HealthyDeadline: definition.Duration(5 * time.Minute), ProgressDeadline: definition.Duration(10 * time.Minute),
		},
	}
	for _, c := range configure {
		c(d)
	}
	return d
}

func surge(d *definition.Definition) {
	d.Deployment.Method, d.Deployment.MinHealthyPercent = definition.Surge, 100
}

func image(tag string) func(*definition.Definition) {
	return func(d *definition.Definition) { d.Task.Vars = map[string]any{"image": tag} }
}

func agent(d *definition.Definition) { d.Task.Manifest = "agent.yaml" }

func (w *world) command(name string, c environment.Command, hosts ...string) error {
	_, err := w.environments.Command(context.Background(), name, c, hosts...)
	return err
}

func (w *world) do(name string, c environment.Command) { require.NoError(w, w.command(name, c)) }

func (w *world) create(d *definition.Definition, hosts ...string) {
	w.inventory(d.InstanceGroup.Query, hosts...)
	w.do(d.Name, environment.Create{Definition: d})
}

func (w *world) deploy(name string, revision int) {
	w.do(name, environment.Deploy{Revision: revision, Hosts: w.selects(name, revision)})
}

// deployed is an environment whose first revision is to be brought to these hosts.
func (w *world) deployed(d *definition.Definition, hosts ...string) {
	w.create(d, hosts...)
	w.deploy(d.Name, 1)
}

// redeployed makes the next revision, and deploys it.
func (w *world) redeployed(base int, d *definition.Definition) {
	w.update(base, d)
	w.deploy(d.Name, base+1)
}

func (w *world) deployEach(hosts map[string]string, configure ...func(*definition.Definition)) {
	for name, host := range hosts {
		w.deployed(daemon(name, configure...), host)
	}
}

func (w *world) active(name string, hosts ...string) {
	w.deployed(daemon(name), hosts...)
	w.untilIdle()
}

func (w *world) rollback(name string, revision int) {
	w.do(name, environment.Rollback{Revision: revision, Hosts: w.selects(name, revision)})
}

func (w *world) selects(name string, revision int) (hosts []string) {
	w.follow()
	_ = w.environments.Ask(name, func(s *environment.State) error {
		r, _ := s.Revision(revision)
		hosts, _ = w.Selected(r.Definition.InstanceGroup.Query)
		return nil
	})
	return hosts
}

// update makes the next revision of what a definition says now.
func (w *world) update(base int, d *definition.Definition) {
	w.do(d.Name, environment.Update{Base: base, Definition: d})
}

func (w *world) follow() { require.NoError(w, w.environments.Follow(context.Background(), 0)) }

// wantRows compares the seed's table, "1 Active 2 2; 2 Created 0 0".
func (w *world) wantRows(name, want string) {
	w.Helper()
	w.follow()
	var rows []string
	_ = w.environments.Ask(name, func(s *environment.State) error {
		for _, r := range s.Report().Rows {
			rows = append(rows, fmt.Sprintf("%d %s %d %d", r.Revision, r.Status, r.Desired, r.Current))
		}
		return nil
	})
	if got := strings.Join(rows, "; "); got != want {
		w.Errorf("%s is %q, not %q; the log tells\n%s", name, got, want, strings.Join(w.story(), "\n"))
	}
}

// story are the events as "TIME EVENT TARGET", with what went wrong.
func (w *world) story() (story []string) {
	for _, e := range w.Events() {
		story = append(story, fmt.Sprintf("%s %s %s %d %s", e.CreatedAt.Format("15:04:05.000"), e.Name, e.Target, e.Attempt, e.Data))
	}
	return story
}

func (w *world) when(name string, n int) time.Time {
	w.Helper()
	for _, e := range w.Events() {
		if e.Name == name {
			if n--; n == 0 {
				return e.CreatedAt
			}
		}
	}
	w.Fatalf("there is no such %s in\n%s", name, strings.Join(w.story(), "\n"))
	return time.Time{}
}

func (w *world) count(name string) (n int) {
	for _, e := range w.Events() {
		if e.Name == name {
			n++
		}
	}
	return n
}

func (w *world) wantCount(want int, names ...string) {
	w.Helper()
	for _, name := range names {
		if got := w.count(name); got != want {
			w.Errorf("%d events %s, not %d; the log tells\n%s", got, name, want, strings.Join(w.story(), "\n"))
		}
	}
}

func (w *world) wantNotice(words string) {
	got := w.Notices("notice")
	assert.True(w, len(got) == 1 && strings.Contains(got[0], words), "notified %q", got)
}

func (w *world) slowly(d time.Duration) {
	w.set(func() { w.working = func(tasks.Task) error { <-time.After(d); return nil } })
}

func (w *world) untilIdle() {
	o := w.options
	o.UntilIdle = true
	require.NoError(w, environments.NewController(o).Run(context.Background()))
}

// running is a controller at work.
type running struct {
	*reconciletest.Process
	w *world
}

func (w *world) start() *running { return w.startWith(w.options) }

func (w *world) startWith(o environments.Options) *running {
	r := &running{w: w}
	r.Process = reconciletest.Start(w, func(ctx context.Context, drain <-chan struct{}) error {
		o.Drain = drain
		return environments.NewController(o).Run(ctx)
	})
	w.controllers = append(w.controllers, r)
	return r
}

func (w *world) within(scope *reconcile.Scope) *running {
	o := w.options
	o.Scope = scope
	return w.startWith(o)
}

// another starts a controller as another process does, of some environments or, without names, of all.
func (w *world) another(controller string, names ...string) *running {
	o := w.options
	o.Log, o.Tasks, o.Scope = w.Open(), worker{w, controller}, reconcile.Of(names...)
	return w.startWith(o)
}

// end stops the controller and waits until it has ended, and watches nothing any more.
func (r *running) end() {
	r.End()
	synctest.Wait()
	if r.over(); len(r.w.controllers) == 0 {
		assert.Empty(r.w, r.w.watched)
	}
}

func (r *running) over() {
	r.w.controllers = slices.DeleteFunc(r.w.controllers, func(other *running) bool { return other == r })
}

func (r *running) die() {
	r.over()
	r.Die()
}
