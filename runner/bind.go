package runner

import (
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/deviation"
	"github.com/deployster-go/deployster/runner/redact"
	"github.com/deployster-go/deployster/runner/report"
)

// bound refuses a resource of which something is not as planned. What is not
// known yet is not looked at: out is nil before the resource is observed, and
// its configuration may wait for a dependency.
func (r *Runner) bound(res *resource, out *protocol.StateOutput) error {
	if r.spec.Bound == nil {
		return nil
	}
	planned, ok := r.boundTo(res)
	if !ok && (res.Late != nil || res.deposed != "") {
		return nil // its instances are; what a resource was before is looked at when it is removed
	}
	if !ok {
		return &deviation.Error{Reason: "the plan has no such resource"}
	}
	now := report.ResourcePlan{Name: res.Name, Type: res.Type, Status: report.Pending}
	err := r.fillConfiguration(res, &now)
	if out != nil {
		err = r.fillObservation(res, *out, &now)
	}
	if err != nil {
		return err
	}
	redact.Plan(r.secrets, res.target.Secret, &now)
	if d := deviation.Of(planned, now); d != nil {
		return d
	}
	return nil
}

// confirm is how often a person is asked about a resource: never where a plan
// says what is done to it, for the plan was the question.
func (r *Runner) confirm(res *resource) ConfirmMode {
	if planned, ok := r.boundTo(res); ok && planned.Status != report.Unknown {
		return ConfirmNo
	}
	return r.caller.Confirm
}
