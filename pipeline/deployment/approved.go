package deployment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/approval"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/upstream"
)

// Carried is the hash of all that the deployment carries: which manifests it applies, all
// that these include, the revisions of other pipelines that it takes, and the artifacts that
// were received for it. It is what an approval is of.
func (d *Deployment) Carried() string {
	text, err := json.Marshal(struct {
		Carries   record.Files
		Brought   map[string]record.Files `json:",omitempty"`
		Manifests map[string]string       `json:",omitempty"`
		Takes     []upstream.Input        `json:",omitempty"`
		Refs      map[string]string       `json:",omitempty"`
	}{d.Carries, d.Brought, d.Manifests, d.Takes, d.Refs})
	if err != nil {
		return "" // no field of it can fail
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Approve folds in one of several approvals of a stage.
func (d *Deployment) Approve(stage deploylog.Target, g approval.Given) {
	if d.Approvals == nil {
		d.Approvals = map[deploylog.Target][]approval.Given{}
	}
	d.Approvals[stage] = append(slices.Clip(d.Approvals[stage]), g) // a preview shares them
}

// Approval is how far the approval at a stage is.
func (d *Deployment) Approval(stage *StageLayout) approval.Standing {
	return approval.Terms{Needed: stage.Approval.Approvals, Attempt: d.Attempt, Carries: d.Carried()}.Of(d.Approvals[stage.Target])
}

// ApprovedAt is the first stage at which the deployment was approved, and the event that did
// it; 0 is none.
func (d *Deployment) ApprovedAt(l *Layout) (stage string, seq int64) {
	for i := range l.Stages {
		if k, ok := d.Stages[i].Marks.Find(record.StageApproved); ok && l.Stages[i].Approval != nil {
			return l.Stages[i].Name, k.Seq
		}
	}
	return "", 0
}
