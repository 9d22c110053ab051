package view

import (
	"fmt"
	"strings"
)

const (
	mostTold   = 64 // reasons that are remembered
	worthTold  = 40 // bytes from which one is not said again
	mostBefore = 60 // bytes of what may stand before one that was told, as "no progress for 5m: h1: "
)

// SeenReasons remembers the reasons that events were shown with, so that each is
// written once: later events refer to the one that has it. It is not safe for concurrent use.
type SeenReasons struct {
	reasons []struct {
		seq  int64
		text string
	}
}

// brief is the reason of an event as it is to be shown.
func (t *SeenReasons) brief(seq int64, reason string) string {
	if t == nil {
		return reason
	}
	for _, r := range t.reasons {
		if i := strings.Index(reason, r.text); i >= 0 && i <= mostBefore {
			return reason[:i] + fmt.Sprintf("as event %d says", r.seq) + reason[i+len(r.text):]
		}
	}
	if len(reason) >= worthTold {
		if len(t.reasons) == mostTold {
			t.reasons = t.reasons[1:]
		}
		t.reasons = append(t.reasons, struct {
			seq  int64
			text string
		}{seq, reason})
	}
	return reason
}
