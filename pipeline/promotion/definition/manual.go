package definition

import (
	"time"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// maxApprovals is how many approvals a stage may need.
const maxApprovals = 100

// readManual reads who has to approve what comes to a stage.
func readManual(fields map[string]*yamlfile.Node, s *Stage) {
	if at := fields["manual"]; at != nil {
		value, ok := at.Bool()
		if !ok || at.Kind != yamlfile.Boolean {
			at.Fail("must be true or false, not %s", at.Kind)
		}
		s.Manual = value
	}
	for _, key := range []string{"approvals", "expires"} {
		if at := fields[key]; at != nil && !s.Manual {
			at.FailName("is of a stage to which a revision comes only when somebody approves it: write manual: true, too")
		}
	}
	if at := fields["approvals"]; at != nil {
		s.Approvals = at.Integer("a number of approvals", 1, maxApprovals)
	}
	if at := fields["expires"]; at != nil {
		s.Expires, _ = at.Duration(Duration(time.Second), maxTime)
	}
}
