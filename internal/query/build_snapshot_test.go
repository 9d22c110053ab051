package query

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

// anyWorker has room for everything.
type anyWorker struct{}

func (anyWorker) Worker(record.Place) string { return "w" }

func (anyWorker) Resume(build.Task) bool { return false }

// groupsBuilt writes groups of so many jobs, each of which uses the one before it or fails.
func groupsBuilt(tb testing.TB, log deploylog.Log, groups, jobs int) {
	s, now := build.New(record.Entity), snapshotNoon
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
		c := build.Submit{Triggered: record.Triggered{Name: "base", NoReuse: true}, Places: []record.Place{{Platform: "linux/amd64"}}}
		for i := range jobs {
			spec := record.JobSpec{Package: fmt.Sprint("package", i), Inputs: fmt.Sprintf("sha256:%064x", i)}
			if i%2 == 1 {
				spec.Uses = []record.Use{{Package: fmt.Sprint("package", i-1), Job: i}}
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
				r := build.Result{Finished: &record.Finished{
					Artifact: fmt.Sprintf("sha256:%064x", t.Job), Engine: "docker 20.10.24", Image: fmt.Sprintf("sha256:%064x", 7), Took: time.Second, Size: 100, Files: 1,
					Provenance: fmt.Sprintf("%064x", t.Job), Log: fmt.Sprintf(".deployster/builds/%s/%d.1.log", t.Group, t.Job), LogBytes: 1000,
				}}
				if t.Job%50 == 1 {
					r = build.Result{Failed: &record.Failed{Cause: "exited with 1", Exit: 1, Output: []string{"it is wrong"}}}
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
	why := must.Get(b.Explain(record.Group(b.Current()[0]), nil, false))(tb)
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
