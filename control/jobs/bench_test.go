package jobs_test

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/oci"
)

// BenchmarkJobs compares jobs with the containers that do them: what a job costs besides is
// its log, its directory and its artifact.
func BenchmarkJobs(b *testing.B) {
	e, err := oci.Open(b.Context(), oci.Options{CacheDir: b.TempDir(), RunDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = e.Close() })
	program := enginetest.Binary(b, "github.com/deployster-go/deployster/control/jobs/internal/script/job", runtime.GOARCH)
	built, err := enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Path: "/job", Entrypoint: []string{"/job"}})
	if err != nil {
		b.Fatal(err)
	}
	tar, err := enginetest.ImageTar(image, built)
	if err != nil {
		b.Fatal(err)
	}
	if err := e.Load(b.Context(), bytes.NewReader(tar)); err != nil {
		b.Fatal(err)
	}
	b.Run("containers", func(b *testing.B) {
		dir := b.TempDir()
		spec := engine.Spec{
			Image: image, Args: []string{"print hello", "write /out/f text"}, Network: "none", Mounts: []engine.Mount{{Source: dir, Target: "/out"}},
		}
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				if exit, err := e.Run(b.Context(), spec, engine.IO{Stdout: &bytes.Buffer{}}); err != nil || exit.Code != 0 {
					b.Error(exit, err)
				}
			}
		})
	})
	b.Run("jobs", func(b *testing.B) {
		w := newWorld(b, e)
		task := w.task(w.recipe("print hello", "write "+out+"/f text"))
		for _, name := range []string{"a", "b", "c", "d"} {
			task.Uses = append(task.Uses, build.Dependency{Package: name, Artifact: w.artifact(map[string]string{"f": name}), Job: 1, Direct: true})
		}
		numbers := make(chan int, b.N)
		for i := range b.N {
			numbers <- i
		}
		b.ResetTimer()
		b.RunParallel(func(p *testing.PB) {
			for p.Next() {
				one := task
				one.Job = 100 + <-numbers
				if r := w.jobs.Build(b.Context(), one); r.Finished == nil {
					b.Error(told(r))
				}
			}
		})
	})
}
