package view

import (
	"fmt"
	"strings"
)

const (
	maxSeenReasons   = 64 // reasons that are remembered
	minRepeatedBytes = 40 // bytes from which a reason is not repeated
	maxPrefixBytes   = 60 // bytes before a repeated reason, as "no progress for 5m: h1: "
)

// SeenReasons remembers the reasons that events were shown with, so that each is
// written once: later events refer to the one that has it. It is not safe for concurrent use.
type SeenReasons struct {
	reasons []struct {
		seq  int64
		text string
	}
}

// shorten is the reason of an event as it is to be shown.
func (t *SeenReasons) shorten(seq int64, reason string) string {
	if t == nil {
		return reason
	}
	for _, r := range t.reasons {
		if i := strings.Index(reason, r.text); i >= 0 && i <= maxPrefixBytes {
			return reason[:i] + fmt.Sprintf("as event %d says", r.seq) + reason[i+len(r.text):]
		}
	}
	if len(reason) >= minRepeatedBytes {
		if len(t.reasons) == maxSeenReasons {
			t.reasons = t.reasons[1:]
		}
		t.reasons = append(t.reasons, struct {
			seq  int64
			text string
		}{seq, reason})
	}
	return reason
}
