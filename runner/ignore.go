package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// observe asks for the state of a resource. One that differs where its differences are to be left
// alone (manifest.Resource.IgnoreChanges) is asked for it again, with what there is in the place
// of what is configured there; that answer counts, also for the actions that follow.
func (r *Runner) observe(ctx context.Context, res *resource) (protocol.StateOutput, error) {
	res.adjusted, res.left, res.found = nil, nil, nil
	out, err := r.askState(ctx, res)
	if res.found = out.StaleState; out.Status == protocol.Valid {
		res.found = out.State
	}
	if err != nil || out.Status == protocol.Valid || out.StaleState == nil || res.ensure == protocol.Absent {
		return out, err
	}
	config := res.config
	for _, path := range res.IgnoreChanges {
		config, _ = diff.Leave(config, out.StaleState, path).(map[string]any)
	}
	if diff.Same(config, res.config) {
		return out, nil
	}
	if res.schema != nil {
		if broken := res.schema.Validate(config); len(broken) > 0 {
			r.notify(report.Warning, res.Name, "state", fmt.Sprintf("ignore_changes (%s) does not apply: with what there is its configuration would not be as its type accepts it: %s",
				strings.Join(res.IgnoreChanges, ", "), broken[0].Message))
			return out, nil
		}
	}
	remaining := diff.Of(out.StaleState, config, res.target.Secret)
	for _, c := range diff.Of(out.StaleState, res.config, res.target.Secret) {
		if !slices.ContainsFunc(remaining, func(r diff.Change) bool { return r.Path == c.Path }) {
			res.left = append(res.left, c)
		}
	}
	res.adjusted = config
	return r.askState(ctx, res)
}

// asked is the configuration with which the type of a resource is asked: that of the manifest, but
// for what is left as it is.
func (res *resource) asked() map[string]any {
	if res.adjusted != nil {
		return res.adjusted
	}
	return res.config
}

// unmatched returns the paths to ignore that match nothing, as far as that is known.
func (r *Runner) unmatched(drift bool) []diff.Unmatched {
	var all []diff.Ignoring
	for _, res := range each(r.resources) {
		if res.undeclared != nil || res.excluded || len(res.IgnoreChanges)+len(res.IgnoreDrift) == 0 {
			continue
		}
		one := diff.Ignoring{Resource: res.Name, Setting: "ignore_changes", Paths: res.IgnoreChanges, Config: res.config, There: res.found, Accepts: res.schema}
		if one.Config == nil {
			one.Config = res.Config
		}
		if all = append(all, one); drift {
			one.Setting, one.Paths = "ignore_drift", res.IgnoreDrift
			all = append(all, one)
		}
	}
	return diff.FindUnmatched(all)
}

// warnUnmatched warns of paths to ignore that match nothing.
func (r *Runner) warnUnmatched(drift bool) {
	for _, u := range r.unmatched(drift) {
		r.notify(report.Warning, u.Resource, "state", u.String())
	}
}
