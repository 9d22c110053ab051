package planfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// shown is a plan that is sent to be looked at, also where it is not whole.
type shown struct {
	Run       string          `json:"run"`
	Destroy   bool            `json:"destroy,omitempty"`
	Resources []shownResource `json:"resources"`

	Undeclared []undeclared     `json:"undeclared,omitempty"`
	Unmatched  []diff.Unmatched `json:"ignore_unmatched,omitempty"`
}

// undeclared is what runs made, is no longer declared, and stays.
type undeclared struct {
	Name string    `json:"name"`
	Type string    `json:"type"`
	Run  string    `json:"run"`
	At   time.Time `json:"at"`
	Of   string    `json:"of,omitempty"`
}

func rowsOf(all []report.Undeclared) (rows []undeclared) {
	for _, u := range all {
		rows = append(rows, undeclared{u.Name, u.Type, u.Run, u.At, u.Of})
	}
	return rows
}

func undeclaredOf(rows []undeclared) (all []report.Undeclared) {
	for _, u := range rows {
		all = append(all, report.Undeclared{Name: u.Name, Run: u.Run, At: u.At, Of: u.Of, Made: report.Made{Type: u.Type}})
	}
	return all
}

type shownResource struct {
	resource
	Reason report.ReasonCode `json:"reason,omitempty"`
	Error  string            `json:"error,omitempty"`
}

// Show is a plan in a form in which it is sent to be looked at. Nothing that is applied follows
// from it, so it has none of the hashes.
func Show(p *report.Plan) ([]byte, error) {
	s := shown{Run: p.Run, Destroy: p.Destroy, Resources: []shownResource{}, Undeclared: rowsOf(p.Undeclared), Unmatched: p.Unmatched}
	for _, r := range p.Resources {
		row := shownResource{rowOf(r), r.Reason, r.Error}
		row.ConfigHash, row.StateHash, row.ActionsHash, row.KeptHash = "", "", "", ""
		s.Resources = append(s.Resources, row)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("sending the plan: %w", err)
	}
	return text, nil
}

// Shown is the plan that Show has made a text of.
func Shown(text []byte) (*report.Plan, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var s shown
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("reading a plan that was sent: %w", err)
	}
	p := &report.Plan{Run: s.Run, Destroy: s.Destroy, Undeclared: undeclaredOf(s.Undeclared), Unmatched: s.Unmatched}
	for _, r := range s.Resources {
		row := r.plan()
		row.Reason, row.Error = r.Reason, r.Error
		p.Resources = append(p.Resources, row)
	}
	return p, nil
}
