package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// observe asks for the state of a resource. One that differs where its differences are to be left
// alone (manifest.Resource.IgnoreChanges) is asked for it again, with what there is in the place
// of what is configured there; that answer counts, also for the actions that follow.
func (r *Runner) observe(ctx context.Context, res *resource) (protocol.StateOutput, error) {
	res.adjusted, res.left = nil, nil
	out, err := r.askState(ctx, res)
	if err != nil || out.Status == protocol.Valid || out.StaleState == nil || res.ensure == protocol.Absent {
		return out, err
	}
	config := res.config
	for _, path := range res.IgnoreChanges {
		config, _ = diff.Leave(config, out.StaleState, manifest.PathSteps(path)).(map[string]any)
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
