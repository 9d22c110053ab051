package work

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/deployster-go/deployster/control/health"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/tasks"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// TaskWorker does the work of the steps of environments, and probes their tasks:
// it applies, destroys and observes their manifests on the engines of their
// hosts. It is an environments.Tasks.
type TaskWorker struct {
	ProbeTimeout time.Duration // how long one probe of a task may take

	worker
	promoted []string

	// All probes are one run, which holds its lock: other processes see that what
	// a probe leaves on an engine has an owner.
	probing *runs.Run
	id      string // of that run

	watched sync.Map // hosts that were watched before
	known   knownProbes

	things     sync.Map // madeThings, by the place of their task
	remembered atomic.Int64
}

// probeTimeout is the ProbeTimeout where nobody sets another.
const probeTimeout = 30 * time.Second

// NewTaskWorker returns a worker on the engines of a pool, which stays open. Promotions
// set the variables promoted in definitions, which need not read them.
func NewTaskWorker(c Config, pool *EnginePool, promoted []string) (*TaskWorker, error) {
	w := &TaskWorker{
		worker:   newWorker(c, pool, "env run"),
		promoted: promoted, ProbeTimeout: probeTimeout, id: newID(c.Now()), known: knownProbes{byTask: map[string]knownProbe{}},
	}
	var err error
	if w.probing, err = runs.Watch(runs.Options{Log: c.Log, ID: w.id}); err != nil {
		return nil, err
	}
	return w, nil
}

// Close ends the run of the probes.
func (w *TaskWorker) Close() { w.probing.End() }

// placeOf is where the resources of a task are: not where those of another
// revision on the same host are, for both may be there at once.
func placeOf(t tasks.Task) string { return t.Host + ":" + t.Name() }

// Start implements environments.Tasks.
func (w *TaskWorker) Start(ctx context.Context, t tasks.Task) (_ tasks.ProbeResult, err error) {
	defer w.guard(&err, "starting a task of "+t.Environment)
	run, err := w.begin(ctx, t, applying, nil)
	if err != nil {
		return tasks.ProbeResult{}, err
	}
	r, err := w.execute(ctx, run, (*runner.Runner).Apply)
	if err != nil {
		return tasks.ProbeResult{}, err
	}
	return health.Applied(r.Names(), r.State), nil
}

// Check implements environments.Tasks.
func (w *TaskWorker) Check(ctx context.Context, t tasks.Task) (err error) {
	defer w.guard(&err, "checking a task of "+t.Environment)
	run, err := w.begin(ctx, t, applying, nil)
	if err == nil {
		err = run.Conflicts()
	}
	if err != nil {
		return err
	}
	defer w.asProbe(run)()
	return runner.New(run.Spec, run.Containers).Check(ctx, run.Caller)
}

// Terminate implements environments.Tasks. What the task found as it should be, or
// never came to, is not its own and left alone: so a task can be terminated also
// when its state cannot be asked for.
func (w *TaskWorker) Terminate(ctx context.Context, t tasks.Task) (err error) {
	defer w.guard(&err, "terminating a task of "+t.Environment)
	run, err := w.begin(ctx, t, removing, nil)
	if err != nil {
		return err
	}
	made, err := w.made(ctx, t, run.Manifest)
	if err != nil {
		return err
	}
	if len(made) == 0 {
		return w.closeOrphans(ctx, run)
	}
	run.Removes(made)
	if err := run.RecallPlaced(ctx); err != nil {
		return err
	}
	_, err = w.execute(ctx, run, (*runner.Runner).Destroy)
	return err
}

// closeOrphans records the end of runs of a task that died before they did anything: there
// will be no other run of the task, which would do so.
func (w *TaskWorker) closeOrphans(ctx context.Context, run *Run) error {
	open, err := w.Log.InProgress(ctx, run.Control.Target)
	if err != nil || len(open) == 0 {
		return err
	}
	held, err := run.Begin(ctx)
	if err != nil {
		return err
	}
	held.End()
	return nil
}

// made are the resources that the task may have made since it was terminated the
// last time.
func (w *TaskWorker) made(ctx context.Context, t tasks.Task, m *manifest.Manifest) ([]string, error) {
	since := int64(0)
	target := record.TaskTarget(t.Environment, t.Revision, t.Host)
	for e, err := range w.Log.Read(ctx, deploylog.Filter{Target: target, Name: record.TaskTerminated, Last: 1}) {
		if err != nil {
			return nil, fmt.Errorf("reading the history of %s: %w", target, err)
		}
		since = e.Seq
	}
	names := make([]string, len(m.Resources))
	for i, r := range m.Resources {
		names[i] = r.Name
	}
	return runs.Made(ctx, w.Log, placeOf(t), names, since)
}

// execute begins a run and executes it. Its error ends with the last output of the
// actions that failed.
func (w *TaskWorker) execute(ctx context.Context, run *Run, do func(*runner.Runner, context.Context, runner.Caller) (*report.Result, error)) (*runner.Runner, error) {
	held, end, err := w.hold(ctx, run, run.Control.Place)
	if err != nil {
		return nil, err
	}
	defer end()
	tail := &health.OutputTail{Recorder: held}
	run.Caller.Recorder = tail
	r := runner.New(run.Spec, run.Containers)
	_, err = do(r, ctx, run.Caller)
	w.kept.Add(run.Control.Place, run.Work)
	return r, tail.With(err)
}

// Observe implements environments.Tasks.
func (w *TaskWorker) Observe(ctx context.Context, t tasks.Task) tasks.ProbeResult {
	o, _ := w.observe(ctx, t, asked{})
	return o
}

func (w *TaskWorker) observe(ctx context.Context, t tasks.Task, as asked) (tasks.ProbeResult, map[string]any) {
	ctx, cancel := context.WithTimeout(ctx, w.ProbeTimeout)
	defer cancel()
	o, state, err := w.probe(ctx, t, as)
	switch {
	case o.Health != tasks.Unknown && err == nil:
		return o, state
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		o.Detail = fmt.Sprintf("host %s: no answer within %s", t.Host, w.ProbeTimeout)
		if of := new(health.UnansweredError); errors.As(err, &of) {
			o.Detail += ": " + of.Error()
		}
	case err != nil:
		o.Detail = err.Error()
	}
	o.Health = tasks.Unknown
	return o, state
}

func (w *TaskWorker) probe(ctx context.Context, t tasks.Task, as asked) (_ tasks.ProbeResult, state map[string]any, err error) {
	defer w.guard(&err, "probing a task of "+t.Environment)
	on, err := w.pool.Answering(ctx, t.Host)
	if err != nil {
		return tasks.ProbeResult{}, nil, err
	}
	hosts := w.pool.hosts.Version()
	run, err := w.begin(ctx, t, observing, as.own)
	if err != nil {
		return tasks.ProbeResult{}, nil, err
	}
	defer w.asProbe(run)()
	var plugs []plugPath
	repeatable := as.read == "" && w.Reserve != nil && w.Texts.fixed(t.Spec.Includes)
	if repeatable && !on.Info.Remote {
		plugs, repeatable = lead(run.Manifest)
	}
	r := runner.New(run.Spec, run.Containers) // as a part of the run of all probes
	report, err := r.Drift(ctx, run.Caller)
	if report == nil {
		return tasks.ProbeResult{}, nil, err
	}
	found := health.Probed(report, r.State, func(resource string) bool { return !as.all && run.doubts(t, resource) }) // the report holds what failed, too
	if as.read != "" {
		state = r.State(as.read)
	}
	if found.Health == tasks.Unknown && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return found, state, health.Unanswered(report)
	}
	if questions := r.Questions(); repeatable && found.Health == tasks.Healthy && len(questions) > 0 {
		w.known.add(knownProbe{from: probed{task: t, hosts: hosts, engine: on}, plugs: plugs, questions: questions, found: found}, w.Now())
	}
	return found, state, nil
}

// asProbe makes a run part of the run of all probes. The files of all probes of
// all tasks would fill a disk, so the returned function removes them.
func (w *TaskWorker) asProbe(run *Run) (cleanUp func()) {
	run.Containers.Run, run.Containers.Forget = w.id, true
	return func() { _ = os.RemoveAll(run.Work) } // at worst they stay
}

// watcher is an engine that reports when something happens to its containers.
type watcher interface {
	Watch(ctx context.Context, without string, changed func()) error
}

// Watch implements environments.Tasks. On an engine that does not report what happens,
// it waits for ctx.
func (w *TaskWorker) Watch(ctx context.Context, host string, changed func()) {
	var err error // only to be reported: the watch begins again
	defer w.guard(&err, "watching the host "+host)
	on, err := w.pool.Answering(ctx, host)
	if err != nil {
		return
	}
	if e, reports := on.Engine.(watcher); reports {
		if _, before := w.watched.LoadOrStore(host, true); before {
			changed() // what happened in between was not reported
		}
		_ = e.Watch(ctx, invoke.LabelRun, changed) // the containers of runs come and go by themselves
		return
	}
	<-ctx.Done()
}

// purpose is what a run of a task is for.
type purpose int

const (
	applying purpose = iota
	observing
	removing
)

// begin prepares a run of the manifest of a task on its host; own are variables that nobody
// else can set, nil those of a task.
func (w *TaskWorker) begin(ctx context.Context, t tasks.Task, p purpose, own map[string]any) (*Run, error) {
	text, err := w.Texts.Load(t.Spec.Digest)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", t.Spec.Manifest, err)
	}
	on, err := w.pool.Answering(ctx, t.Host)
	if err != nil {
		return nil, err
	}
	// The file may say something else by now.
	name := t.Spec.Manifest
	if t.Revision > 0 {
		name = fmt.Sprintf("%s (of revision %d)", t.Spec.Manifest, t.Revision)
	}
	source := manifest.Source{Name: name, Data: text}
	o, err := w.carriedFor(t, source, p)
	if o.Builtin = own; err != nil {
		return nil, err
	}
	if o.bounds, err = w.bounds(t, p, own); err != nil {
		return nil, &InputError{err}
	}
	return w.prepareTask(on, t, source, o)
}

// bounds are those of a task for a purpose; nil is that it may be everything. What was made within the bounds of a former
// definition, or on hosts that it had, can still be observed and removed.
func (w *TaskWorker) bounds(t tasks.Task, p purpose, own map[string]any) (*bounds, error) {
	if p == applying {
		if err := checkHost(t, w.pool.hosts); err != nil {
			return nil, err
		}
	}
	loader := w.ownLoader(w.Texts, w.pool.hosts, newNeutral())
	loader.looks = p != applying
	b := loader.taskBounds(t, own, w.promoted)
	if b != nil && p != applying {
		b.former, b.removes = t.Bounds.Former, p == removing
	}
	return b, nil
}

// Things implements environments.Tasks. It remembers what tasks make that read no secrets: all who
// follow the log ask for it, and for each task of each environment.
func (w *TaskWorker) Things(t tasks.Task) []tasks.Thing {
	place, hosts := placeOf(t), w.pool.hosts.Version()
	if known, ok := w.things.Load(place); ok {
		if known := known.(madeThings); known.hosts == hosts && reflect.DeepEqual(known.task, t) {
			return known.things
		}
	}
	things := Identities{Inputs: w.Inputs, Texts: w.Texts, Hosts: w.pool.hosts}.Things(t)
	if len(things) == 0 || !w.Texts.fixed(t.Spec.Includes) {
		w.things.Delete(place)
		return things
	}
	if w.remembered.Add(1)%mostThings == 0 {
		w.things.Clear()
	}
	w.things.Store(place, madeThings{hosts, t, things})
	return things
}

// mostThings bounds of how many tasks a worker remembers what they make.
const mostThings = 100_000

// madeThings are the things of a task with a version of the inventory.
type madeThings struct {
	hosts  int
	task   tasks.Task
	things []tasks.Thing
}

// carried is what is applied of a revision of a task beside its manifest.
func (w *TaskWorker) carried(t tasks.Task) (LoadOptions, error) {
	return w.carriedFor(t, manifest.Source{}, applying)
}

// carriedFor is what the revision of a task carries beside its manifest. Of one that carries
// none, as an older version made it, files and variables are those of the process.
func (w *TaskWorker) carriedFor(t tasks.Task, source manifest.Source, p purpose) (o LoadOptions, err error) {
	if t.Spec.Includes == nil {
		return o, nil
	}
	o.Included, o.applies = w.Texts.Files(TaskFiles(t.Spec)), p == applying
	if p == applying {
		o.Assigned, err = w.Assignments(w.Texts, t.Spec.Includes)
	} else {
		o, err = w.presently(t, source, o, p == removing)
	}
	if err != nil {
		return o, fmt.Errorf("revision %d: %w", t.Revision, err)
	}
	if o.images, err = w.Texts.images(t.Spec.Includes); err != nil {
		return o, fmt.Errorf("revision %d: %w", t.Revision, err)
	}
	return o, nil
}

// TaskFiles are the SHA-256 of the files that a revision carries, by their paths below
// the workspace.
func TaskFiles(t definition.TaskSpec) map[string]string {
	files := map[string]string{t.Manifest: t.Digest}
	maps.Copy(files, t.Includes)
	return files
}

func (w *TaskWorker) prepareTask(on *Connection, t tasks.Task, source manifest.Source, o LoadOptions) (*Run, error) {
	in, err := w.load(t, source, o)
	if err != nil {
		return nil, err
	}
	return w.prepare(in, on, t.Spec.Manifest, placeOf(t), map[string]string{
		"environment": t.Environment, "revision": strconv.Itoa(t.Revision), "task": t.Name(),
		"target": string(record.TaskTarget(t.Environment, t.Revision, t.Host)),
	})
}

func (w *TaskWorker) load(t tasks.Task, source manifest.Source, o LoadOptions) (*Input, error) {
	if o.Last = t.Spec.Vars; o.Builtin == nil {
		o.Builtin = TaskVariables(t, w.pool.hosts)
	}
	return w.Load([]manifest.Source{source}, o)
}

// TaskVariables are what a manifest knows of its task. Nobody else can set them.
func TaskVariables(t tasks.Task, among *Hosts) map[string]any {
	h, _ := among.host(t.Host)
	return map[string]any{
		"environment": t.Environment, "revision": t.Revision, "task": t.Name(),
		"host": t.Host, "host_attributes": attributes(h),
	}
}
