package runner

import (
	"fmt"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
)

// DeviationError refuses a resource that is not as the plan that is being
// applied found it (Spec.Bound): nothing of it was changed.
type DeviationError struct {
	Reason string   // what is another than planned
	Diff   []Change // from what was planned to what is, masked
}

func (e *DeviationError) Error() string {
	text := "not as planned: " + e.Reason + "; plan again"
	if len(e.Diff) > 0 {
		text += ":\n" + DiffText(e.Diff)
	}
	return text
}

// fingerprint identifies a JSON-like value, which is what of a resource.
func (r *Runner) fingerprint(what string, v any) (string, error) {
	if r.spec.Fingerprint == nil {
		return "", nil
	}
	hash, err := r.spec.Fingerprint(v)
	if err != nil {
		return "", fmt.Errorf("taking the hash of its %s: %w", what, err)
	}
	return hash, nil
}

// bound refuses a resource of which something is not as planned. What is not
// known yet is not looked at: out is nil before the resource is observed, and
// its configuration may wait for a dependency.
func (r *Runner) bound(res *resource, out *protocol.StateOutput) error {
	if r.spec.Bound == nil {
		return nil
	}
	planned, ok := r.spec.Bound[res.Name]
	if !ok {
		return &DeviationError{Reason: "the plan has no such resource"}
	}
	now := ResourcePlan{Name: res.Name, Type: res.Type, Status: Pending}
	err := r.fillConfiguration(res, &now)
	if out != nil {
		err = r.fillObservation(res, *out, &now)
	}
	if err != nil {
		return err
	}
	r.maskPlan(res, &now)
	if d := deviation(planned, now); d != nil {
		return d
	}
	return nil
}

// confirm is how often a person is asked about a resource: never where a plan
// says what is done to it, for the plan was the question.
func (r *Runner) confirm(res *resource) ConfirmMode {
	if planned, ok := r.spec.Bound[res.Name]; ok && planned.Status != Unknown {
		return ConfirmNo
	}
	return r.caller.Confirm
}

// deviation compares what a plan says of a resource with what is known of it
// now, and returns nil where an apply may go on. What is as configured by now
// may stay so, whatever was planned: so a plan of which a part was done can be
// applied again. A resource that could not be observed for the plan is bound to
// its image, and to its configuration where that was known.
func deviation(planned, now ResourcePlan) *DeviationError {
	observed := now.Status != Pending
	switch {
	case planned.ImageID != now.ImageID:
		return &DeviationError{"the image of its type is another one", []Change{{Path: "image", Op: Modify, Old: planned.ImageID, New: now.ImageID}}}
	case planned.Status == Unknown && planned.ConfigHash == "":
		return nil
	case (now.ConfigHash != "" || observed) && planned.ConfigHash != now.ConfigHash:
		return deviant("its configuration is another one", diff.Between(planned.Config, now.Config))
	case !observed || planned.Status == Unknown || planned.Replace || now.Status == Valid:
		return nil
	case planned.Status == Valid && !now.Exists:
		return &DeviationError{Reason: "it is gone, and was as configured"}
	case planned.Status == Valid:
		return &DeviationError{"it has drifted, and was as configured", diff.Inverse(now.Diff)}
	case planned.Status != Stale:
		return &DeviationError{Reason: fmt.Sprintf("the plan does not say what to do with it (%s)", planned.Status)}
	default:
		return deviationOfStale(planned, now)
	}
}

// deviationOfStale is deviation of a resource that is to be changed, and not as configured now.
func deviationOfStale(planned, now ResourcePlan) *DeviationError {
	switch {
	case planned.Exists && !now.Exists:
		return &DeviationError{Reason: "it is gone, and was there"}
	case !planned.Exists && now.Exists:
		return &DeviationError{"it is there, and was not", diff.Between(nil, now.State)}
	case planned.StateHash != now.StateHash:
		return deviant("what there is of it has changed", diff.Between(planned.State, now.State))
	case planned.KeptHash != now.KeptHash:
		return &DeviationError{Reason: "what is kept of it is another by now"}
	case planned.ActionsHash != now.ActionsHash:
		return deviant("its type asks for other actions", diff.Between(diff.ActionList(planned.Actions), diff.ActionList(now.Actions)))
	default:
		return nil
	}
}

// deviant explains hashes that differ. Where nothing that may be shown does, it
// is a secret that differs.
func deviant(reason string, diff []Change) *DeviationError {
	if len(diff) == 0 {
		reason += " in a secret value"
	}
	return &DeviationError{reason, diff}
}
