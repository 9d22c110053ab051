package upstream

import (
	"errors"
	"fmt"

	"github.com/deployster-go/deployster/internal/refusal"
	"github.com/deployster-go/deployster/pipeline/definition"
)

// Check refuses a definition with inputs that there are not, or that would have pipelines take
// revisions of each other. Errors have their places in the file that was parsed.
func Check(d *definition.Definition, of Pipelines) error {
	var problems []error
	for _, n := range d.Needs() {
		p, err := of(n.Pipeline)
		if err == nil {
			err = p.Defined()
		}
		if err != nil {
			problems = append(problems, placed(n, "", err))
			continue
		}
		for _, stage := range n.Passed {
			if _, err := p.Stage(stage); err != nil {
				problems = append(problems, placed(n, stage, err))
			}
		}
		if path := circle(d.Name, n.Pipeline, of, map[string]bool{}); path != nil {
			text := d.Name
			for _, name := range path {
				text += " takes " + name + ", " + name
			}
			problems = append(problems, placed(n, "", refusal.New(InCircle, "pipelines would take revisions of each other: %s takes %s; leave one of these inputs out", text, d.Name)))
		}
	}
	return errors.Join(problems...)
}

// circle are the pipelines from one on through which inputs lead back to the one that is
// defined; nil if they do not. known are those from which they do not.
func circle(to, from string, of Pipelines, known map[string]bool) []string {
	p, err := of(from)
	if err != nil || p.Definition() == nil || known[from] {
		return nil
	}
	known[from] = true
	for _, n := range p.Definition().Needs() {
		if n.Pipeline == to {
			return []string{from}
		}
		if path := circle(to, n.Pipeline, of, known); path != nil {
			return append([]string{from}, path...)
		}
	}
	return nil
}

// placed says of a problem where in the file it is, if that is known.
func placed(n definition.Needed, stage string, err error) error {
	if at := n.At(stage); at.Line > 0 {
		return fmt.Errorf("%s: %w", at, err)
	}
	return fmt.Errorf("input %s: %w", n.Pipeline, err)
}
