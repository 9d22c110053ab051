package query

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/build"
	buildrecord "github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/environment"
	envrecord "github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/query/querytest"
	"github.com/deployster-go/deployster/internal/ringtest"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	machine "github.com/deployster-go/deployster/pipeline/step"
)

var snapshotNoon = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// snapshots is a log that keeps snapshots in memory.
type snapshots struct {
	deploylog.Log
	kept map[string]deploylog.Snapshot
}

func (s *snapshots) Snapshot(_ context.Context, name string) (deploylog.Snapshot, bool) {
	kept, ok := s.kept[name]
	return kept, ok
}

func (s *snapshots) KeepSnapshot(_ context.Context, name string, kept deploylog.Snapshot) error {
	s.kept[name] = kept
	return nil
}

func (*snapshots) PruneSnapshots(time.Time, bool) (deploylog.Pruned, error) {
	return deploylog.Pruned{}, nil
}

// plant is two pipelines that people and a scheduler work on, by chance.
type plant struct {
	*rapid.T
	log    deploylog.Log
	states map[string]*pipeline.State
	ids    int
	open   []string // runs
}

func newPlant(t *rapid.T) *plant {
	p := &plant{T: t, log: logtest.NewMemory().Open(), states: map[string]*pipeline.State{}}
	for _, name := range []string{"p", "q"} {
		p.define(name)
	}
	return p
}

func (p *plant) id() string { p.ids++; return fmt.Sprint("id", p.ids) }

func (p *plant) n(limit int, label string) int { return rapid.IntRange(0, limit-1).Draw(p.T, label) }

func (p *plant) append(events ...deploylog.Event) {
	for _, e := range events {
		e.CreatedAt = snapshotNoon.Add(time.Duration(p.ids) * time.Second)
		appended, err := p.log.Append(context.Background(), e)
		if err != nil {
			continue // it is there
		}
		for _, s := range p.states {
			if name, ok := record.NameOf(e.Target); ok && p.states[name] == s {
				s.Apply(appended[0])
			}
		}
	}
}

func (p *plant) propose(name string, c pipeline.Command) {
	if events, err := p.states[name].Propose(c, snapshotNoon); err == nil {
		p.append(events...)
	}
}

func (p *plant) define(name string) {
	p.states[name] = pipeline.New(name)
	d := &definition.Definition{Name: name}
	for _, stage := range []string{"one", "two"} {
		d.Stages = append(d.Stages, definition.Stage{Name: stage, Deploy: &definition.Deploy{
			HostGroups: []definition.HostGroup{{Name: stage, Hosts: "a == b"}},
			Steps:      []definition.HostStep{{Event: "host-deployed", Manifest: "m.yaml"}, {Event: "host-tested", Manifest: "n.yaml"}},
		}})
	}
	p.propose(name, pipeline.Define{Definition: d, ID: p.id()})
	p.propose(name, pipeline.SetMembers{Members: map[string][]string{"one": {"h1", "h2"}, "two": {"h1"}}, ID: p.id()})
}

// act lets something happen.
func (p *plant) act() {
	name := []string{"p", "q"}[p.n(2, "pipeline")]
	s := p.states[name]
	revision := func() string {
		all := s.Registrations()
		return all[p.n(len(all), "revision")].Revision
	}
	steps := slices.Collect(s.Decide(snapshotNoon.Add(time.Hour), pipeline.Can{}))
	switch what := p.n(24, "act"); {
	case what == 0 || len(s.Registrations()) == 0:
		id := p.id()
		p.propose(name, pipeline.Release{Revision: "r" + id, ID: id})
	case what == 1:
		p.propose(name, pipeline.Cancel{Revision: revision()})
	case what == 2:
		p.propose(name, pipeline.Retry{Revision: revision()})
	case what == 3:
		p.propose(name, pipeline.Rollback{Stage: []string{"one", "two"}[p.n(2, "stage")], ID: p.id()})
	case what == 4:
		p.propose(name, pipeline.ResumePipeline{Stage: []string{"one", "two"}[p.n(2, "stage")], ID: p.id()})
	case what == 5 && p.n(8, "delete") == 0:
		p.propose(name, pipeline.Delete{ID: p.id()})
		p.define(name)
	case what == 6 && len(p.open) > 0:
		run := p.open[p.n(len(p.open), "run")]
		p.append(deploylog.Event{Deployment: run, Target: "resource/x", Name: "resource-verified", Attempt: p.id2()})
	case len(steps) > 0:
		p.work(s, steps[p.n(len(steps), "step")])
	}
}

func (p *plant) id2() int { p.ids++; return p.ids }

// work does a step, or tries it.
func (p *plant) work(s *pipeline.State, todo machine.Step) {
	if !todo.Work() {
		events := must.Get(todo.Completed(nil))(p)
		p.append(events...)
		return
	}
	run := p.id()
	details := map[string]any{"details": map[string]string{"deployment": todo.Deployment, "target": string(todo.Target), "event": todo.Event}}
	data := must.Get(json.Marshal(details))(p)
	p.append(s.Begun(p.id(), []machine.Step{todo}), deploylog.Event{Deployment: run, Target: "run/m.yaml", Name: "run-started", Attempt: 1, Data: data})
	switch p.n(8, "outcome") {
	case 0: // it goes on
		p.open = append(p.open, run)
	case 1:
		p.append(deploylog.Event{Deployment: run, Target: "run/m.yaml", Name: "run-failed", Attempt: 1}, todo.Failed("exit code 3", ""))
	case 2:
		p.append(deploylog.Event{Deployment: run, Target: "run/m.yaml", Name: "run-failed", Attempt: 1}, todo.TryFailed(p.id(), "somebody", "", "exit code 3"))
	default:
		events := must.Get(todo.Completed(nil))(p)
		p.append(append([]deploylog.Event{{Deployment: run, Target: "run/m.yaml", Name: "run-finished-successfully", Attempt: 1}}, events...)...)
	}
}

func answers(t rapid.TB, log deploylog.Log, until int64) map[string]any {
	p := newPipelines(log, func() time.Time { return snapshotNoon }, 10)
	require.NoError(t, p.Follow(context.Background(), until))
	all := map[string]any{"head": p.Head(), "latest": p.overview.latest, "released": p.overview.released, "open": p.overview.working, "failed": p.overview.failed}
	rows, deleted := p.List()
	all["list"], all["deleted"] = rows, deleted
	all["present"] = p.Present()
	for _, name := range p.Present() {
		status, err := p.Status(true, true, name)
		releases, err2 := p.Releases(name)
		require.True(t, err == nil && err2 == nil, "%v %v", err, err2)
		all["status of "+name], all["releases of "+name] = status, releases
		_ = p.Ask(name, func(s *pipeline.State) error {
			all["explanation of "+name] = s.Explain(record.Target(name))
			return nil
		})
	}
	return all
}

func TestASnapshotGivesTheSameAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlant(t)
		log := &snapshots{p.log, map[string]deploylog.Snapshot{}}
		for range rapid.IntRange(2, ringtest.Cases(4, 20)).Draw(t, "looks") {
			for range rapid.IntRange(1, 40).Draw(t, "acts") {
				p.act()
			}
			head := answers(t, p.log, 0)["head"].(int64)
			until := int64(0)
			if p.n(4, "of an earlier moment") == 0 {
				until = max(1, head-int64(p.n(30, "how much")))
			}
			want, got := answers(t, p.log, until), answers(t, log, until)
			for what := range want {
				if !reflect.DeepEqual(want[what], got[what]) {
					t.Fatalf("up to %d of %d, with a snapshot of %d events, the %s is\n%+v, not\n%+v", until, head, len(log.kept["pipelines"].Events), what, got[what], want[what])
				}
			}
		}
	})
}

func TestALongHistoryIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	large(t, openFile(t, dir), 20, 20)
	readOnce(t, dir, func(log deploylog.Log, until int64) []any {
		p := NewPipelines(log, func() time.Time { return snapshotNoon.Add(12 * time.Hour) })
		require.NoError(t, p.Follow(t.Context(), until))
		all := must.Get(p.Status(true, false))(t)
		require.Len(t, all, 1)
		require.Greater(t, len(all[0].Rows), 300)
		return []any{p.Head(), all}
	}, func(log deploylog.Log) ([]deploylog.Event, error) {
		return log.Append(t.Context(), deploylog.Event{Deployment: "x", Target: "run/web.yaml", Name: "run-started"})
	})
}

func BenchmarkPipelinesOfALongLog(b *testing.B) {
	log := openFile(b, b.TempDir()).Log
	large(b, log, 50, 50)
	compare(b, log, func(log deploylog.Log) int64 {
		p := NewPipelines(log, time.Now)
		require.NoError(b, p.Follow(b.Context(), 0))
		require.NoError(b, must.Fail(p.Status(false, false)))
		return p.Head()
	})
}

type counted struct {
	*sqlite.Log
	read int
}

func (c *counted) Read(ctx context.Context, f deploylog.Filter) iter.Seq2[deploylog.Event, error] {
	return func(yield func(deploylog.Event, error) bool) {
		for e, err := range c.Log.Read(ctx, f) {
			if c.read++; !yield(e, err) {
				return
			}
		}
	}
}

// large has a log have what happened to a pipeline and an environment of so many hosts.
func large(tb testing.TB, log deploylog.Log, hosts, revisions int) {
	events := querytest.Large(hosts, revisions)
	for i := range events {
		events[i].Seq, events[i].ID = 0, ""
	}
	for part := range slices.Chunk(events, 5000) {
		require.NoError(tb, must.Fail(log.Append(tb.Context(), part...)))
	}
}

func openFile(tb testing.TB, dir string) *counted {
	log := must.Get(sqlite.Open(tb.Context(), filepath.Join(dir, "log.db"), sqlite.Options{}))(tb)
	tb.Cleanup(func() { _ = log.Close() })
	return &counted{Log: log}
}

// readOnce proves that what is known of a long log is read once, whoever looks: look returns what
// is known up to an event, of which the first is the head. command is one that appends events.
// Without the snapshot all is read, and the answers are the same.
func readOnce(t *testing.T, dir string, look func(log deploylog.Log, until int64) []any, command func(deploylog.Log) ([]deploylog.Event, error)) {
	read := func(until int64) ([]any, int) {
		log := openFile(t, dir)
		answers := look(log, until)
		return answers, log.read
	}
	want, first := read(0)
	head := want[0].(int64)
	require.Equal(t, head, int64(first), "at first all is read")
	again, n := read(0)
	assert.Equal(t, want, again, "from a snapshot")
	assert.Zero(t, n, "events that are read again")
	earlier, n := read(head - 1)
	assert.Equal(t, first-1, n, "events that are read of an earlier moment, before the snapshot")
	assert.Equal(t, head-1, earlier[0])
	log := openFile(t, dir)
	written := must.Get(command(log))(t)
	assert.LessOrEqual(t, log.read, len(written), "events that a command reads")
	want, n = read(0)
	assert.LessOrEqual(t, n, len(written), "events that are read after a command")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "log.db.snapshots")))
	whole, n := read(0)
	assert.Equal(t, want, whole, "without a snapshot")
	assert.Equal(t, first+len(written), n)
}

// compare measures what a command pays before it can answer, by reading all of a long log and by
// beginning with a snapshot of it. look returns the head.
func compare(b *testing.B, log deploylog.Log, look func(deploylog.Log) int64) {
	took := func(log deploylog.Log) time.Duration {
		begun := time.Now()
		look(log)
		return time.Since(begun)
	}
	head := look(log) // which keeps the snapshot
	var replayed, restored time.Duration
	for b.Loop() {
		replayed, restored = replayed+took(struct{ deploylog.Log }{log}), restored+took(log)
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(head), "events")
	b.ReportMetric(replayed.Seconds()*1000/float64(b.N), "replay-ms")
	b.ReportMetric(restored.Seconds()*1000/float64(b.N), "snapshot-ms")
	b.ReportMetric(replayed.Seconds()/restored.Seconds(), "ratio")
}

// decisions are all that a scheduler of a log decides from.
func decisions(t rapid.TB, log deploylog.Log) map[string]any {
	p := pipelines.New(log, func() time.Time { return snapshotNoon })
	p.KeepSnapshots(pipelines.Snapshots(10))
	require.NoError(t, p.Follow(context.Background(), 0))
	all := map[string]any{"head": p.Head(), "present": p.Present()}
	for name, s := range p.All() {
		for _, now := range []time.Time{snapshotNoon, snapshotNoon.Add(time.Hour)} {
			at := fmt.Sprint(" of ", name, " at ", now.Format(time.TimeOnly))
			all["steps"+at] = slices.Collect(s.Decide(now, pipeline.Can{}))
			all["wake"+at] = []time.Time{s.Rests(now), s.Deadline(now)}
		}
		all["left of "+name] = s.Left(func(machine.Work) bool { return false })
		all["deleted "+name], all["head of "+name], all["pauses of "+name] = s.Deleted(), s.Head(), s.Pauses()
		all["releases of "+name], all["explanation of "+name] = s.Registrations(), s.Explain(record.Target(name))
		for _, group := range []string{"one", "two"} {
			members, _ := s.Members(group)
			all["members of "+name+" "+group] = members
		}
	}
	return all
}

func TestASchedulerDecidesTheSameWithASnapshot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlant(t)
		log := &snapshots{p.log, map[string]deploylog.Snapshot{}}
		for range rapid.IntRange(2, ringtest.Cases(3, 6)).Draw(t, "schedulers") {
			for range rapid.IntRange(1, 40).Draw(t, "acts") {
				p.act()
			}
			if p.n(8, "lost") == 0 {
				clear(log.kept)
			}
			if p.n(3, "status") == 0 {
				answers(t, log, 0) // whose snapshot is another
			}
			want, got := decisions(t, p.log), decisions(t, log)
			for what := range want {
				if !reflect.DeepEqual(want[what], got[what]) {
					t.Fatalf("with a snapshot of %d events, the %s is\n%+v, not\n%+v", len(log.kept["schedulers"].Events), what, got[what], want[what])
				}
			}
		}
	})
}

func TestASchedulerDoesNotReadALongHistoryAgain(t *testing.T) {
	dir := t.TempDir()
	large(t, openFile(t, dir), 20, 20)
	begin := func() (read int, head int64) {
		log := openFile(t, dir)
		p := pipelines.New(log, time.Now)
		require.NoError(t, p.Follow(t.Context(), 0))
		return log.read, p.Head()
	}
	first, head := begin()
	assert.Equal(t, head, int64(first), "events that are read at first")
	again, now := begin()
	assert.Zero(t, again, "events that are read again")
	assert.Equal(t, head, now)
}

// anyWorker has room for everything.
type anyWorker struct{}

func (anyWorker) Worker(buildrecord.Place) string { return "w" }

func (anyWorker) Resume(build.Task) bool { return false }

// groupsBuilt writes groups of so many jobs, each of which uses the one before it or fails.
func groupsBuilt(tb testing.TB, log deploylog.Log, groups, jobs int) {
	s, now := build.New(buildrecord.Entity), snapshotNoon
	seq, batch := int64(0), []deploylog.Event{}
	flush := func() {
		require.NoError(tb, must.Fail(log.Append(tb.Context(), batch...)))
		batch = batch[:0]
	}
	write := func(events ...deploylog.Event) {
		for _, e := range events {
			seq++
			e.Seq, e.CreatedAt = seq, now
			s.Apply(e)
			batch = append(batch, e)
		}
		if len(batch) > 5000 {
			flush()
		}
	}
	for range groups {
		c := build.Submit{Triggered: buildrecord.Triggered{Name: "base", NoReuse: true}, Places: []buildrecord.Place{{Platform: "linux/amd64"}}}
		for i := range jobs {
			spec := buildrecord.JobSpec{Package: fmt.Sprint("package", i), Inputs: fmt.Sprintf("sha256:%064x", i)}
			if i%2 == 1 {
				spec.Uses = []buildrecord.Use{{Package: fmt.Sprint("package", i-1), Job: i}}
			}
			c.Jobs = append(c.Jobs, spec)
		}
		events := must.Get(s.Propose(c, now))(tb)
		write(events...)
		for {
			now = now.Add(time.Second)
			var events []deploylog.Event
			var tasks []build.Task
			for step := range s.Decide(now, anyWorker{}) {
				if events = append(events, step.Events...); step.Kind == build.Dispatch {
					tasks = append(tasks, step.Task)
				}
			}
			if len(events) == 0 {
				break
			}
			write(events...)
			for _, t := range tasks {
				r := build.Result{Finished: &buildrecord.Finished{
					Artifact: fmt.Sprintf("sha256:%064x", t.Job), Engine: "docker 20.10.24", Image: fmt.Sprintf("sha256:%064x", 7), Took: time.Second, Size: 100, Files: 1,
					Provenance: fmt.Sprintf("%064x", t.Job), Log: fmt.Sprintf(".deployster/builds/%s/%d.1.log", t.Group, t.Job), LogBytes: 1000,
				}}
				if t.Job%50 == 1 {
					r = build.Result{Failed: &buildrecord.Failed{Cause: "exited with 1", Exit: 1, Output: []string{"it is wrong"}}}
				}
				write(s.Ended(t, r, now)...)
			}
		}
	}
	flush()
}

// buildAnswers are all that is known of the build groups of a log.
func buildAnswers(tb testing.TB, log deploylog.Log, until int64) (all []any, b *Builds) {
	b = NewBuilds(log, func() time.Time { return snapshotNoon.Add(time.Hour) })
	require.NoError(tb, b.Follow(tb.Context(), until))
	status := must.Get(b.BuildStatus("base", nil))(tb)
	summary, jobs, err := b.Jobs("base-1")
	require.NoError(tb, err)
	why := must.Get(b.Explain(buildrecord.Group(b.Current()[0]), nil, false))(tb)
	return []any{b.Head(), b.last, b.Groups(), status, summary, jobs, why}, b
}

func TestALongHistoryOfBuildGroupsIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	groupsBuilt(t, openFile(t, dir), 3, 800)
	readOnce(t, dir, func(log deploylog.Log, until int64) []any {
		answers, _ := buildAnswers(t, log, until)
		return answers
	}, func(log deploylog.Log) ([]deploylog.Event, error) {
		return builds.New(log, time.Now).Command(t.Context(), build.Retry{Group: "base-3"})
	})
}

func BenchmarkBuildsOfALongLog(b *testing.B) {
	log := openFile(b, b.TempDir()).Log
	groupsBuilt(b, log, 100, 721)
	compare(b, log, func(log deploylog.Log) int64 {
		all := NewBuilds(log, time.Now)
		require.NoError(b, all.Follow(b.Context(), 0))
		require.NoError(b, must.Fail(all.BuildStatus("base", nil)))
		return all.Head()
	})
}

// environmentAnswers are all that is known of the environments of a log.
func environmentAnswers(tb testing.TB, log deploylog.Log, until int64) (all []any, e *Environments) {
	e = NewEnvironments(log, func() time.Time { return snapshotNoon.Add(12 * time.Hour) })
	require.NoError(tb, e.Follow(tb.Context(), until))
	status := must.Get(e.Status())(tb)
	why := must.Get(e.Explain(envrecord.Target(querytest.Environment), "", false))(tb)
	revision := must.Get(e.Revision(querytest.Environment, 0))(tb)
	return []any{e.Head(), e.last, e.List(""), status, why, revision, e.Orphans("")}, e
}

func TestALongHistoryOfEnvironmentsIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	large(t, openFile(t, dir), 20, 20)
	readOnce(t, dir, func(log deploylog.Log, until int64) []any {
		answers, _ := environmentAnswers(t, log, until)
		return answers
	}, func(log deploylog.Log) ([]deploylog.Event, error) {
		return environments.New(log, time.Now).Command(t.Context(), querytest.Environment, environment.CordonHosts{Hosts: []string{"web-h1"}, By: "alice"})
	})
}

// One state that cannot be read again has the log read instead.
func TestASnapshotThatCannotBeReadIsNone(t *testing.T) {
	log := openFile(t, t.TempDir())
	large(t, log, 8, 14)
	want, _ := environmentAnswers(t, log, 0)
	for name, data := range map[string]string{"": `{}`, "restored": `[]`} {
		bad := &snapshots{log, map[string]deploylog.Snapshot{"environments": {Seq: 3, Events: []deploylog.Event{{Seq: 3, Target: envrecord.Target(querytest.Environment), Name: name, Data: []byte(data)}}}}}
		got, _ := environmentAnswers(t, bad, 0)
		assert.Equal(t, want, got, "with %q", data)
	}
}

func BenchmarkEnvironmentsOfALongLog(b *testing.B) {
	log := openFile(b, b.TempDir()).Log
	large(b, log, 50, 50)
	compare(b, log, func(log deploylog.Log) int64 {
		_, e := environmentAnswers(b, log, 0)
		return e.Head()
	})
}
