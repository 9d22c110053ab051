package output

import (
	"github.com/deployster-go/deployster/internal/cli/version"
	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// Report is the output of a command that only looks. How the report comes about is
// printed for programs before it, and for people on the terminal of their news.
type Report struct {
	Observer runner.Observer // may be nil

	lines *view.JSON // for programs; else nil
	close func() error
}

// Report begins the report of a command.
func (p *Printer) Report(command string) *Report {
	r := &Report{close: func() error { return nil }}
	switch {
	case p.JSON():
		r.lines = view.NewJSON(p.Out, command, version.Current())
		r.Observer = r.lines
	case p.Terminal(p.Err):
		r.Observer, r.close = p.OpenScreen(p.Err, command)
	}
	return r
}

// Close ends what shows how the report comes about.
func (r *Report) Close() error { return r.close() }

// Show prints a part of the report, in the form for programs or for people.
func (r *Report) Show(document func(*view.JSON), text func() error) error {
	if r.lines == nil {
		return text()
	}
	document(r.lines)
	return r.lines.Close()
}
