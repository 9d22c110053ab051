package report

import (
	"slices"

	"github.com/deployster-go/deployster/environment/record"
)

// Successor is the deployment that came right after one of an environment; its ID is "" when
// none has.
func Successor(all []Deployment, id string) (next Deployment) {
	if i := slices.IndexFunc(all, func(d Deployment) bool { return d.ID == id }); i >= 0 && i+1 < len(all) {
		return all[i+1]
	}
	return next
}

// Continues reports whether a deployment that took the place of another one brings about
// what that one was to: it deploys or restarts the same revision. A restart that is waited
// for is not done by a deployment, which leaves tasks that are healthy as they are.
func (d Deployment) Continues(former Deployment) bool {
	if d.ID == "" || d.Revision != former.Revision {
		return false
	}
	return d.Kind == record.ByRestart || d.Kind == record.ByDeploy && former.Kind != record.ByRestart
}
