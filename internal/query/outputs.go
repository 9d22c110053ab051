package query

import (
	"context"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/suggest"
	"github.com/deployster-go/deployster/runner"
)

// Outputs are what the manifests of a target told when they were last applied.
type Outputs struct {
	Target  deploylog.Target
	Outputs map[string]runner.Output
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
	var out *Outputs
	commands := map[string]string{}
	for e, err := range log.Read(ctx, deploylog.Filter{Target: target}) {
		if err != nil {
			return nil, err
		}
		d := runs.DataOf(e)
		switch {
		case e.Name == target.Started():
			commands[e.Deployment] = d.Details["command"]
		case e.Name != target.Succeeded(), commands[e.Deployment] == "adopt": // that evaluates none
		case out == nil || commands[e.Deployment] == "destroy":
			out = &Outputs{target, d.Outputs.Outputs}
		default:
			before := out.Outputs
			out.Outputs = maps.Clone(d.Outputs.Outputs)
			for _, name := range d.Unknown {
				if o, known := before[name]; known {
					if out.Outputs == nil {
						out.Outputs = map[string]runner.Output{}
					}
					out.Outputs[name] = o
				}
			}
		}
	}
	if out == nil {
		return nil, unknown("nothing of %s was applied: deployster log runs lists what was", target)
	}
	return out, nil
}

// lastRun is the target of the newest run that has ended well.
func lastRun(ctx context.Context, log deploylog.Log) (deploylog.Target, error) {
	for e, err := range log.Read(ctx, deploylog.Filter{Target: "run/", Name: string(runner.RunFinished), Last: 1}) {
		return e.Target, err
	}
	return "", unknown("nothing was applied yet, so there are no outputs")
}

// Named is one of the outputs. It fails with ErrNotFound.
func (o *Outputs) Named(name string) (runner.Output, error) {
	if one, known := o.Outputs[name]; known {
		return one, nil
	}
	names := slices.Sorted(maps.Keys(o.Outputs))
	switch near := suggest.Closest(name, names); {
	case near != "":
		return runner.Output{}, unknown("the last run of %s has no output %q, did you mean %q?", o.Target, name, near)
	case len(names) == 0:
		return runner.Output{}, unknown("the last run of %s has no outputs: a manifest declares them under outputs, and an apply evaluates them", o.Target)
	}
	return runner.Output{}, unknown("the last run of %s has no output %q; it has %s", o.Target, name, phrase.List(names))
}
