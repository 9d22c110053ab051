package jobs

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/recipe"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/control/builds"
	"github.com/deployster-go/deployster/control/revision"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/artifacts"
	"github.com/deployster-go/deployster/internal/contents"
)

// The labels of a job's container, besides those of all containers (see runner/invoke).
const (
	LabelJob = "deployster.job" // ID/NUMBER
	KindJob  = "job"            // the value of invoke.LabelKind
)

// Worker is an engine that jobs run on.
type Worker struct {
	Engine engine.Engine
	Images revision.Holder
	Info   engine.Info
}

// Store keeps what jobs make.
type Store interface {
	Collect(ctx context.Context, dir string, limits artifacts.Limits) (artifacts.Artifact, error)
	Directory(ctx context.Context, digest string) (path string, err error)
	Verify(ctx context.Context, digest string) error
	Push(ctx context.Context, digest, repository, tag string, progress func(artifacts.Progress)) (reference string, err error)
}

// Options are how jobs are done. Fields are required unless they say otherwise.
type Options struct {
	Log       string // id of the deployment log, put on every container
	Workspace string // absolute
	Artifacts Store
	Limits    artifacts.Limits  // of what a job makes
	Pull      engine.PullPolicy // when an image is fetched; "" is engine.PullMissing
	MinFree   uint64            // bytes of the disk that no job may take; 0 is MinFree

	DiskPeriod time.Duration // how often the disk is looked at while jobs run; 0 is DiskPeriod

	// Program has containers remove what jobs leave that ran as root, where this process does not. It
	// may be empty: that stays then.
	Program Program

	// Object returns what a group carries, by its hash.
	Object func(hash string) ([]byte, error)

	// Worker returns the engine of a worker.
	Worker func(ctx context.Context, name string) (Worker, error)

	// Secrets returns the values of the secrets of a recipe, by the names of variables. It
	// may be nil where no recipe has any.
	Secrets func(ctx context.Context, carries record.Carries, r recipe.Recipe) (map[string]string, error)

	// Provenance keeps the statement of how an artifact was made, and returns by which hash.
	// It may be nil.
	Provenance func(ctx context.Context, made Made) (hash string, err error)

	// Attach puts what Provenance kept beside an artifact in a registry, more than once if a
	// try fails. It may be nil.
	Attach func(ctx context.Context, reference, hash string) error

	// Over reports whether an attempt of a job is over, so that nobody waits for its container
	// any more; see the function Over. It may be nil: what is left of such attempts stays.
	Over func(ctx context.Context, job deploylog.Target, attempt int) (bool, error)

	Now    func() time.Time
	Logger *slog.Logger // may be nil
}

// Made is what a job made, and of what.
type Made struct {
	Task       build.Task
	Recipe     recipe.Recipe
	Artifact   artifacts.Artifact
	Began, End time.Time
	Engine     string
	Image      engine.Image
	Metadata   map[string]string
}

// MinFree is how much of the disk no job may take, unless Options says otherwise.
const MinFree = 64 << 20

// mostDiscarding is how many directories of jobs are removed beside the next ones.
const mostDiscarding = 2

// Jobs does jobs. Its methods may be called at once.
type Jobs struct {
	Options
	free func(dir string) (uint64, error) // bytes that can be written where a directory is
	disk shared

	discarding chan struct{} // has an element for each directory that is removed beside the next job

	plugs *contents.Reader // of what plugs hold
	views engine.Views     // of the directories of this machine that jobs may not see

	mu      sync.Mutex
	results []result // of this process, the oldest first
	last    decoded
	asked   map[string]time.Time // when workers were asked for containers that nobody waits for
}

var _ builds.Builder = (*Jobs)(nil)

// New returns what does jobs.
func New(o Options) *Jobs {
	if o.Pull == "" {
		o.Pull = engine.PullMissing
	}
	if o.MinFree == 0 {
		o.MinFree = MinFree
	}
	if o.DiskPeriod == 0 {
		o.DiskPeriod = DiskPeriod
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Jobs{Options: o, free: freeBytes, disk: shared{turn: make(chan struct{}, 1)}, plugs: &contents.Reader{Except: filepath.Join(o.Workspace, engine.StateDir), Now: o.Now}, discarding: make(chan struct{}, mostDiscarding)}
}

// Dir is the directory, below that of the state of a workspace, of what jobs leave.
const Dir = "builds"

// workName is of the directory of what is being done. No log is in it: those of a group
// whose name begins so are in directories of it that have a number in their name.
const workName = "work"

func (j *Jobs) dir() string { return filepath.Join(j.Workspace, engine.StateDir, Dir) }

// LogName is the name of the log of an attempt of a job, below the workspace.
func LogName(group string, job, attempt int) string {
	return strings.Join([]string{engine.StateDir, Dir, group, strconv.Itoa(job) + "." + strconv.Itoa(attempt) + ".log"}, "/")
}

// workDir is the directory of an attempt of a job.
func (j *Jobs) workDir(group string, job, attempt int) string {
	name := strings.ReplaceAll(group, "/", "~") + "~" + strconv.Itoa(job) + "." + strconv.Itoa(attempt)
	return filepath.Join(j.dir(), workName, name)
}

// Build does a job. What comes of it is recorded, unless ctx has ended for another cause than
// builds.ErrCanceled: then it is nothing, and the job is left as it is.
func (j *Jobs) Build(ctx context.Context, t build.Task) build.Result {
	defer j.forget(resultsKept)
	if t.Reuse != nil {
		return j.reuse(ctx, t)
	}
	a := j.attempt(t)
	return a.conclude(ctx, func() (*record.Finished, error) {
		if err := a.ready(ctx); err != nil {
			return nil, err
		}
		if err := a.clear(ctx); err != nil {
			return nil, err
		}
		a.RemoveOrphans(ctx, t.Worker)
		end, err := a.run(ctx)
		if err != nil {
			return nil, err
		}
		return a.collect(ctx, end)
	})
}

// attempt is one attempt to do a job.
type attempt struct {
	*Jobs
	task build.Task
	dir  string
	log  string // name of its log

	recipe recipe.Recipe
	worker Worker
	image  engine.Image
	secret secrets
	began  time.Time
	engine string // name and version, where another process has begun it

	crowded  bool // another job has filled the disk while it ran
	unlogged bool // its log lacks something, for the disk was full
	exists   bool // there may be a container of it

	changed string // a plug that does not hold what it held when the group was submitted; "" is none

	layer int64 // bytes that its container was found to have written beside what is mounted
}

func (j *Jobs) attempt(t build.Task) *attempt {
	return &attempt{Jobs: j, task: t, dir: j.workDir(t.Group, t.Job, t.Attempt), log: LogName(t.Group, t.Job, t.Attempt)}
}

// reuse makes the artifact that another job built that of this one, if it is there as it was
// made, and pushes it where the group of that one did not.
func (j *Jobs) reuse(ctx context.Context, t build.Task) build.Result {
	made := t.Reuse.Finished
	if err := j.Artifacts.Verify(ctx, made.Artifact); err != nil {
		return unreused(ctx, t, build.Result{Lost: &record.Lost{
			Cause: "what " + string(t.Reuse.Target()) + " built is not there any more: " + err.Error(), Worker: t.Worker, Mistaken: true,
		}})
	}
	pushed := made.Pushed
	if t.Artifacts == "" {
		pushed = "" // whatever became of it there
	}
	if t.Artifacts != "" && !strings.HasPrefix(pushed, t.Artifacts+"@") {
		var err error
		if pushed, err = j.attempt(t).push(ctx, made.Artifact, made.Provenance); err != nil {
			return unreused(ctx, t, build.Result{Failed: &record.Failed{Cause: unpushed(t, made.Artifact, err), Worker: t.Worker, Unpushed: &made}})
		}
	}
	if t.Reuse.Target() == t.Target() { // it was built, and only not pushed
		made.Pushed, made.Worker = pushed, cmp.Or(made.Worker, t.Worker)
		return build.Result{Finished: &made}
	}
	return build.Result{Finished: &record.Finished{
		Artifact: made.Artifact, Inputs: t.Inputs, Reused: t.Reuse.Target(), Size: made.Size, Files: made.Files, Worker: t.Worker,
		Engine: made.Engine, Image: made.Image, Commit: made.Commit, Metadata: made.Metadata, Provenance: made.Provenance, Pushed: pushed,
	}}
}

// unreused is what comes of a job that could not be given what another one built, unless that
// is because ctx has ended.
func unreused(ctx context.Context, t build.Task, r build.Result) build.Result {
	switch stopped := interrupted(ctx); {
	case stopped == nil:
		return r
	case errors.Is(stopped, builds.ErrCanceled):
		return build.Result{Canceled: &record.Canceled{Worker: t.Worker}}
	default:
		return build.Result{}
	}
}

// logPath is the path of the log.
func (a *attempt) logPath() string { return filepath.Join(a.Workspace, filepath.FromSlash(a.log)) }

// hasLog reports whether there is a log, and its size.
func (a *attempt) hasLog() (name string, size int64) {
	info, err := os.Lstat(a.logPath())
	if err != nil || !info.Mode().IsRegular() {
		return "", 0
	}
	return a.log, info.Size()
}
