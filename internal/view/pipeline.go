package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/pipeline/step"
)

func orDash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

// writeTo writes the document.
func (d *document) writeTo(w io.Writer, what string) error {
	if _, err := io.WriteString(w, d.String()); err != nil {
		return fmt.Errorf("writing the %s: %w", what, err)
	}
	return nil
}

// PipelineEvent writes a recorded event of a pipeline.
func PipelineEvent(w io.Writer, e deploylog.Event, opts PlanOptions) error {
	d := newDocument(opts)
	mark := d.style.Dim("·")
	switch {
	case strings.HasSuffix(e.Name, "-failed"):
		mark = d.style.Red("✘")
	case e.Name == e.Target.Succeeded():
		mark = d.style.Green("✔")
	}
	text := fmt.Sprintf("%6d  %s %s  %s", e.Seq, mark, clean(e.Name), d.style.Dim(clean(string(e.Target))))
	if e.Revision != "" {
		text += "  revision " + clean(e.Revision)
	}
	d.line(text)
	for _, line := range cleanLines(opts.Seen.shorten(e.Seq, record.Cause(e))) {
		d.line("          " + line)
	}
	for _, line := range record.Pruned(e) {
		d.line("          " + clean(line))
	}
	return d.writeTo(w, "event")
}

// PipelineWork writes that work on a step begins.
func PipelineWork(w io.Writer, s step.Step, opts PlanOptions) error {
	d := newDocument(opts)
	what := "apply " + s.Manifest + " for " + s.Event
	if s.Environment != "" {
		what = "deploy to environment " + s.Environment
	}
	d.line(fmt.Sprintf("        %s %s  %s  revision %s", d.style.Cyan("●"), clean(what), d.style.Dim(clean(string(s.Target))), clean(s.Revision)))
	return d.writeTo(w, "step")
}
