package environments

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/unwatched"
	"github.com/deployster-go/deployster/runner"
)

// Tasks does the work of environments' steps, and probes tasks. It is safe for
// concurrent use. What has a ctx returns when that ends.
type Tasks interface {
	// Start applies a task and returns what was observed then. It must be safe to do
	// again, as Terminate must: a controller that died may have had it done
	// before.
	Start(ctx context.Context, t tasks.Task) (tasks.ProbeResult, error)

	// Check reports why a task could not be started on its host, as far as that can be
	// known while another one runs there. It changes nothing.
	Check(ctx context.Context, t tasks.Task) error

	// Terminate destroys what applications of the task made.
	Terminate(ctx context.Context, t tasks.Task) error

	// Verify applies what verifies a step of a deployment, on the engine of no host. It must
	// be safe to do again, as Start.
	Verify(ctx context.Context, v environment.Verification) error

	// Observe probes a task, and changes nothing. What it cannot see is Unknown.
	Observe(ctx context.Context, t tasks.Task) tasks.ProbeResult

	// Things are what a task makes on its host of which there is one, as far as that is
	// known without asking the host. None is not known.
	Things(t tasks.Task) []tasks.Thing

	// Watch calls changed when something may have happened to tasks on a host.
	// It returns when it cannot notice that any more, and is called again later.
	// Nothing depends on it: it only makes the controller probe sooner.
	Watch(ctx context.Context, host string, changed func())
}

// Confirming is Tasks that can find out cheaply that many tasks of a host are still as healthy as
// when they were last probed.
type Confirming interface {
	// Confirm returns the results of those that are, by their place among the tasks. The others
	// have to be probed.
	Confirm(ctx context.Context, host string, all []tasks.Task) map[int]tasks.ProbeResult
}

// Inventory knows the hosts. Only one goroutine asks at a time.
type Inventory interface {
	// Version is another number when the rest may answer differently. It is
	// asked each second.
	Version() int

	// Identity is what the inventory is known as; "" where none could be read.
	Identity() string

	Selected(query string) ([]string, error)
	Known(host string) bool

	// Attribute is the value of an attribute of a host, "" where it has none.
	Attribute(host, name string) string

	// Slots is how many steps may run on a host at once.
	Slots(host string) int
}

// Options describes a Controller. All fields are required but where it says
// otherwise.
type Options struct {
	reconcile.Options
	Tasks      Tasks
	Inventory  Inventory
	Observer   reconcile.Observer
	ProbeEvery time.Duration // between two probes of a task; 0 is DefaultProbeEvery
}

// DefaultProbeEvery is how often a task is probed, if nothing else is said.
const DefaultProbeEvery = 30 * time.Second

// Controller brings the tasks of environments to their hosts and keeps them
// there (seed "Blox Deployments User Experience"). All that it knows is in the log, so
// one that dies is replaced by another.
type Controller struct {
	Options
	loop         *reconcile.Loop[*environment.State, place]
	environments *Environments
	hosts        hosts
	probes       probes
	checked      map[place]check      // hosts on which a new task could be started
	ticked       time.Time            // the last tick
	unwatched    map[string]time.Time // since when nobody had watched an environment, which is to be recorded
	confirming   Confirming           // nil where each task has to be probed

	verifying map[string]verifying
	line      map[string]turn // environments that wait for others to verify their steps
}

// place is where work is done: an environment on a host.
type place struct{ environment, host string }

// check is when a task was checked, and for which deployment.
type check struct {
	deployment string
	at         time.Time
}

// checkLasts is how long a check is relied on: what it has seen changes.
const checkLasts = time.Minute

// NewController prepares a controller.
func NewController(o Options) *Controller {
	o.Parallelism = max(1, o.Parallelism)
	if o.ProbeEvery <= 0 {
		o.ProbeEvery = DefaultProbeEvery
	}
	c := &Controller{Options: o, environments: New(o.Log, o.Now), checked: map[place]check{}, unwatched: map[string]time.Time{}, verifying: map[string]verifying{}, line: map[string]turn{}, hosts: hosts{incomplete: map[string]string{}, unknown: map[string]string{}}}
	c.environments.Identify(o.Tasks.Things, nil)
	c.probes = newProbes(o.ProbeEvery, o.Parallelism, c.watch)
	c.confirming, c.probes.together = o.Tasks.(Confirming)
	c.loop = reconcile.New(reconcile.Setup[*environment.State, place]{
		Options: o.Options, Fold: c.environments.Fold, Tenant: c, Observer: o.Observer,
		Role: "controller", Slots: o.Inventory.Slots, Interrupted: runner.ErrInterrupted,
	})
	return c
}

// Run brings tasks to their hosts, see reconcile.Loop.Run.
func (c *Controller) Run(ctx context.Context) error { return c.loop.Run(ctx) }

// Declines implements reconcile.Tenant: an environment is served by who has the inventory
// that it is bound to.
func (c *Controller) Declines(s *environment.State) string {
	if s.Bound() == "" {
		return ""
	}
	if c.hosts.inventory == nil {
		c.refreshInventory()
	}
	if why := s.OtherThan(*c.hosts.inventory); why != nil {
		return why.Message + "; what helps is " + why.Change
	}
	return ""
}

// Acquired implements reconcile.Tenant.
func (c *Controller) Acquired(name string) {
	c.find(name)
	c.absent(name, c.environments.States[name].UnwatchedSince(c.Now()))
	c.sync(name, true, true)
}

// Released implements reconcile.Tenant.
func (c *Controller) Released(name string) {
	c.probes.forget(name)
	delete(c.unwatched, name)
	maps.DeleteFunc(c.checked, func(at place, _ check) bool { return at.environment == name })
	c.trouble(c.hosts.incomplete, name, nil)
	c.trouble(c.hosts.unknown, name, nil)
}

// Received implements reconcile.Tenant.
func (c *Controller) Received(name string, e deploylog.Event) (more bool) {
	c.probes.receive(name, e)
	c.dropVerifying(name)
	switch e.Name {
	case record.EnvironmentStarted:
		c.find(name)
	case record.EnvironmentWatched:
		delete(c.unwatched, name)
	}
	return true
}

// Tick implements reconcile.Tenant.
func (c *Controller) Tick() {
	c.refreshInventory()
	c.probeAfterAbsence()
	c.refreshHosts()
	c.resync()
}

// Decide implements reconcile.Tenant.
func (c *Controller) Decide(name string, s *environment.State, d *reconcile.Decision[place]) {
	c.probeAfterAbsence() // the process may have been stopped just now
	if c.refreshInventory(); c.Declines(s) != "" {
		return
	}
	slot := func(host string) reconcile.Slot[place] {
		return reconcile.Slot[place]{Key: place{name, host}, Host: host}
	}
	test := slot("")
	test.Unslotted = true
	can := environment.Can{
		Work:    func(host string) bool { return c.Inventory.Known(host) && d.Can(slot(host)) },
		Verify:  func() bool { return c.mayVerify(name, test, d) },
		Disrupt: c.probes.known(name), Unwatched: c.unwatched[name],
		Checked: func(host string) bool { return c.isChecked(place{name, host}, s, d.Now) },
		Back:    func(revision int, hosts []string) ([]string, error) { return c.back(s, revision, hosts) },
	}
	recorded := false
	for step := range s.Decide(d.Now, can) {
		recorded = recorded || step.Kind == tasks.Record
		switch step.Kind {
		case tasks.Record:
			d.Add(step.Events)
		case tasks.Verify:
			d.Add(step.Events, d.Begin(c.verify(test, step, s.Verification(step))))
		default:
			d.Add(step.Events, d.Begin(c.work(slot(step.Host), step, s.Task(step.Revision, step.Host))))
		}
		if d.Full() {
			return
		}
	}
	if can.Disrupt && !recorded { // that it was not watched is recorded, or no deadline counts it
		delete(c.unwatched, name)
	}
	d.WakeAt(s.Wake())
}

// isChecked reports whether the new task of the active deployment could be started at a
// place a moment ago.
func (c *Controller) isChecked(at place, s *environment.State, now time.Time) bool {
	known, active := c.checked[at], ""
	if d, ok := s.ActiveDeployment(); ok {
		active = d.ID
	}
	age := now.Sub(known.at)
	return known.deployment == active && age >= 0 && age < checkLasts
}

// Idle implements reconcile.Tenant. What another controller has begun has an end.
func (c *Controller) Idle(s *environment.State) bool {
	return s.Idle() && (c.loop.Controls(s.Name()) || !s.InFlight())
}

// work is that of a step.
func (c *Controller) work(at reconcile.Slot[place], step tasks.Step, t tasks.Task) *reconcile.Work[place] {
	var seen tasks.ProbeResult
	return &reconcile.Work[place]{
		Slot: at, What: fmt.Sprintf("%s at %s", t.Environment, step.Host),
		Do: func(ctx context.Context) (err error) {
			switch step.Kind {
			case tasks.Terminate:
				return c.Tasks.Terminate(ctx, t)
			case tasks.Check:
				return c.checkTask(ctx, step, t)
			case tasks.Confirm:
				seen = c.observe(ctx, t)
			default:
				seen, err = c.startTask(ctx, step, t)
			}
			if err == nil && seen.Health != tasks.Healthy && ctx.Err() != nil {
				err = context.Cause(ctx) // what was observed may be because of that
			}
			return err
		},
		// The state may be behind commands, never behind what happens to tasks, which is only
		// recorded here. So how a step ended is judged as if it had ended just before those
		// commands: the event is of the deployment and attempt of the step, and folding a
		// command changes no task, so both orders lead to one state. Who decides what to do
		// about it has read everything.
		Result: func(err error, _ int) ([]deploylog.Event, bool) {
			c.probes.resume(step.Host)
			if step.Kind == tasks.Check && err == nil {
				c.checked[place{t.Environment, step.Host}] = check{step.Deployment, c.Now()}
			}
			return c.environments.States[t.Environment].Completed(step, seen, err), false
		},
	}
}

// checkTask gives a check no more time than a start has.
func (c *Controller) checkTask(ctx context.Context, step tasks.Step, t tasks.Task) error {
	bounded, cancel := unwatched.WithTimeout(ctx, step.Timeout)
	defer cancel()
	err := c.Tasks.Check(bounded, t)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("not checked within %s: %s", definition.Duration(step.Timeout), err.Error())
	}
	return err
}

// startTask gives a task no more time than it has to become healthy: what hangs would
// keep its host from whatever else is wanted there.
func (c *Controller) startTask(ctx context.Context, step tasks.Step, t tasks.Task) (tasks.ProbeResult, error) {
	if step.Timeout <= 0 {
		return c.Tasks.Start(ctx, t)
	}
	bounded, cancel := unwatched.WithTimeout(ctx, step.Timeout)
	defer cancel()
	seen, err := c.Tasks.Start(bounded, t)
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		// The cause is not wrapped: nobody interrupted it.
		err = fmt.Errorf("not healthy within %s, so its start was ended: %s", definition.Duration(step.Timeout), err.Error())
	}
	return seen, err
}
