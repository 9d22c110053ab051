package record

import "github.com/deployster-go/deployster/deploylog"

// ApprovalInfo is what an approval binds itself to, in the data of its event.
type ApprovalInfo struct {
	Deployment string     `json:"deployment,omitempty"` // of one of several approvals, whose event has a fresh one
	Attempt    int        `json:"attempt,omitempty"`    // of that deployment
	Carries    string     `json:"carries"`              // hash of what the revision carried
	Others     []string   `json:"others,omitempty"`     // whose approvals counted before the last one
	Signature  *Signature `json:"signature,omitempty"`  // nil of one that was given on the command line
}

// Signature is what is kept of a signed approval. Its nonce serves once.
type Signature struct {
	Key     string `json:"key"`
	Nonce   string `json:"nonce"`
	Created int64  `json:"created"` // seconds since 1970
	Expires int64  `json:"expires"`
}

// ApprovalOf is what an approval is bound to; nil of other events, and of approvals that
// former versions recorded.
func ApprovalOf(e deploylog.Event) *ApprovalInfo {
	if e.Name != StageApproved && e.Name != StageApprovalGiven {
		return nil
	}
	return Read(e.Data).Approval
}
