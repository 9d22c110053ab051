package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
)

// payloadVersion is the version of the data of the events written here.
const payloadVersion = 1

// payload is the data of a run's events in the log. Fields are only ever
// added; readers ignore those they do not know.
type payload struct {
	Version int `json:"version"`
	runner.EventData
	Resources map[string]string `json:"resources,omitempty"` // name → type
	Details   map[string]string `json:"details,omitempty"`
	Engine    *EngineUsed       `json:"engine,omitempty"`    // of run-started
	Meaning   string            `json:"meaning,omitempty"`   // of what a destroy found gone, see Options.Meaning; its salt is the deployment
	Abandoned bool              `json:"abandoned,omitempty"` // the process died; written by the run named in NoticedBy
	NoticedBy string            `json:"noticed_by,omitempty"`
}

// RunTarget is the target of the runs of the given manifest files: their paths
// below the workspace, so that it is the same wherever the workspace lies.
func RunTarget(workspace string, files []string) deploylog.Target {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = f
		if abs, err := filepath.Abs(f); err == nil {
			if rel, err := filepath.Rel(workspace, abs); err == nil && filepath.IsLocal(rel) {
				names[i] = filepath.ToSlash(rel)
			}
		}
	}
	return deploylog.Target("run/" + strings.Join(names, "+"))
}

// EventNames are the names of the events of all runs.
func EventNames() []string {
	names := []string{EventRunAbandoned}
	for _, t := range []deploylog.Target{"run/", "resource/", "action/"} {
		names = append(names, t.Started(), t.Succeeded(), t.Failed(), lost(t))
	}
	for _, kind := range []runner.EventKind{
		runner.ResourceInitialized, runner.ResourceResolved, runner.ResourceVerified, runner.ResourceDestroyed, runner.ResourceSkipped,
	} {
		names = append(names, string(kind))
	}
	return names
}

func resourceTarget(resource string) deploylog.Target {
	return deploylog.Target("resource/" + resource)
}

func actionTarget(resource, action string) deploylog.Target {
	return deploylog.Target("action/" + resource + "/" + action)
}

// Record appends a run's event to the log; it is durable on return.
func (r *Run) Record(ctx context.Context, e runner.Event) error {
	p := payload{EventData: e.Encoded(), Details: e.Data}
	if len(e.Resources) > 0 {
		p.Resources = make(map[string]string, len(e.Resources))
		for _, h := range e.Resources {
			p.Resources[h.Name] = h.Type
		}
	}
	if e.Kind == runner.RunStarted && r.o.Engines != nil {
		used := r.o.Engines.Used(ctx)
		p.Engine = &used
	}
	if e.Kind == runner.ResourceFinished && r.o.Revision == "" {
		p.Meaning = r.means(r.o.ID, e.Resource)
	}
	name := string(e.Kind)
	var target deploylog.Target
	switch kind, _, _ := strings.Cut(string(e.Kind), "-"); kind {
	case "run":
		target = r.o.Target
	case "resource":
		target = resourceTarget(invoke.Placed(e.Resource, r.o.Place))
	case "action":
		target = actionTarget(invoke.Placed(e.Resource, r.o.Place), e.Action)
	default:
		return fmt.Errorf("event %s is not one for the log", e.Kind)
	}
	if r.losesEnd(ctx, e) {
		name = lost(target)
	}
	return r.append(ctx, r.o.ID, r.o.Revision, target, name, max(1, e.Attempt), p)
}

// lost is the name of the event that takes the place of a failure where the engine
// did not say that an action has ended. What it is of has no end then, so that a
// later run looks for what may still be at work.
func lost(t deploylog.Target) string { return t.Kind() + "-lost" }

// confirmTimeout is how long an engine may take to say that an action has ended.
const confirmTimeout = 10 * time.Second

// losesEnd reports whether what failed may go on all the same, or has something in it
// that may.
func (r *Run) losesEnd(ctx context.Context, e runner.Event) bool {
	switch e.Kind {
	case runner.ActionFailed:
		if e.Exit != nil || !r.mayRun(ctx, e) {
			return false
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.lost == nil {
			r.lost = map[string]bool{}
		}
		r.lost[e.Resource] = true
		return true
	case runner.ResourceFailed, runner.RunFailed:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.lost[e.Resource] || e.Kind == runner.RunFailed && len(r.lost) > 0
	default:
		return false
	}
}

// mayRun reports whether the container of an action may still be running. The
// processes that serve are killed with what they fail at.
func (r *Run) mayRun(ctx context.Context, e runner.Event) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
	defer cancel()
	left, err := r.o.Engine.Containers(ctx, map[string]string{
		invoke.LabelLog: r.o.Log.ID(), invoke.LabelRun: r.o.ID, invoke.LabelKind: invoke.KindAct,
		invoke.LabelResource: invoke.Placed(e.Resource, r.o.Place), invoke.LabelAction: e.Action, invoke.LabelAttempt: strconv.Itoa(max(1, e.Attempt)),
	})
	return err != nil || slices.ContainsFunc(left, func(c engine.Container) bool { return c.Running })
}

func (r *Run) append(ctx context.Context, deployment, revision string, t deploylog.Target, name string, attempt int, p payload) error {
	p.Version = payloadVersion
	data, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encoding the data of %s: %w", name, err)
	}
	_, err = r.o.Log.Append(ctx, deploylog.Event{
		Deployment: deployment, Target: t, Revision: revision, Name: name, Attempt: attempt, Data: data,
	})
	if err != nil {
		return fmt.Errorf("deployment log: %s of %s: %w", name, t, err)
	}
	return nil
}

// Details are what a run-started tells of who began the run, and what for.
func Details(e deploylog.Event) map[string]string { return payloadOf(e).Details }
