package runs

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// Gone reports what the log knows of a resource that cannot be asked whether it
// exists. It is Verified when its type once said that it is gone, of just what
// is meant now (Options.Meaning), and no apply has come to it since. What a
// destroy only took from this log proves nothing. It is Unmade when applies meant
// to make it and no run ever came to it.
//
// The events of a destroy are those without a revision (Options).
func (r *Run) Gone(ctx context.Context, resource string) (runner.Absence, error) {
	target := resourceTarget(invoke.Placed(resource, r.o.Place))
	gone, begun, meant := false, false, false
	believed := "" // the run that took it from this log, last
	for e, err := range r.o.Log.Read(ctx, deploylog.Filter{Target: target}) {
		if err != nil {
			return runner.Unproven, fmt.Errorf("reading the history of %s: %w", target, err)
		}
		destroying := e.Revision == ""
		meant = meant || !destroying
		switch {
		case e.Name == EventResourceMoved: // what became of it is in the history of another name
			begun, gone = true, false
		case e.Name == target.Started(), e.Name == string(report.ResourceExpanded) && !destroying:
			begun = true
			gone = gone && destroying
		case !destroying:
		case e.Name == string(report.ResourceResolved) && DataOf(e).Details["by"] == "log":
			believed = e.Deployment
		case e.Name == target.Succeeded() && e.Deployment != believed:
			meaning := DataOf(e).Meaning
			gone = gone || meaning != "" && meaning == r.o.Meaning(e.Deployment, resource)
		}
	}
	switch {
	case gone:
		return runner.Verified, nil
	case meant && !begun:
		return runner.NeverCreated, nil
	default:
		return runner.Unproven, nil
	}
}

// Made are those of the resources at a place that runs may have made or changed
// since an event: an action was begun on them. What was forgotten after that is nobody's.
func Made(ctx context.Context, log deploylog.Log, place string, resources []string, since int64) (made []string, err error) {
	all, err := withInstances(ctx, log, place, resources, since)
	if err != nil {
		return nil, err
	}
	for _, resource := range all {
		placed, after := invoke.Placed(resource, place), since
		for e, err := range log.Read(ctx, deploylog.Filter{Target: resourceTarget(placed), Name: EventResourceForgotten, After: since, Last: 1}) {
			if err != nil {
				return nil, fmt.Errorf("reading whether %s was forgotten: %w", resource, err)
			}
			after = e.Seq
		}
		actions := actionTarget(placed, "") // with a slash at its end: all of them
		for e, err := range log.Read(ctx, deploylog.Filter{Target: actions, After: after}) {
			if err != nil {
				return nil, fmt.Errorf("reading what was done to %s: %w", resource, err)
			}
			if e.Name == e.Target.Started() {
				made = append(made, resource)
				break
			}
		}
	}
	return made, nil
}

// lastActor is the run that began an action on a resource last, by its name with its place, since what
// runs made of it was removed or forgotten, or got another name; "" is none. Of most of what is made in
// a place nothing else says that it was made.
func lastActor(ctx context.Context, log deploylog.Log, placed string) (run string, err error) {
	since := int64(0)
	for _, filter := range []deploylog.Filter{
		{Target: resourceTarget(placed), Name: string(report.ResourceDestroyed), Last: 1},
		{Target: resourceTarget(placed), Name: EventResourceForgotten, Last: 1},
		{Name: EventResourceMoved},
		{Target: actionTarget(placed, ""), Name: string(report.ActionStarted), Last: 1},
	} {
		for e, err := range log.Read(ctx, filter) {
			switch {
			case err != nil:
				return "", fmt.Errorf("reading which run made %s: %w", placed, err)
			case e.Name == EventResourceMoved && DataOf(e).From != placed:
			case e.Name != string(report.ActionStarted):
				since = max(since, e.Seq)
			case e.Seq > since:
				run = e.Deployment
			}
		}
	}
	return run, nil
}

// withInstances adds to resources the instances that runs found for them.
func withInstances(ctx context.Context, log deploylog.Log, place string, resources []string, since int64) (all []string, err error) {
	for _, resource := range resources {
		all = append(all, resource)
		found := map[string]string{}
		filter := deploylog.Filter{Target: resourceTarget(invoke.Placed(resource, place)), Name: string(report.ResourceExpanded), After: since}
		for e, err := range log.Read(ctx, filter) {
			if err != nil {
				return nil, fmt.Errorf("reading which instances %s had: %w", resource, err)
			}
			maps.Copy(found, DataOf(e).Resources)
		}
		all = append(all, slices.Sorted(maps.Keys(found))...)
	}
	return all, nil
}
