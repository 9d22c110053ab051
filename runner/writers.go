package runner

import (
	"context"
	"slices"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/runner/plugs"
	"github.com/deployster-go/deployster/runner/report"
)

// isFormer reports whether a resource was made by an earlier run, and is now only asked or removed. It has the plugs
// that it had then, also if they would be refused by now: else it could be neither seen nor removed.
func (r *Runner) isFormer(res *resource) bool { return r.former || res.undeclared != nil }

// declared are the paths of a manifest to which types may write if they ask for that.
func declared(m *manifest.Manifest) (paths []string) {
	for _, p := range m.Plugs {
		if !p.ReadOnly {
			paths = append(paths, p.Path)
		}
	}
	return paths
}

// checkPlugs refuses plugs by which one type might have another see something else, when it is known which types write
// to what they are given: a link may be one that a type made, and what lies in a directory that another type writes to
// may be replaced. Of what was made by earlier runs it warns.
func (r *Runner) checkPlugs(ctx context.Context) {
	var all []plugs.Given
	for _, res := range r.resources {
		all = append(all, plugs.Given{Resource: res.Resource, Mounts: res.target.Mounts})
	}
	writers := plugs.WritersOf(all)
	r.written, r.nested = writers.Paths(), nil
	r.invoker.Writes(r.written)
	if len(writers) == 0 {
		return
	}
	for i, res := range r.resources {
		if res.refused != nil || res.unprepared || len(all[i].Mounts) == 0 {
			continue
		}
		r.checkLinks(ctx, res)
		if r.containers.Pins {
			continue
		}
		if found := writers.Nested(all[i]); r.isFormer(res) {
			r.warnProblems(res, found)
		} else {
			r.nested = append(r.nested, found...)
		}
	}
}

// unfollowed are the paths in which no link is followed of a resource, of those to which types of this run write.
func (r *Runner) unfollowed(res *resource, written []string) []string {
	if r.isFormer(res) {
		return nil
	}
	return written
}

// checkLinks refuses plugs of a resource that lead through links in what types write to, or goes without them.
func (r *Runner) checkLinks(ctx context.Context, res *resource) {
	mounts, without, problems := r.plug(res, res.init.Plugs, r.written)
	switch {
	case r.isFormer(res):
		r.warnProblems(res, problems)
	case len(problems) > 0:
		res.refused = &manifest.Error{Problems: problems}
		r.refuse(ctx, res, res.refused)
	case len(without) > len(res.without):
		for _, text := range without {
			if !slices.Contains(res.without, text) {
				r.notify(report.Warning, res.Name, "init", text)
			}
		}
		res.without, res.target.Mounts = without, mounts
		r.invoker.Serve(&res.target, res.init, mounts)
	}
}

// warnProblems warns of what would be refused if the resource were made now.
func (r *Runner) warnProblems(res *resource, problems []manifest.Problem) {
	for _, p := range problems {
		r.notify(report.Warning, res.Name, "init", p.Message)
	}
}
