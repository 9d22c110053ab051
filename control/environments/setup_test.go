package environments_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
)

// daemon is a definition; the query has the environment's name.
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

// agent has environments of one manifest.
func agent(d *definition.Definition) { d.Task.Manifest = "agent.yaml" }

func (w *world) command(name string, c environment.Command, hosts ...string) error {
	_, err := w.environments.Command(context.Background(), name, c, hosts...)
	return err
}

func (w *world) do(name string, c environment.Command) {
	w.Helper()
	require.NoError(w, w.command(name, c))
}

// create makes an environment that has these hosts.
func (w *world) create(d *definition.Definition, hosts ...string) {
	w.Helper()
	w.inventory(d.InstanceGroup.Query, hosts...)
	w.do(d.Name, environment.Create{Definition: d})
}

// deploy deploys a revision to the hosts that its query selects now.
func (w *world) deploy(name string, revision int) {
	w.Helper()
	w.do(name, environment.Deploy{Revision: revision, Hosts: w.selects(name, revision)})
}

// deployed is an environment whose first revision is to be brought to these hosts.
func (w *world) deployed(d *definition.Definition, hosts ...string) {
	w.Helper()
	w.create(d, hosts...)
	w.deploy(d.Name, 1)
}

// redeployed makes the next revision, and deploys it.
func (w *world) redeployed(base int, d *definition.Definition) {
	w.Helper()
	w.update(base, d)
	w.deploy(d.Name, base+1)
}

// deployEach creates environments of one host each, by name, and deploys them.
func (w *world) deployEach(hosts map[string]string, configure ...func(*definition.Definition)) {
	w.Helper()
	for name, host := range hosts {
		w.deployed(daemon(name, configure...), host)
	}
}

// active brings an environment to its hosts.
func (w *world) active(name string, hosts ...string) {
	w.Helper()
	w.deployed(daemon(name), hosts...)
	w.untilIdle()
}

func (w *world) rollback(name string, revision int) {
	w.Helper()
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
	w.Helper()
	w.do(d.Name, environment.Update{Base: base, Definition: d})
}

func (w *world) follow() {
	w.Helper()
	require.NoError(w, w.environments.Follow(context.Background(), 0))
}

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

func (w *world) events() (all []deploylog.Event) {
	w.Helper()
	for e, err := range w.log.Read(context.Background(), deploylog.Filter{}) {
		require.NoError(w, err)
		all = append(all, e)
	}
	return all
}

// story are the events as "TIME EVENT TARGET", with what went wrong.
func (w *world) story() (story []string) {
	w.Helper()
	for _, e := range w.events() {
		story = append(story, fmt.Sprintf("%s %s %s %d %s", e.CreatedAt.Format("15:04:05.000"), e.Name, e.Target, e.Attempt, e.Data))
	}
	return story
}

// when is the time of the nth event of a name, from 1.
func (w *world) when(name string, n int) time.Time {
	w.Helper()
	for _, e := range w.events() {
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
	for _, e := range w.events() {
		if e.Name == name {
			n++
		}
	}
	return n
}

// wantCount wants so many events of each of these names.
func (w *world) wantCount(want int, names ...string) {
	w.Helper()
	for _, name := range names {
		if got := w.count(name); got != want {
			w.Errorf("%d events %s, not %d; the log tells\n%s", got, name, want, strings.Join(w.story(), "\n"))
		}
	}
}

// wantNotice wants one notice, with these words.
func (w *world) wantNotice(words string) {
	w.Helper()
	if got := w.notices("notice"); len(got) != 1 || !strings.Contains(got[0], words) {
		w.Errorf("notified %q", got)
	}
}

// slowly has all work take its time.
func (w *world) slowly(d time.Duration) {
	w.set(func() { w.working = func(tasks.Task) error { <-time.After(d); return nil } })
}

// untilIdle runs a controller until it is idle.
func (w *world) untilIdle() {
	w.Helper()
	o := w.options
	o.UntilIdle = true
	require.NoError(w, environments.NewController(o).Run(context.Background()))
}

// running is a controller at work.
type running struct {
	w     *world
	stop  chan struct{}
	kill  context.CancelCauseFunc
	ended chan error
}

func (w *world) start() *running { return w.startWith(w.options) }

func (w *world) startWith(o environments.Options) *running {
	ctx, kill := context.WithCancelCause(context.Background())
	r := &running{w: w, stop: make(chan struct{}), kill: kill, ended: make(chan error, 1)}
	o.Drain = r.stop
	c := environments.NewController(o)
	w.controllers = append(w.controllers, r)
	go func() { r.ended <- c.Run(ctx) }()
	synctest.Wait()
	return r
}

// within starts a controller of what is in a scope.
func (w *world) within(scope *reconcile.Scope) *running {
	o := w.options
	o.Scope = scope
	return w.startWith(o)
}

// another starts a controller as another process does, of some environments or,
// without names, of all.
func (w *world) another(controller string, names ...string) *running {
	o := w.options
	o.Log, o.Tasks, o.Scope = w.open(), worker{w, controller}, reconcile.Of(names...)
	return w.startWith(o)
}

// end stops the controller and waits until it has ended, and watches nothing any more.
func (r *running) end() {
	r.w.Helper()
	close(r.stop)
	assert.NoError(r.w, <-r.ended)
	synctest.Wait()
	if r.over(); len(r.w.controllers) == 0 {
		assert.Empty(r.w, r.w.watched)
	}
	r.kill(nil)
}

func (r *running) over() {
	r.w.controllers = slices.DeleteFunc(r.w.controllers, func(other *running) bool { return other == r })
}

var errKilled = errors.New("killed")

// die kills the controller.
func (r *running) die() {
	r.w.Helper()
	r.kill(errKilled)
	r.over()
	assert.ErrorIs(r.w, <-r.ended, errKilled, "it ended with")
}
