package pages

import (
	"net/http"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/identity"
)

// mayRead reports whether somebody may read a page. Those of one pipeline or environment are for who may read that; what
// they may not read is left out of the overview and of the approvals, and all others are for those who read everything.
func mayRead(who identity.Identity, pattern, name string) bool {
	switch {
	case pattern == "/{$}", pattern == "/approvals", who.ReadsAll():
		return true
	case strings.HasPrefix(pattern, "/pipelines/{name}"):
		return who.May(identity.Viewer, identity.Pipelines, name)
	case strings.HasPrefix(pattern, "/environments/{name}"):
		return who.May(identity.Viewer, identity.Environments, name)
	}
	return false
}

// approvalsFor is what waits for approval in the pipelines and environments that who asks may read. What somebody asks for may have
// expired since that was found out.
func (p *Pages) approvalsFor(r *http.Request, k *known) ([]waitingApproval, error) {
	all, err := p.approvalsOf(k)
	all = slices.DeleteFunc(slices.Clone(all), func(w waitingApproval) bool {
		return w.AskedBy != "" && k.present() && !w.Until.After(p.Now())
	})
	who := identity.Of(r.Context())
	return slices.DeleteFunc(all, func(w waitingApproval) bool { return !who.May(identity.Viewer, w.Kind, w.Pipeline) }), err
}
