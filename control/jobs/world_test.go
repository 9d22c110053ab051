package jobs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/jobs"
	"github.com/deployster-go/deployster/control/jobs/internal/script"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/objects"
)

const (
	out      = "/var/lib/deployster/out"
	metadata = "/var/lib/deployster/metadata"
	deps     = "/var/lib/deployster/dependencies"
	all      = "/var/lib/deployster/artifacts"
)

// image runs the script of the arguments.
const image = "deployster-jobs-test:1"

// fakeEngine is an engine in memory that has the image.
func fakeEngine() *enginetest.Fake {
	return &enginetest.Fake{Images: map[string]enginetest.FakeImage{image: {
		Entrypoint:  []string{"/job"},
		Executables: []string{"/job"},
		Program: func(ctx context.Context, call enginetest.Call) int {
			return script.Run(ctx, script.Process{
				Lines: call.Args, Env: call.Env, Dir: call.WorkDir, Stdout: call.Stdout, Stderr: call.Stderr,
				At: func(name string) (string, error) {
					host, _, err := call.Host(name)
					return host, err
				},
			})
		},
	}}}
}

// world is a workspace in which jobs are done.
type world struct {
	testing.TB
	dir     string
	engine  engine.Engine
	objects objects.Store
	store   *artifacts.Store
	options jobs.Options
	jobs    *jobs.Jobs
	id      string // of the image
	leaves  bool   // the test ends while something is left
}

// does has a job done, and fails unless that is told of its result.
func (w *world) does(task build.Task, want string) build.Result {
	w.Helper()
	r := w.jobs.Build(w.Context(), task)
	w.wants(r, want)
	return r
}

// beside has a job of some number done beside the test, and returns where its result comes.
func (w *world) beside(ctx context.Context, number int, lines ...string) chan build.Result {
	w.Helper()
	task, ended := w.task(w.recipe(lines...)), make(chan build.Result, 1)
	task.Job = number
	go func() { ended <- w.jobs.Build(ctx, task) }()
	return ended
}

// resumes has a job gone on with, and fails unless that is told of its result.
func (w *world) resumes(task build.Task, want string) build.Result {
	w.Helper()
	r := w.jobs.Resume(w.Context(), task)
	w.wants(r, want)
	return r
}

// newWorld returns a world on an engine that has the image.
func newWorld(tb testing.TB, e engine.Engine) *world {
	tb.Helper()
	return worldIn(tb, tb.TempDir(), e)
}

// worldIn is a world in a workspace, which may be that of a process that has died.
func worldIn(tb testing.TB, dir string, e engine.Engine) *world {
	tb.Helper()
	options, id, err := optionsIn(context.Background(), dir, e)
	require.NoError(tb, err)
	w := &world{TB: tb, dir: dir, engine: e, objects: objectsIn(dir), store: artifactsIn(dir), options: options, id: id}
	w.jobs = jobs.New(w.options)
	if _, ok := tb.(*testing.T); ok {
		tb.Cleanup(func() {
			if !w.leaves {
				w.clean()
			}
		})
	}
	return w
}

func objectsIn(dir string) objects.Store {
	return objects.In(filepath.Join(dir, engine.StateDir, "objects"), nil)
}

func artifactsIn(dir string) *artifacts.Store {
	return artifacts.In(filepath.Join(dir, engine.StateDir, "artifacts"))
}

// optionsIn are those of jobs in a workspace, on an engine that has the image, whose id it
// returns.
func optionsIn(ctx context.Context, dir string, e engine.Engine) (jobs.Options, string, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return jobs.Options{}, "", err
	}
	found, err := e.Image(ctx, image, engine.PullNever, nil)
	return jobs.Options{
		Log: "log-of-" + strings.ReplaceAll(dir, "/", "-"), Workspace: dir, Artifacts: artifactsIn(dir), Object: objectsIn(dir).Load, Now: time.Now,
		Worker: func(context.Context, string) (jobs.Worker, error) {
			return jobs.Worker{Engine: e, Images: e, Info: info}, nil
		},
	}, found.ID, err
}

// recipe is what a job runs that does what lines say.
func (w *world) recipe(lines ...string) recipe.Recipe {
	return recipe.Recipe{Image: recipe.Image{Image: image, ID: w.id}, Args: append([]string{}, lines...), Network: "none", Timeout: 5 * time.Minute}
}

// task is a job that does what a recipe says.
func (w *world) task(r recipe.Recipe) build.Task {
	w.Helper()
	return w.tasks([]recipe.Recipe{r})
}

// tasks is a job of a group that carries several recipes, which does what the first says.
func (w *world) tasks(all []recipe.Recipe) build.Task {
	w.Helper()
	documents, err := recipe.Encode(all)
	require.NoError(w, err)
	carries := record.Carries{}
	for name, text := range documents {
		carries[name], err = w.objects.Keep(text)
		require.NoError(w, err)
	}
	return build.Task{
		Group: "base-7", Job: 12, Attempt: 1, Name: "base", Package: "make", Worker: "local", Carries: carries, Inputs: "inputs", Commit: "c0ffee",
	}
}

// artifact keeps files, and returns the digest.
func (w *world) artifact(files map[string]string) string {
	w.Helper()
	dir := w.TempDir()
	for name, text := range files {
		require.NoError(w, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(w, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	made, err := w.store.Collect(context.Background(), dir, artifacts.Limits{})
	require.NoError(w, err)
	return made.Digest
}

// content is what an artifact holds.
func (w *world) content(digest string) string {
	w.Helper()
	dir, err := w.store.Directory(context.Background(), digest)
	require.NoError(w, err)
	var list []string
	err = filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		switch {
		case entry.IsDir():
			list = append(list, rel+"/")
		case entry.Type()&os.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			list = append(list, rel+" -> "+to)
		default:
			text, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			list = append(list, fmt.Sprintf("%s: %.50s", rel, text))
		}
		return nil
	})
	require.NoError(w, err)
	sort.Strings(list)
	return strings.Join(list, ", ")
}

// log is what the log of an attempt says.
func (w *world) log(t build.Task) string {
	text, err := os.ReadFile(filepath.Join(w.dir, jobs.LogName(t.Group, t.Job, t.Attempt)))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Error(err)
	}
	return string(text)
}

// left is what is in the directory of what is being done.
func (w *world) left() []string {
	entries, err := os.ReadDir(filepath.Join(w.dir, engine.StateDir, jobs.Dir, "work"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Error(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// clean fails where something is left of jobs that are done and recorded.
func (w *world) clean() {
	w.Helper()
	w.jobs.Close()
	assert.Empty(w, w.left())
	containers, err := w.engine.Containers(context.WithoutCancel(context.Background()), map[string]string{"deployster.log": w.options.Log})
	require.NoError(w, err)
	assert.Empty(w, containers, "containers are left behind")
}

// told is a result in a line, for a test to compare.
func told(r build.Result) string {
	switch {
	case r.Finished != nil && r.Finished.Reused != "":
		return "reused " + string(r.Finished.Reused)
	case r.Finished != nil:
		text := "finished"
		if len(r.Finished.Metadata) > 0 {
			said, _ := json.Marshal(r.Finished.Metadata)
			text += " " + string(said)
		}
		return text
	case r.Failed != nil && r.Failed.Unbuildable:
		return "unbuildable: " + r.Failed.Cause
	case r.Failed != nil:
		return "failed: " + r.Failed.Cause
	case r.Lost != nil && r.Lost.Mistaken:
		return "mistaken: " + r.Lost.Cause
	case r.Lost != nil && r.Lost.Crowded: // it does not count as a loss
		return "crowded out: " + r.Lost.Cause
	case r.Lost != nil && len(r.Lost.Spoiled) > 0:
		return "spoiled: " + r.Lost.Cause
	case r.Lost != nil:
		return "lost: " + r.Lost.Cause
	case r.Canceled != nil:
		return "canceled"
	default:
		return "left"
	}
}

// cancelable is a context that ends as that of a job does whose group is canceled.
func cancelable(t testing.TB) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	t.Cleanup(func() { cancel(nil) })
	return ctx, sync.OnceFunc(func() { cancel(builds.ErrCanceled) })
}

// restart has another process do the jobs.
func (w *world) restart() { w.jobs = jobs.New(w.options) }
