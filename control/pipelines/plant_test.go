package pipelines_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/step"
)

// plant is a log on which schedulers carry revisions through pipelines, in a time of its own, which passes when nothing
// else happens. It is the worker of the schedulers, their hosts and their observer.
type plant struct {
	*reconciletest.World
	pipelines *pipelines.Pipelines // of whoever gives commands
	options   pipelines.Options

	mu      sync.Mutex
	members map[string][]string
	noHosts error
	hangs   chan struct{} // until it is closed, selecting the hosts does; nil is never
	slots   int
	before  func(step.Step)       // begin
	work    func(step.Step) error // when it has begun
	killed  chan struct{}         // what is at work then fails
	settle  func(context.Context, step.Work) error
	made    map[string]string
	begun   []string       // "REVISION EVENT [HOST]"
	atOnce  map[string]int // work that goes on, by host
	ids     int
}

func inPlant(t *testing.T, test func(*plant)) {
	synctest.Test(t, func(t *testing.T) { test(newPlant(t, reconciletest.InMemory(t))) })
}

func newPlant(t testing.TB, store logtest.Store) *plant {
	p := &plant{World: reconciletest.NewWorld(t, store), slots: 1, members: map[string][]string{}, atOnce: map[string]int{}}
	p.pipelines = pipelines.New(p.DeployLog, time.Now)
	p.options = pipelines.Options{
		Options: reconcile.Options{Log: p.DeployLog, Parallelism: 10, Now: time.Now}, Worker: p, Hosts: p, Observer: p, NewID: p.id,
	}
	return p
}

// takenOver is the log for a scheduler that comes after another died: with a snapshot of what that left.
func (p *plant) takenOver() deploylog.Log {
	kept := &reconciletest.Snapshots{Log: p.DeployLog}
	q := pipelines.New(kept, time.Now)
	q.KeepSnapshots(pipelines.Snapshots(1))
	require.NoError(p, q.Follow(p.Context(), 0))
	_, ok := kept.Snapshot(p.Context(), deploylog.SnapshotName("schedulers", pipeline.NeededVersion))
	require.True(p, ok, "no snapshot is kept")
	return kept
}

func (p *plant) id() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ids++
	return fmt.Sprintf("id-%d", p.ids)
}

func say(s step.Step) string { return strings.TrimSpace(s.Revision + " " + s.Event + " " + s.Host) }

// Work implements pipelines.Worker: that it has begun is an event, as it is of real runs.
func (p *plant) Work(ctx context.Context, s step.Step, _ map[string]string, wanted func() error) (map[string]string, error) {
	if p.before != nil {
		p.before(s)
	}
	if err := wanted(); err != nil {
		return nil, err
	}
	_, err := p.DeployLog.Append(ctx, deploylog.Event{Deployment: p.id(), Target: "run/step", Revision: s.Revision, Name: "run-started"})
	p.mu.Lock()
	p.begun = append(p.begun, say(s))
	if p.atOnce[s.Host]++; s.Host != "" && p.atOnce[s.Host] > p.slots {
		p.Errorf("with %s, %d works are being done on host %s at once, which has %d slots", say(s), p.atOnce[s.Host], s.Host, p.slots)
	}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.atOnce[s.Host]--
	}()
	if err != nil {
		return nil, fmt.Errorf("applying: %w", err)
	}
	if p.work == nil {
		return p.made, nil
	}
	return p.made, p.work(s)
}

func (p *plant) Settle(ctx context.Context, w step.Work) error {
	p.Notify("settle %s %s", w.Revision, w.Event)
	p.mu.Lock()
	settle := p.settle
	p.mu.Unlock()
	if settle == nil {
		return nil
	}
	return settle(ctx, w)
}

func (p *plant) Members(d *definition.Definition) (map[string][]string, error) {
	p.mu.Lock()
	hangs := p.hangs
	p.mu.Unlock()
	if hangs != nil {
		<-hangs
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	members := map[string][]string{}
	for _, g := range d.Groups() {
		members[g.Name] = slices.Clone(p.members[g.Name])
	}
	return members, p.noHosts
}

func (p *plant) Slots(string) int { return p.slots }
func (p *plant) Identity() string { return "" }

func (p *plant) inventory(err error, group string, hosts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noHosts, p.members[group] = err, hosts
}

// hang lets selecting the hosts hang from the next look on.
func (p *plant) hang() (end func()) {
	p.mu.Lock()
	p.hangs = make(chan struct{})
	p.mu.Unlock()
	wait(2 * time.Second)
	return func() { close(p.hangs) }
}

func (p *plant) Began(s step.Step) { p.Notify("began %s", say(s)) }
func (p *plant) Again(s step.Step, cause error, after time.Duration) {
	p.Notify("again %s after %s: %v", say(s), after, cause)
}

func (p *plant) hasBegun() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.begun))
}

func (p *plant) wantBegun(want ...string) {
	got := p.hasBegun()
	assert.True(p, slices.Equal(got, slices.Sorted(slices.Values(want))), "work began on %q, not on %q", got, want)
}

func (p *plant) do(c pipeline.Command) {
	must.Get(p.pipelines.Command(context.Background(), "p", c))(p)
}

func (p *plant) holdWork() (results chan<- error) {
	all := make(chan error)
	p.work = func(step.Step) error { return <-all }
	return all
}

func (p *plant) define(stages ...definition.Stage) {
	p.do(pipeline.Define{Definition: &definition.Definition{Name: "p", Stages: stages}, ID: p.id()})
}

func (p *plant) release(revision string) {
	p.do(pipeline.Release{Revision: revision, ID: "deployment-of-" + revision})
}

// other defines and releases a pipeline beside p, of which nothing is wrong.
func (p *plant) other(revision string) {
	q := &definition.Definition{Name: "q", Stages: []definition.Stage{runStage("only")}}
	for _, c := range []pipeline.Command{pipeline.Define{Definition: q, ID: p.id()}, pipeline.Release{Revision: revision, ID: p.id()}} {
		must.Get(p.pipelines.Command(p.Context(), "q", c))(p)
	}
}

func (p *plant) append(e deploylog.Event) { must.Get(p.DeployLog.Append(p.Context(), e))(p) }

func (p *plant) untilIdle() {
	o := p.options
	o.UntilIdle = true
	require.NoError(p, pipelines.NewScheduler(o).Run(context.Background()))
}

func (p *plant) start() *reconciletest.Process {
	o := p.options
	return reconciletest.Start(p, func(ctx context.Context, drain <-chan struct{}) error {
		o.Drain = drain
		return pipelines.NewScheduler(o).Run(ctx)
	})
}

// wait lets so much time pass, and everything happen that then does.
func wait(d time.Duration) { reconciletest.Wait(d) }

func (p *plant) story(revision string) (story []string) {
	for _, e := range p.Events() {
		if e.Revision == revision && e.Target.Kind() != "run" {
			_, name, _ := strings.Cut(string(e.Target), "/")
			story = append(story, e.Name+" "+name)
		}
	}
	return story
}

func (p *plant) wantStory(revision, want string) {
	var lines []string
	for line := range strings.Lines(want) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	got := p.story(revision)
	assert.True(p, slices.Equal(got, lines),
		"the log tells of %s\n%s\nnot\n%s", revision, strings.Join(got, "\n"), strings.Join(lines, "\n"))
}

func (p *plant) wantStatus(revision string, want deployment.Status) {
	p.Helper()
	require.NoError(p, p.pipelines.Follow(context.Background(), 0))
	_ = p.pipelines.Ask("p", func(s *pipeline.State) error {
		for _, r := range s.Registrations() {
			if r.Revision == revision && r.Status != want {
				p.Errorf("revision %s is %s, not %s; it tells\n%s", revision, r.Status, want, strings.Join(p.story(revision), "\n"))
			}
		}
		return nil
	})
}

func steps(events ...string) (all []definition.HostStep) {
	for _, e := range events {
		all = append(all, definition.HostStep{Event: e, Manifest: e + ".yaml"})
	}
	return all
}

func retried(event string) []definition.HostStep {
	s := steps(event)
	s[0].Retries = 100
	return s
}

func deployTo(stage, group string, events []definition.HostStep, after ...string) definition.Stage {
	return definition.Stage{Name: stage, After: after, Deploy: &definition.Deploy{
		HostGroups: []definition.HostGroup{{Name: group, Hosts: "name exists"}}, Steps: events,
	}}
}

func runStage(name string, after ...string) definition.Stage {
	return definition.Stage{Name: name, After: after, Run: &definition.Run{Manifest: name + ".yaml"}}
}

func approval(name string, after ...string) definition.Stage {
	return definition.Stage{Name: name, After: after, Approval: &definition.Approval{}}
}

// rollOut has one stage of hosts, and a revision on its way to them.
func (p *plant) rollOut(steps []definition.HostStep, hosts ...string) {
	p.members["g"] = hosts
	p.define(deployTo("all", "g", steps))
	p.release("1")
}

func (p *plant) fleet(hosts int, events ...string) {
	var names []string
	for i := range hosts {
		names = append(names, fmt.Sprintf("h%03d", i))
	}
	p.rollOut(steps(events...), names...)
}
