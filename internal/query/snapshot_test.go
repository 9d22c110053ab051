package query

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/logtest"
	"github.com/deployster-go/deployster/deploylog/sqlite"
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
		events, err := todo.Completed(nil)
		if err != nil {
			p.Fatal(err)
		}
		p.append(events...)
		return
	}
	run := p.id()
	details := map[string]any{"details": map[string]string{"deployment": todo.Deployment, "target": string(todo.Target), "event": todo.Event}}
	data, err := json.Marshal(details)
	if err != nil {
		p.Fatal(err)
	}
	p.append(s.Begun(p.id(), []machine.Step{todo}), deploylog.Event{Deployment: run, Target: "run/m.yaml", Name: "run-started", Attempt: 1, Data: data})
	switch p.n(8, "outcome") {
	case 0: // it goes on
		p.open = append(p.open, run)
	case 1:
		p.append(deploylog.Event{Deployment: run, Target: "run/m.yaml", Name: "run-failed", Attempt: 1}, todo.Failed("exit code 3", ""))
	case 2:
		p.append(deploylog.Event{Deployment: run, Target: "run/m.yaml", Name: "run-failed", Attempt: 1}, todo.TryFailed(p.id(), "somebody", "", "exit code 3"))
	default:
		events, err := todo.Completed(nil)
		if err != nil {
			p.Fatal(err)
		}
		p.append(append([]deploylog.Event{{Deployment: run, Target: "run/m.yaml", Name: "run-finished-successfully", Attempt: 1}}, events...)...)
	}
}

// answers are all that is known of the pipelines of a log.
func answers(t rapid.TB, log deploylog.Log, until int64) map[string]any {
	p := newPipelines(log, func() time.Time { return snapshotNoon }, 10)
	if err := p.Follow(context.Background(), until); err != nil {
		t.Fatal(err)
	}
	all := map[string]any{"head": p.Head(), "latest": p.overview.latest, "released": p.overview.released, "open": p.overview.working, "failed": p.overview.failed}
	rows, deleted := p.List()
	all["list"], all["deleted"] = rows, deleted
	all["present"] = p.Present()
	for _, name := range p.Present() {
		status, err := p.Status(true, true, name)
		releases, err2 := p.Releases(name)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		all["status of "+name], all["releases of "+name] = status, releases
		_ = p.Ask(name, func(s *pipeline.State) error {
			all["explanation of "+name] = s.Explain(record.Target(name))
			return nil
		})
	}
	return all
}

// Whoever begins with a snapshot, made of one before, gives the same answers.
func TestASnapshotGivesTheSameAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPlant(t)
		log := &snapshots{p.log, map[string]deploylog.Snapshot{}}
		for range rapid.IntRange(5, 20).Draw(t, "looks") {
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

// A long history is read once, and of what is kept of it a second command needs little.
func TestALongHistoryIsNotReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	open := func() *counted {
		log, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		return &counted{Log: log}
	}
	const hosts, revisions = 50, 20
	rollout(t, open().Log, hosts, 1, revisions)
	look := func(until int64) (read int, head int64) {
		log := open()
		p := NewPipelines(log, time.Now)
		if err := p.Follow(t.Context(), until); err != nil {
			t.Fatal(err)
		}
		all, err := p.Status(true, false)
		if err != nil || len(all) != 1 || len(all[0].Rows) != 3+hosts || all[0].Rows[3].Deployed != fmt.Sprint(revisions) {
			t.Fatalf("the status is %+v, %v", all, err)
		}
		return log.read, p.Head()
	}
	first, head := look(0)
	if int64(first) != head {
		t.Errorf("%d of %d events were read at first", first, head)
	}
	if again, _ := look(0); again != 0 {
		t.Errorf("%d events were read again", again)
	}
	if earlier, _ := look(head - 1); earlier != int(head)-1 {
		t.Errorf("%d events were read of an earlier moment, before the snapshot", earlier)
	}
	if _, err := open().Append(t.Context(), deploylog.Event{Deployment: "x", Target: "host/line/s0/h000", Name: "host-tested"}); err != nil {
		t.Fatal(err)
	}
	if more, now := look(0); more != 1 || now != head+1 {
		t.Errorf("of one more event %d were read, up to %d", more, now)
	}
}

// counted counts what is read of a log.
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

// rollout carries revisions through stages of so many hosts each, and records what a run
// of a manifest with one resource records.
func rollout(tb testing.TB, log deploylog.Log, hosts, stages, revisions int) {
	tb.Helper()
	s, seq, batch := pipeline.New("line"), int64(0), []deploylog.Event{}
	write := func(events ...deploylog.Event) {
		for _, e := range events {
			seq++
			e.Seq = seq
			if _, ok := record.NameOf(e.Target); ok {
				s.Apply(e)
			}
			batch = append(batch, e)
		}
		if len(batch) < 5000 && len(events) > 0 {
			return
		}
		if _, err := log.Append(tb.Context(), batch...); err != nil {
			tb.Fatal(err)
		}
		batch = batch[:0]
	}
	propose := func(c pipeline.Command) {
		events, err := s.Propose(c, snapshotNoon)
		if err != nil {
			tb.Fatal(err)
		}
		write(events...)
	}
	d, members := &definition.Definition{Name: "line"}, map[string][]string{}
	for i := range stages {
		name := fmt.Sprint("s", i)
		d.Stages = append(d.Stages, definition.Stage{Name: name, Deploy: &definition.Deploy{
			HostGroups: []definition.HostGroup{{Name: name, Hosts: "a == b"}}, Steps: []definition.HostStep{{Event: "host-deployed", Manifest: "m.yaml"}},
		}})
		if i > 0 {
			d.Stages[i].After = []string{d.Stages[i-1].Name}
		}
		for h := range hosts {
			members[name] = append(members[name], fmt.Sprintf("h%03d", h))
		}
	}
	propose(pipeline.Define{Definition: d, ID: "defined"})
	propose(pipeline.SetMembers{Members: members, ID: "members"})
	for r := range revisions {
		propose(pipeline.Release{Revision: fmt.Sprint(r + 1), ID: fmt.Sprintf("01M820HAG6AK5YM4MMG3%06d", r)})
		for {
			steps := slices.Collect(s.Decide(snapshotNoon, pipeline.Can{}))
			if len(steps) == 0 {
				break
			}
			work := slices.DeleteFunc(slices.Clone(steps), func(todo machine.Step) bool { return !todo.Work() })
			for some := range slices.Chunk(work, 10) {
				write(s.Begun(fmt.Sprint("begun", seq), some))
			}
			for _, todo := range steps {
				if todo.Work() {
					write(runOf(fmt.Sprintf("01M820HAG6AK5YM4RUN%07d", seq), todo)...)
				}
				events, err := todo.Completed(nil)
				if err != nil {
					tb.Fatal(err)
				}
				write(events...)
			}
		}
	}
	write()
}

func runOf(id string, todo machine.Step) (events []deploylog.Event) {
	for _, e := range [][3]string{
		{"run/m.yaml@" + todo.Host, "run-started", fmt.Sprintf(`,"resources":{"current":"deployster/file"},"details":{"deployment":%q,"event":%q,"host":%q,"target":%q,"user":"root","verb":"apply"},"engine":{"address":"oci","name":"oci"}`,
			todo.Deployment, todo.Event, todo.Host, todo.Target)},
		{"resource/current@" + todo.Host, "resource-started", ""},
		{"resource/current@" + todo.Host, "resource-initialized", `,"image":"sha256:8e0a6b9b4b2a"`},
		{"resource/current@" + todo.Host, "resource-resolved", ""},
		{"action/current@" + todo.Host + "/write", "action-started", ""},
		{"action/current@" + todo.Host + "/write", "action-finished-successfully", `,"duration_ms":3.1,"exit":0`},
		{"resource/current@" + todo.Host, "resource-verified", ""},
		{"resource/current@" + todo.Host, "resource-finished-successfully", `,"status":"CHANGED","duration_ms":5.2`},
		{"run/m.yaml@" + todo.Host, "run-finished-successfully", `,"duration_ms":6.4,"counts":{"changed":1,"unchanged":0,"failed":0,"skipped":0}`},
	} {
		events = append(events, deploylog.Event{
			Deployment: id, Target: deploylog.Target(e[0]), Revision: "348fbe64cbe4", Name: e[1], Attempt: 1, Data: json.RawMessage(`{"version":1` + e[2] + `}`),
		})
	}
	return events
}
