package report

import (
	"github.com/deployster-go/deployster/runner/diff"
)

// Adoption is something that exists, and that becomes a resource of the manifest.
type Adoption struct {
	Resource string
	ID       string         // by which its type finds it; "" is by its configuration, or by what is kept
	Keep     map[string]any // what its type would have kept of it, had it made it; nil is nothing
	Secrets  [][]string     // where there are values in Keep that are not to be seen
	Alike    bool           // other things have the same Keep, so it does not say which this is
}

// Adopted is what came of an Adoption.
type Adopted struct {
	ResourceResult
	Differs bool          // it is not as configured
	Diff    []diff.Change // where it differs; may be empty though it does
}
