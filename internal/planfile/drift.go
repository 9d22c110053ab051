package planfile

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
)

// shownDrift is a report of drift that is sent to be looked at.
type shownDrift struct {
	Run       string         `json:"run"`
	Resources []shownDrifted `json:"resources"`

	Undeclared []undeclared     `json:"undeclared,omitempty"`
	Unmatched  []diff.Unmatched `json:"ignore_unmatched,omitempty"`
}

type shownDrifted struct {
	Name      string            `json:"name"`
	Type      string            `json:"type"`
	DependsOn []string          `json:"depends_on,omitempty"`
	Status    report.Status     `json:"status"`
	Missing   bool              `json:"missing,omitempty"`
	Diff      []change          `json:"diff,omitempty"`
	Ignored   []change          `json:"ignored,omitempty"`
	Asked     string            `json:"asked,omitempty"`
	Output    []string          `json:"output,omitempty"`
	Because   []string          `json:"because,omitempty"`
	Reason    report.ReasonCode `json:"reason,omitempty"`
	Error     string            `json:"error,omitempty"`
}

// ShowDrift is a report of drift in a form in which it is sent to be looked at.
func ShowDrift(d *report.Drift) ([]byte, error) {
	s := shownDrift{Run: d.Run, Resources: []shownDrifted{}, Undeclared: rowsOf(d.Undeclared), Unmatched: d.Unmatched}
	for _, r := range d.Resources {
		row := shownDrifted{
			Name: r.Name, Type: r.Type, DependsOn: r.DependsOn, Status: r.Status, Missing: r.Missing,
			Asked: r.Asked, Output: r.Output, Because: r.Because, Reason: r.Reason, Error: r.Error,
		}
		for _, c := range r.Diff {
			row.Diff = append(row.Diff, change(c))
		}
		for _, c := range r.Ignored {
			row.Ignored = append(row.Ignored, change(c))
		}
		s.Resources = append(s.Resources, row)
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("sending the report of drift: %w", err)
	}
	return text, nil
}

// ShownDrift is the report that ShowDrift has made a text of.
func ShownDrift(text []byte) (*report.Drift, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var s shownDrift
	if err := dec.Decode(&s); err != nil {
		return nil, fmt.Errorf("reading a report of drift that was sent: %w", err)
	}
	d := &report.Drift{Run: s.Run, Undeclared: undeclaredOf(s.Undeclared), Unmatched: s.Unmatched}
	for _, r := range s.Resources {
		d.Resources = append(d.Resources, report.ResourceDrift{
			Name: r.Name, Type: r.Type, DependsOn: r.DependsOn, Status: r.Status, Missing: r.Missing, Diff: plainChanges(r.Diff), Ignored: plainChanges(r.Ignored),
			Asked: r.Asked, Output: r.Output, Because: r.Because, Reason: r.Reason, Error: r.Error,
		})
	}
	return d, nil
}

func plainChanges(all []change) (changes []diff.Change) {
	for _, c := range all {
		changes = append(changes, diff.Change{Path: c.Path, Op: c.Op, Old: plain(c.Old), New: plain(c.New)})
	}
	return changes
}
