package work

import (
	"cmp"

	"github.com/deployster-go/deployster/control/runs"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/runner/report"
)

// Here is the manifest of the run, on the machine where it is.
func (r *Run) Here() runs.Owner { return r.owner() }

// Recorded finds out the identity of what a former version recorded without one.
func (r *Run) Recorded(m runs.Making) *report.Identity { return r.recordedIdentity(m) }

// Where is how identities name the engine of the run.
func (r *Run) Where() string { return cmp.Or(r.Spec.Where, "this machine") }

// Recorded is Run.Recorded for who lists what the runs of a log made, on a machine.
func Recorded(log deploylog.Log, machine string) func(runs.Making) *report.Identity {
	r := &Run{Connection: &Connection{}}
	if deploylog.Shared(log) {
		r.Spec.Machine = machine
	}
	return r.recordedIdentity
}
