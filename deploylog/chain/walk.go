package chain

import (
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/deploylog"
)

// Walk goes along the events of a log and checks each against the one before. The zero
// Walk begins with the first event, takes the word of the log for where deployments began,
// and knows no heads.
type Walk struct {
	Seq        int64 // of the event where it stands
	Head       Link
	Registered map[string]int64 // of every deployment met; nil to take the rows' word for it
	Unknown    []deploylog.Head // of those known to somebody, what the walk has not come by
}

// Begin is a walk from the first event, which checks where deployments began, and looks for
// heads that are known to somebody.
func Begin(known []deploylog.Head) *Walk {
	w := &Walk{Registered: map[string]int64{}, Unknown: slices.Clone(known)}
	w.pass()
	return w
}

// pass takes off the list the heads that the log has where the walk stands.
func (w *Walk) pass() {
	if len(w.Unknown) == 0 {
		return
	}
	hash := hex.EncodeToString(w.Head[:])
	w.Unknown = slices.DeleteFunc(w.Unknown, func(h deploylog.Head) bool {
		return h.Hash == hash && (h.Seq == w.Seq || h.Seq == 0)
	})
}

// Step goes on to the next event. It fails with deploylog.ErrCorrupt where that is not what
// was appended.
func (w *Walk) Step(e deploylog.Event, registered int64, stored Link) error {
	if e.Seq != w.Seq+1 {
		return Missing(w.Seq + 1)
	}
	if err := e.Validate(); err != nil {
		return corrupt("event %d is not one that was appended: %w", e.Seq, err)
	}
	if w.Registered != nil {
		first, ok := w.Registered[e.Deployment]
		if !ok {
			first = e.Seq
			w.Registered[e.Deployment] = first
		}
		if first != registered {
			return corrupt("event %d says its deployment began with event %d, which was %d", e.Seq, registered, first)
		}
	}
	w.Head = w.Head.Next(e.Seq, registered, Digest(e))
	if w.Head != stored {
		return corrupt("event %d is not what was appended, or one before it was changed", e.Seq)
	}
	w.Seq = e.Seq
	w.pass()
	return nil
}

// Missing is the error about an event that is not there.
func Missing(seq int64) error { return corrupt("event %d is missing", seq) }

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", deploylog.ErrCorrupt, fmt.Errorf(format, args...))
}
