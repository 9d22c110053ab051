package definition

import (
	"time"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// readApproval reads who has to approve; nothing is one person, whenever that may be.
func readApproval(n *yamlfile.Node) *Approval {
	a := &Approval{}
	if n.Kind == yamlfile.Nothing {
		return a
	}
	fields, ok := n.Fields("an approval", "approvals", "expires")
	if !ok {
		return a
	}
	if at := fields["approvals"]; at != nil {
		a.Approvals = at.Integer("a number of approvals, by different people or keys", 1, maxApprovals)
	}
	if at := fields["expires"]; at != nil {
		a.Expires, _ = at.Duration(Duration(time.Second), Duration(maxTimeout))
	}
	return a
}
