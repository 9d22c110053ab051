package pipeline

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/deployment"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

// checkSkips finds an end of a host, host group or stage that would not tell which steps
// of the present definition it comes without, as the log alone shows.
func (w *world) checkSkips(steps []step.Step) string {
	for _, step := range steps {
		steps, in := w.ended(step)
		want := record.Skips{Nothing: len(in) > 0}
		for _, event := range steps {
			if slices.ContainsFunc(in, func(host string) bool { return !w.did(step.Deployment, host, event) }) {
				want.Steps = append(want.Steps, event)
			}
		}
		for _, e := range w.log {
			marker := e.Name == record.HostStarted || e.Name == record.HostFinished || record.IsFailure(e.Name)
			if e.Deployment == step.Deployment && slices.Contains(in, string(e.Target)) && !marker {
				want.Nothing = false
			}
		}
		want.Nothing = want.Nothing && len(want.Steps) > 0
		if !reflect.DeepEqual(step.Skipped, want) {
			return fmt.Sprintf("%s of %s would tell that it skipped %v, not %v", step.Event, step.Target, step.Skipped, want)
		}
	}
	return ""
}

// ended are the hosts that have finished, with their steps, in what a step ends.
func (w *world) ended(step step.Step) (steps, hosts []string) {
	for _, s := range w.oracle.definition.Stages {
		if s.Name != step.Stage || s.Deploy == nil {
			continue
		}
		steps = eventsOf(s.Deploy)
		for _, g := range s.Deploy.HostGroups {
			for _, h := range w.oracle.members[g.Name] {
				host := "host/p/" + g.Name + "/" + h
				if (step.Group == "" || step.Group == g.Name) && w.did(step.Deployment, host, record.HostFinished) {
					hosts = append(hosts, host)
				}
			}
		}
	}
	switch step.Event {
	case record.HostFinished:
		return steps, []string{string(step.Target)}
	case record.GroupFinished, record.StageFinished:
		return steps, hosts
	default:
		return nil, nil
	}
}

// did reports whether something happened to a host.
func (w *world) did(deployment, host, event string) bool {
	return slices.ContainsFunc(w.log, func(e deploylog.Event) bool {
		return e.Deployment == deployment && string(e.Target) == host && e.Name == event
	})
}

// An event that gets another name in mid-rollout is another step: the ends of what went
// without it tell, as checkSkips wants of all ends.
func TestARenamedStepIsKnownByItsManifest(t *testing.T) {
	const restarted, renamed = "host-restarted", "host-reloaded"
	before, d := antGateway(deployed, restarted), antGateway(deployed, renamed)
	for i := range d.Stages {
		if deploy := d.Stages[i].Deploy; deploy != nil {
			deploy.Steps[1].Manifest = restarted + ".yaml"
		}
	}
	assert.Equal(t, []deployment.Rename{
		{Stage: "beta", From: restarted, To: renamed, Manifest: restarted + ".yaml"}, {Stage: "prod", From: restarted, To: renamed, Manifest: restarted + ".yaml"},
	}, deployment.Renames(before, d))
}
