package builds_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/reconcile/reconciletest"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
)

// idler builds nothing, on one worker with room for all.
type idler struct {
	slots    int
	do       func(context.Context, build.Task) // may be nil
	recorded func(deploylog.Event)             // may be nil
}

func (i *idler) Build(ctx context.Context, t build.Task) build.Result {
	if i.do != nil {
		i.do(ctx, t)
	}
	if ctx.Err() != nil {
		return build.Result{Canceled: &record.Canceled{}}
	}
	return build.Result{Finished: &record.Finished{Artifact: t.Inputs, Inputs: t.Inputs, Worker: t.Worker}}
}
func (i *idler) Resume(ctx context.Context, t build.Task) build.Result { return i.Build(ctx, t) }
func (i *idler) Workers() ([]inventory.Host, error)                    { return []inventory.Host{host("a", i.slots)}, nil }
func (*idler) Identity() string                                        { return "" }
func (*idler) Look(context.Context, string) ([]string, error)          { return nil, nil }
func (*idler) Notice(string)                                           {}
func (i *idler) Recorded(e deploylog.Event) {
	if i.recorded != nil {
		i.recorded(e)
	}
}

func newBench(b *testing.B) (*world, *idler) {
	w := newWorld(b, reconciletest.InFile(b))
	i := &idler{slots: 1000}
	w.options.Parallelism = 1000
	w.options.Builder, w.options.Workers, w.options.Observer = i, i, i
	return w, i
}

func many(n, uses int) []record.JobSpec {
	all := make([]record.JobSpec, n)
	for i := range all {
		all[i] = record.JobSpec{Package: fmt.Sprintf("package-%06d", i+1), Version: "1.2.3", Inputs: fmt.Sprintf("sha256:%064x", i+1)}
		for k := range min(uses, i/1000) { // a thousand of them begin with nothing
			job := 1 + (i*7+k*313)%(i-i%1000)
			all[i].Uses = append(all[i].Uses, record.Use{Package: all[job-1].Package, Job: job})
		}
	}
	return all
}

// Every beginning and every end of a job is durable before anything follows from it. The
// yardstick is to append as many events, without deciding anything.
func BenchmarkDurableJobs(b *testing.B) {
	const jobs = 20_000
	for _, parallelism := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("atonce=%d", parallelism), func(b *testing.B) {
			w, _ := newBench(b)
			w.options.Parallelism = parallelism
			var events []deploylog.Event
			n, used := 0, time.Duration(0)
			for b.Loop() {
				b.StopTimer()
				id := w.submit("bench", many(jobs, 3))
				before := processor()
				b.StartTimer()
				w.untilIdle()
				b.StopTimer()
				used += processor() - before
				w.wantState(id, transition.Complete)
				n += jobs
				events = events[:0]
				for e, err := range w.DeployLog.Read(b.Context(), deploylog.Filter{Deployment: id}) {
					require.NoError(b, err)
					if e.Target.Kind() == record.JobKind {
						events = append(events, deploylog.Event{Deployment: id + "-copy", Target: e.Target, Name: e.Name, Attempt: e.Attempt, Data: e.Data})
					}
				}
				b.StartTimer()
			}
			b.StopTimer()
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "jobs/s")
			b.ReportMetric(float64(used.Microseconds())/float64(n), "cpu-µs/job")
			started := time.Now()
			for batch := range slices.Chunk(events, parallelism) {
				must.Get(w.DeployLog.Append(b.Context(), batch...))(b)
			}
			b.ReportMetric(jobs/time.Since(started).Seconds(), "jobs/s-of-plain-appends")
		})
	}
}

func processor() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// A group of 100,000 jobs and 300,000 edges is submitted, and canceled while a thousand of
// its jobs run: until all is durable, and until those were told.
func BenchmarkSubmitAndCancel(b *testing.B) {
	w, i := newBench(b)
	all := many(100_000, 3)
	var running atomic.Int64
	began, told, canceled := make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	i.do = func(ctx context.Context, _ build.Task) {
		if running.Add(1) == 1000 {
			began <- struct{}{}
		}
		<-ctx.Done()
		if running.Add(-1) == 0 {
			told <- struct{}{}
		}
	}
	i.recorded = func(e deploylog.Event) {
		if e.Name == record.GroupCanceled {
			canceled <- struct{}{}
		}
	}
	kept := builds.New(w.DeployLog, time.Now)
	var submitting, canceling, stopping, ending time.Duration
	for b.Loop() {
		started := time.Now()
		id := w.submit("bench", all)
		submitting += time.Since(started)
		ctx, end := context.WithCancel(b.Context())
		ended := make(chan error, 1)
		go func() { ended <- builds.NewController(w.options).Run(ctx) }()
		<-began
		require.NoError(b, kept.Follow(ctx, 0))
		started = time.Now()
		must.Get(kept.Command(ctx, build.Cancel{Group: id}))(b)
		canceling += time.Since(started)
		<-told
		stopping += time.Since(started)
		<-canceled
		ending += time.Since(started)
		end()
		<-ended
	}
	b.ReportMetric(submitting.Seconds()/float64(b.N), "s/submit")
	b.ReportMetric(float64(canceling.Milliseconds())/float64(b.N), "ms/cancel")
	b.ReportMetric(float64(stopping.Milliseconds())/float64(b.N), "ms/until-all-are-told")
	b.ReportMetric(float64(ending.Milliseconds())/float64(b.N), "ms/until-it-is-canceled")
}
