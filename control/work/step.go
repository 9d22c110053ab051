package work

import (
	"context"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
	"github.com/deployster-go/deployster/pipeline/upstream"
	"github.com/deployster-go/deployster/runner"
)

// StepWorker does the work of the steps of pipelines: it applies their manifests
// on the engines of their hosts. It is a pipelines.Worker.
type StepWorker struct{ worker }

// NewStepWorker returns a worker on the engines of a pool, which stays open.
func NewStepWorker(c Config, pool *EnginePool) *StepWorker {
	return &StepWorker{worker: newWorker(c, pool, "pipeline run")}
}

// Work implements pipelines.Worker.
func (w *StepWorker) Work(ctx context.Context, step step.Step, artifacts map[string]string, wanted func() error) (made map[string]string, err error) {
	defer w.guard(&err, "working on "+string(step.Target))
	made, err = w.apply(ctx, step, artifacts, wanted)
	if err != nil {
		err = w.leftBehind(ctx, w.runTarget(step.Manifest, step.Host), err)
	}
	return made, err
}

// apply applies the manifest of a step.
func (w *StepWorker) apply(ctx context.Context, step step.Step, artifacts map[string]string, wanted func() error) (map[string]string, error) {
	on, err := w.pool.Connection(ctx, step.Host)
	if err != nil {
		return nil, err
	}
	run, err := w.prepareStep(step, artifacts, on)
	if err == nil {
		err = run.Conflicts()
	}
	if err != nil {
		return nil, err
	}
	r, err := w.applyRun(ctx, run, wanted)
	if err == nil {
		err = w.prune(ctx, step, artifacts, on)
	}
	if err != nil {
		return nil, err
	}
	return made(r, step), nil
}

// applyRun applies a manifest in the run of a step.
func (w *StepWorker) applyRun(ctx context.Context, run *Run, wanted func() error) (*runner.Runner, error) {
	_, end, err := w.hold(ctx, run, string(run.Control.Target))
	if err != nil {
		return nil, err
	}
	defer end()
	if err := wanted(); err != nil {
		return nil, err
	}
	r := runner.New(run.Spec, run.Containers)
	if _, err := r.Apply(ctx, run.Caller); err != nil {
		return nil, err
	}
	w.kept.Add(string(run.Control.Target), run.Work) // what failed stays, to explain it
	return r, nil
}

// prepareStep prepares a run of the manifest of a step.
func (w *StepWorker) prepareStep(step step.Step, artifacts map[string]string, on *Connection) (*Run, error) {
	o := LoadOptions{Builtin: w.variables(step, artifacts), bounds: w.ownLoader(w.Texts, w.pool.hosts, newNeutral()).stepBounds(step, artifacts)}
	if o.bounds != nil && step.Files == nil {
		return nil, &InputError{fmt.Errorf("revision %s carries no manifest %s, and may not have that of the workspace: release another one", step.Revision, step.Manifest)}
	}
	in, err := w.loadStep(step, o)
	if err != nil {
		return nil, err
	}
	if len(in.Whole.Takes) > 0 {
		move := in.Whole.Takes[0]
		return nil, &InputError{&manifest.Error{Problems: []manifest.Problem{{Position: move.Position, Path: "moved", Message: fmt.Sprintf(
			"a step of a pipeline takes nothing over from another manifest (%s#%s): what steps made is known by their pipeline; remove this move, or apply the manifest without a pipeline", move.Manifest, move.From)}}}}
	}
	run, err := w.prepare(in, on, step.Manifest, step.Host, map[string]string{
		"deployment": step.Deployment, "target": string(step.Target), "event": step.Event, "revision": step.Revision,
	})
	if err == nil && step.Host != "" {
		run.recordsStep(step)
	}
	return run, err
}

// loadStep loads the manifest of a step as its revision carries it. One that a former
// version released carries none: its manifest is what it is now.
func (w *StepWorker) loadStep(step step.Step, o LoadOptions) (*Input, error) {
	if step.Files == nil {
		return w.load(step.Manifest, o)
	}
	text, err := w.Texts.Load(step.Files[step.Manifest])
	if err != nil {
		return nil, fmt.Errorf("manifest %s of revision %s: %w", step.Manifest, step.Revision, err)
	}
	o.Included = w.Texts.Files(step.Files)
	if o.Assigned, err = w.Assignments(w.Texts, step.Files); err != nil {
		return nil, fmt.Errorf("revision %s: %w", step.Revision, err)
	}
	o.applies = true
	if o.images, err = w.Texts.images(step.Files); err != nil {
		return nil, fmt.Errorf("revision %s: %w", step.Revision, err)
	}
	name := fmt.Sprintf("%s (of revision %s)", step.Manifest, step.Revision) // the file may say something else by now
	return w.Load([]manifest.Source{{Name: name, Data: text}}, o)
}

// load loads a manifest, which is named below the workspace, as it is now.
func (w *StepWorker) load(name string, o LoadOptions) (*Input, error) {
	path := w.path(name)
	if _, err := ManifestBelow(w.Workspace, path); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", name, err)
	}
	sources, err := manifest.ReadFiles([]string{path})
	if err != nil {
		return nil, err
	}
	return w.Load(sources, o)
}

// variables are what a manifest knows of its step. Nobody else can set them.
func (w *StepWorker) variables(step step.Step, artifacts map[string]string) map[string]any {
	return stepVariables(step, artifacts, w.pool.hosts)
}

func stepVariables(step step.Step, artifacts map[string]string, among *Hosts) map[string]any {
	refs := map[string]any{}
	for kind, ref := range artifacts {
		refs[kind] = ref
	}
	name, _ := record.NameOf(step.Target)
	v := map[string]any{
		"pipeline": name, "stage": step.Stage, "revision": step.Revision, "artifacts": refs,
	}
	if inputs := upstream.Variables(step.Takes); inputs != nil {
		v[inputsVariable] = inputs
	}
	if o := step.Outcome; o != nil {
		v[outcomeVariable] = map[string]any{"status": o.Status, "stage": o.Stage, "cause": o.Cause}
	}
	if h, ok := among.host(step.Host); ok {
		v["host"], v["host_group"], v["host_attributes"] = h.Name, step.Group, attributes(h)
	}
	return v
}

// inputsVariable holds the inputs of a revision. Where there are none anybody may have a
// variable of that name.
const inputsVariable = "inputs"

// outcomeVariable holds how the stages before a stage with when have ended.
const outcomeVariable = "outcome"

// StepVariables are the names of the variables that nobody else can set in a pipeline.
func StepVariables(d *definition.Definition) map[string]any {
	names := map[string]any{}
	for _, name := range []string{"pipeline", "stage", "revision", "artifacts", "host", "host_group", "host_attributes"} {
		names[name] = nil
	}
	if len(d.Needs()) > 0 {
		names[inputsVariable] = nil
	}
	if slices.ContainsFunc(d.Stages, func(s definition.Stage) bool { return s.Closing() }) {
		names[outcomeVariable] = nil
	}
	return names
}

// made are the references of the artifacts that a manifest made: each is the
// state "ref" of the resource that is called as its kind is.
func made(r *runner.Runner, step step.Step) map[string]string {
	refs := map[string]string{}
	for _, kind := range step.Artifacts {
		if ref, ok := r.State(kind)["ref"].(string); ok {
			refs[kind] = ref
		}
	}
	return refs
}
