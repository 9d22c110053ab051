package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline"
	"github.com/deployster-go/deployster/runner"
)

// crew does the work of pipelines' steps: it applies their manifests on the
// engines of their hosts. It is a pipelines.Worker.
type crew struct {
	*stations
	log   deploylog.Log
	input inputFlags
}

func (a *app) newCrew(log deploylog.Log, o pipelineRunOptions, news io.Writer) (*crew, error) {
	stations, err := a.newStations(newHosts(o.inventory), o.engine, news)
	if err != nil {
		return nil, err
	}
	return &crew{stations: stations, log: log, input: o.input}, nil
}

// Work implements pipelines.Worker.
func (c *crew) Work(ctx context.Context, step pipeline.Step, artifacts map[string]string, begin func(func() error) error) (_ map[string]string, err error) {
	defer c.app.guard(&err, "working on "+string(step.Target))
	at, err := c.at(ctx, step.Host)
	if err != nil {
		return nil, err
	}
	files := []string{filepath.Join(c.workspace, filepath.FromSlash(step.Manifest))}
	if _, err := manifestBelow(c.workspace, files[0]); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", step.Manifest, err)
	}
	flags := c.input
	flags.builtin = c.variables(step, artifacts)
	in, err := c.app.load(files, flags, string(runner.ConfirmNo))
	if err == nil {
		err = in.conflicts()
	}
	if err != nil {
		return nil, err
	}
	s, err := c.equipped(ctx, c.log, in, "pipeline run", files, at, step.Host)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{
		"deployment": step.Deployment, "target": string(step.Target), "event": step.Event, "revision": step.Revision,
	} {
		s.caller.Details[name] = value
	}
	held, err := runs.Begin(ctx, s.control)
	if err != nil {
		return nil, err
	}
	defer held.End()
	s.caller.Recorder, s.caller.Guard = &beginning{Run: held, begin: begin}, held
	s.caller.Gone = held.Gone
	r := runner.New(s.spec, s.containers)
	if _, err := r.Apply(ctx, s.caller); err != nil {
		return nil, err
	}
	return made(r, step), nil
}

// variables are what a manifest knows of its step. Nobody else can set them.
func (c *crew) variables(step pipeline.Step, artifacts map[string]string) map[string]any {
	refs := map[string]any{}
	for kind, ref := range artifacts {
		refs[kind] = ref
	}
	name, _ := pipelines.PipelineOf(step.Target)
	v := map[string]any{
		"pipeline": name, "stage": step.Stage, "revision": step.Revision, "artifacts": refs,
	}
	if h, ok := c.hosts.host(step.Host); ok {
		v["host"], v["host_group"], v["host_attributes"] = h.Name, step.Group, attributes(h)
	}
	return v
}

// made are the references of the artifacts that a manifest made: each is the
// state "ref" of the resource that is called as its kind is.
func made(r *runner.Runner, step pipeline.Step) map[string]string {
	refs := map[string]string{}
	for _, kind := range step.Artifacts {
		if ref, ok := r.State(kind)["ref"].(string); ok {
			refs[kind] = ref
		}
	}
	return refs
}

// beginning records a run as one that its pipeline allowed to begin.
type beginning struct {
	*runs.Run
	begin func(func() error) error
}

// Record implements runner.Recorder.
func (b *beginning) Record(ctx context.Context, e runner.Event) error {
	if e.Kind != runner.RunStarted {
		return b.Run.Record(ctx, e)
	}
	return b.begin(func() error { return b.Run.Record(ctx, e) })
}
