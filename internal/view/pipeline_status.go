package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/pipeline"
)

const (
	namedHosts     = 5  // of those that failed, in a row
	namedRevisions = 6  // of those in progress, in a row
	listedHosts    = 10 // of a group, before those that are alike take one row
	fewestReasons  = 4  // lines kept for what waits, of a screen
)

// urgency is what a person is to see first of something.
type urgency int

// The urgencies, the greatest first.
const (
	failing urgency = iota
	awaiting
	underWay
	quiet
)

// paint writes a text in the colour of an urgency.
func (u urgency) paint(s terminal.Style, text string) string {
	switch u {
	case failing:
		return s.Red(text)
	case awaiting:
		return s.Yellow(text)
	case underWay:
		return s.Cyan(text)
	default:
		return text
	}
}

// arrival is a revision that has reached a target and not left it.
type arrival struct {
	urgency
	text string
}

// arrived are the revisions that have reached a target and not left it, what failed first
// where there are many.
func arrived(r query.TargetRow, named int) []arrival {
	var here []arrival
	for _, row := range r.Revisions {
		a := arrival{underWay, row.Revision}
		switch row.Progress {
		case pipeline.IsRunning:
		case pipeline.IsWaiting:
			a = arrival{awaiting, row.Revision + " waits"}
		case pipeline.HasFailure:
			a = arrival{failing, row.Revision + " failed"}
		default:
			continue
		}
		if again := r.Again[row.Deployment]; again != "" && r.Group == "" {
			a.text += " (" + again + ")"
		}
		if row.Hosts > 0 {
			a.text += " (" + hostsDone(row.Hosts-row.Open-row.Failed, row.Hosts, r.Failing[row.Revision], named) + ")"
		}
		if row.Failed > 0 {
			a.urgency = failing
		}
		here = append(here, a)
	}
	if len(here) > namedRevisions {
		slices.SortStableFunc(here, func(a, b arrival) int { return cmp.Compare(a.urgency, b.urgency) })
	}
	return here
}

// hostsDone is on how many hosts something is done, and on which of them it failed, so many by
// name.
func hostsDone(done, of int, failed []string, named int) string {
	text := fmt.Sprintf("%d/%d", done, of)
	if len(failed) > 0 {
		text += fmt.Sprintf(", %d failing: %s", len(failed), phrase.First(failed, named))
	}
	return text
}

// arrivedTexts are the texts of what has arrived, of which all is each.
func arrivedTexts(r query.TargetRow, all bool) []string {
	var texts []string
	for _, a := range arrived(r, namedHosts) {
		texts = append(texts, a.text)
	}
	if more := len(texts) - namedRevisions; more > 1 && !all {
		texts = append(texts[:namedRevisions], fmt.Sprintf("%d more", more))
	}
	return texts
}

// deployed is the revision that was applied at a target, with what it was applied without, and
// so many of the hosts on which it failed.
func deployed(r query.TargetRow, named int) string {
	const skipped = 2
	text := r.Deployed
	if text != "" && len(r.Skipped) > 0 {
		text += ", " + phrase.First(r.Skipped, skipped) + " skipped"
	}
	if n := len(r.FailedHosts); n > 0 {
		text += " (" + hostsDone(r.Hosts-n, r.Hosts, r.FailedHosts, named) + ")"
	}
	if r.Passed != "" {
		text = strings.TrimPrefix(fmt.Sprintf("%s; %s skipped all", text, r.Passed), "; ")
	}
	return text
}

// statusRow is a row of the table of a status.
type statusRow struct {
	depth                  int
	name                   string
	deployed, failed, here string
	urgency                urgency
	failedLast             bool // what failed came after what is deployed
	stages                 int  // that it stands for, of those that are alike
}

func (r statusRow) cells() []string {
	name := r.name
	if r.stages > 1 {
		name += fmt.Sprintf(" (%s)", phrase.Count(r.stages, "stage"))
	}
	return []string{strings.Repeat("  ", r.depth) + name, orDash(r.deployed), orDash(r.failed), orDash(r.here)}
}

// alike reports whether two rows say the same.
func (r statusRow) alike(o statusRow) bool {
	return r.deployed == o.deployed && r.failed == o.failed && r.here == o.here
}

func rowOf(r query.TargetRow, all bool) statusRow {
	row := statusRow{
		name: r.Stage, depth: 1, deployed: deployed(r, namedHosts), failed: r.Failed, here: strings.Join(arrivedTexts(r, all), ", "),
		urgency: quiet, failedLast: r.FailedEvent > r.DeployedEvent, stages: 1,
	}
	switch {
	case r.Host != "":
		row.name, row.depth = r.Host, 3
	case r.Group != "":
		row.name, row.depth = r.Group, 2
	case r.Stage == "":
		row.name, row.depth = "pipeline", 0
	}
	for _, a := range arrived(r, namedHosts) {
		row.urgency = min(row.urgency, a.urgency)
	}
	if len(r.FailedHosts) > 0 {
		row.urgency = failing
	}
	return row
}

// statusRows are the rows of a status, with hosts that are alike in one row unless all are
// asked for.
func statusRows(p query.PipelineStatus, all bool) (rows []statusRow) {
	var hosts []statusRow // of one group
	flush := func() {
		if !all && len(hosts) > listedHosts {
			hosts = together(hosts)
		}
		rows = append(rows, hosts...)
		hosts = nil
	}
	for _, r := range p.Rows {
		if r.Host != "" {
			hosts = append(hosts, rowOf(r, all))
			continue
		}
		flush()
		rows = append(rows, rowOf(r, all))
	}
	flush()
	return rows
}

// together has one row for the hosts that are alike, what is most urgent first.
func together(hosts []statusRow) (rows []statusRow) {
	var names [][]string
	for _, h := range hosts {
		i := slices.IndexFunc(rows, h.alike)
		if i < 0 {
			i, rows, names = len(rows), append(rows, h), append(names, nil)
		}
		names[i] = append(names[i], h.name)
	}
	for i := range rows {
		rows[i].name = several(names[i])
	}
	slices.SortStableFunc(rows, func(a, b statusRow) int { return cmp.Compare(a.urgency, b.urgency) })
	return rows
}

// several names the first of many.
func several(names []string) string {
	const most = 3
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", names[0], len(names)-1)
}

// merged has one row for a stage and its only host group where that has its name.
func merged(rows []statusRow) (less []statusRow) {
	for i := 0; i < len(rows); i++ {
		row := rows[i]
		only := row.depth == 1 && i+1 < len(rows) && rows[i+1].depth == 2 && (i+2 == len(rows) || rows[i+2].depth == 1)
		if only && rows[i+1].name == row.name {
			i++
			group := rows[i]
			row.urgency = min(row.urgency, group.urgency)
			row.deployed = cmp.Or(group.deployed, row.deployed)
			if row.urgency != awaiting {
				row.here = cmp.Or(group.here, row.here)
			}
		}
		less = append(less, row)
	}
	return less
}

// shortened has one row for stages one after the other of which there is the same to say, and
// nothing that is urgent.
func shortened(rows []statusRow) (less []statusRow) {
	for _, row := range rows {
		last := len(less) - 1
		if row.depth == 1 && row.urgency == quiet && last >= 0 && less[last].depth == 1 && less[last].urgency == quiet && less[last].alike(row) {
			first, _, _ := strings.Cut(less[last].name, " … ")
			less[last].name, less[last].stages = first+" … "+row.name, less[last].stages+1
			continue
		}
		less = append(less, row)
	}
	return less
}

// Pipeline writes the status of a pipeline for people. On a terminal it takes no more than a
// screen, unless all, or every host, is asked for.
func Pipeline(w io.Writer, p query.PipelineStatus, opts PlanOptions) error {
	d := newDocument(opts)
	rows, below := statusRows(p, opts.All), statusRemarks(p, opts)
	hosts := slices.ContainsFunc(rows, func(r statusRow) bool { return r.depth == 3 })
	lines := statusTable(p.Name, rows, true, opts)
	if room := opts.Height - 1; opts.Height > 0 && !hosts {
		for _, less := range []func([]statusRow) []statusRow{merged, shortened} {
			if len(lines)+len(below)+1 > room {
				rows = less(rows)
				lines = statusTable(p.Name, rows, true, opts)
			}
		}
		if least := min(len(below), fewestReasons) + 1; len(lines)+least > room {
			kept, left := urgent(rows, room-least-1, opts)
			lines = append(statusTable(p.Name, kept, false, opts), left...)
		}
		below = mostUrgent(below, max(room-len(lines)-1, fewestReasons), "deployster pipeline explain "+terminal.InLine(p.Name))
	}
	for _, line := range lines {
		d.line(line)
	}
	for i, r := range below {
		if i == 0 {
			d.line("")
		}
		for _, line := range r.lines {
			for _, part := range fold(line, opts.Width) {
				d.line(part)
			}
		}
	}
	return d.writeTo(w, "status")
}

// urgent are so many of the rows, the most urgent, in their order and below their stages, and a
// line that says what is left out.
func urgent(rows []statusRow, room int, opts PlanOptions) (kept []statusRow, left []string) {
	room = max(room, fewestReasons)
	if len(rows) <= room {
		return rows, nil
	}
	kept = slices.Clone(rows)
	for i, stage := 1, 0; i < len(kept); i++ {
		if kept[i].depth == 1 {
			stage = i
		}
		kept[stage].urgency = min(kept[stage].urgency, kept[i].urgency)
	}
	gone, failed := map[int]int{}, map[int]int{} // by depth
	for u := quiet; u >= failing; u-- {
		for i := len(kept) - 1; i > 0 && len(kept) > room-1; i-- {
			if r := kept[i]; r.urgency == u {
				gone[r.depth] += r.stages
				if u == failing {
					failed[r.depth]++
				}
				kept = slices.Delete(kept, i, i+1)
			}
		}
	}
	depth, text := 1, phrase.Count(gone[1], "stage")
	if gone[1] == 0 {
		depth, text = 2, phrase.Count(gone[2], "host group")
	}
	if failed[depth] > 0 {
		text += fmt.Sprintf(", %d failing", failed[depth])
	}
	return kept, []string{OneLine("  … "+text+": --all", opts)}
}

func statusTable(name string, rows []statusRow, wrap bool, opts PlanOptions) []string {
	s := terminal.Style(opts.Color)
	t := terminal.Table{Rows: [][]string{{name, "DEPLOYED", "FAILED", "IN PROGRESS"}}, Width: opts.Width, Wrap: wrap, Color: opts.Color}
	for _, r := range rows {
		t.Rows = append(t.Rows, r.cells())
	}
	t.Paint = func(row, column int, text string) string {
		switch {
		case row == 0:
			return text
		case column == 0, column == 3:
			return rows[row-1].urgency.paint(s, text)
		case column == 2 && rows[row-1].failedLast:
			return s.Red(text)
		case column == 2:
			return s.Dim(text)
		default:
			return text
		}
	}
	return t.Lines()
}

// remark is something that is said below a table, in lines that belong together.
type remark struct {
	urgency
	under string // heading
	lines []string
}

// mostUrgent are the remarks for which there is room, with their headings and in their order,
// and how many more there are, and where.
func mostUrgent(all []remark, room int, where string) []remark {
	if taken(all) <= room {
		return all
	}
	kept := slices.Clone(all)
	for u := quiet; u >= failing; u-- {
		for i := len(kept) - 1; i >= 0 && len(kept) > 1 && taken(kept) > room-1; i-- {
			if kept[i].urgency == u {
				kept = slices.Delete(kept, i, i+1)
			}
		}
	}
	last := kept[len(kept)-1]
	return append(kept, remark{quiet, last.under, []string{fmt.Sprintf("… and %d more: %s", len(all)-len(kept), where)}})
}

// taken is how many lines remarks take with their headings.
func taken(all []remark) (lines int) {
	for i, r := range all {
		lines += len(r.lines)
		if r.under != "" && (i == 0 || all[i-1].under != r.under) {
			lines++
		}
	}
	return lines
}

// statusRemarks are what there is to say below the table: what does not move, and why.
func statusRemarks(p query.PipelineStatus, opts PlanOptions) (all []remark) {
	s := terminal.Style(opts.Color)
	if why := p.Elsewhere; why != nil {
		all = append(all, remark{urgency: failing, lines: append(fold(Clean(why.Message()), opts.Width), paintAll(indent("  ", "→ "+Clean(why.Change()), opts.Width), s.Dim)...)})
	}
	failed := wholeFailed(p.Waiting)
	for _, a := range p.Waiting {
		why := a.First
		if below(why, failed) && !opts.All {
			continue
		}
		text := fmt.Sprintf("%s: %s", a.Name(clean(string(why.Target))), Clean(why.Message()))
		if why.Revision != "" {
			text = fmt.Sprintf("revision %s: %s", clean(why.Revision), text)
		}
		r := remark{urgency: urgencyOf(why), lines: strings.Split(text, "\n")}
		if opts.Width > 0 && !opts.All {
			r.lines = []string{ansi.Truncate(terminal.InLine(text), opts.Width, "…")}
		}
		all = append(all, r)
	}
	return all
}
