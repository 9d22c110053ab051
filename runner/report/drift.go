package report

import (
	"slices"

	"github.com/deployster-go/deployster/runner/diff"
)

// Drift is what of a manifest is not as it is configured.
type Drift struct {
	Run        string
	Resources  []ResourceDrift  // in graph order
	Undeclared []Undeclared     // what runs made and is no longer declared
	Unmatched  []diff.Unmatched // of ignore_drift and ignore_changes
}

// ResourceDrift is what of one resource is not as it is configured.
type ResourceDrift struct {
	Name      string
	Type      string
	DependsOn []string
	Status    Status        // Valid, Stale: it drifted, Unknown, Failed or Skipped
	Missing   bool          // Stale: it does not exist
	Diff      []diff.Change // Stale and not Missing: what differs and is not to be ignored; may be empty
	Ignored   []diff.Change // what differs and is to be ignored (manifest.Resource.IgnoreDrift)
	Asked     string        // Stale: the actions that state asks for, and why
	Output    []string      // Stale and Valid: the last lines that state printed for people
	Because   []string      // Unknown: the resources whose state it needs, and that have none or lack in theirs what is needed
	Reason    ReasonCode    // Failed, Skipped: why
	Error     string        // the same as a sentence
}

// Drifted reports whether any resource has drifted.
func (d *Drift) Drifted() bool {
	return slices.ContainsFunc(d.Resources, func(r ResourceDrift) bool { return r.Status == Stale })
}
