package logs

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/deployster-go/deployster/control/pipelines"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/internal/cli/output"
	"github.com/deployster-go/deployster/pipeline"
)

// actors finds out which command of whom caused the events of a log.
type actors struct {
	log deploylog.Log
	by  map[string]string // by deployment
}

// of is "apply by ada" for the events of a run, and "by ada" where the event
// itself says what was done.
func (d *actors) of(ctx context.Context, e deploylog.Event) (string, error) {
	by := actorOf(e)
	if by != "" && e.Name == e.Target.Started() {
		d.by[e.Deployment] = by
	}
	if by != "" {
		return by, nil
	}
	by, known := d.by[e.Deployment]
	if known {
		return by, nil
	}
	for first, err := range d.log.Read(ctx, deploylog.Filter{Deployment: e.Deployment, Until: e.Seq}) {
		if err != nil {
			return "", err
		}
		by = actorOf(first)
		break
	}
	d.by[e.Deployment] = by
	return by, nil
}

// actorOf is what an event itself says of it.
func actorOf(e deploylog.Event) string {
	var data struct {
		By      string                     `json:"by"`
		Kind    environment.DeploymentKind `json:"kind"`
		Details struct {
			User    string `json:"user"`
			Command string `json:"command"`
		} `json:"details"`
	}
	if len(e.Data) == 0 || json.Unmarshal(e.Data, &data) != nil {
		return ""
	}
	verb, by := data.Details.Command, data.Details.User
	if by == "" {
		verb, by = string(data.Kind), data.By
	}
	switch {
	case by == "":
		return output.PlainText(verb)
	case verb == "":
		return output.PlainText("by " + by)
	default:
		return output.PlainText(verb + " by " + by)
	}
}

// unended leaves out of what was started of a target what has ended since
// without a marker of its own.
func unended(ctx context.Context, log deploylog.Log, target deploylog.Target, started []deploylog.Event) ([]deploylog.Event, error) {
	if len(started) == 0 {
		return nil, nil
	}
	if name, ok := pipelines.PipelineOf(target); ok {
		return stillGoing(ctx, log, pipeline.Target(name), started)
	}
	name, ok := environment.NameOf(target)
	if !ok {
		return started, nil
	}
	targets := []deploylog.Target{target}
	if whole := environment.Target(name); whole != target {
		targets = append(targets, whole)
	}
	last := int64(0) // of the events that end what was started before
	for _, t := range targets {
		for e, err := range log.Read(ctx, deploylog.Filter{Target: t, After: started[0].Seq}) {
			if err != nil {
				return nil, err
			}
			if environment.Ends(e, target) {
				last = max(last, e.Seq)
			}
		}
	}
	var open []deploylog.Event
	for _, e := range started {
		if e.Seq >= last { // the newest start is one itself
			open = append(open, e)
		}
	}
	return open, nil
}

// stillGoing leaves what deployments of a pipeline had started that are under way,
// and what others than its scheduler did.
func stillGoing(ctx context.Context, log deploylog.Log, of deploylog.Target, started []deploylog.Event) ([]deploylog.Event, error) {
	deployments := pipeline.InProgress{}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: of}) {
		if err != nil {
			return nil, err
		}
		deployments.Apply(e)
	}
	return slices.DeleteFunc(started, func(e deploylog.Event) bool {
		going, known := deployments[e.Deployment]
		return known && !going
	}), nil
}
