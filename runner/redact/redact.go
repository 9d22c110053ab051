// Package redact hides what is secret in what a run says: in its events, plans, differences and
// errors. They say something else once more secrets are known, so what is kept until the end of a run
// is redacted then.
package redact

import (
	"errors"
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/invoke"
	"github.com/deployster-go/deployster/runner/report"
)

// Event hides the secrets in an event.
func Event(s *invoke.Secrets, e *report.Event) {
	e.Error, e.Text = s.Mask(e.Error), s.Mask(e.Text)
	e.Output, e.Actions = s.MaskAll(e.Output), s.MaskAll(e.Actions)
	if e.Plan != nil {
		plan := s.MaskAction(*e.Plan)
		e.Plan = &plan
	}
}

// Plan hides the secrets in the plan for a resource, whose configuration and state are secret at the
// marked places.
func Plan(s *invoke.Secrets, marked invoke.Paths, p *report.ResourcePlan) {
	p.Config, p.State = part(s, marked, p.Config), part(s, marked, p.State)
	Changes(s, p.Diff)
	for i, a := range p.Actions {
		p.Actions[i] = s.MaskAction(a)
	}
	p.Error = s.Mask(p.Error)
}

// part is a configuration or state without its secrets. What is a secret as a whole becomes nil, as
// what is not there is.
func part(s *invoke.Secrets, marked invoke.Paths, of map[string]any) map[string]any {
	if of == nil {
		return nil
	}
	hidden, _ := s.MaskValue(marked.Blank(of)).(map[string]any)
	return hidden
}

// Changes hides the secrets in what differs.
func Changes(s *invoke.Secrets, changes []diff.Change) {
	for i := range changes {
		changes[i].Path = s.Mask(changes[i].Path)
		changes[i].Old = s.MaskValue(changes[i].Old)
		changes[i].New = s.MaskValue(changes[i].New)
	}
}

// Error is an error whose problems, where it is of a manifest, say nothing that is secret.
func Error(s *invoke.Secrets, err error) error {
	var invalid *manifest.Error
	if !errors.As(err, &invalid) {
		return err
	}
	masked := &manifest.Error{}
	for _, p := range invalid.Problems {
		p.Message = s.Mask(p.Message)
		masked.Problems = append(masked.Problems, p)
	}
	return masked
}

// Requested lists what a state asks for, and why.
func Requested(s *invoke.Secrets, actions []protocol.Action) string {
	var b strings.Builder
	for i, a := range actions {
		a = s.MaskAction(a)
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", a.Name)
		if a.Description != "" {
			fmt.Fprintf(&b, " (%s)", a.Description)
		}
	}
	return b.String()
}
