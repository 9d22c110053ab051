package view

import (
	"fmt"
	"io"

	"github.com/deployster-go/deployster/runner"
	"github.com/deployster-go/deployster/runner/report"
)

// Question writes what a person is asked before a resource is changed. It
// ends with the prompt and the keys that answer it, such as "y/N", on a line
// that the answer ends.
func Question(w io.Writer, q runner.Question, keys string, opts PlanOptions) error {
	d := newDocument(opts)
	d.line(d.style.Yellow("?") + " " + d.style.Bold(clean(q.Resource)) + "  " + d.style.Dim(clean(q.Type)))
	d.changes(q.Diff)
	d.actions(q.Actions)
	prompt := fmt.Sprintf("Do these %d actions?", len(q.Actions))
	if len(q.Actions) == 1 {
		prompt = "Do this action?"
	}
	return d.ask(w, prompt, keys)
}

// PlanQuestion writes a plan, and asks once for all of it.
func PlanQuestion(w io.Writer, p *report.Plan, keys string, opts PlanOptions) error {
	if err := Plan(w, p, opts); err != nil {
		return err
	}
	d := newDocument(opts)
	if p.Destroy {
		return d.ask(w, "Remove all this?", keys)
	}
	return d.ask(w, "Apply it?", keys)
}

func (d *document) ask(w io.Writer, prompt, keys string) error {
	d.WriteString(d.style.Bold(prompt) + " [" + keys + "] ")
	if _, err := io.WriteString(w, d.String()); err != nil {
		return fmt.Errorf("asking for confirmation: %w", err)
	}
	return nil
}
