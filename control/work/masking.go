package work

import (
	"github.com/deployster-go/deployster/control/masking"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/schema"
)

// Masking hides, in a text that is shown of what some revisions carry, what their manifests
// write out at secret places of types that ship, and the files that are included there. Which
// places of other types are secret is not known without their images.
func (t Texts) Masking(revisions ...map[string]string) func(text string) string {
	s := &invoke.Secrets{}
	for _, files := range revisions {
		masking.Revision{
			Files: files, Load: t.Load, Included: filesOf(files, t.Load),
			Schema: func(typ string) (*schema.Schema, error) { return schemaOf(typ, nil) },
		}.Hide(s)
	}
	return s.Mask
}
