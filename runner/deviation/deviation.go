// Package deviation says where what there is of a resource is another than a plan found it, so that
// an Apply which is bound to the plan refuses to touch it.
package deviation

import (
	"fmt"
	"slices"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// Error refuses a resource that is not as the plan that is being
// applied found it: nothing of it was changed.
type Error struct {
	Reason string        // what is another than planned
	Diff   []diff.Change // from what was planned to what is, masked
}

func (e *Error) Error() string {
	text := "not as planned: " + e.Reason + "; plan again"
	if len(e.Diff) > 0 {
		text += ":\n" + diff.Text(e.Diff)
	}
	return text
}

// Of compares what a plan says of a resource with what is known of it
// now, and returns nil where an apply may go on. What is as configured by now
// may stay so, whatever was planned: so a plan of which a part was done can be
// applied again. A resource that could not be observed for the plan is bound to
// its image, and to its configuration where that was known.
func Of(planned, now report.ResourcePlan) *Error {
	observed := now.Status != report.Pending
	switch {
	case planned.ImageID != now.ImageID:
		return &Error{"the image of its type is another one", []diff.Change{{Path: "image", Op: diff.Modify, Old: planned.ImageID, New: now.ImageID}}}
	case planned.DoneBy != "" && observed && now.Status != report.Valid:
		return &Error{fmt.Sprintf("run %s did this part of the plan, and it is not as configured any more", planned.DoneBy), diff.Inverse(now.Diff)}
	case planned.Status == report.Unknown && planned.ConfigHash == "":
		return nil
	case (now.ConfigHash != "" || observed) && planned.ConfigHash != now.ConfigHash:
		return explained("its configuration is another one", diff.Between(planned.Config, now.Config))
	case !observed || planned.Status == report.Unknown || planned.Replace || now.Status == report.Valid:
		return nil
	case planned.Status == report.Valid && !now.Exists:
		return &Error{Reason: "it is gone, and was as configured"}
	case planned.Status == report.Valid:
		return &Error{"it has drifted, and was as configured", diff.Inverse(now.Diff)}
	case planned.Status != report.Stale:
		return &Error{Reason: fmt.Sprintf("the plan does not say what to do with it (%s)", planned.Status)}
	default:
		return ofStale(planned, now)
	}
}

// mostNamed is how many instances a sentence names.
const mostNamed = 5

// OfInstances compares the instances that a plan shows of a resource with those that its for_each
// comes to now, and returns nil where they are the same. planned is by ResourcePlan.Node.
func OfInstances(of string, planned map[string]report.ResourcePlan, now []string) *Error {
	var more, fewer []string
	there := make(map[string]bool, len(now))
	for _, name := range now {
		there[name] = true
		if _, ok := planned[name]; !ok {
			more = append(more, name)
		}
	}
	for name, p := range planned {
		if p.Of == of && !there[name] {
			fewer = append(fewer, name)
		}
	}
	slices.Sort(fewer)
	switch {
	case len(more) > 0:
		return &Error{Reason: fmt.Sprintf("its for_each comes to %s, too", phrase.First(more, mostNamed))}
	case len(fewer) > 0:
		return &Error{Reason: fmt.Sprintf("its for_each no longer comes to %s", phrase.First(fewer, mostNamed))}
	}
	return nil
}

// ofStale is Of a resource that is to be changed, and not as configured now.
func ofStale(planned, now report.ResourcePlan) *Error {
	switch {
	case planned.Exists && !now.Exists:
		return &Error{Reason: "it is gone, and was there"}
	case !planned.Exists && now.Exists:
		return &Error{"it is there, and was not", diff.Between(nil, now.State)}
	case planned.StateHash != now.StateHash:
		return explained("what there is of it has changed", diff.Between(planned.State, now.State))
	case planned.KeptHash != now.KeptHash:
		return &Error{Reason: "what is kept of it is another by now"}
	case planned.ActionsHash != now.ActionsHash:
		return explained("its type asks for other actions", diff.Between(diff.ActionList(planned.Actions), diff.ActionList(now.Actions)))
	default:
		return nil
	}
}

// OfRemoval compares what a plan says of a resource that is removed with what is known of it now.
func OfRemoval(planned, now report.ResourcePlan) *Error {
	switch {
	case !planned.Replace && planned.Status != report.Present:
		return &Error{Reason: fmt.Sprintf("the plan does not remove it (%s)", planned.Status)}
	case planned.ConfigHash != now.ConfigHash:
		return explained("its configuration is another one", diff.Between(planned.Config, now.Config))
	case planned.StateHash != now.StateHash:
		return explained("what there is of it has changed", diff.Between(planned.State, now.State))
	case planned.ActionsHash != now.ActionsHash:
		return explained("its type asks for other actions", diff.Between(diff.ActionList(planned.Actions), diff.ActionList(now.Actions)))
	default:
		return nil
	}
}

// explained explains hashes that differ. Where nothing that may be shown does, it
// is a secret that differs.
func explained(reason string, changes []diff.Change) *Error {
	if len(changes) == 0 {
		reason += " in a secret value"
	}
	return &Error{reason, changes}
}
