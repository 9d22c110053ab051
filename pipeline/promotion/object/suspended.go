package object

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/rollout"
)

// People tell controllers to leave an object as it is. It then runs what it ran, whatever is
// declared: that neither makes it unwell nor gives it a new revision.

// suspended returns why the controller leaves the object as it is, or "".
func (o *Object) suspended(live map[string]any) string {
	spec := within(live, "spec")
	suspend, _ := spec["suspend"].(bool)
	paused, _ := spec["paused"].(bool)
	group, _ := o.GroupVersion()
	switch {
	case suspend && (o.ofFlux() || group == "batch"):
		return "it is suspended"
	case paused && (o.known(deployment) || group == groups[application] && o.Kind == argoRollout):
		return "it is paused"
	case o.known(application) && byHand(live) && outOfSync(live):
		return "its syncs are not automated (spec.syncPolicy.automated)"
	}
	return ""
}

const argoRollout = "Rollout"

func (o *Object) ofFlux() bool {
	group, _ := o.GroupVersion()
	return strings.HasSuffix(group, ".toolkit.fluxcd.io")
}

// declared reports whether the revision of a suspended object is only what it is to run. Controllers
// write only the status, so all else may be what people have declared since.
func (o *Object) declared(live map[string]any, healthy bool) bool {
	names := fields(o.revisionPath(live))
	return (len(names) == 0 || names[0] != "status") && (!o.workload() || !healthy)
}

// fewer is why a paused workload is not well as what it ran before: Pods are missing, or some are of
// its newest template. It is nil of what is no workload.
func (o *Object) fewer(live map[string]any) *string {
	p, is := rollout.Of(o.Kind, live)
	why := ""
	switch {
	case !is || !o.workload():
		return nil
	case p.Wanted == 0:
		why = wantsNone
	case p.Updated > 0 && (p.Seen || p.Updated < p.Wanted): // paused half-way; else its controller has yet to count anew
		why = p.Waits(p.Wanted)
	case p.Available < p.Wanted:
		why = fmt.Sprintf("%d of %d Pods are available", p.Available, p.Wanted)
	}
	return &why
}

// waitsSuspended is what a suspended object waits for. It runs what it ran when it was suspended,
// whatever is changed in it, so its status counts for any generation.
func (o *Object) waitsSuspended(live map[string]any) (string, error) {
	why, err := condition(live, 0), error(nil)
	if o.Ready != "" {
		why, err = o.saysReady(live)
	}
	if why == "" {
		why = o.differs(live)
	}
	if why != "" {
		why = "it is suspended: " + why
	}
	return why, err
}
