package record

import "github.com/deployster-go/deployster/deploylog"

// Cause is why that has happened what an event says, "" where it does not say so.
func Cause(e deploylog.Event) string {
	switch e.Name {
	case JobFailed:
		return Decode[Failed](e).Cause
	case JobLost:
		return Decode[Lost](e).Cause
	case GroupCanceling:
		return Decode[Canceling](e).Reason
	case GroupFinished, GroupFailing, GroupFailed, GroupCanceled, GroupStalled:
		return Decode[Ended](e).Cause
	default:
		return ""
	}
}
