package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/terminal/pane"
)

// EnvironmentLive draws the progress of a deployment: the table of its environment
// and the unhealthy hosts, in place.
type EnvironmentLive struct {
	opts LiveOptions
	pane.Ticks

	mu sync.Mutex
	pane.Pane
	report     report.Report
	deployment report.Deployment
	closed     bool
}

// NewEnvironmentLive returns an EnvironmentLive that draws on w until Close.
func NewEnvironmentLive(w io.Writer, opts LiveOptions) *EnvironmentLive {
	l := &EnvironmentLive{
		opts: opts, Pane: pane.New(w, opts.Width),
	}
	l.Ticks = pane.NewTicks(opts.Tick, l.redraw)
	return l
}

// Show takes the status of the environment, and the deployment that is followed; the
// next tick draws it.
func (l *EnvironmentLive) Show(r report.Report, d report.Deployment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.report, l.deployment = r, d
}

// Note writes a line that stays.
func (l *EnvironmentLive) Note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range cleanLines(text) {
		l.Above = append(l.Above, fold("  "+terminal.Style(l.opts.Color).Yellow("!")+" "+line, l.Cells())...)
	}
}

// Close draws a last time, leaves that on the screen, and restores the cursor. It
// returns the first error of writing.
func (l *EnvironmentLive) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.Above = append(l.Above, l.frame(0)...)
		l.Emit(nil)
		l.ShowCursor()
		l.End()
	}
	l.mu.Unlock()
	l.Wait()
	return l.Err()
}

func (l *EnvironmentLive) redraw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	height := l.opts.Height()
	if height <= 0 {
		height = 24
	}
	l.Emit(l.frame(max(height-1, 1))) // the cursor stands below the region
}

// frame is what is shown, in at most height lines; 0 is no limit. Where there is too
// little room, revisions without tasks are left out first.
func (l *EnvironmentLive) frame(height int) []string {
	if l.report.Environment == "" {
		return nil
	}
	s, r := terminal.Style(l.opts.Color), l.report
	lines := l.lines(s, r)
	if height > 0 && len(lines) > height {
		r.Rows = slices.DeleteFunc(slices.Clone(r.Rows), func(row report.Row) bool { return row.Desired+row.Current == 0 })
		lines = l.lines(s, r)
	}
	if height > 0 && len(lines) > height {
		lines = append(lines[:height-1], "  "+s.Dim("… "+phrase.Count(len(lines)-height+1, "more line")))
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, l.Cells(), "…")
	}
	return lines
}

func (l *EnvironmentLive) lines(s terminal.Style, r report.Report) []string {
	d := document{style: s, width: l.Cells()}
	d.line(l.head(s))
	d.revisions(r)
	d.hostsAndRemarks(r, false, 0)
	return strings.Split(strings.TrimSuffix(d.String(), "\n"), "\n")
}

// head is how far the deployment is, since when, and how much time it has.
func (l *EnvironmentLive) head(s terminal.Style) string {
	now, end := l.opts.Now(), l.deployment.Ended
	if end.IsZero() {
		end = now
	}
	status := string(l.deployment.Status)
	if l.report.Pause != nil && l.deployment.Status == report.DeploymentRunning {
		status = "paused"
	}
	text := fmt.Sprintf("%s  %s  %s", s.Bold(clean(l.deployment.ID)), status, seconds(end.Sub(l.deployment.Started)))
	if left := l.report.Deadline.Sub(now); status == string(report.DeploymentRunning) && left > 0 {
		text += s.Dim("  progress due within " + seconds(left.Truncate(time.Second)))
	}
	return text
}
