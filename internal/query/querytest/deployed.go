package querytest

import (
	"context"
	"time"

	"github.com/deployster-go/deployster/control/environments"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment"
	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/tasks"
)

// Deploy has an environment run a version on a host, healthy: variable version of its task is
// that. The environment is created where it is not there.
func Deploy(ctx context.Context, log deploylog.Log, now func() time.Time, name, version string) error {
	all, hosts := environments.New(log, now), []string{name + "1"}
	if err := all.Follow(ctx, 0); err != nil {
		return err
	}
	d := &definition.Definition{
		Name: name, Type: definition.Daemon, InstanceGroup: definition.InstanceGroup{Query: name},
		Task: definition.TaskSpec{Manifest: "web.yaml", Vars: map[string]any{"version": version}},
		Deployment: definition.Configuration{
			Method: definition.Replace, Drift: definition.RepairDrift, HealthyDeadline: definition.Duration(time.Minute), ProgressDeadline: definition.Duration(time.Minute),
		},
	}
	revision := 1
	var change environment.Command = environment.Create{Definition: d}
	if err := all.Ask(name, func(s *environment.State) error {
		revision += len(s.Revisions())
		return nil
	}); err == nil && revision > 1 {
		change = environment.Update{Base: revision - 1, Definition: d}
	}
	for _, c := range []environment.Command{change, environment.Deploy{Revision: revision, Hosts: hosts, By: "ada"}} {
		if _, err := all.Command(ctx, name, c, hosts...); err != nil {
			return err
		}
	}
	for {
		var next *tasks.Step
		if _, err := all.Change(ctx, name, false, func(s *environment.State) ([]deploylog.Event, error) {
			for step := range s.Decide(now(), environment.Can{Disrupt: true}) {
				next = &step
				return step.Events, nil
			}
			return nil, nil
		}); err != nil || next == nil {
			return err
		}
		if next.Kind == tasks.Record {
			continue
		}
		if _, err := all.Change(ctx, name, false, func(s *environment.State) ([]deploylog.Event, error) {
			return s.Completed(*next, tasks.ProbeResult{Health: tasks.Healthy}, nil), nil
		}); err != nil {
			return err
		}
	}
}
