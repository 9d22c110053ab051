package upstream

import (
	"fmt"
	"maps"
)

// Left is why a revision that had finished a stage is not taken any more, until it finishes
// the stage again.
type Left struct {
	Seq    int64  // of the event
	Failed bool   // when the stage was done again; else it was rolled back to an older revision
	For    string // the deployment that rolls it back
}

// Of says it in words of a stage.
func (l Left) Of(stage string) string {
	if l.Failed {
		return fmt.Sprintf("failed when %s was done again (event %d)", stage, l.Seq)
	}
	return fmt.Sprintf("was left behind when %s was rolled back (event %d)", stage, l.Seq)
}

// LeftOut are the revisions that are not taken any more, by their deployments. It is never
// changed, for a preview of what has not happened shares it.
type LeftOut map[string]Left

// With is what is left out with another revision.
func (o LeftOut) With(deployment string, why Left) LeftOut {
	all := LeftOut{deployment: why}
	for other, why := range o {
		if other != deployment {
			all[other] = why
		}
	}
	return all
}

// Without is what is left out without a revision.
func (o LeftOut) Without(deployment string) LeftOut {
	if _, out := o[deployment]; !out {
		return o
	}
	all := maps.Clone(o)
	delete(all, deployment)
	return all
}
