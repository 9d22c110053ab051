package promotions

import (
	"context"
	"slices"
	"time"

	"github.com/deployster-go/deployster/control/clusters"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/targets"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/pullrequest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/runner"
)

// Options describes a Controller. All fields are required but where it says otherwise.
type Options struct {
	reconcile.Options
	Observer reconcile.Observer

	Selected func(query string) ([]string, error) // hosts, at present
	Identity func() string                        // of the inventory, see environments.Inventory
	Things   func(tasks.Task) []tasks.Thing       // see environments.Identify; may be nil

	// Workspace is below what the keys are that sign, and tokens. Getenv is the environment
	// that others are in; nil is none.
	Workspace string
	Getenv    func(name string) string

	// Verify applies what verifies a stage, on the engine of no host. It must bear to be done
	// again.
	Verify func(ctx context.Context, v environment.Verification) error

	// Engines are where the hosts of stages are that are manifests on hosts; nil leaves them
	// unknown.
	Engines Engines

	// Clusters are where the objects of stages are that are these; nil leaves them unknown.
	Clusters clusters.Watcher

	// Control has an environment controlled while a pipeline uses it; nil where somebody
	// controls all of them.
	Control func(environment string) (leave func())
}

// Controller promotes revisions (seed "Pipelines: level-triggered architecture"). All that it
// knows is in the log, so one that dies is replaced by another.
type Controller struct {
	Options
	loop       *reconcile.Loop[*promotion.State, workKey]
	promotions *Promotions

	// commands are the environments as its work changes them, and tries the pipelines as it
	// knows them, which is not the goroutine of the loop; followed are those that are observed.
	commands *environments.Environments
	tries    *Promotions
	followed *environments.Environments
	watching bool
	behind   bool // it may lack what was recorded since it followed the log
	broken   error

	users     map[string]map[string]bool    // pipelines by environment
	uses      map[string][]string           // environments by pipeline
	leave     map[string]func()             // of environments that are controlled for a pipeline
	since     map[string]time.Time          // when a pipeline was acquired
	absent    map[string]time.Time          // since when no controller had watched a pipeline, which is to be recorded
	left      map[string]promotion.Observed // what pipelines ran whose controller ends
	ticked    time.Time                     // when this process was there last
	seen      map[observed]observation
	kept      map[string]kept                // of environments
	verifying map[deploylog.Target]verifying // by stage
	applied   map[deploylog.Target]applying  // what is being applied, by stage
	looking   reconcile.OrderedSet[string]

	targets *targets.Observed
	objects *clusters.Observed
	sighted map[string][]string          // places of the stages that are no environments, by pipeline
	sights  map[string]string            // and the pipeline by place
	spotted reconcile.OrderedSet[string] // pipelines of which something was seen there that may not be recorded

	pulls       *pullrequest.Client
	looks       map[workKey]lookedAt // at what is proposed
	unwithdrawn map[workKey]int      // how many times in a row that failed
}

// workKey knows a promotion, whatever its try is.
type workKey struct{ promotion string }

// kept is whether somebody keeps an environment.
type kept struct {
	is bool
	at time.Time
}

// NewController prepares a controller.
func NewController(o Options) *Controller {
	c := &Controller{
		Options: o, promotions: New(o.Log, o.Now), commands: environments.New(o.Log, o.Now), tries: New(o.Log, o.Now),
		users: map[string]map[string]bool{}, uses: map[string][]string{}, leave: map[string]func(){}, since: map[string]time.Time{}, absent: map[string]time.Time{}, left: map[string]promotion.Observed{},
		seen: map[observed]observation{}, kept: map[string]kept{}, verifying: map[deploylog.Target]verifying{}, applied: map[deploylog.Target]applying{},
		sighted: map[string][]string{}, sights: map[string]string{}, looks: map[workKey]lookedAt{}, unwithdrawn: map[workKey]int{},
	}
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	c.pulls = pullrequest.New(pullrequest.Options{Workspace: o.Workspace, Getenv: o.Getenv, Now: o.Now})
	c.followed = environments.New(o.Log, o.Now, c.changed)
	c.followed.SpareSnapshots() // whoever keeps the environments keeps theirs
	c.commands.SpareSnapshots()
	if o.Things != nil {
		c.commands.Identify(o.Things, nil)
	}
	c.loop = reconcile.New(reconcile.Setup[*promotion.State, workKey]{
		Options: o.Options, Fold: c.promotions.Fold, Tenant: c, Observer: o.Observer,
		Role: "promoter", Slots: func(string) int { return 1 }, Interrupted: runner.ErrInterrupted, Together: true,
	})
	if o.Engines != nil {
		c.targets = targets.New(targets.Options{
			Engines: o.Engines, Selected: o.Selected, Parallelism: o.Parallelism, Now: o.Now, Go: c.loop.Go, Post: c.loop.Post, Changed: c.changedPlace,
		})
	}
	if o.Clusters != nil {
		c.objects = clusters.New(clusters.Options{Watcher: o.Clusters, Go: c.loop.Go, Post: c.loop.Post, Changed: c.changedPlace})
	}
	return c
}

// Run promotes, see reconcile.Loop.Run.
func (c *Controller) Run(ctx context.Context) error {
	defer func() {
		for _, leave := range c.leave {
			leave()
		}
	}()
	err := c.loop.Run(ctx)
	if err == nil {
		c.recordLeft(ctx)
	}
	return err
}

// Acquired implements reconcile.Tenant.
func (c *Controller) Acquired(name string) {
	c.since[name] = c.Now()
	c.wasAbsent(name, c.promotions.States[name].UnwatchedSince(c.Now()))
	c.use(name, c.promotions.States[name].Environments())
}

// Released implements reconcile.Tenant.
func (c *Controller) Released(name string) {
	c.leaves(name)
	c.use(name, nil)
	c.leaveSighted(name)
	delete(c.since, name)
	delete(c.absent, name)
}

// use notes which environments a pipeline uses. What none uses is not watched any more.
func (c *Controller) use(name string, wanted []string) {
	if len(c.users) == 0 && len(wanted) > 0 {
		c.follow()
	}
	before := c.uses[name]
	c.uses[name] = slices.Clone(wanted)
	if len(wanted) == 0 {
		delete(c.uses, name)
	}
	for _, e := range wanted {
		if c.users[e] == nil {
			c.users[e] = map[string]bool{}
			c.looking.Add(e)
			if c.Control != nil {
				c.leave[e] = c.Control(e)
			}
		}
		c.users[e][name] = true
	}
	for _, e := range before {
		if slices.Contains(wanted, e) {
			continue
		}
		if delete(c.users[e], name); len(c.users[e]) == 0 {
			c.forget(e)
		}
	}
}

func (c *Controller) forget(environment string) {
	delete(c.users, environment)
	delete(c.kept, environment)
	for of := range c.seen {
		if of.environment == environment {
			delete(c.seen, of)
		}
	}
	if leave := c.leave[environment]; leave != nil {
		leave()
		delete(c.leave, environment)
	}
}

// Received implements reconcile.Tenant.
func (c *Controller) Received(name string, e deploylog.Event) bool {
	c.dropApplying(name)
	if e.Name == promotion.PipelineWatched && !promotion.PayloadOf(e).Since.IsZero() { // that a controller watches says nothing of an absence
		delete(c.absent, name)
	}
	if e.Name == promotion.PipelineDefined || e.Name == promotion.PipelineDeleted {
		c.leaveSighted(name, c.promotions.States[name].SightedPlaces()...)
	}
	if e.Name == promotion.PipelineDefined {
		c.use(name, c.promotions.States[name].Environments())
		s := c.promotions.States[name]
		for _, of := range slices.Concat(s.Open(), s.Taken()) { // it may be looked at more often now
			delete(c.looks, slotOf(of, "").Key)
		}
	}
	if e.Name == promotion.StageStarted || e.Name == promotion.StageFailed || e.Name == promotion.StageFinished {
		delete(c.looks, workKey{e.Deployment})
	}
	return true
}

// changed receives every event of the log, for the environments.
func (c *Controller) changed(e deploylog.Event) {
	name, ok := record.NameOf(e.Target)
	if !ok || len(c.users[name]) == 0 {
		return
	}
	for user := range c.users[name] {
		c.loop.Enqueue(user)
		of := observed{name, c.variable(user)}
		if o, known := c.seen[of]; known {
			o.changed = true
			c.seen[of] = o
		}
	}
}

func (c *Controller) variable(pipeline string) string {
	if s := c.promotions.States[pipeline]; s != nil && s.Definition() != nil {
		return s.Definition().Promotion.Variable
	}
	return ""
}

// Tick implements reconcile.Tenant: it looks which environments are kept, of some at a time,
// for that is no event.
func (c *Controller) Tick() {
	c.noticeAbsence()
	c.behind = true
	const atOnce = 500
	for _, e := range c.looking.First(atOnce) {
		if len(c.users[e]) == 0 {
			continue
		}
		c.looking.Add(e)
		c.look(e)
	}
	for of, o := range c.seen {
		if o.changed {
			for user := range c.users[of.environment] {
				c.loop.Enqueue(user)
			}
		}
	}
}

// keeps reports whether somebody controls an environment, as of a moment ago.
func (c *Controller) keeps(environment string) bool {
	const lasts = 10 * time.Second
	now := c.Now()
	if k, ok := c.kept[environment]; ok && k.is && now.Sub(k.at) < lasts && !now.Before(k.at) {
		return true
	}
	return c.look(environment)
}

// look looks whether somebody keeps an environment, and has its pipelines decided about where
// that has changed.
func (c *Controller) look(environment string) (is bool) {
	before := c.kept[environment].is
	is = c.followed.Controlled(environment)
	c.kept[environment] = kept{is, c.Now()}
	if is != before {
		for user := range c.users[environment] {
			c.loop.Enqueue(user)
		}
	}
	return is
}

// Observe implements reconcile.Tenant: it follows the environments, once a second if no pipeline uses any.
func (c *Controller) Observe() bool {
	if !c.watching {
		c.watching = true
		c.watch()
	}
	if c.behind || len(c.users) > 0 {
		c.follow()
	}
	return false
}

func (c *Controller) follow() {
	c.broken = c.followed.Follow(context.Background(), 0)
	c.behind = false
}

// watch has the environments observed as soon as there is an event of one.
func (c *Controller) watch() {
	after := c.followed.Head()
	c.loop.Go(func(ctx context.Context) func() {
		for e, err := range c.Log.Watch(ctx, deploylog.Filter{After: after}) {
			if err != nil {
				break
			}
			if _, ok := record.NameOf(e.Target); ok {
				c.loop.Post(func() {}) // the loop observes when anything comes
			}
		}
		return func() { c.watching = false }
	})
}

// Observed implements reconcile.Tenant: what environments run is in the log already, what stages run
// that are none is not.
func (c *Controller) Observed(most int) (all []reconcile.Observation, more bool) {
	for c.spotted.Len() > 0 && most > 0 {
		name := c.spotted.Pop()
		s := c.promotions.States[name]
		if s == nil || c.since[name].IsZero() || c.loop.LeftOut(name) {
			continue
		}
		if events := c.sightings(s); len(events) > 0 {
			all, most = append(all, reconcile.Observation{Entity: name, Events: events}), most-len(events)
		}
	}
	return all, c.spotted.Len() > 0
}

// appearPause is how long it may take until an environment is controlled.
const appearPause = 15 * time.Second

// Probe implements reconcile.Tenant: nothing is idle before environments are controlled.
func (c *Controller) Probe() (next time.Time, seen bool) {
	const again = 100 * time.Millisecond
	if c.Control == nil || !c.UntilIdle {
		return time.Time{}, true
	}
	now := c.Now()
	for name, since := range c.since {
		for _, e := range c.uses[name] {
			if now.Sub(since) < appearPause && !c.keeps(e) {
				return now.Add(again), false
			}
		}
	}
	return time.Time{}, true
}

// Declines implements reconcile.Tenant.
func (c *Controller) Declines(*promotion.State) string { return "" }

// Decide implements reconcile.Tenant.
func (c *Controller) Decide(name string, s *promotion.State, d *reconcile.Decision[workKey]) {
	c.noticeAbsence() // the process may have been stopped just now
	o, again := c.observe(s)
	if events := c.sightings(s); len(events) > 0 { // what is decided is decided by what the log has
		d.Add(events)
		return
	}
	if events := c.returned(name, s, o); len(events) > 0 {
		d.Add(events)
		return
	}
	d.WakeAt(again)
	c.dropVerifying(s)
	for step := range s.Decide(o, d.Now) {
		slot := reconcile.Slot[workKey]{Key: workKey{step.ID}, Attempt: step.Attempt}
		switch {
		case step.ID == "":
			d.Add(step.Events)
		case step.Promotes:
			c.promote(name, step, s.Definition(), d)
		case !d.Can(slot): // somebody is at work on it
		case step.Verifies:
			d.Add(step.Events, d.Begin(c.verify(name, slot, step, s.Definition().Stages[s.Definition().Index(step.Stage)])))
		default:
			d.Add(step.Events)
		}
		if d.Full() {
			return
		}
	}
	c.proposals(name, s, o, d)
	d.WakeAt(s.Wake(o, d.Now))
	if !d.Added() {
		events, next := c.watches(s, o, d.Now)
		if len(events) > 0 {
			d.Add(events)
		}
		d.WakeAt(next)
	}
}

// Idle implements reconcile.Tenant.
func (c *Controller) Idle(s *promotion.State) bool {
	o, again := c.observe(s)
	return again.IsZero() && c.looked(s.Name()) && s.Idle(o, c.Now()) && !c.awaitsLooks(s, o)
}
