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
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/oci"
)

// BenchmarkJobs compares jobs with a plain loop that runs the same containers, as many at once:
// what a job costs besides is its log, its directory and its artifact. The two take turns, so
// that what else the machine does slows both down; %-of-loop is how fast jobs are done, of the
// containers.
func BenchmarkJobs(b *testing.B) {
	e := &noting{Engine: benchEngine(b)}
	w := newWorld(b, e)
	recipes := make([]recipe.Recipe, b.N+1)
	for i := range recipes {
		recipes[i] = w.recipe("print hello", fmt.Sprintf("write %s/f %d", out, i)) // each makes something else
	}
	task := w.tasks(recipes)
	for _, name := range []string{"a", "b", "c", "d"} {
		task.Uses = append(task.Uses, build.Dependency{Package: name, Artifact: w.artifact(map[string]string{"f": name}), Job: 1, Direct: true})
	}
	var number atomic.Int64
	job := func() {
		one := task
		one.Job = int(number.Add(1))
		one.Recipe = one.Job - 1
		assert.NotNil(b, w.jobs.Build(context.Background(), one).Finished)
	}
	job()
	spec := e.sameElsewhere(b)
	container := func() {
		if exit, err := e.Engine.Run(context.Background(), spec, engine.IO{Stdout: &bytes.Buffer{}}); err != nil || exit.Code != 0 {
			b.Error(exit, err)
		}
	}
	container()
	var took [2]time.Duration
	b.ResetTimer()
	const turn = 20
	for begun := 0; begun < b.N; begun += turn {
		n := min(turn, b.N-begun)
		for i, do := range []func(){container, job} {
			took[i] += inParallel(runtime.GOMAXPROCS(0), n, do)
		}
	}
	b.ReportMetric(took[0].Seconds()*1000/float64(b.N), "ms/container")
	b.ReportMetric(took[1].Seconds()*1000/float64(b.N), "ms/job")
	b.ReportMetric(100*took[0].Seconds()/took[1].Seconds(), "%-of-loop")
}

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

// noting is an engine that notes the last container.
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
	b.Helper()
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

// benchEngine is an engine that has the image.
func benchEngine(b *testing.B) engine.Engine {
	b.Helper()
	e, err := oci.Open(b.Context(), oci.Options{CacheDir: b.TempDir(), RunDir: b.TempDir()})
	require.NoError(b, err)
	b.Cleanup(func() { _ = e.Close() })
	program := enginetest.Binary(b, "github.com/deployster-go/deployster/control/jobs/internal/script/job", runtime.GOARCH)
	built, err := enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Path: "/job", Entrypoint: []string{"/job"}})
	require.NoError(b, err)
	tar, err := enginetest.ImageTar(image, built)
	require.NoError(b, err)
	require.NoError(b, e.Load(b.Context(), bytes.NewReader(tar)))
	return e
}
