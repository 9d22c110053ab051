package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/environment/reason"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/environment/report"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
)

// How much is shown of the unhealthy hosts of an environment; --hosts shows all.
const (
	maxUnhealthyHosts = 20
	causeLines        = 12
)

// Environment writes the status of an environment for people: the table of its
// revisions and, below it, remarks. hosts includes every host, not only the
// unhealthy ones.
func Environment(w io.Writer, r report.Report, hosts bool, opts PlanOptions) error {
	d := newDocument(opts)
	d.revisions(r)
	height := opts.Height
	if hosts {
		height = 0
	}
	d.hostsAndRemarks(r, hosts || opts.All, height)
	return d.writeTo(w, "status")
}

// hostsAndRemarks writes what the table does not show, of hosts in trouble as many as there is
// room for on a terminal so high; 0 is no limit.
func (d *document) hostsAndRemarks(r report.Report, hosts bool, height int) {
	below, shown := d.environmentRemarks(r, hosts), d.hosts(r, hosts)
	if height > 0 {
		for i := range shown {
			shown[i].lines = shown[i].lines[:min(len(shown[i].lines), 1+reasonLines)]
		}
		used := strings.Count(d.String(), "\n") + len(below) + 2 // with the empty line and the prompt
		shown = mostUrgent(shown, max(height-used, 2+reasonLines), "--all")
	}
	for _, h := range shown {
		below = append(below, h.lines...)
	}
	if len(below) > 0 {
		d.line("")
	}
	for _, line := range below {
		d.line(line)
	}
}

// folded are the lines of a text, those that are wider than the terminal broken, with what
// they go on with indented as they are.
func (d *document) folded() (lines []string) {
	for line := range strings.Lines(d.String()) {
		line = strings.TrimSuffix(line, "\n")
		text := strings.TrimLeft(line, " ")
		lines = append(lines, indent(line[:len(line)-len(text)], text, d.width)...)
	}
	return lines
}

// How many inactive revisions are shown, and on a screen.
const (
	maxInactiveShown  = 10
	maxInactiveScreen = 3
)

// isInactive reports whether a revision has no tasks left.
func isInactive(r report.Row) bool {
	return (r.Status == report.Inactive || r.Status == report.Reverted) && r.Current == 0
}

// revisions writes the table of revisions; its columns have fixed widths but for
// the names.
func (d *document) revisions(r report.Report) {
	const status, desired = 13, 10
	label := func(number int) string { return fmt.Sprintf("%s:%d", clean(r.Environment), number) }
	first := len("REVISION")
	for _, row := range r.Rows {
		first = max(first, ansi.StringWidth(label(row.Revision)))
	}
	first += 4
	line := func(text string) { d.line(ansi.Truncate(text, terminal.Limit(d.width), "…")) }
	line(d.style.Bold(pad("REVISION", first) + pad("STATUS", status) + pad("DESIRED", desired) + "CURRENT"))
	left := -maxInactiveShown // inactive ones
	if d.short {
		left = -maxInactiveScreen
	}
	for _, row := range r.Rows {
		if isInactive(row) {
			left++
		}
	}
	if left > 0 {
		line(d.style.Dim(fmt.Sprintf("… %s: deployster env revisions %s", phrase.Count(left, "earlier revision"), clean(r.Environment))))
	}
	for _, row := range r.Rows {
		if isInactive(row) && left > 0 {
			left--
			continue
		}
		text := pad(string(row.Status), status)
		switch row.Status {
		case report.Active:
			text = d.style.Green(text)
		case report.Stuck, report.Degraded:
			text = d.style.Red(text)
		case report.Deploying, report.Undeploying, report.Reverting:
			text = d.style.Cyan(text)
		case report.Created, report.Inactive, report.Reverted:
			text = d.style.Dim(text)
		}
		line(pad(label(row.Revision), first) + text + pad(fmt.Sprint(row.Desired), desired) + fmt.Sprint(row.Current))
	}
}

// environmentRemarks are what the table does not show, but for hosts.
func (d *document) environmentRemarks(r report.Report, hosts bool) []string {
	below := document{style: d.style, width: d.width, full: d.full}
	if r.Deleted {
		below.line("This environment is deleted.")
	}
	if n := len(r.Orphans); n > 0 {
		below.line(d.style.Yellow("Left running") + ": " + phrase.Count(n, "task") + " when it was deleted. deployster env list --orphans shows them, deployster env clean " + clean(r.Environment) + " terminates them.")
	}
	if p := r.Pause; p != nil {
		below.line(d.style.Yellow("Paused") + " since " + phrase.Moment(p.Since) + by(p.By) + because(p.Reason) + event(p.Seq) + ": nothing new begins until it is resumed, or something is deployed.")
	}
	if h := r.Held; h != nil {
		below.line(d.style.Yellow("Keeps its hosts") + " since " + phrase.Moment(h.Since) + event(h.Seq) + ": " + clean(h.Reason) + ". They leave by deployster env confirm " + clean(r.Environment) + ".")
	}
	if a := r.Asked; a != nil {
		below.line(d.style.Yellow("Asked for") + ": revision " + fmt.Sprint(a.Revision) + by(a.By) + event(a.Seq) + ", and not made: " + clean(a.Cause()) + ". deployster env accept " + clean(r.Environment) + " " + fmt.Sprint(a.Revision) + " --content " + clean(a.Content) + " makes it, and " + clean(a.Diff(r.Environment)) + " shows everything that it changes.")
	}
	below.step(r)
	below.cordons(r, hosts)
	if c := r.Deployment; c != nil && c.Status == report.DeploymentStuck {
		below.line(d.style.Red("Stuck") + ": " + clean(c.ID) + event(c.Since))
		below.cause("  ", withoutHosts(c.Cause, r.Hosts), hosts)
	}
	if c := r.Deployment; c != nil && c.BakeFailed != "" {
		below.line(d.style.Red("Bake failed") + ": " + clean(c.ID))
		below.cause("  ", withoutHosts(c.BakeFailed, r.Hosts), hosts)
	}
	if r.Baking {
		below.line("Active (baking until " + phrase.Moment(r.Deployment.BakeUntil) + "): what fails until then counts for max_failed")
	}
	if len(r.Exceptions) > 0 {
		below.line(d.style.Yellow("Active with "+phrase.Count(len(r.Exceptions), "exception")) + ": " + phrase.First(cleanAll(r.Exceptions), 5) + ", tried again and again")
	}
	if hosts {
		below.line(fmt.Sprintf("%s healthy, minimum %d:", phrase.Count(r.Healthy, "host"), r.Minimum))
	}
	return below.folded()
}

// hosts are the hosts in trouble, or all of them, each with its lines.
func (d *document) hosts(r report.Report, all bool) (shown []remark) {
	more := 0
	for _, h := range r.Hosts {
		switch {
		case !all && !unhealthy(h):
		case !all && len(shown) == maxUnhealthyHosts:
			more++
		default:
			one := document{style: d.style, width: d.width, full: d.full}
			one.host(h, all)
			shown = append(shown, remark{urgency: failing, lines: one.folded()})
		}
	}
	if more > 0 {
		shown = append(shown, remark{urgency: quiet, lines: []string{fmt.Sprintf("  … and %s in trouble: --hosts shows all", phrase.Count(more, "more host"))}})
	}
	return shown
}

// step writes at which step a deployment is.
func (d *document) step(r report.Report) {
	s := r.Step
	if s == nil {
		return
	}
	text := fmt.Sprintf("Step %d of %d: %d of %s begun", s.Number, s.Of, s.Begun, phrase.Count(s.Hosts, "host"))
	switch {
	case s.Seq > 0 && s.Verify != "" && !s.Verified:
		text += event(s.Seq) + d.verifying(r, s)
	case s.Promote:
		text += event(s.Seq) + ": it " + d.style.Yellow("waits") + " for deployster env promote " + clean(r.Environment)
	case s.Seq > 0:
		text += event(s.Seq) + ": it goes on at " + phrase.Moment(s.Until) + ", or by deployster env promote " + clean(r.Environment)
	}
	d.line(text + ".")
	if s.Cause != "" && s.Verifying == 0 {
		for _, line := range cleanLines(s.Cause) {
			d.line("      " + line)
		}
	}
}

// verifying is how far the step of a deployment is verified.
func (d *document) verifying(r report.Report, s *reason.StepInfo) string {
	by := clean(s.Verify)
	switch {
	case s.Verifying > 0:
		return ": it is being verified by " + by + event(s.Verifying)
	case !s.Next.IsZero():
		return fmt.Sprintf(": verifying it by %s %s (attempt %d), next try at %s", by, d.style.Red("failed"), s.Attempt, phrase.Moment(s.Next))
	case s.Failures > 0:
		return ": it " + d.style.Red("could not be verified") + " by " + by + "; deployster env promote " + clean(r.Environment) + " goes on all the same"
	case r.Pause != nil:
		return ": it is to be verified by " + by + " once the environment is resumed"
	default:
		return ": it is to be verified by " + by + ", and waits for its turn: no more are verified at once than the controller's --parallelism says"
	}
}

// maxCordonedHosts is how many cordoned hosts are shown; --hosts shows all.
const maxCordonedHosts = 10

// cordons writes which hosts are left as they are, and why.
func (d *document) cordons(r report.Report, all bool) {
	for i, c := range r.Cordoned {
		if i == maxCordonedHosts && !all {
			d.line(fmt.Sprintf("  … and %s cordoned: --hosts shows all", phrase.Count(len(r.Cordoned)-i, "more host")))
			break
		}
		text := d.style.Yellow("Cordoned") + " " + clean(c.Host) + " since " + phrase.Moment(c.Since) + by(c.By) + because(c.Reason) + event(c.Seq)
		tasks := 0
		for _, h := range r.Hosts {
			if h.Host == c.Host {
				tasks = len(h.Tasks)
			}
		}
		switch {
		case c.Drain && tasks > 0:
			text += ": it is being drained"
		case c.Drain:
			text += ": it is drained"
		}
		d.line(text + ".")
	}
}

// withoutHosts cuts from the cause of a stuck deployment what concerns hosts that
// are listed with their own causes.
func withoutHosts(cause string, hosts []report.HostRow) string {
	for _, h := range hosts {
		if unhealthy(h) {
			cause, _, _ = strings.Cut(cause, ": "+h.Host+": ")
		}
	}
	return cause
}

// unhealthy reports whether something is wrong on a host.
func unhealthy(h report.HostRow) bool {
	return h.Failed || h.Lost && len(h.Tasks) > 0 || slices.ContainsFunc(h.Tasks, unhealthyTask)
}

func unhealthyTask(t report.TaskRow) bool {
	switch t.Status {
	case report.TaskFailed, report.TaskDied, report.TaskLost, report.TaskDrifted:
		return true
	default:
		return t.Failures > 0
	}
}

// host writes a host with its tasks: all of them, or the unhealthy ones.
func (d *document) host(h report.HostRow, all bool) {
	name := clean(h.Host)
	lines := 0
	say := func(mark, text string) {
		if lines++; lines > 1 {
			name = strings.Repeat(" ", ansi.StringWidth(name))
		}
		d.line("  " + mark + " " + d.style.Bold(name) + "  " + text)
	}
	if h.Lost && len(h.Tasks) > 0 {
		say(d.style.Yellow("!"), "is no longer in the inventory: its tasks cannot be cleaned up")
	}
	if c := h.Check; c != nil {
		text := "the new task could not be started, so nothing was stopped, since " + phrase.Moment(c.Since) + event(c.Seq)
		if c.Failures > 1 {
			text += fmt.Sprintf(", %d failures in a row", c.Failures)
		}
		say(d.style.Red("✘"), text)
		d.cause("      ", c.Cause, all)
	}
	for _, t := range h.Tasks {
		if all || unhealthyTask(t) || h.Failed && h.Check == nil {
			say(d.task(t))
			d.cause("      ", t.Cause, all)
		}
	}
	switch {
	case lines > 0:
	case h.Failed:
		say(d.style.Red("✘"), "has failed")
	case h.Desired:
		say(d.style.Dim("○"), "has no task yet")
	default:
		say(d.style.Dim("○"), "has no task")
	}
}

// task is the status of a task, with its mark.
func (d *document) task(t report.TaskRow) (mark, text string) {
	mark = map[report.TaskStatus]string{
		report.TaskStarting: d.style.Cyan("●"), report.TaskLaunched: d.style.Cyan("●"), report.TaskTerminating: d.style.Cyan("●"),
		report.TaskHealthy: d.style.Green("✔"), report.TaskDrifted: d.style.Yellow("~"),
		report.TaskFailed: d.style.Red("✘"), report.TaskDied: d.style.Red("✘"), report.TaskLost: d.style.Yellow("?"),
	}[t.Status]
	text = fmt.Sprintf("revision %d %s since %s%s", t.Revision, clean(string(t.Status)), phrase.Moment(t.Since), event(t.Seq))
	if t.TaskOf > 0 {
		text += fmt.Sprintf(", task of revision %d", t.TaskOf)
	}
	if t.Failures > 1 {
		text += fmt.Sprintf(", %d failures in a row", t.Failures)
	}
	if !t.Next.IsZero() {
		text += ", again at " + t.Next.Local().Format("15:04:05")
	}
	return mark, text
}

// cause writes why something failed, with the output tail.
func (d *document) cause(prefix, text string, all bool) {
	lines := cleanLines(text)
	more := 0
	if !all && len(lines) > causeLines { // what is wrong stands first, and last
		more = len(lines) - causeLines
		lines = append(lines[:1:1], lines[1+more:]...)
	}
	for i, line := range lines {
		for _, part := range indent(prefix, line, d.width) {
			d.line(part)
		}
		if i == 0 && more > 0 {
			d.line(prefix + d.style.Dim("… "+phrase.Count(more, "line")))
		}
	}
}

func by(who string) string {
	if who == "" {
		return ""
	}
	return " by " + clean(who)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	return " (" + clean(reason) + ")"
}

func event(seq int64) string {
	if seq == 0 {
		return ""
	}
	return fmt.Sprintf(", event %d", seq)
}

// EnvironmentEvent writes a recorded event of an environment.
func EnvironmentEvent(w io.Writer, e deploylog.Event, opts PlanOptions) error {
	d := newDocument(opts)
	mark := d.style.Dim("·")
	switch e.Name {
	case record.EnvironmentFailed, record.EnvironmentStuck, record.BakeFailed, record.StepVerifyFailed, record.TaskFailed, record.TaskCheckFailed, record.TaskDied, record.TaskTerminationFailed:
		mark = d.style.Red("✘")
	case record.EnvironmentPaused, record.HostsHeld, record.HostsCordoned, record.TaskDeadlinePassed, record.TaskLost, record.TaskDrifted, record.StepVerifyEnded, record.EnvironmentWatched:
		mark = d.style.Yellow("!")
	case record.StepReached, record.StepVerified, record.EnvironmentPromoted, record.EnvironmentFinished, record.TaskFinished, record.TaskChecked, record.TaskRecovered, record.TaskAdopted, record.TaskTerminated:
		mark = d.style.Green("✔")
	case record.StepVerifying, record.TaskStarted, record.TaskTerminating, record.TasksTaken:
		mark = d.style.Cyan("●")
	}
	var data struct {
		Kind               record.DeploymentKind
		From               int
		By, Reason         string
		Joined, Left, Lost []string
		Hosts              []string
		Drain              bool
		Since              time.Time
		Error, Diff        string
	}
	_ = json.Unmarshal(e.Data, &data) // as far as it can be read
	text := fmt.Sprintf("%6d  %s %s  %s", e.Seq, mark, clean(e.Name), d.style.Dim(clean(string(e.Target))))
	if e.Target.Kind() == "task" && e.Attempt > 1 {
		text += fmt.Sprintf("  attempt %d", e.Attempt)
	}
	if e.Name == record.EnvironmentStarted {
		text += "  " + clean(cmp.Or(string(data.Kind), string(record.ByDeploy))+" "+e.Deployment)
	}
	if e.Name == record.TaskAdopted {
		text += fmt.Sprintf("  by revision %s from revision %d", clean(e.Revision), data.From)
	}
	if e.Name == record.EnvironmentWatched && !data.Since.IsZero() {
		text += fmt.Sprintf("  nobody had for %s, which no deadline counts", e.CreatedAt.Sub(data.Since).Round(time.Second))
	}
	text += by(data.By) + because(data.Reason)
	var cordoned []string
	if e.Name == record.HostsCordoned || e.Name == record.HostsUncordoned {
		cordoned = data.Hosts
	}
	what := "hosts"
	if data.Drain {
		what = "to be drained"
	}
	for _, hosts := range []struct {
		names []string
		what  string
	}{{cordoned, what}, {data.Joined, "joined"}, {data.Left, "left"}, {data.Lost, "lost"}} {
		if len(hosts.names) > 0 {
			text += "  " + hosts.what + ": " + phrase.First(cleanAll(hosts.names), 5)
		}
	}
	d.line(text)
	d.cause("          ", opts.Seen.shorten(e.Seq, data.Error+data.Diff), true)
	return d.writeTo(w, "event")
}
