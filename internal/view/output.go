package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/runner"
)

// How much of the output of a call is shown as it comes. The file has all.
const (
	headLines = 200
	headBytes = 64 << 10
	lastLines = 20
)

// callOutput is the output of the containers of a resource in one call, as far as
// it was shown.
type callOutput struct {
	call         string // action and attempt
	lines        int    // shown
	bytes        int
	omitted      int      // lines left out, those in last among them
	omittedBytes int      // in bytes
	last         []string // of those left out, as they came
	files        []string // that have them
	mixed        bool     // others were shown in between
}

func callOf(e runner.Event) string { return fmt.Sprint(e.Action, " ", e.Attempt) }

// show reports whether a line is to be shown, and keeps it for remainder when not.
func (s *callOutput) show(e runner.Event, all bool) bool {
	if s.omitted == 0 && (all || s.lines < headLines && s.bytes+len(e.Text) <= headBytes) {
		s.lines++
		s.bytes += len(e.Text)
		return true
	}
	s.omitted++
	s.omittedBytes += len(e.Text) + 1
	if len(s.last) == lastLines {
		s.last = s.last[1:]
	}
	s.last = append(s.last, e.Text)
	if e.File != "" && !slices.Contains(s.files, e.File) {
		s.files = append(s.files, e.File)
	}
	return false
}

// remainder is what is shown at the end of a call whose output was cut.
func (s *callOutput) remainder() []string {
	if s.omitted == 0 {
		return nil
	}
	var lines []string
	if n := s.omitted - len(s.last); n > 0 {
		size := s.omittedBytes
		for _, line := range s.last {
			size -= len(line) + 1
		}
		text := fmt.Sprintf("… %s (%s) left out", phrase.Count(n, "line"), inBytes(max(size, 0)))
		if len(s.files) > 0 {
			text += "; all of it: " + strings.Join(s.files, " and ")
		}
		lines = append(lines, text)
	}
	lines = append(lines, cleanAll(s.last)...)
	s.omitted, s.last, s.mixed = 0, nil, false
	return lines
}

func inBytes(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return phrase.Count(n, "byte")
	}
}

// showLine counts a line of output and reports whether it is shown now; before is
// what is still to be shown of the previous call.
func (p *Plain) showLine(e runner.Event) (before []string, shown bool) {
	s := p.calls[e.Resource]
	if s == nil || s.call != callOf(e) {
		before = p.flushCall(e)
		s = &callOutput{call: callOf(e)}
		p.calls[e.Resource] = s
	}
	if shown = s.show(e, p.opts.Verbose); shown {
		if p.lastSource != e.Resource {
			for name, other := range p.calls {
				other.mixed = other.mixed || name != e.Resource
			}
			s.mixed = s.mixed || s.lines > 1
		}
		p.lastSource = e.Resource
	}
	return before, shown
}

// flushCall is what is still to be shown of the output of a call that has ended.
func (p *Plain) flushCall(e runner.Event) []string {
	s := p.calls[e.Resource]
	if s == nil {
		return nil
	}
	var lines []string
	for _, line := range s.remainder() {
		lines = append(lines, p.line(e, terminal.Style(p.opts.Color).Dim("│"), line))
	}
	return lines
}

// newOutput is those of the last lines of a failed action that are neither shown
// above it already nor part of the reason.
func (p *Plain) newOutput(e runner.Event) []string {
	if s := p.calls[e.Resource]; s != nil && s.call == callOf(e) && s.lines > 0 && !s.mixed {
		return nil
	}
	return trimReason(cleanAll(e.Output), cleanLines(e.Error))
}

// withoutReason leaves out the last line of an output where the reason of a
// failure ends with it.
func trimReason(output, reason []string) []string {
	if n := len(output); n > 0 && len(reason) > 0 && output[n-1] != "" && strings.HasSuffix(reason[len(reason)-1], output[n-1]) {
		return output[:n-1]
	}
	return output
}
