package jobs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/reconcile"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/deploylog/sqlite"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/inventory"
)

// inParallel does something n times, so many at once, and returns how long that took.
func inParallel(atOnce, n int, do func()) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	began := time.Now()
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				do()
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

type noting struct {
	engine.Engine
	mu   sync.Mutex
	spec engine.Spec
}

func (n *noting) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	n.mu.Lock()
	n.spec = spec
	n.mu.Unlock()
	return n.Engine.Run(ctx, spec, streams)
}

// sameElsewhere is the same container as the last one, with a directory of its own.
func (n *noting) sameElsewhere(b *testing.B) engine.Spec {
	dir, spec := b.TempDir(), n.spec
	spec.Mounts = append([]engine.Mount{}, spec.Mounts...)
	for i, m := range spec.Mounts {
		if !strings.Contains(m.Source, "/builds/work/") {
			continue
		}
		to := filepath.Join(dir, filepath.Base(m.Source))
		var err error
		if strings.Contains(filepath.Base(to), "metadata") || filepath.Ext(to) != "" {
			err = os.WriteFile(to, nil, 0o600)
		} else {
			err = os.MkdirAll(to, 0o700)
		}
		require.NoError(b, err)
		spec.Mounts[i].Source = to
	}
	return spec
}

func benchEngine(b *testing.B) engine.Engine {
	e := must.Get(oci.Open(b.Context(), oci.Options{CacheDir: b.TempDir(), RunDir: b.TempDir()}))(b)
	b.Cleanup(func() { _ = e.Close() })
	require.NoError(b, e.Load(b.Context(), bytes.NewReader(jobImage(b))))
	return e
}

// BenchmarkController compares build groups, from their submit until their end is in the log, with a plain loop that
// runs the same containers, as many at once: what a job costs besides is its log, its directory and its artifact, and
// that its beginning and its end are decided and durable. The containers do nothing, or keep a processor busy for about
// a tenth of a second. The two take turns, so that what else the machine does slows both down; own-ms/job is what this
// process takes of the processors for a job beyond what it takes for a container.
func BenchmarkController(b *testing.B) {
	for _, hashes := range []int{0, 1_200_000} {
		for _, each := range []int{1, 2} { // slots for each processor
			name := fmt.Sprintf("hashes=%d/slots-of-processor=%d", hashes, each)
			b.Run(name, func(b *testing.B) { benchController(b, hashes, each*runtime.GOMAXPROCS(0)) })
		}
	}
}

func benchController(b *testing.B, hashes, slots int) {
	e := &noting{Engine: benchEngine(b)}
	w := newWorld(b, e)
	const turn = 40
	recipes := make([]recipe.Recipe, turn+b.N)
	for i := range recipes {
		recipes[i] = w.recipe(fmt.Sprint("compute ", hashes), fmt.Sprintf("write %s/f %d", out, i)) // each makes something else
	}
	carries := w.tasks(recipes).Carries
	var uses []record.Use
	for _, name := range []string{"a", "b", "c", "d"} {
		uses = append(uses, record.Use{Package: name, Artifact: w.artifact(map[string]string{"f": name})})
	}
	log := must.Get(sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "log.db"), sqlite.Options{}))(b)
	defer func() { _ = log.Close() }()
	one := &soleWorker{slots: slots, ended: make(chan string, 1)}
	ctx, end := context.WithCancel(b.Context())
	ran := make(chan error, 1)
	c := builds.NewController(builds.Options{
		Options: reconcile.Options{Log: log, Parallelism: slots, Now: time.Now}, Builder: w.jobs, Workers: one, Observer: one,
	})
	go func() { ran <- c.Run(ctx) }()
	submitter := builds.New(log, time.Now)
	done := 0
	group := func(n int) {
		submit := build.Submit{
			Triggered: record.Triggered{Name: "bench", NoReuse: true, MaxLost: 1, Carries: carries},
			Places:    []record.Place{{Platform: "linux/" + runtime.GOARCH}},
		}
		for range n {
			submit.Jobs = append(submit.Jobs, record.JobSpec{Package: fmt.Sprint("p", done), Recipe: done, Inputs: fmt.Sprintf("sha256:%064x", done), Uses: uses})
			done++
		}
		must.Get(submitter.Command(ctx, submit))(b)
		require.Equal(b, record.GroupFinished, <-one.ended, "the group ended with")
	}
	group(turn) // until engines and files are known
	spec := e.sameElsewhere(b)
	containers := func(n int) {
		inParallel(slots, n, func() {
			exit, err := e.Engine.Run(ctx, spec, engine.IO{Stdout: &bytes.Buffer{}})
			assert.True(b, err == nil && exit.Code == 0, "%v %v", exit, err)
		})
	}
	containers(slots)
	var took, own [2]time.Duration
	b.ResetTimer()
	for begun := 0; begun < b.N; begun += turn {
		for i, do := range []func(int){containers, group} {
			began, busy := time.Now(), processorTime(b)
			do(min(turn, b.N-begun))
			took[i] += time.Since(began)
			own[i] += processorTime(b) - busy
		}
	}
	b.StopTimer()
	b.ReportMetric(took[0].Seconds()*1000/float64(b.N), "ms/container")
	b.ReportMetric(took[1].Seconds()*1000/float64(b.N), "ms/job")
	b.ReportMetric((own[1]-own[0]).Seconds()*1000/float64(b.N), "own-ms/job")
	b.ReportMetric(100*took[0].Seconds()/took[1].Seconds(), "%-of-loop")
	end()
	<-ran
}

func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

type soleWorker struct {
	slots int
	ended chan string
}

func (s *soleWorker) Workers() ([]inventory.Host, error) {
	platform := "linux/" + runtime.GOARCH
	return []inventory.Host{{Name: "local", Engine: inventory.OCI, Slots: s.slots, Platforms: []string{platform}}}, nil
}
func (*soleWorker) Identity() string { return "" }
func (*soleWorker) Look(context.Context, string) ([]string, error) {
	return []string{"linux/" + runtime.GOARCH}, nil
}
func (*soleWorker) Notice(string) {}
func (s *soleWorker) Recorded(e deploylog.Event) {
	if e.Name == record.GroupFinished || e.Name == record.GroupFailed {
		s.ended <- e.Name
	}
}
