package planfile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/deployster-go/deployster/runner"
)

// shown is a plan that is sent to be looked at, also where it is not whole.
type shown struct {
	Run       string          `json:"run"`
	Destroy   bool            `json:"destroy,omitempty"`
	Resources []shownResource `json:"resources"`
}

type shownResource struct {
	resource
	Reason runner.ReasonCode `json:"reason,omitempty"`
	Error  string            `json:"error,omitempty"`
}

// Show is a plan in a form in which it is sent to be looked at. Nothing that is applied follows
// from it, so it has none of the hashes.
func Show(p *runner.Plan) ([]byte, error) {
	s := shown{Run: p.Run, Destroy: p.Destroy, Resources: []shownResource{}}
	for _, r := range p.Resources {
		row := shownResource{rowOf(r), r.Reason, r.Error}
		row.ConfigHash, row.StateHash, row.ActionsHash = "", "", ""
		s.Resources = append(s.Resources, row)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("sending the plan: %w", err)
	}
	return text, nil
}

// Shown is the plan that Show has made a text of.
func Shown(text []byte) (*runner.Plan, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var s shown
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("reading a plan that was sent: %w", err)
	}
	p := &runner.Plan{Run: s.Run, Destroy: s.Destroy}
	for _, r := range s.Resources {
		row := r.plan()
		row.Reason, row.Error = r.Reason, r.Error
		p.Resources = append(p.Resources, row)
	}
	return p, nil
}
