package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/protected"
	"github.com/deployster-go/deployster/runner/encoding"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// dataVersion is the version of the data of the events written here.
const dataVersion = 1

// Data is the data of a run's events in the log. Fields are only ever
// added; readers ignore those they do not know.
type Data struct {
	Version int `json:"version"`
	encoding.Fields
	Resources map[string]string `json:"resources,omitempty"` // name → type
	Details   map[string]string `json:"details,omitempty"`
	Engine    *EngineUsed       `json:"engine,omitempty"`            // of run-started
	Meaning   string            `json:"meaning,omitempty"`           // of what a destroy found gone, see Options.Meaning; its salt is the deployment
	Whole     bool              `json:"whole,omitempty"`             // of run-started: the resources are all that the manifest declares
	Request   json.RawMessage   `json:"request,omitempty"`           // of run-started: the request that the run is for
	Carries   map[string]string `json:"carries,omitempty"`           // of run-started: digests of what is applied, by path
	Kept      *Kept             `json:"kept,omitempty"`              // of resource-kept: what is kept from now on
	Thing     string            `json:"thing,omitempty"`             // of resource-resolved, of a step: identifies what there is
	Made      *Making           `json:"made,omitempty"`              // of action-started: what the first action makes; in places of steps, and of instances that a run found out; of resource-adopted
	ID        string            `json:"resource_id,omitempty"`       // the id of what a resource is, where that is not its name: of things of several manifests with one name, and of former ones of one resource
	Key       string            `json:"key,omitempty"`               // of resource-destroyed and resource-claimed: the Key of the Identity of the thing
	Also      []string          `json:"also,omitempty"`              // of resource-claimed: the keys of the other things of a resource with several
	ByAddress []string          `json:"by_address,omitempty"`        // of resource-claimed: as of the Identity of the thing
	Of        *Owner            `json:"of,omitempty"`                // of run-started, and of resource-destroyed, -forgotten, -moved and -claimed: the manifest
	Took      *Taken            `json:"took,omitempty"`              // of events with Made: what another manifest had before
	From      string            `json:"from,omitempty"`              // of resource-moved: the name before; of resource-adopted: the run that made it, if one did
	Secret    *protected.Ref    `json:"outputs_protected,omitempty"` // of run-finished-successfully: the values of secret outputs
	Abandoned bool              `json:"abandoned,omitempty"`         // the process died; written by the run named in NoticedBy
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
	names := []string{EventRunAbandoned, EventResourceMoved, EventResourceForgotten, EventResourceClaimed, string(report.ResourceAdopted)}
	for _, t := range []deploylog.Target{"run/", "resource/", "action/"} {
		names = append(names, t.Started(), t.Succeeded(), t.Failed(), lost(t))
	}
	for _, kind := range []report.EventKind{
		report.ResourceInitialized, report.ResourceResolved, report.ResourceVerified, report.ResourceKept, report.ResourceDestroyed, report.ResourceExpanded, report.ResourceSkipped,
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
func (r *Run) Record(ctx context.Context, e report.Event) error {
	resource := invoke.Placed(e.Resource, r.o.Place)
	kind, _, _ := strings.Cut(string(e.Kind), "-")
	target, ok := map[string]deploylog.Target{
		"run": r.o.Target, "resource": resourceTarget(resource), "action": actionTarget(resource, e.Action),
	}[kind]
	if !ok {
		return fmt.Errorf("event %s is not one for the log", e.Kind)
	}
	p, err := r.dataOf(ctx, e)
	if err != nil {
		return err
	}
	name := string(e.Kind)
	if r.losesEnd(ctx, e) {
		name = lost(target)
	}
	event := deploylog.Event{Deployment: r.o.ID, Target: target, Revision: r.o.Revision, Name: name, Attempt: max(1, e.Attempt)}
	if e.Kind == report.ResourceKept {
		return r.recordKept(ctx, event, e, p)
	}
	if e.Removing {
		event.Revision = "" // what is removed has none
	}
	if r.o.Step != (Step{}) {
		return r.recordPlaced(ctx, event, p, e)
	}
	if r.o.Manifest == nil {
		if m := e.Made(); m != nil && m.OneOfMany && e.Kind == report.ActionStarted {
			if p.Made, err = r.made(m); err != nil {
				return fmt.Errorf("recording what is made of %s: %w", resource, err)
			}
		}
		return appendEvent(ctx, r.o.Log, event, p)
	}
	return r.recordOwned(ctx, event, p, e)
}

// recordOwned records an event of a manifest, whose resources are its own.
func (r *Run) recordOwned(ctx context.Context, event deploylog.Event, p Data, e report.Event) error {
	switch e.Kind {
	case report.ResourceAdopted:
		from, err := r.madeBefore(ctx, e)
		if err != nil {
			return err
		}
		p.From = from
	case report.ResourceDestroyed, report.ResourceForgotten:
		owner := r.o.Owner()
		if e.Owner != nil {
			owner = ownerOf(*e.Owner)
		}
		p.Of, p.Key = &owner, e.Key
	default: // they say whose it is with what is made
	}
	if m := e.Made(); m != nil && e.Kind != report.ResourceResolved && e.Kind != report.ResourceVerified {
		return r.recordMade(ctx, event, p, m)
	}
	if e.Kind == report.ResourceDestroyed || e.Kind == report.ResourceForgotten {
		return r.changing(ctx, func() error { return appendEvent(ctx, r.o.Log, event, p) })
	}
	if err := appendEvent(ctx, r.o.Log, event, p); err != nil {
		return err
	}
	switch {
	case e.Kind == report.RunStarted:
		return r.recordMoves(ctx)
	case e.Made() != nil:
		return r.own(ctx, e, p)
	}
	return nil
}

// dataOf is what the log has of an event; secrets of it are protected before they are referred to.
func (r *Run) dataOf(ctx context.Context, e report.Event) (p Data, err error) {
	p = Data{Fields: encoding.FieldsOf(e), Details: e.Data, Resources: map[string]string{}, ID: e.ID}
	if e.Took != nil {
		p.Took = &Taken{Of: ownerOf(e.Took.By), Name: e.Took.Name, ID: e.Took.ID}
	}
	for _, h := range e.Resources {
		p.Resources[h.Name] = h.Type
	}
	switch e.Kind {
	case report.RunStarted:
		if r.o.Engines != nil {
			used := r.o.Engines.Used(ctx)
			p.Engine = &used
			r.mentionEngine(ctx, used)
		}
		if p.Request, p.Carries = r.o.Request, r.o.Carries; r.o.Manifest != nil {
			owner := r.o.Owner()
			p.Of, p.Whole = &owner, r.o.Whole
		}
	case report.ResourceFinished:
		if r.o.Revision == "" {
			p.Meaning = r.o.Meaning(r.o.ID, e.Resource)
		}
	case report.RunFinished:
		p.Secret, err = r.secretOutputs(e)
	default:
	}
	return p, err
}

// lost is the name of the event that takes the place of a failure where the engine
// did not say that an action has ended. What it is of has no end then, so that a
// later run looks for what may still be at work.
func lost(t deploylog.Target) string { return t.Kind() + "-lost" }

// confirmTimeout is how long an engine may take to say that an action has ended.
const confirmTimeout = 10 * time.Second

// losesEnd reports whether what failed may go on all the same, or has something in it
// that may.
func (r *Run) losesEnd(ctx context.Context, e report.Event) bool {
	switch e.Kind {
	case report.ActionFailed:
		if e.Exit != nil || !e.Lost && !r.mayRun(ctx, e) {
			return false
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lost[e.Resource] = true
		return true
	case report.ResourceFailed, report.RunFailed:
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.lost[e.Resource] || e.Kind == report.RunFailed && len(r.lost) > 0
	default:
		return false
	}
}

// mayRun reports whether the container of an action may still be running. The
// processes that serve are killed with what they fail at.
func (r *Run) mayRun(ctx context.Context, e report.Event) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
	defer cancel()
	left, err := r.left(ctx, r.o.Engine, map[string]string{
		invoke.LabelRun: r.o.ID, invoke.LabelKind: invoke.KindAct,
		invoke.LabelResource: invoke.Placed(e.Resource, r.o.Place), invoke.LabelAction: e.Action, invoke.LabelAttempt: strconv.Itoa(max(1, e.Attempt)),
	})
	return err != nil || slices.ContainsFunc(left, func(c engine.Container) bool { return c.Running })
}

// appendEvent appends an event with its data to the log.
func appendEvent(ctx context.Context, log deploylog.Log, e deploylog.Event, p Data) (err error) {
	p.Version = dataVersion
	if e.Data, err = json.Marshal(p); err != nil {
		return fmt.Errorf("encoding the data of %s: %w", e.Name, err)
	}
	if _, err := log.Append(ctx, e); err != nil {
		return fmt.Errorf("deployment log: %s of %s: %w", e.Name, e.Target, err)
	}
	return nil
}

// appendOnce records what became of something that a dead run began. Another run may have
// done so already; that is as good.
func appendOnce(ctx context.Context, log deploylog.Log, began deploylog.Event, name string, p Data) error {
	err := appendEvent(ctx, log, deploylog.Event{
		Deployment: began.Deployment, Target: began.Target, Revision: began.Revision, Name: name, Attempt: began.Attempt,
	}, p)
	if errors.Is(err, deploylog.ErrDuplicate) {
		return nil
	}
	return err
}

// Who are the user and the host of this process, as the log names who did something.
// What cannot be found out is not there.
func Who() map[string]string {
	who := map[string]string{}
	if u, err := user.Current(); err == nil {
		who["user"] = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		who["host"] = host
	}
	return who
}

// DataOf is the data of an event, empty where it cannot be read.
func DataOf(e deploylog.Event) Data {
	var p Data
	if json.Unmarshal(e.Data, &p) != nil {
		return Data{}
	}
	return p
}
