package query

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
)

// anyWorker has room for everything.
type anyWorker struct{}

// Worker implements build.Can.
func (anyWorker) Worker(record.Place) string { return "w" }

// Resume implements build.Can.
func (anyWorker) Resume(build.Task) bool { return false }

// groupsBuilt writes groups of so many jobs, each of which uses the one before it or fails.
func groupsBuilt(tb testing.TB, log deploylog.Log, groups, jobs int) {
	tb.Helper()
	s, now, seq, batch := build.New(record.Entity), snapshotNoon, int64(0), []deploylog.Event{}
	write := func(most int, events ...deploylog.Event) {
		for _, e := range events {
			seq++
			e.Seq, e.CreatedAt = seq, now
			s.Apply(e)
			batch = append(batch, e)
		}
		if len(batch) <= most {
			return
		}
		if _, err := log.Append(tb.Context(), batch...); err != nil {
			tb.Fatal(err)
		}
		batch = batch[:0]
	}
	for range groups {
		c := build.Submit{Triggered: record.Triggered{Name: "base", NoReuse: true}, Places: []record.Place{{Platform: "linux/amd64"}}}
		for i := range jobs {
			spec := record.JobSpec{Package: fmt.Sprint("package", i), Inputs: fmt.Sprintf("sha256:%064x", i)}
			if i%2 == 1 {
				spec.Uses = []record.Use{{Package: fmt.Sprint("package", i-1), Job: i}}
			}
			c.Jobs = append(c.Jobs, spec)
		}
		events, err := s.Propose(c, now)
		if err != nil {
			tb.Fatal(err)
		}
		write(5000, events...)
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
			write(5000, events...)
			for _, t := range tasks {
				r := build.Result{Finished: &record.Finished{
					Artifact: fmt.Sprintf("sha256:%064x", t.Job), Engine: "docker 20.10.24", Image: fmt.Sprintf("sha256:%064x", 7), Took: time.Second, Size: 100, Files: 1,
					Provenance: fmt.Sprintf("%064x", t.Job), Log: fmt.Sprintf(".deployster/builds/%s/%d.1.log", t.Group, t.Job), LogBytes: 1000,
				}}
				if t.Job%50 == 1 {
					r = build.Result{Failed: &record.Failed{Cause: "exited with 1", Exit: 1, Output: []string{"it is wrong"}}}
				}
				write(5000, s.Ended(t, r, now)...)
			}
		}
	}
	write(0)
}

// buildAnswers are all that is known of the build groups of a log.
func buildAnswers(tb testing.TB, log deploylog.Log, until int64) (all []any, b *Builds) {
	tb.Helper()
	b = NewBuilds(log, func() time.Time { return snapshotNoon.Add(time.Hour) })
	if err := b.Follow(tb.Context(), until); err != nil {
		tb.Fatal(err)
	}
	status, err := b.BuildStatus("base", nil)
	if err != nil {
		tb.Fatal(err)
	}
	summary, jobs, err := b.Jobs("base-1")
	if err != nil {
		tb.Fatal(err)
	}
	why, err := b.Explain(record.Group(b.Current()[0]), nil, false)
	if err != nil {
		tb.Fatal(err)
	}
	return []any{b.Head(), b.last, b.Groups(), status, summary, jobs, why}, b
}

// What was built once is not read again, whoever asks; and without the snapshot all is read,
// and the answers are the same.
func TestALongHistoryOfBuildGroupsIsNotReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.db")
	open := func() *counted {
		log, err := sqlite.Open(t.Context(), path, sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = log.Close() })
		return &counted{Log: log}
	}
	groupsBuilt(t, open().Log, 3, 800)
	look := func(until int64) (answers []any, read int) {
		log := open()
		answers, _ = buildAnswers(t, log, until)
		return answers, log.read
	}
	want, first := look(0)
	if head := want[0].(int64); int64(first) != head || head < 4096 {
		t.Fatalf("%d of %d events were read at first", first, head)
	}
	again, read := look(0)
	if !reflect.DeepEqual(again, want) || read != 0 {
		t.Errorf("%d events were read again, from a snapshot it is\n%+v, not\n%+v", read, again, want)
	}
	if earlier, read := look(want[0].(int64) - 1); read != first-1 || earlier[0] == want[0] {
		t.Errorf("%d events were read of an earlier moment, before the snapshot", read)
	}
	log := open()
	if written, err := builds.New(log, time.Now).Command(t.Context(), build.Retry{Group: "base-3"}); err != nil || log.read > len(written) {
		t.Errorf("a command read %d events: %v", log.read, err)
	}
	want, read = look(0)
	if read > 3 {
		t.Errorf("%d events were read after a command", read)
	}
	if err := os.RemoveAll(path + ".snapshots"); err != nil {
		t.Fatal(err)
	}
	if whole, read := look(0); !reflect.DeepEqual(whole, want) || read <= first {
		t.Errorf("without a snapshot %d events were read, and it is\n%+v, not\n%+v", read, whole, want)
	}
}

// What a command pays before it can answer, by reading all of a long log and by beginning
// with a snapshot of it.
func BenchmarkBuildsOfALongLog(b *testing.B) {
	log, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "log.db"), sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = log.Close() })
	groupsBuilt(b, log, 100, 721)
	look := func(log deploylog.Log) (took time.Duration, head int64) {
		begun := time.Now()
		builds := NewBuilds(log, time.Now)
		if err := builds.Follow(b.Context(), 0); err != nil {
			b.Fatal(err)
		}
		if _, err := builds.BuildStatus("base", nil); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun), builds.Head()
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
