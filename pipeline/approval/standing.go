package approval

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/deployster-go/deployster/internal/phrase"
)

// Given is an approval of a revision at a stage, as the log has it.
type Given struct {
	By      string
	Seq     int64
	At      time.Time
	Attempt int
	Carries string // hash of what the revision carried
}

// Terms are what an approval must be of to count.
type Terms struct {
	Needed  int // approvals; 0 is 1
	Attempt int
	Carries string // hash of what the revision carries

	Void func(Given) (cause string) // of one that does not count for another reason; may be nil
}

// Standing is how far the approval of a revision is.
type Standing struct {
	Needed  int      `json:"needed"`            // approvals, by different identities
	By      []string `json:"by"`                // whose count
	Void    []Void   `json:"void,omitempty"`    // of others, that do not count any more
	Carries string   `json:"carries,omitempty"` // hash of what would be approved now
}

// Void is an approval that does not count any more.
type Void struct {
	By    string `json:"by"`
	Seq   int64  `json:"seq"`
	Cause string `json:"cause"`
}

// Of is the standing of a revision for which these approvals were given. An identity counts once.
func (t Terms) Of(given []Given) Standing {
	s := Standing{Needed: max(1, t.Needed), By: []string{}, Carries: t.Carries}
	for _, g := range given {
		if t.void(g) == "" && !slices.Contains(s.By, g.By) {
			s.By = append(s.By, g.By)
		}
	}
	for i, g := range given {
		repeated := slices.ContainsFunc(given[i+1:], func(later Given) bool { return later.By == g.By })
		if cause := t.void(g); cause != "" && !repeated && !slices.Contains(s.By, g.By) {
			s.Void = append(s.Void, Void{g.By, g.Seq, cause})
		}
	}
	return s
}

func (t Terms) void(g Given) (cause string) {
	switch {
	case g.Attempt != t.Attempt:
		return "the revision was retried since"
	case t.Void != nil && t.Void(g) != "":
		return t.Void(g)
	case g.Carries != t.Carries:
		return "what the revision carries has changed since"
	default:
		return ""
	}
}

// Missing is how many approvals are still to be given.
func (s Standing) Missing() int { return max(0, s.Needed-len(s.By)) }

// Text says what is missing.
func (s Standing) Text() string {
	text := "approval missing"
	switch {
	case len(s.By) > 0:
		text = "approved by " + phrase.List(s.By) + s.more()
	case s.Needed > 1:
		text = fmt.Sprintf("approval missing: %d, by different people or keys", s.Needed)
	}
	for _, v := range s.Void {
		text += fmt.Sprintf("; the approval by %s (event %d) is void: %s", v.By, v.Seq, v.Cause)
	}
	return text
}

// more says how many others have to approve, after whose approvals count.
func (s Standing) more() string {
	switch n := s.Missing(); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(", 1 more of %d by another", s.Needed)
	default:
		return fmt.Sprintf(", %d more of %d by others", n, s.Needed)
	}
}

// After says what an approval that was just given came to.
func (s Standing) After(by string) string {
	counted := s
	if !slices.Contains(s.By, by) {
		counted.By = append(slices.Clone(s.By), by)
	}
	return strings.TrimPrefix(counted.more(), ", ")
}
