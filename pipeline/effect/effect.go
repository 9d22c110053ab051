// Package effect is what a change of a pipeline means for its revisions in progress: for each
// entry of a deployment, whether it runs now, or no more, or with another manifest, and why.
package effect

import (
	"fmt"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/reason"
	"github.com/deployster-go/deployster/pipeline/record"
)

// Effect is what a change of the pipeline means for one entry of a deployment.
type Effect string

// The effects.
const (
	Runs    Effect = "runs"           // it would not have
	Skipped Effect = "is skipped"     // it is introduced behind what has happened
	Refused Effect = "is refused"     // it is introduced before it, but the revision skipped it elsewhere: here it would run for the first time
	Ends    Effect = "no longer runs" // it would have
	Keeps   Effect = "keeps"          // it runs with the manifest that its revision carries, which is another one than later revisions take
	Takes   Effect = "takes"          // it runs with another manifest than it would have
)

// Change is one effect on a revision in progress. What is skipped as a whole, a
// stage, group or host, has one, of the event with which it begins.
type Change struct {
	Effect     Effect           `json:"effect"`
	Revision   string           `json:"revision"`
	Deployment string           `json:"deployment"`
	Target     deploylog.Target `json:"target"`
	Event      string           `json:"event"`
	Stage      string           `json:"stage,omitempty"`
	Group      string           `json:"host_group,omitempty"`
	Host       string           `json:"host,omitempty"`
	Manifest   string           `json:"manifest,omitempty"` // that is kept or taken
	Instead    string           `json:"instead,omitempty"`  // of which one; the same where only its text or what it includes differs
	Reason     reason.Reason    `json:"why,omitzero"`       // of what does not run; zero when it is no longer in the pipeline
}

// Message says it in words.
func (c Change) Message() string {
	text := fmt.Sprintf("%s of %s %s", c.Event, c.Target, c.Effect)
	switch {
	case c.Event == record.PipelineSuperseded:
		return c.Reason.Cause
	case c.Effect == Runs:
		return text
	case c.Effect == Keeps && c.Manifest == c.Instead:
		return fmt.Sprintf("%s %s as its revision carries it, and does not take it as it is now", text, c.Manifest)
	case c.Effect == Keeps:
		return fmt.Sprintf("%s %s, which its revision carries, and does not take %s", text, c.Manifest, c.Instead)
	case c.Effect == Takes && c.Manifest == c.Instead:
		return fmt.Sprintf("%s %s as it is now, and not as its revision carries it", text, c.Manifest)
	case c.Effect == Takes:
		return fmt.Sprintf("%s %s, and not %s", text, c.Manifest, c.Instead)
	case c.Reason.Code == "":
		return text + ": no longer in the pipeline"
	default:
		return text + ": " + c.Reason.Message()
	}
}
