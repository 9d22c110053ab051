package query

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
)

// fleet deploys revisions of an environment to so many hosts, one after the other.
func fleet(tb testing.TB, log deploylog.Log, hosts, revisions int) {
	tb.Helper()
	s, now, seq, batch := environment.New("fleet"), snapshotNoon, int64(0), []deploylog.Event{}
	write := func(events ...deploylog.Event) {
		for _, e := range events {
			seq++
			e.Seq, e.CreatedAt = seq, now
			s.Apply(e)
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
	propose := func(c environment.Command) {
		events, err := s.Propose(c, now)
		if err != nil {
			tb.Fatal(err)
		}
		write(events...)
	}
	names := []string{}
	for h := range hosts {
		names = append(names, fmt.Sprintf("h%03d", h))
	}
	d := definition.Definition{
		Name: "fleet", Type: definition.Daemon, Task: definition.TaskSpec{Manifest: "task.yaml"}, InstanceGroup: definition.InstanceGroup{Query: "a == b"},
		Deployment: definition.Configuration{Method: definition.Replace, MinHealthyPercent: 50, MaxOver: 1, HealthyDeadline: definition.Duration(time.Hour), ProgressDeadline: definition.Duration(time.Hour), Drift: definition.RepairDrift},
	}
	for r := range revisions {
		next := d
		if next.Task.Digest = fmt.Sprint(r); r == 0 {
			propose(environment.Create{Definition: &next})
		} else {
			propose(environment.Update{Base: r, Definition: &next})
		}
		propose(environment.Deploy{Revision: r + 1, Hosts: names})
		for {
			now = now.Add(time.Second)
			var events []deploylog.Event
			for step := range s.Decide(now, environment.Can{Disrupt: true}) {
				if events = append(events, step.Events...); step.Kind != tasks.Record {
					events = append(events, s.Completed(step, tasks.ProbeResult{Health: tasks.Healthy}, nil)...)
				}
			}
			if len(events) == 0 {
				break
			}
			write(events...)
		}
	}
	write()
}

// environmentAnswers are all that is known of the environments of a log.
func environmentAnswers(tb testing.TB, log deploylog.Log, until int64) (all []any, e *Environments) {
	tb.Helper()
	e = NewEnvironments(log, func() time.Time { return snapshotNoon.Add(time.Hour) })
	if err := e.Follow(tb.Context(), until); err != nil {
		tb.Fatal(err)
	}
	status, err := e.Status()
	if err != nil {
		tb.Fatal(err)
	}
	why, err := e.Explain(record.Target("fleet"), "", false)
	if err != nil {
		tb.Fatal(err)
	}
	revision, err := e.Revision("fleet", 0)
	if err != nil {
		tb.Fatal(err)
	}
	return []any{e.Head(), e.last, e.List(""), status, why, revision, e.Orphans("")}, e
}

// What was done once is not read again, whoever asks; and without the snapshot all is read, and
// the answers are the same.
func TestALongHistoryOfEnvironmentsIsNotReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	open := func() *counted {
		log, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		return &counted{Log: log}
	}
	const hosts, revisions = 50, 30
	fleet(t, open().Log, hosts, revisions)
	look := func(until int64) (answers []any, read int) {
		log := open()
		answers, _ = environmentAnswers(t, log, until)
		return answers, log.read
	}
	want, first := look(0)
	if head := want[0].(int64); int64(first) != head || head < 4096 {
		t.Fatalf("%d of %d events were read at first", first, head)
	}
	same := func(what string, got []any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s it is\n%+v, not\n%+v", what, got, want)
		}
	}
	again, read := look(0)
	if same("from a snapshot", again); read != 0 {
		t.Errorf("%d events were read again", read)
	}
	earlier, read := look(want[0].(int64) - 1)
	if read != first-1 || earlier[0] == want[0] {
		t.Errorf("%d events were read of an earlier moment, before the snapshot", read)
	}
	log := open()
	if written, err := environments.New(log, time.Now).Command(t.Context(), "fleet", environment.Pause{By: "alice"}); err != nil || log.read > len(written) {
		t.Errorf("a command read %d events: %v", log.read, err)
	}
	want, read = look(0)
	if read != 1 {
		t.Errorf("of one more event %d were read", read)
	}
	if err := os.RemoveAll(path + ".snapshots"); err != nil {
		t.Fatal(err)
	}
	whole, read := look(0)
	if same("after a whole replay", whole); read != first+1 {
		t.Errorf("without a snapshot %d events were read", read)
	}
}

// One state that cannot be read again has the log read instead.
func TestASnapshotThatCannotBeReadIsNone(t *testing.T) {
	log, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "log.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	fleet(t, log, 3, 2)
	want, _ := environmentAnswers(t, log, 0)
	for name, data := range map[string]string{"": `{}`, "restored": `[]`} {
		bad := &snapshots{log, map[string]deploylog.Snapshot{"environments": {Seq: 3, Events: []deploylog.Event{{Seq: 3, Target: record.Target("fleet"), Name: name, Data: []byte(data)}}}}}
		if got, _ := environmentAnswers(t, bad, 0); !reflect.DeepEqual(got, want) {
			t.Errorf("with %q it is\n%+v, not\n%+v", data, got, want)
		}
	}
}

// What a command pays before it can answer, by reading all of a long log and by beginning
// with a snapshot of it.
func BenchmarkEnvironmentsOfALongLog(b *testing.B) {
	log, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "log.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	const hosts, revisions = 300, 60
	fleet(b, log, hosts, revisions)
	look := func(log deploylog.Log) (took time.Duration, head int64) {
		begun := time.Now()
		_, e := environmentAnswers(b, log, 0)
		return time.Since(begun), e.Head()
	}
	_, head := look(log) // which keeps the snapshot
	var replayed, restored time.Duration
	for b.Loop() {
		whole, _ := look(struct{ deploylog.Log }{log})
		short, _ := look(log)
		replayed, restored = replayed+whole, restored+short
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(head), "events")
	b.ReportMetric(replayed.Seconds()*1000/float64(b.N), "replay-ms")
	b.ReportMetric(restored.Seconds()*1000/float64(b.N), "snapshot-ms")
	b.ReportMetric(replayed.Seconds()/restored.Seconds(), "ratio")
}
