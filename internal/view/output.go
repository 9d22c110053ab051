package view

import (
	"fmt"
	"strings"

	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/view/excerpt"
	"github.com/deployster-go/deployster/runner/report"
)

// callOutput is the output of the containers of a resource in one call.
type callOutput struct {
	call string // action and attempt
	excerpt.Excerpt
	mixed bool // others were shown in between
}

func callOf(e report.Event) string { return fmt.Sprint(e.Action, " ", e.Attempt) }

// showLine counts a line of output and reports whether it is shown now; before is
// what is still to be shown of the previous call.
func (p *Plain) showLine(e report.Event) (before []string, shown bool) {
	s := p.calls[e.Resource]
	if s == nil || s.call != callOf(e) {
		before = p.flushCall(e)
		s = &callOutput{call: callOf(e)}
		p.calls[e.Resource] = s
	}
	if shown = s.Show(e.Text, e.File, p.opts.Verbose); shown {
		if p.lastSource != e.Resource {
			for name, other := range p.calls {
				other.mixed = other.mixed || name != e.Resource
			}
			s.mixed = s.mixed || s.Lines() > 1
		}
		p.lastSource = e.Resource
	}
	return before, shown
}

// flushCall is what is still to be shown of the output of a call that has ended.
func (p *Plain) flushCall(e report.Event) []string {
	s := p.calls[e.Resource]
	if s == nil {
		return nil
	}
	var lines []string
	for _, line := range s.Remainder() {
		lines = append(lines, p.line(e, terminal.Style(p.opts.Color).Dim("│"), line))
		s.mixed = false
	}
	return lines
}

// newOutput is those of the last lines of a failed action that are neither shown
// above it already nor part of the reason.
func (p *Plain) newOutput(e report.Event) []string {
	if s := p.calls[e.Resource]; s != nil && s.call == callOf(e) && s.Lines() > 0 && !s.mixed {
		return nil
	}
	return trimReason(cleanAll(e.Output), cleanLines(e.Error))
}

// trimReason leaves out the last line of an output where the reason of a
// failure ends with it.
func trimReason(output, reason []string) []string {
	if n := len(output); n > 0 && len(reason) > 0 && output[n-1] != "" && strings.HasSuffix(reason[len(reason)-1], output[n-1]) {
		return output[:n-1]
	}
	return output
}
