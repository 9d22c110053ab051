package runner

import (
	"context"
	"fmt"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/failure"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/redact"
	"github.com/deployster-go/deployster/runner/report"
)

// Drift asks for the state of every resource and says how it differs from its
// configuration. It runs no action and records nothing. Where a configuration
// needs the state of another resource, that which is found will do, STALE or
// not; where there is none, or where a STALE one lacks what is needed, the resource
// is Unknown.
//
// Drift fails where Apply refuses before it touches anything, or when any resource
// failed; the report it returns then names them.
func (r *Runner) Drift(ctx context.Context, caller Caller) (_ *report.Drift, err error) {
	r.caller, r.former = caller, true
	defer r.panics.Catch(&err, "looking for drift")
	defer r.invoker.Drain(ctx)
	if err := r.prepare(ctx); err != nil {
		return nil, err
	}
	r.forgetInstances()
	needs := map[string][]string{}
	for _, res := range r.declared() {
		needs[res.Name] = r.needs(res)
	}
	findings := r.survey(ctx, r.declared(), needs, func(*resource) bool { return true }, r.showDrift)
	found := &report.Drift{Run: r.containers.Run, Resources: []report.ResourceDrift{}}
	var failures failure.Several
	for _, res := range each(r.declared()) {
		s := findings[res.Name]
		d := drift(res, s)
		// Only now all secrets are known.
		redact.Changes(r.secrets, d.Diff)
		redact.Changes(r.secrets, d.Ignored)
		d.Error = r.secrets.Mask(d.Error)
		if d.Status == report.Stale {
			d.Asked = r.secrets.Mask(redact.Requested(r.secrets, s.answer.Actions))
		}
		if d.Status == report.Stale || d.Status == report.Valid {
			for _, line := range res.output {
				d.Output = append(d.Output, r.secrets.Mask(line))
			}
		}
		if d.Status == report.Failed {
			failures.Add(fmt.Errorf("%s: %w", res.Name, s.err))
		}
		found.Resources = append(found.Resources, d)
	}
	found.Unmatched = r.unmatched(true)
	found.Undeclared = append(r.listUndeclared(), report.Bare(r.gone())...)
	return found, r.verdict(ctx, &failures)
}

// Questions are those that the last Drift asked, of all resources: as long as their answers are the
// same, so is what another Drift finds, if types, images, variables and what plugs lead to are
// the same. It is nil if a Drift depends on more: on what was kept of a resource, or on secrets.
func (r *Runner) Questions() (all []invoke.Asked) {
	if !r.prepared {
		return nil
	}
	for _, res := range r.resources {
		if res.Late != nil || res.of != nil || res.init.Keeps || res.past.Interrupted || len(res.target.Secret)+len(res.hiding) > 0 || !res.question.Some() {
			return nil
		}
		all = append(all, res.question)
	}
	return all
}

// showDrift shows what was found of a resource at once.
func (r *Runner) showDrift(res *resource, s finding) {
	d := drift(res, s)
	event := report.Event{Kind: report.ResourceResolved, Time: r.now(), Resource: res.Name, Status: d.Status, Reason: d.Reason, Error: r.secrets.Mask(d.Error)}
	switch d.Status {
	case report.Failed:
		event.Kind = report.ResourceFailed
	case report.Skipped:
		event.Kind = report.ResourceSkipped
	default: // it was looked at, or could not be
	}
	r.show(event)
}

func drift(res *resource, s finding) report.ResourceDrift {
	d := report.ResourceDrift{Name: res.Name, Type: res.Type, DependsOn: res.dependsOn, Status: report.Valid}
	switch {
	case s.skipped != nil:
		d.Status, d.Reason, d.Error = report.Skipped, s.skipped.Code, s.skipped.Error()
	case len(s.drifted) > 0:
		// What its configuration needs may well be there once they are as configured.
		d.Status, d.Because = report.Unknown, s.drifted
	case s.err != nil:
		d.Status, d.Reason, d.Error = report.Failed, failure.Reason(s.err), s.err.Error()
	case len(s.lacks) > 0:
		d.Status, d.Because = report.Unknown, s.lacks
	case s.answer.Status == protocol.Stale:
		d.Status = report.Stale
		if d.Missing = s.answer.StaleState == nil; d.Missing {
			break // everything differs, and nothing of it is to be ignored
		}
		d.Ignored = append(d.Ignored, res.left...)
		for _, c := range diff.Of(s.answer.StaleState, res.asked(), res.target.Secret) {
			if c.Ignored(res.IgnoreDrift) {
				d.Ignored = append(d.Ignored, c)
			} else {
				d.Diff = append(d.Diff, c)
			}
		}
		// A type that is stale without a difference that can be seen has drifted.
		if len(d.Diff) == 0 && len(d.Ignored) > len(res.left) {
			d.Status = report.Valid
		}
	case s.answer != nil:
		d.Ignored = res.left
	}
	return d
}
