package deployment

import (
	"github.com/deployster-go/deployster/pipeline/record"
)

// Inputs are what a deployment does its steps with, kept when it has ended.
type Inputs struct {
	Manifests    map[string]string
	Brought      map[string]record.Files
	BroughtBound map[string]record.Files
	Adopted      map[string]bool
	Refs         map[string]string
	Bound        bool
	Own          record.Files
	Filled       bool
}

// Inputs are those that it has at present.
func (d *Deployment) Inputs() Inputs {
	return Inputs{d.Manifests, d.Brought, d.BroughtBound, d.Adopted, d.Refs, d.Bound, d.Own, d.Filled}
}
