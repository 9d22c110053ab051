package promotions_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/clusters"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/promotions"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/environment"
	envdefinition "github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/pipeline/promotion"
	"github.com/deployster-go/deployster/pipeline/promotion/definition"
)

// world is a pipeline that promotes, its environments, and two hosts of each, on which tasks
// become healthy unless somebody says otherwise, in a time of its own.
type world struct {
	testing.TB
	open         logtest.Store
	log          deploylog.Log // of who gives commands
	environments *environments.Environments
	promotions   *promotions.Promotions
	stages       []string
	number       int    // of commands
	workspace    string // of the keys of webhooks
	getenv       func(string) string
	engines      promotions.Engines // of stages on hosts; nil has none
	clusters     clusters.Watcher   // of stages of objects; nil has none

	mu       sync.Mutex
	silent   map[string]bool          // environments whose hosts do not answer
	bad      map[string]bool          // "STAGE VERSION" that does not become healthy
	slowly   map[string]time.Duration // how long a start takes, by stage
	trouble  map[string]error         // with the hosts of a stage
	verifies func(ctx context.Context, v environment.Verification) error
	notified []string
	none     bool // no query selects a host
	many     int  // hosts of each stage that a query selects; 0 is two
}

// inWorld has a pipeline of the stages dev, staging and prod, to which nothing was deployed.
func inWorld(t *testing.T, p definition.Promotion, test func(*world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, reconciletest.InMemory(t))
		w.define(p)
		test(w)
	})
}

func newWorld(t testing.TB, store logtest.Store) *world {
	w := &world{
		TB: t, open: store, stages: []string{"dev", "staging", "prod"},
		silent: map[string]bool{}, bad: map[string]bool{}, slowly: map[string]time.Duration{}, trouble: map[string]error{},
	}
	w.log = w.open()
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(w.story())
		}
	})
	w.environments, w.promotions = environments.New(w.log, time.Now), promotions.New(w.log, time.Now)
	for _, stage := range w.stages {
		w.do(stage, environment.Create{Definition: runs(stage, "0")})
	}
	return w
}

// single is the policy of the seed.
func single() definition.Promotion {
	return definition.Promotion{Policy: definition.Single, Variable: "version", RetryAfter: definition.Duration(10 * time.Second)}
}

// runs is the definition of the environment of a stage, with a version.
func runs(stage, version string) *envdefinition.Definition {
	return &envdefinition.Definition{
		Name: stage, Type: envdefinition.Daemon, InstanceGroup: envdefinition.InstanceGroup{Query: stage},
		Task: envdefinition.TaskSpec{Manifest: "shop.yaml", Vars: map[string]any{"version": version}},
		Deployment: envdefinition.Configuration{
			Method: envdefinition.Replace, MinHealthyPercent: 50, MaxOver: 1, Drift: envdefinition.RepairDrift,
			HealthyDeadline: envdefinition.Duration(5 * time.Minute), ProgressDeadline: envdefinition.Duration(10 * time.Minute),
		},
	}
}

// stagesOf are stages that are environments of the same names.
func stagesOf(names ...string) (stages []definition.Stage) {
	for _, name := range names {
		stages = append(stages, definition.Stage{Name: name, Environment: name})
	}
	return stages
}

// define makes the pipeline what its stages are at present.
func (w *world) define(p definition.Promotion, change ...func(*definition.Definition)) {
	w.Helper()
	d := &definition.Definition{Name: "shop", Promotion: p, Stages: stagesOf(w.stages...)}
	for _, c := range change {
		c(d)
	}
	w.number++
	w.commands("shop", promotion.Define{Definition: d, ID: fmt.Sprint("define", w.number)})
}

// commands has a pipeline do what a person wants of it, who sees what the environments run.
func (w *world) commands(pipeline string, c promotion.Command) {
	w.Helper()
	require.NoError(w, w.environments.Follow(w.Context(), 0))
	_, err := w.promotions.Change(w.Context(), pipeline, true, func(s *promotion.State) ([]deploylog.Event, error) {
		return s.Propose(c, promotions.Observe(w.environments, s, w.environments.Controlled), time.Now())
	})
	require.NoError(w, err)
}

func (w *world) do(stage string, c environment.Command) {
	w.Helper()
	_, err := w.environments.Command(w.Context(), stage, c)
	require.NoError(w, err)
}

// deploys is what somebody, or a build, does by hand: the stage gets a version.
func (w *world) deploys(stage, version string) {
	w.Helper()
	n := 0
	require.NoError(w, w.environments.Follow(w.Context(), 0))
	require.NoError(w, w.environments.Ask(stage, func(s *environment.State) error {
		n = len(s.Revisions())
		return nil
	}))
	w.do(stage, environment.Update{Base: n, Definition: runs(stage, version)})
	w.do(stage, environment.Deploy{Revision: n + 1, Hosts: hostsOf(stage), By: "ada"})
}

func hostsOf(stage string) []string { return []string{stage + "1", stage + "2"} }

// set changes how the world is.
func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// Start implements environments.Tasks.
func (w *world) Start(ctx context.Context, t tasks.Task) (tasks.ProbeResult, error) {
	w.mu.Lock()
	takes := w.slowly[t.Environment]
	w.mu.Unlock()
	select {
	case <-time.After(takes):
		return w.Observe(ctx, t), nil
	case <-ctx.Done():
		return tasks.ProbeResult{}, context.Cause(ctx)
	}
}

// Observe implements environments.Tasks.
func (w *world) Observe(_ context.Context, t tasks.Task) tasks.ProbeResult {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.silent[t.Environment]:
		return tasks.ProbeResult{Health: tasks.Unknown, Detail: "no answer"}
	case w.bad[t.Environment+" "+fmt.Sprint(t.Spec.Vars["version"])]:
		return tasks.ProbeResult{Health: tasks.Unhealthy, Detail: "it crashes"}
	}
	return tasks.ProbeResult{Health: tasks.Healthy}
}

// These implement environments.Tasks.
func (w *world) Check(context.Context, tasks.Task) error     { return nil }
func (w *world) Terminate(context.Context, tasks.Task) error { return nil }

// Verify implements environments.Tasks.
func (w *world) Verify(ctx context.Context, v environment.Verification) error {
	w.mu.Lock()
	verifies := w.verifies
	w.mu.Unlock()
	if verifies == nil {
		return nil
	}
	return verifies(ctx, v)
}

// Things implements environments.Tasks.
func (w *world) Things(t tasks.Task) []tasks.Thing {
	return []tasks.Thing{{Key: t.Environment, Name: "task " + t.Environment}}
}

// Watch implements environments.Tasks.
func (w *world) Watch(ctx context.Context, _ string, _ func()) { <-ctx.Done() }

// These implement environments.Inventory.
func (w *world) Version() int     { return 1 }
func (w *world) Identity() string { return "" }

// Selected implements environments.Inventory.
func (w *world) Selected(stage string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.none && stage == "prod" {
		return nil, w.trouble[stage]
	}
	all := hostsOf(stage)
	for n := len(all) + 1; n <= w.many && stage == "prod"; n++ {
		all = append(all, fmt.Sprint(stage, n))
	}
	return all, w.trouble[stage]
}

// These implement environments.Inventory.
func (w *world) Known(string) bool               { return true }
func (w *world) Attribute(string, string) string { return "" }
func (w *world) Slots(string) int                { return 1 }

// Recorded implements reconcile.Observer.
func (w *world) Recorded(deploylog.Event) {}

// Notice implements reconcile.Observer.
func (w *world) Notice(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notified = append(w.notified, text)
}

// overtaken is the log of a process in which somebody else has the lock of the promotions as soon
// as an event of a name was recorded, and gives a command under it a while later.
type overtaken struct {
	deploylog.Log
	w       *world
	event   string
	command promotion.Command
	once    sync.Once
	begun   atomic.Bool
}

// Append implements deploylog.Log.
func (o *overtaken) Append(ctx context.Context, events ...deploylog.Event) ([]deploylog.Event, error) {
	if slices.ContainsFunc(events, func(e deploylog.Event) bool { return e.Name == o.event }) {
		o.once.Do(func() { o.begun.Store(true) })
	}
	return o.Log.Append(ctx, events...)
}

// Lock implements deploylog.Log.
func (o *overtaken) Lock(ctx context.Context, name string) (func(), error) {
	unlock, err := o.Log.Lock(ctx, name)
	if err != nil || name != "promotions" {
		return unlock, err
	}
	return func() {
		if !o.begun.Swap(false) {
			unlock()
			return
		}
		go func() {
			defer unlock()
			<-time.After(5 * time.Second)
			o.w.proposes(o.command)
		}()
	}, nil
}

// proposes records a command for who has the lock.
func (w *world) proposes(c promotion.Command) {
	err := w.promotions.Follow(w.Context(), 0)
	if err == nil {
		err = w.promotions.Ask("shop", func(s *promotion.State) error {
			events, err := s.Propose(c, promotions.Observe(w.environments, s, nil), time.Now())
			if err == nil {
				_, err = w.log.Append(context.Background(), events...)
			}
			return err
		})
	}
	assert.NoError(w, err)
}

func (w *world) options(log deploylog.Log) promotions.Options {
	return promotions.Options{Options: reconcile.Options{Log: log, Parallelism: 4, Now: time.Now}, Observer: w, Workspace: w.workspace, Getenv: w.getenv, Engines: w.engines, Clusters: w.clusters}
}

// untilIdle runs a process that promotes, and keeps the environments, until nothing more is
// to be done, or it dies.
func (w *world) untilIdle(log deploylog.Log) error {
	o := w.options(log)
	o.UntilIdle = true
	return promotions.Schedule(w.Context(), o, w, w)
}

// deaths tells a story again and again. Each time the first process, whose log die returns, dies at
// another of its appends, before that is in the log or right after. "make test" tells the story of
// each such append in one of the two ways, or of every few appends.
func deaths(t *testing.T, least, every int, story func(t *testing.T, die func(deploylog.Log) deploylog.Log)) {
	t.Helper()
	tell := func(lives int, last bool) int {
		var mortal *reconciletest.Mortal
		t.Run(fmt.Sprintf("at append %d, in the log %t", lives+1, last), func(t *testing.T) {
			story(t, func(log deploylog.Log) deploylog.Log {
				mortal = &reconciletest.Mortal{Log: log, Lives: lives, Last: last}
				return mortal
			})
		})
		return mortal.Calls()
	}
	appends := tell(1000, false)
	require.GreaterOrEqual(t, appends, least, "appends")
	every = ringtest.Cases(every, 1)
	for lives := 0; lives < appends; lives += every {
		last := lives/every%2 == 0
		tell(lives, last)
		if ringtest.All() {
			tell(lives, !last)
		}
	}
}

// process is one that promotes, and keeps the environments.
type process struct {
	w     *world
	drain chan struct{}
	kill  context.CancelCauseFunc
	ended chan error
}

func (w *world) start() *process {
	ctx, kill := context.WithCancelCause(context.Background())
	p := &process{w, make(chan struct{}), kill, make(chan error, 1)}
	o := w.options(w.open())
	o.Drain = p.drain
	go func() { p.ended <- promotions.Schedule(ctx, o, w, w) }()
	synctest.Wait()
	return p
}

// promotes has a process find a version that somebody deployed to the first stage.
func (w *world) promotes(version string) *process {
	w.Helper()
	w.deploys("dev", version)
	return w.start()
}

// end has the process finish what it has begun.
func (p *process) end() {
	p.w.Helper()
	close(p.drain)
	assert.NoError(p.w, <-p.ended)
	p.kill(nil)
}

var errKilled = errors.New("killed")

// die kills the process.
func (p *process) die() {
	p.w.Helper()
	p.kill(errKilled)
	assert.ErrorIs(p.w, <-p.ended, errKilled, "it ended with")
}

// keepOnly runs a process that keeps an environment, and promotes nothing, until that is as it
// is to be.
func (w *world) keepOnly(stage string) {
	w.Helper()
	o := environments.Options{
		Options: reconcile.Options{Log: w.open(), Scope: reconcile.Only(stage), Parallelism: 4, Now: time.Now, UntilIdle: true}, Tasks: w, Inventory: w, Observer: w,
	}
	require.NoError(w, environments.NewController(o).Run(w.Context()))
}

func (w *world) events() (all []deploylog.Event) {
	w.Helper()
	for e, err := range w.log.Read(context.Background(), deploylog.Filter{}) {
		require.NoError(w, err)
		all = append(all, e)
	}
	return all
}

// story are the events, for whoever reads of a failure.
func (w *world) story() string {
	w.Helper()
	var all []string
	for _, e := range w.events() {
		all = append(all, fmt.Sprintf("%d %s %s %s %s %d %s", e.Seq, e.CreatedAt.Format("15:04:05"), e.Name, e.Target, e.Revision, e.Attempt, e.Data))
	}
	return strings.Join(all, "\n")
}

// count is how many events of a name there are of a stage, or of the pipeline for "", for a
// revision or, for "", any.
func (w *world) count(name, stage, revision string) (n int) {
	w.Helper()
	target := promotion.Target("shop")
	if stage != "" {
		target = promotion.StageTarget("shop", stage)
	}
	for _, e := range w.events() {
		if e.Name == name && e.Target == target && (revision == "" || e.Revision == revision) {
			n++
		}
	}
	return n
}

// deployments are those that promotions began of the environment of a stage: the versions.
func (w *world) deployments(stage string) (versions []string) {
	w.Helper()
	require.NoError(w, w.environments.Follow(w.Context(), 0))
	_ = w.environments.Ask(stage, func(s *environment.State) error {
		for _, d := range s.Deployments() {
			if r, err := s.Revision(d.Revision); err == nil && d.Step != "" {
				versions = append(versions, fmt.Sprint(r.Definition.Task.Vars["version"]))
			}
		}
		return nil
	})
	return versions
}

// at is the version that a stage runs as a whole, "" for none.
func (w *world) at(stage string) (version string) {
	w.Helper()
	require.NoError(w, w.environments.Follow(w.Context(), 0))
	_ = w.environments.Ask(stage, func(s *environment.State) error {
		d, ok := s.ActiveDeployment()
		if r, err := s.Revision(d.Revision); ok && err == nil && d.Status == report.DeploymentFinished {
			version = fmt.Sprint(r.Definition.Task.Vars["version"])
		}
		return nil
	})
	return version
}

// want fails unless the stages run these versions, each as a whole, and each came to those
// after the first once.
func (w *world) want(dev, staging, prod string) {
	w.Helper()
	if got, want := []string{w.at("dev"), w.at("staging"), w.at("prod")}, []string{dev, staging, prod}; !slices.Equal(got, want) {
		w.Errorf("the stages run %q, not %q", got, want)
	}
	for _, stage := range w.stages[1:] {
		came := w.deployments(stage)
		assert.Len(w, slices.Compact(slices.Sorted(slices.Values(came))), len(came), "to %s came %q", stage, came)
	}
}

// explain says why a stage does not get what it is to get.
func (w *world) explain(stage string) (reason promotion.Reason) {
	w.Helper()
	require.NoError(w, errors.Join(w.promotions.Follow(w.Context(), 0), w.environments.Follow(w.Context(), 0)))
	_ = w.promotions.Ask("shop", func(s *promotion.State) error {
		for _, r := range s.Explain(promotion.Target("shop"), promotions.Observe(w.environments, s, w.environments.Controlled), time.Now()) {
			if r.Stage == stage {
				reason = r
			}
		}
		return nil
	})
	return reason
}

// says fails unless a stage waits for a reason, in some words.
func (w *world) says(stage string, code promotion.Code, words string) {
	w.Helper()
	reason := w.explain(stage)
	assert.Equal(w, code, reason.Code, "stage %s: %s", stage, reason.Message)
	assert.Contains(w, reason.Message, words, "stage %s", stage)
}

// finished fails unless a revision came to stages once, and through the pipeline.
func (w *world) finished(revision string, stages ...string) {
	w.Helper()
	for _, stage := range append(stages, "") {
		name := promotion.StageFinished
		if stage == "" {
			name = promotion.RunFinished
		}
		assert.Equal(w, 1, w.count(name, stage, revision), "%s of revision %s: %s", name, revision, stage)
	}
}

// startedIn is the number of deployments that an environment ever had.
func (w *world) startedIn(stage string) (n int) {
	for _, e := range w.events() {
		if e.Name == record.EnvironmentStarted && e.Target == record.Target(stage) {
			n++
		}
	}
	return n
}
