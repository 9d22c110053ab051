package build_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/must"
)

// fleet is a log that nobody keeps, and workers with so many slots.
type fleet struct {
	state *build.State
	seq   int64
	slots int
	doing []build.Task

	steps  []build.Step // room that is used again
	events []deploylog.Event
}

func newFleet(slots int) *fleet { return &fleet{state: build.New(record.Entity), slots: slots} }

func (f *fleet) Worker(record.Place) string {
	if len(f.doing) < f.slots {
		return "worker"
	}
	return ""
}

func (f *fleet) Resume(build.Task) bool { return false }

func (f *fleet) append(events []deploylog.Event) {
	for i := range events {
		f.seq++
		events[i].Seq, events[i].CreatedAt = f.seq, start
		f.state.Apply(events[i])
	}
}

func (f *fleet) do(c build.Command) {
	events, err := f.state.Propose(c, start)
	if err != nil {
		panic(err)
	}
	f.append(events)
}

// begin dispatches what there is room for, which may be after a group has started.
func (f *fleet) begin() {
	for {
		f.steps = f.steps[:0]
		dispatched := false
		for step := range f.state.Decide(start, f) {
			f.steps = append(f.steps, step)
			if step.Kind == build.Dispatch {
				f.doing, dispatched = append(f.doing, step.Task), true
			}
			if len(f.doing) == f.slots {
				break
			}
		}
		for i := range f.steps {
			f.append(f.steps[i].Events)
		}
		if len(f.steps) == 0 || dispatched {
			return
		}
	}
}

// end ends all that is being done, in parts that are recorded at once.
func (f *fleet) end(atOnce int) (ended int) {
	doing := f.doing
	for len(doing) > 0 {
		n := min(atOnce, len(doing))
		events := f.events[:0]
		for _, t := range doing[:n] {
			result := build.Result{Finished: &record.Finished{Artifact: t.Inputs, Took: time.Minute, Size: 1 << 20, Files: 10, Engine: "oci", Log: "log"}}
			events = append(events, f.state.Ended(t, result, start)...)
		}
		f.append(events)
		f.events, doing = events, doing[n:]
		ended += n
	}
	f.doing = f.doing[:0]
	return ended
}

// large is a group of so many jobs, each of which but the first needs three of the hundreds before it.
func large(jobs int) build.Submit {
	random := rand.New(rand.NewPCG(1, uint64(jobs)))
	specs := make([]record.JobSpec, jobs)
	for i := range specs {
		for range min(i, 3) {
			specs[i].Uses = append(specs[i].Uses, record.Use{Package: "p", Job: max(1, i-random.IntN(2000))})
		}
	}
	return group("large", specs...)
}

// processor is how long the processor has worked for this process: other processes do not count.
func processor() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// sizes measures what a job costs in groups of two sizes: that must not depend on how many
// there are. spent is the time of the processor that jobs took. also are what else was measured.
func sizes(b *testing.B, few, many int, run func(jobs int) (spent time.Duration), also ...func() (float64, string)) {
	first := 0.0
	for _, jobs := range []int{few, many} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			done, spent := 0, time.Duration(0)
			for b.Loop() {
				for range many / jobs {
					spent += run(jobs)
					done += jobs
				}
			}
			each := float64(spent.Nanoseconds()) / float64(done)
			if first == 0 {
				first = each
			}
			b.ReportMetric(1e9/each, "jobs/s")
			b.ReportMetric(each, "ns/job")
			b.ReportMetric(each*float64(jobs)/1e6, "ms/group")
			b.ReportMetric(each/first, fmt.Sprintf("x-of-%d", few))
			for _, other := range also {
				b.ReportMetric(other())
			}
		})
	}
}

// BenchmarkDispatch measures a job from the decision to dispatch it until its end is applied,
// with all events written and folded, and the start of its group. Of a dispatch alone it measures
// the decision, with the hash of all that goes into the job, and the event by which it is begun.
func BenchmarkDispatch(b *testing.B) {
	begun, dispatching := 0, time.Duration(0)
	sizes(b, 1_000, 100_000, func(jobs int) (spent time.Duration) {
		c := large(jobs)
		c.NoReuse = true
		f := newFleet(1000)
		f.do(c)
		for {
			before := processor()
			f.begin()
			began := processor()
			dispatching += began - before
			begun += len(f.doing)
			if len(f.doing) == 0 {
				return spent + began - before
			}
			f.end(1000)
			spent += processor() - before
		}
	}, func() (float64, string) {
		rate := float64(begun) / dispatching.Seconds()
		begun, dispatching = 0, 0
		return rate, "dispatches/s"
	})
}

// BenchmarkUnlock measures the end of a job that all others of its group need.
func BenchmarkUnlock(b *testing.B) {
	sizes(b, 1_000, 10_000, func(jobs int) time.Duration {
		specs := make([]record.JobSpec, jobs+1)
		for i := range jobs {
			specs[i+1] = spec(1)
		}
		f := newFleet(1)
		f.do(group("wide", specs...))
		f.begin()
		before := processor()
		f.end(1)
		return processor() - before
	})
}

// BenchmarkSnapshot measures a snapshot of a group whose jobs are built: what is copied while
// nothing is followed, and what is encoded then.
func BenchmarkSnapshot(b *testing.B) {
	f := newFleet(1000)
	f.do(large(100_000))
	for f.begin(); len(f.doing) > 0; f.begin() {
		f.end(1000)
	}
	var copying, encoding time.Duration
	size := 0
	b.ReportAllocs()
	for b.Loop() {
		before := processor()
		c := f.state.Copy()
		copied := processor()
		text := must.Get(c.Encode())(b)
		copying, encoding, size = copying+copied-before, encoding+processor()-copied, len(text)
	}
	b.ReportMetric(copying.Seconds()*1e3/float64(b.N), "ms/copy")
	b.ReportMetric(encoding.Seconds()*1e3/float64(b.N), "ms/encode")
	b.ReportMetric(float64(size)/(1<<20), "MiB")
}
