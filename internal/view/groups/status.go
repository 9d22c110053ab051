package groups

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/terminal"
)

// How much of a group is shown where not everything is asked for.
const (
	shownFailed      = 10
	shownRunning     = 10
	shownUnbuildable = 5
	shownNames       = 5
	shownAround      = 8 // lines of a screen that are kept for the rest
)

// room is how many entries are shown that take so many lines of a screen, most of many.
func (p *page) room(most, share int, all bool) int {
	switch {
	case all:
		return 1 << 30
	case p.opts.Height > 0:
		return min(most, max(1, (p.opts.Height-shownAround)/share))
	default:
		return most
	}
}

// Status writes how far a group is: how many of its jobs are in which state, what failed
// first, what runs, what keeps it, and when it will have ended. all leaves nothing out.
func Status(w io.Writer, s query.BuildStatus, now time.Time, all bool, opts Options) error {
	p := page{opts: opts, style: opts.style()}
	p.table(counts(s.Summary, now))
	p.line(origin(s.Report))
	p.state(s)
	p.failed(s, now, all)
	p.unbuildable(s.Unbuildable, all)
	p.reasons(s.Reasons)
	p.running(s.Running, now, all)
	p.cut()
	return p.writeTo(w, "status")
}

// page is lines that are as wide as the terminal.
type page struct {
	strings.Builder
	opts  Options
	style terminal.Style
}

func (p *page) line(text string) {
	if text != "" {
		p.WriteString(ansi.Truncate(text, terminal.Limit(p.opts.Width), "…") + "\n")
	}
}

// text writes what may take several lines, those behind the first indented as that.
func (p *page) text(prefix, text string) {
	for _, line := range terminal.Lines(text) {
		lines := []string{line}
		if p.opts.Width > 0 {
			lines = strings.Split(ansi.Wrap(line, max(p.opts.Width-ansi.StringWidth(prefix), 1), ""), "\n")
		}
		for _, line := range lines {
			p.line(prefix + line)
			prefix = strings.Repeat(" ", ansi.StringWidth(prefix))
		}
	}
}

// cut leaves out what a screen has no room for, at the end.
func (p *page) cut() {
	lines := splitLines(p.String())
	room := p.opts.Height - 2 // beside the note and the prompt
	if p.opts.Height <= 0 || len(lines) <= room+1 {
		return
	}
	p.Reset()
	for _, line := range lines[:room] {
		p.WriteString(line + "\n")
	}
	p.line(fmt.Sprintf("… %s: --all shows them", phrase.Count(len(lines)-room, "more line")))
}

func (p *page) table(rows [][]string, extra ...int) {
	t := terminal.Table{Rows: rows, Width: p.opts.Width, Extra: extra, Color: p.opts.Color}
	p.WriteString(strings.Join(t.Lines(), "\n") + "\n")
}

func (p *page) writeTo(w io.Writer, what string) error {
	if _, err := io.WriteString(w, p.String()); err != nil {
		return fmt.Errorf("writing the %s: %w", what, err)
	}
	return nil
}

// Tally is how many jobs of a group are in which state, in the words of a table.
type Tally struct {
	Built, Running, Waiting, Failed, NotBuilt, Canceled int
}

// TallyOf counts the jobs of a group.
func TallyOf(s build.Summary) (t Tally) {
	for state, n := range s.Counts {
		switch state {
		case transition.Built:
			t.Built += n
		case transition.Dispatched, transition.CancelPending:
			t.Running += n
		case transition.JobFailed:
			t.Failed += n
		case transition.DependencyFailed:
			t.NotBuilt += n
		case transition.CancelComplete:
			t.Canceled += n
		default:
			t.Waiting += n
		}
	}
	return t
}

// counts is the table of one group. Of what there is none there is no column.
func counts(s build.Summary, now time.Time) [][]string {
	t := TallyOf(s)
	head, row := []string{"GROUP", "STATE", "BUILT"}, []string{s.ID, s.State.String(), fmt.Sprintf("%d/%d", t.Built, s.Jobs)}
	for _, c := range []struct {
		title string
		n     int
	}{{"RUNNING", t.Running}, {"WAITING", t.Waiting}, {"FAILED", t.Failed}, {"NOT BUILT", t.NotBuilt}, {"CANCELED", t.Canceled}} {
		if c.n > 0 {
			head, row = append(head, c.title), append(row, strconv.Itoa(c.n))
		}
	}
	return [][]string{append(head, "TOOK"), append(row, cmp.Or(Took(s, now), "–"))}
}

// Took is how long a group takes or took, "" of one that has not started.
func Took(s build.Summary, now time.Time) string {
	end := cmp.Or(s.Ended, now)
	if s.Started.IsZero() || end.Before(s.Started) {
		return ""
	}
	return phrase.Took(end.Sub(s.Started))
}

// origin is who submitted a group when, and of what.
func origin(r build.Report) string {
	text := "Submitted " + phrase.Moment(r.Created)
	if r.By != "" {
		text += " by " + clean(r.By)
	}
	if t := r.Triggered; t.File != "" {
		text += " from " + clean(t.File)
		if len(t.Touched) > 0 {
			text += ", touched " + phrase.First(cleanAll(t.Touched), shownNames)
		}
		if t.Commit != "" {
			text += ", git " + phrase.Cut(clean(t.Commit), 12)
			if t.Source != nil && !t.Source.Exact {
				text += " (modified)"
			}
		}
	}
	if from := r.Pipeline; from != nil {
		text += fmt.Sprintf(", for revision %s of pipeline %s", clean(from.Revision), clean(from.Pipeline))
	}
	if r.Round > 1 {
		text += fmt.Sprintf("; round %d", r.Round)
	}
	if r.Reused > 0 {
		text += fmt.Sprintf("; %d reused", r.Reused)
	}
	return text
}

// Source says of sources which commit they are of; "" is that it is not known.
func Source(s *record.Source) string {
	if s == nil {
		return ""
	}
	text := " of commit " + clean(s.Commit)
	if s.Repository != "" {
		text += " of " + clean(s.Repository)
	}
	if !s.Exact {
		text += ", modified"
	}
	return text
}

// state writes why the group has ended as it has, or when it will have.
func (p *page) state(s query.BuildStatus) {
	switch {
	case s.CanceledBy != nil && (s.State == transition.Canceling || s.State == transition.Canceled):
		text := p.style.Yellow("Canceled")
		if s.CanceledBy.By != "" {
			text += " by " + clean(s.CanceledBy.By)
		}
		if s.CanceledBy.Reason != "" {
			text += ": " + clean(s.CanceledBy.Reason)
		}
		p.line(text)
	case s.Stalled:
		p.text("", p.style.Red("Stalled")+": "+s.Cause)
	}
	if s.Forecast != nil {
		p.line(Expected(*s.Forecast))
	}
}

// Expected is when a group will have ended, in a sentence; "" where that is not known.
func Expected(f build.Forecast) string {
	switch {
	case len(f.Unserved) > 0 || f.Slots == 0 || f.End.IsZero():
		return ""
	case f.Measured == 0 && f.Jobs > 0:
		return fmt.Sprintf("%s left; how long they take is not known yet", are(f.Jobs, "job"))
	case f.Left <= 0 && f.Jobs > 0:
		return are(f.Jobs, "job") + " left: expected to have ended by now, what runs takes longer than it did last"
	}
	return fmt.Sprintf("%s left: expected to end at %s, in %s", are(f.Jobs, "job"), phrase.Moment(f.End), phrase.Took(f.Left))
}

// are is how many are something: "1 job is".
func are(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " is"
	}
	return phrase.Count(n, noun) + " are"
}

// failed writes which jobs failed themselves, and how many are not built because of each.
func (p *page) failed(s query.BuildStatus, now time.Time, all bool) {
	if len(s.Failed) == 0 {
		return
	}
	p.WriteString("\n")
	more := s.MoreFailed
	for i, j := range s.Failed {
		if i == p.room(shownFailed, 6, all) {
			more += len(s.Failed) - i
			break
		}
		p.text(p.style.Red("✘")+" ", Failure(j, now))
		p.line("    " + p.style.Dim(fmt.Sprintf("deployster build logs %s %d", clean(s.ID), j.Number)))
	}
	if more > 0 {
		p.line(fmt.Sprintf("  … and %d more: deployster build jobs %s --state JobFailed", more, clean(s.ID)))
	}
}

// Failure is why a job failed, in a sentence.
func Failure(j query.FailedJob, now time.Time) string {
	text := Name(j.JobReport) + " failed: "
	f := cmp.Or(j.Failed, &record.Failed{Cause: j.Cause})
	text += cmp.Or(cause(f), "it is not said why")
	if worker := cmp.Or(f.Worker, j.Worker); worker != "" {
		text += ", on " + clean(worker)
	}
	if !j.Since.IsZero() {
		text += ", " + Ago(now.Sub(j.Since))
	}
	if last := lastLine(f.Output); last != "" {
		text += ": " + last
	}
	if j.Dependents > 0 {
		text += fmt.Sprintf("; %s not built because of it", are(j.Dependents, "job"))
	}
	return text
}

// cause is why a job failed, shorter where it says no more than its exit code.
func cause(f *record.Failed) string {
	if f.Exit != 0 && (f.Cause == "" || f.Cause == fmt.Sprintf("exited with %d", f.Exit)) {
		return fmt.Sprintf("exit %d", f.Exit)
	}
	return clean(f.Cause)
}

// Name is what a job builds, with its number.
func Name(j build.JobReport) string {
	return fmt.Sprintf("%s (job %d)", Package(j), j.Number)
}

// Package is what a job builds: a package, and in which pass, where there are several.
func Package(j build.JobReport) string {
	if j.Of > 1 {
		return fmt.Sprintf("%s#%d", clean(j.Package), j.Pass)
	}
	return clean(j.Package)
}

// Ago is how long ago something was: 12s ago, 3m ago, 2h ago, 5d ago.
func Ago(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	default:
		return fmt.Sprintf("%dd ago", d/(24*time.Hour))
	}
}

// lastLine is the last line that says something.
func lastLine(output []string) string {
	const most = 200 // characters
	for _, line := range slices.Backward(output) {
		if line = strings.TrimSpace(clean(line)); line != "" {
			return phrase.Cut(line, most)
		}
	}
	return ""
}

func (p *page) unbuildable(list []record.Unbuildable, all bool) {
	if len(list) == 0 {
		return
	}
	p.WriteString("\n")
	p.line(p.style.Yellow("!") + " " + phrase.Count(len(list), "package") + " cannot be built, so the group will fail:")
	for i, u := range list {
		if i == p.room(shownUnbuildable, 8, all) {
			p.line(fmt.Sprintf("    … and %d more: --all shows them", len(list)-i))
			break
		}
		p.line("    " + clean(u.Package) + ": " + clean(u.Cause))
	}
}

// told are the reasons that a status shows in another way.
func told(c reason.Code) bool {
	switch c {
	case reason.GroupFailed, reason.Canceled, reason.Unbuildable, reason.InProgress, reason.Ready, reason.GroupStalled:
		return true
	default:
		return false
	}
}

// reasons writes what keeps the group, and what would change that.
func (p *page) reasons(list []reason.Reason) {
	list = slices.DeleteFunc(slices.Clone(list), func(r reason.Reason) bool { return told(r.Code) })
	if len(list) > 0 {
		p.WriteString("\n")
	}
	for _, r := range list {
		p.text(p.style.Yellow("!")+" ", r.Message)
		p.text("    → ", r.Change)
	}
}

func (p *page) running(jobs []build.JobReport, now time.Time, all bool) {
	if len(jobs) == 0 {
		return
	}
	p.WriteString("\n")
	rows, more := [][]string{{"RUNNING", "JOB", "WORKER", "SINCE", "ATTEMPT"}}, 0
	for i, j := range jobs {
		if i == p.room(shownRunning, 4, all) {
			more = len(jobs) - i
			break
		}
		since := ""
		if !j.Began.IsZero() {
			since = phrase.Took(now.Sub(j.Began))
		}
		rows = append(rows, []string{Package(j), strconv.Itoa(j.Number), j.Worker, since, strconv.Itoa(j.Attempt)})
	}
	p.table(rows, 4)
	if more > 0 {
		p.line(fmt.Sprintf("… and %d more: deployster build jobs %s --state Dispatched", more, clean(jobs[0].Group)))
	}
}

func cleanAll(texts []string) []string {
	safe := make([]string, len(texts))
	for i, text := range texts {
		safe[i] = clean(text)
	}
	return safe
}

func splitLines(text string) []string {
	if text = strings.TrimSuffix(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
