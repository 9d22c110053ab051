package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/graph"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/report"
)

// pruning is the removal of what the manifest no longer declares. Each is configured as it was
// made, so that nothing has to be asked for its state.
func (r *Runner) pruning() *removal {
	d := r.newRemoval()
	d.managed = r.managed()
	for _, res := range r.orphans {
		d.removing[res.node()] = true
		d.toDestroy = append(d.toDestroy, res)
	}
	return d
}

// prune removes what is no longer declared, once all that is declared is as configured. After
// anything else it is skipped: what failed may still need it.
func (r *Runner) prune(ctx context.Context, applied error) error {
	if applied != nil && r.closing == nil {
		r.closing = &report.Skip{Code: report.ReasonRunFailed, Resource: firstFailed(each(r.declared()))}
	}
	d := r.pruning()
	return r.visitEach(ctx, d.walk, d.removeOne)
}

// staysAsAnother reports whether something undeclared is not to be removed, since it is by now what another resource or
// another manifest declares. It fails where it is not to be removed at all.
func (d *removal) staysAsAnother(ctx context.Context, res *resource) (bool, error) {
	if res.undeclared == nil || res.of != nil {
		return false, nil
	}
	if err := d.elsewhere(res); err != nil {
		return false, err
	}
	if res.deposed != "" && res.undeclared.Identity.Key != "" && d.managed[d.known(res)] != nil {
		return true, nil
	}
	stays, err := d.held(ctx, res)
	if err != nil || stays || res.deposed != "" {
		return stays, err
	}
	return false, d.stillDeclared(res, d.managed)
}

func firstFailed(resources []*resource) string {
	for _, res := range resources {
		if res.entry().Status == report.Failed {
			return res.Name
		}
	}
	return ""
}

// managed are the resources of the manifest by what they manage, as far as their configurations
// are known.
func (r *Runner) managed() map[string]*resource {
	managed := map[string]*resource{}
	for _, res := range each(r.declared()) {
		if !res.ReadOnly && res.config != nil {
			managed[r.thing(res)] = res
		}
	}
	return managed
}

// thing identifies what a resource manages: at worst by its whole configuration, which says nothing
// where its type finds it by what is kept.
func (r *Runner) thing(res *resource) string {
	if thing := r.known(res); thing != "" {
		return thing
	}
	text, err := json.Marshal(res.config)
	if err != nil || res.init.Keeps {
		return res.Type + "\x00" + res.Name
	}
	return res.Type + "\x00\x00" + string(text)
}

// known identifies what a resource manages of which there is one, "" where that is not known.
func (r *Runner) known(res *resource) string { return r.identify(res, nil).Key }

// stillDeclared refuses to remove what a resource of the manifest manages by now, under another
// name.
func (r *Runner) stillDeclared(res *resource, managed map[string]*resource) error {
	other := managed[r.thing(res)]
	if other == nil {
		return nil
	}
	return &manifest.Error{Problems: []manifest.Problem{{
		Position: other.Position, Path: "resources." + other.Name,
		Message: fmt.Sprintf("it manages what run %s made as %s, which is no longer declared and so would be removed; where it was only renamed, say so: moved: [{from: %q, to: %q}]",
			res.undeclared.Run, res.Name, res.Name, other.Name),
	}}}
}

// planPrune plans the removal of what is no longer declared.
func (r *Runner) planPrune(ctx context.Context, failures *failure.Several) {
	d := r.pruning()
	g := graph.New[string]()
	for _, res := range d.toDestroy {
		g.Add(res.node())
	}
	r.walkAlong(ctx, g, func(res *resource) error {
		entry := res.planned()
		err := r.planGuarded(ctx, res, entry, func(ctx context.Context, res *resource, entry *report.ResourcePlan) error {
			if err := r.fillConfiguration(res, entry); err != nil {
				return err
			}
			return d.planOne(ctx, res, entry)
		})
		if why := (report.Skip{}); errors.As(err, &why) {
			r.planned(entry, skipped(res, why))
			return nil
		}
		if err != nil {
			r.planned(entry, failed(res, err))
			failures.Add(fmt.Errorf("%s: %w", res.Name, err))
		}
		return err
	}, func(res *resource, why report.Skip) { r.planned(res.planned(), skipped(res, why)) })
}

// listUndeclared is what is no longer declared and stays, without what it takes to remove it.
func (r *Runner) listUndeclared() []report.Undeclared {
	if r.spec.Prune {
		return report.Bare(r.spec.Left)
	}
	return report.Bare(slices.Concat(r.spec.Undeclared, r.spec.Left))
}

// mention shows what is no longer declared and stays.
func (r *Runner) mention(list []report.Undeclared) {
	if len(list) == 0 {
		return
	}
	e := report.Event{Kind: report.Leftover, Time: r.now(), Text: report.LeftoverText(list)}
	for _, u := range list {
		e.Resources = append(e.Resources, report.ResourceHeader{Name: u.Name, Type: u.Type})
	}
	r.show(e)
}
