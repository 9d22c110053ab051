package report

// ReasonCode is why a resource was skipped, refused or failed.
type ReasonCode string

// Why a resource was skipped: it was not tried, and nothing is wrong with it.
const (
	ReasonDependencyFailed ReasonCode = "dependency-failed"
	ReasonRunFailed        ReasonCode = "run-failed"      // another resource failed, and the run does not keep going
	ReasonRunQuit          ReasonCode = "run-quit"        // a person quit it
	ReasonInterrupted      ReasonCode = "interrupted"     // also of a resource that failed because of it
	ReasonRunRefused       ReasonCode = "run-refused"     // other resources were refused before anything was touched
	ReasonRemovalRefused   ReasonCode = "removal-refused" // as before, of a Destroy
	ReasonOnlyObserved     ReasonCode = "only-observed"   // it is read-only, and so not removed
	ReasonNeverApplied     ReasonCode = "never-applied"   // there may be nothing to remove
	ReasonNotTargeted      ReasonCode = "not-targeted"    // its state was read for a resource that needs it
)

// Why a resource was refused or failed. The message is that of its error.
const (
	ReasonInvalid       ReasonCode = "invalid-configuration"
	ReasonUnknown       ReasonCode = "configuration-unknown" // it needs the state of what is gone
	ReasonNotRemovable  ReasonCode = "not-removable"         // its type cannot remove
	ReasonPrevented     ReasonCode = "removal-prevented"     // the manifest says that nothing removes it
	ReasonOwned         ReasonCode = "owned-elsewhere"       // another manifest, or another resource, manages the same
	ReasonNotAsPlanned  ReasonCode = "not-as-planned"
	ReasonReadOnly      ReasonCode = "read-only" // it would have to be changed
	ReasonDeclined      ReasonCode = "declined"
	ReasonActionFailed  ReasonCode = "action-failed"
	ReasonProgramFailed ReasonCode = "program-failed" // its type could not say what its state is
	ReasonNotConverged  ReasonCode = "not-converged"  // all actions succeeded, and the state is not as configured
	ReasonInvalidAnswer ReasonCode = "invalid-answer" // its type broke the protocol
	ReasonTimeout       ReasonCode = "timeout"
	ReasonInternalError ReasonCode = "internal-error"
	ReasonFailed        ReasonCode = "failed" // anything else, such as what an engine answers
)

// Skip is why a resource is skipped. As an error it ends a visit in which nothing
// failed.
type Skip struct {
	Code     ReasonCode
	Resource string // the one that failed, where there is one
	Text     string // says it in the place of the sentence of the code; "" is that
}

func (s Skip) Error() string {
	if s.Text != "" {
		return s.Text
	}
	switch s.Code {
	case ReasonDependencyFailed:
		return s.Resource + " failed"
	case ReasonRunFailed:
		return "the run stopped when " + s.Resource + " failed"
	case ReasonRunQuit:
		return "the run was quit at " + s.Resource
	case ReasonInterrupted:
		return "the run was interrupted"
	case ReasonRunRefused:
		return "nothing was applied"
	case ReasonRemovalRefused:
		return "nothing was removed"
	case ReasonOnlyObserved:
		return "only observed: left alone"
	case ReasonNeverApplied:
		return "never applied, as far as the log knows; not asked whether it is there"
	case ReasonNotTargeted:
		return "not to be removed, only looked at"
	case ReasonOwned:
		return "another resource has it now, so it stays"
	case ReasonNotRemovable:
		return "its type cannot remove it: remove it by hand, then \"deployster state forget " + s.Resource + "\""
	default:
		return string(s.Code)
	}
}
