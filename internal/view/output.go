package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/deployster-go/deployster/runner"
)

// How much of what a container says is shown as it comes, of each call. The file
// has all.
const (
	headLines = 200
	headBytes = 64 << 10
	lastLines = 20
)

// spoken is what the containers of a resource said in one call, as far as it was
// shown.
type spoken struct {
	call  string // action and attempt
	lines int    // shown
	bytes int
	left  int      // lines left out, those in last among them
	size  int      // in bytes
	last  []string // of those left out, as they came
	files []string // that have them
	mixed bool     // others were shown in between
}

func callOf(e runner.Event) string { return fmt.Sprint(e.Action, " ", e.Attempt) }

// say reports whether a line is to be shown, and keeps it in mind when not.
func (s *spoken) say(e runner.Event, all bool) bool {
	if s.left == 0 && (all || s.lines < headLines && s.bytes+len(e.Text) <= headBytes) {
		s.lines++
		s.bytes += len(e.Text)
		return true
	}
	s.left++
	s.size += len(e.Text) + 1
	if len(s.last) == lastLines {
		s.last = s.last[1:]
	}
	s.last = append(s.last, e.Text)
	if e.File != "" && !slices.Contains(s.files, e.File) {
		s.files = append(s.files, e.File)
	}
	return false
}

// rest is what is said at the end of a call of which not all was shown.
func (s *spoken) rest() []string {
	if s.left == 0 {
		return nil
	}
	var lines []string
	if n := s.left - len(s.last); n > 0 {
		size := s.size
		for _, line := range s.last {
			size -= len(line) + 1
		}
		text := fmt.Sprintf("… %s (%s) left out", plural(n, "line"), inBytes(max(size, 0)))
		if len(s.files) > 0 {
			text += "; all of it: " + strings.Join(s.files, " and ")
		}
		lines = append(lines, text)
	}
	lines = append(lines, cleanAll(s.last)...)
	s.left, s.last, s.mixed = 0, nil, false
	return lines
}

func inBytes(n int) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	default:
		return plural(n, "byte")
	}
}

// said takes note of a line of output and reports whether it is to be shown now.
func (p *Plain) said(e runner.Event) (before []string, shown bool) {
	s := p.spoken[e.Resource]
	if s == nil || s.call != callOf(e) {
		before = p.unsaid(e)
		s = &spoken{call: callOf(e)}
		p.spoken[e.Resource] = s
	}
	if shown = s.say(e, p.opts.Verbose); shown {
		if p.speaker != e.Resource {
			for name, other := range p.spoken {
				other.mixed = other.mixed || name != e.Resource
			}
			s.mixed = s.mixed || s.lines > 1
		}
		p.speaker = e.Resource
	}
	return before, shown
}

// unsaid is what is still to be shown of what a resource's call said, which has
// ended.
func (p *Plain) unsaid(e runner.Event) []string {
	s := p.spoken[e.Resource]
	if s == nil {
		return nil
	}
	var lines []string
	for _, line := range s.rest() {
		lines = append(lines, p.line(e, style(p.opts.Color).dim("│"), line))
	}
	return lines
}

// unseen are those of the last lines of a failed action that do not stand above
// it already, and are no part of the reason.
func (p *Plain) unseen(e runner.Event) []string {
	if s := p.spoken[e.Resource]; s != nil && s.call == callOf(e) && s.lines > 0 && !s.mixed {
		return nil
	}
	return withoutReason(cleanAll(e.Output), cleanLines(e.Error))
}

// withoutReason leaves out the last line of an output where the reason of a
// failure ends with it.
func withoutReason(output, reason []string) []string {
	if n := len(output); n > 0 && len(reason) > 0 && output[n-1] != "" && strings.HasSuffix(reason[len(reason)-1], output[n-1]) {
		return output[:n-1]
	}
	return output
}
