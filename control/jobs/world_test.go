package jobs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
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
	"github.com/deployster-go/deployster/engine/docker"
	"github.com/deployster-go/deployster/engine/enginetest"
	"github.com/deployster-go/deployster/engine/oci"
	"github.com/deployster-go/deployster/internal/artifacts"
	_ "github.com/deployster-go/deployster/internal/early" // containers start with it
	"github.com/deployster-go/deployster/internal/entrypoint"
	"github.com/deployster-go/deployster/internal/must"
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

func fakeEngine() *enginetest.Fake {
	return &enginetest.Fake{Images: map[string]enginetest.FakeImage{image: {
		Entrypoint:  []string{"/job"},
		Executables: []string{"/job"},
		Program: func(ctx context.Context, call enginetest.Call) int {
			return script.Run(ctx, script.Process{
				Lines: call.Args, Env: call.Env, Dir: call.WorkDir, Stdout: call.Stdout, Stderr: call.Stderr,
				At: func(name string) (string, error) { host, _, err := call.Host(name); return host, err },
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

func newWorld(tb testing.TB, e engine.Engine) *world { return worldIn(tb, tb.TempDir(), e) }

// worldIn is a world in a workspace, which may be that of a process that has died.
func worldIn(tb testing.TB, dir string, e engine.Engine) *world {
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

// optionsIn are those of jobs in a workspace, on an engine that has the image, whose id it returns.
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

func (w *world) recipe(lines ...string) recipe.Recipe {
	return recipe.Recipe{Image: recipe.Image{Image: image, ID: w.id}, Args: append([]string{}, lines...), Network: "none", Timeout: 5 * time.Minute}
}

func (w *world) task(r recipe.Recipe) build.Task { return w.tasks([]recipe.Recipe{r}) }

// tasks is a job of a group that carries several recipes, which does what the first says.
func (w *world) tasks(all []recipe.Recipe) build.Task {
	documents := must.Get(recipe.Encode(all))(w)
	carries := record.Carries{}
	for name, text := range documents {
		carries[name] = must.Get(w.objects.Keep(text))(w)
	}
	return build.Task{
		Group: "base-7", Job: 12, Attempt: 1, Name: "base", Package: "make", Worker: "local", Carries: carries, Inputs: "inputs", Commit: "c0ffee",
	}
}

func (w *world) artifact(files map[string]string) string {
	dir := w.TempDir()
	for name, text := range files {
		require.NoError(w, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		require.NoError(w, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	made := must.Get(w.store.Collect(context.Background(), dir, artifacts.Limits{}))(w)
	return made.Digest
}

func (w *world) content(digest string) string {
	dir := must.Get(w.store.Directory(context.Background(), digest))(w)
	var list []string
	require.NoError(w, filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
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
	}))
	sort.Strings(list)
	return strings.Join(list, ", ")
}

func (w *world) log(t build.Task) string {
	text, err := os.ReadFile(filepath.Join(w.dir, jobs.LogName(t.Group, t.Job, t.Attempt)))
	assert.True(w, err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
	return string(text)
}

// left is what is in the directory of what is being done.
func (w *world) left() []string {
	entries, err := os.ReadDir(filepath.Join(w.dir, engine.StateDir, jobs.Dir, "work"))
	assert.True(w, err == nil || errors.Is(err, os.ErrNotExist), "%v", err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// clean fails where something is left of jobs that are done and recorded.
func (w *world) clean() {
	w.jobs.Close()
	assert.Empty(w, w.left())
	containers := must.Get(w.engine.Containers(context.WithoutCancel(context.Background()), map[string]string{"deployster.log": w.options.Log}))(w)
	assert.Empty(w, containers, "containers are left behind")
}

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

func (w *world) restart() { w.jobs = jobs.New(w.options) }

// actAs makes this test binary do the job that its argument says.
const actAs = "DEPLOYSTER_TEST_ACT_AS"

func TestMain(m *testing.M) {
	entrypoint.Dispatch()
	if os.Getenv(actAs) != "" {
		fmt.Fprintln(os.Stderr, doOrder(os.Args[1]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// order is a job for another process.
type order struct {
	Engine place
	Dir    string
	Task   build.Task

	User    user // who does it; zero is the same one
	Program jobs.Program
}

// place is an engine that other processes can open, too.
type place struct {
	OCI        bool
	Cache, Run string
}

func (p place) open(ctx context.Context) (engine.Engine, error) {
	if p.OCI {
		return oci.Open(ctx, oci.Options{CacheDir: p.Cache, RunDir: p.Run})
	}
	return docker.Open(ctx, docker.Options{})
}

func doOrder(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	if err := o.User.become(); err != nil {
		return err
	}
	e, err := o.Engine.open(context.Background())
	if err != nil {
		return err
	}
	options, _, err := optionsIn(context.Background(), o.Dir, e)
	if err != nil {
		return err
	}
	options.Program, options.Logger = o.Program, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	all := jobs.New(options)
	r := all.Build(context.Background(), o.Task)
	all.Wait()
	return errors.Join(fmt.Errorf("the job is not to end: %s", told(r)), e.Close())
}

func (w *world) begin(at place, t build.Task) (kill func()) {
	text := must.Get(json.Marshal(order{Engine: at, Dir: w.dir, Task: t}))(w)
	var said bytes.Buffer
	command := exec.Command("/proc/self/exe", string(text))
	command.Env = append(os.Environ(), actAs+"=job")
	command.Stdout, command.Stderr = &said, &said
	require.NoError(w, command.Start())
	return func() {
		_ = command.Process.Kill()
		require.Error(w, command.Wait())
		assert.Zero(w, said.Len(), "the process was not killed")
	}
}

func jobImage(tb testing.TB) []byte {
	program := enginetest.Binary(tb, "github.com/deployster-go/deployster/control/jobs/internal/script/job", runtime.GOARCH)
	built := must.Get(enginetest.BuildImage(enginetest.ImageSpec{Binary: program, Path: "/job", Entrypoint: []string{"/job"}}))(tb)
	tar := must.Get(enginetest.ImageTar(image, built))(tb)
	return tar
}

// realEngines are those on which jobs run as processes, with the image.
func realEngines(t *testing.T) map[string]place {
	places := map[string]place{"oci": {OCI: true, Cache: t.TempDir(), Run: t.TempDir()}, "docker": {}}
	tar := jobImage(t)
	for name, at := range places {
		e, err := at.open(t.Context())
		require.NoError(t, err, "these tests need root, runc, and a Docker Engine: %s", name)
		require.NoError(t, e.Load(t.Context(), bytes.NewReader(tar)))
		assert.NoError(t, e.Close())
	}
	t.Cleanup(func() {
		said, err := exec.Command("docker", "rmi", image).CombinedOutput()
		assert.NoError(t, err, "%v: %s", err, said)
	})
	return places
}

func opened(t *testing.T, at place) engine.Engine {
	e := must.Get(at.open(t.Context()))(t)
	t.Cleanup(func() { assert.NoError(t, e.Close()) })
	return e
}
