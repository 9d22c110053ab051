package query

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/runner/report"
)

// Outputs are what the manifests of a target told when they were last applied.
type Outputs struct {
	Target  deploylog.Target
	Outputs map[string]runs.Told
}

// LastOutputs are those of a target; of "run/" those of the manifests that were last applied
// or destroyed. An apply of some resources replaces the outputs that it knows, and after a
// destroy there are none. It fails with ErrNotFound where nothing was applied.
func LastOutputs(ctx context.Context, log deploylog.Log, target deploylog.Target) (*Outputs, error) {
	if target == "run/" {
		var err error
		if target, err = lastRun(ctx, log); err != nil {
			return nil, err
		}
	}
	all, err := runs.ReadOutputs(ctx, log, target)
	if err != nil {
		return nil, err
	}
	told, applied := all.Of(target)
	if !applied {
		return nil, unapplied(ctx, log, target)
	}
	return &Outputs{target, told}, nil
}

// lastRun is the target of the newest run that has ended well.
func lastRun(ctx context.Context, log deploylog.Log) (deploylog.Target, error) {
	for last := 1; ; last *= 8 { // runs that removed orphans have none, and leave those of others
		found := 0
		var target deploylog.Target
		for e, err := range log.Read(ctx, deploylog.Filter{Target: "run/", Name: string(report.RunFinished), Last: last}) {
			if err != nil {
				return "", fmt.Errorf("reading which run ended well last: %w", err)
			}
			if found++; e.Target != runs.OrphansTarget {
				target = e.Target
			}
		}
		if target != "" {
			return target, nil
		}
		if found < last {
			return "", unapplied(ctx, log, "run/")
		}
	}
}

// TargetNamed is the target of the newest run of a manifest by the name that it says it has; "" is that none is known.
func TargetNamed(ctx context.Context, log deploylog.Log, name string) (target deploylog.Target, err error) {
	if name == "" {
		return "", nil
	}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: "run/", Name: string(report.RunStarted)}) {
		if err != nil {
			return "", fmt.Errorf("reading which runs were of %s: %w", name, err)
		}
		if of := runs.DataOf(e).Of; of != nil && of.Name == name {
			target = e.Target
		}
	}
	return target, nil
}

// unapplied says why there are no outputs of a target of which no apply has ended well.
func unapplied(ctx context.Context, log deploylog.Log, target deploylog.Target) error {
	var last deploylog.Event
	for e, err := range log.Read(ctx, deploylog.Filter{Target: target, Name: string(report.RunStarted)}) {
		if err != nil {
			return fmt.Errorf("reading the runs of %s: %w", target, err)
		}
		if runs.DataOf(e).Details["command"] == "apply" {
			last = e
		}
	}
	switch {
	case last.Seq == 0 && target == "run/":
		return unknown("nothing was applied yet, so there are no outputs")
	case last.Seq == 0:
		return unknown("nothing of %s was applied: deployster log runs lists what was", target)
	}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: last.Target, Name: string(report.RunFailed), Deployment: last.Deployment, Last: 1}) {
		if err != nil {
			return fmt.Errorf("reading how run %s ended: %w", last.Deployment, err)
		}
		return unknown("there are no outputs of %s: its last apply, run %s, failed, and they are evaluated once all is applied; deployster log list --deployment %[2]s says what failed: mend that, and apply again", last.Target, e.Deployment)
	}
	return unknown("there are no outputs of %s: its last apply, run %s, has not ended, or was killed; they are evaluated once all is applied: wait for it (deployster log follow), or apply again", last.Target, last.Deployment)
}

// Named is one of the outputs. It fails with ErrNotFound.
func (o *Outputs) Named(name string) (runs.Told, error) {
	if one, known := o.Outputs[name]; known {
		return one, nil
	}
	names := slices.Sorted(maps.Keys(o.Outputs))
	switch near := suggest.Closest(name, names); {
	case near != "":
		return runs.Told{}, unknown("the last run of %s has no output %q, did you mean %q?", o.Target, name, near)
	case len(names) == 0:
		return runs.Told{}, unknown("the last run of %s has no outputs: a manifest declares them under outputs, and an apply evaluates them", o.Target)
	}
	return runs.Told{}, unknown("the last run of %s has no output %q; it has %s", o.Target, name, phrase.List(names))
}
