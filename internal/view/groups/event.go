// Package groups writes build groups for people: how a group and its jobs stand, why
// something of them does not move, and what happens to them; on a terminal as a board that
// changes in place.
//
// What is in a log was written by others, and is made safe to print.
package groups

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/build/record"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
)

// Options says how something is written.
type Options struct {
	Color  bool
	Width  int // of the terminal in cells; 0 is no limit
	Height int // of the terminal in lines, where not everything is to be shown; 0 is no limit
}

func (o Options) style() terminal.Style { return terminal.Style(o.Color) }

// eventOutput is how many of the last lines of a job that failed are shown with the event.
const eventOutput = 10

// Event writes a recorded event of a build group or one of its jobs. name is what the job
// builds, where that is known.
func Event(w io.Writer, e deploylog.Event, name string, opts Options) error {
	style := opts.style()
	text := fmt.Sprintf("%6d  %s %s  %s", e.Seq, mark(e.Name, style), clean(e.Name), style.Dim(clean(string(e.Target))))
	if e.Target.Kind() == record.JobKind && e.Attempt > 1 {
		text += fmt.Sprintf("  attempt %d", e.Attempt)
	}
	if details := details(e, clean(name)); details != "" {
		text += "  " + details
	}
	lines := []string{text}
	if cause := record.Cause(e); cause != "" {
		for _, line := range terminal.Lines(cause) {
			lines = append(lines, "          "+line)
		}
	}
	output := record.Decode[record.Failed](e).Output
	for _, line := range output[max(0, len(output)-eventOutput):] {
		lines = append(lines, "          "+style.Dim("│ "+clean(line)))
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], terminal.Limit(opts.Width), "…") + "\n"
	}
	if _, err := io.WriteString(w, strings.Join(lines, "")); err != nil {
		return fmt.Errorf("writing the event: %w", err)
	}
	return nil
}

// clean makes foreign text safe to print on one line.
func clean(text string) string { return terminal.InLine(text) }

func mark(event string, style terminal.Style) string {
	switch event {
	case record.JobFailed, record.JobDependentsFailed, record.GroupFailing, record.GroupFailed, record.GroupStalled:
		return style.Red("✘")
	case record.JobLost, record.GroupCanceling, record.GroupCanceled, record.JobCanceled:
		return style.Yellow("!")
	case record.JobFinished, record.GroupFinished:
		return style.Green("✔")
	case record.JobStarted, record.GroupStarted:
		return style.Cyan("●")
	default:
		return style.Dim("·")
	}
}

// details are what people ask for first of the data of an event.
func details(e deploylog.Event, name string) string {
	parts := ofJob(e)
	if e.Target.Kind() == record.GroupKind {
		parts = ofGroup(e)
	}
	if name != "" && e.Name != record.JobDependentsEligible && e.Name != record.JobDependentsFailed {
		parts = append([]string{name}, parts...)
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return strings.Join(parts, ", ")
}

func ofGroup(e deploylog.Event) []string {
	switch e.Name {
	case record.GroupTriggered:
		return []string{byWhom(record.Decode[record.Triggered](e).By)}
	case record.GroupCreated:
		c := record.Decode[record.Created](e)
		parts := []string{phrase.Count(c.Jobs, "job")}
		if n := len(c.Unbuildable); n > 0 {
			parts = append(parts, phrase.Count(n, "package")+" unbuildable")
		}
		return parts
	case record.JobsCreated:
		if j := record.Decode[record.Jobs](e); len(j.Jobs) > 0 {
			return []string{fmt.Sprintf("jobs %d-%d", j.From, j.From+len(j.Jobs)-1)}
		}
	case record.JobsEligible:
		return []string{jobs(record.Decode[record.Eligible](e).Jobs)}
	case record.GroupCanceling:
		return []string{byWhom(record.Decode[record.Canceling](e).By)}
	case record.GroupRetried:
		r := record.Decode[record.Retried](e)
		if r.FailedOnly {
			return []string{byWhom(r.By), "only what failed"}
		}
		return []string{byWhom(r.By)}
	}
	return nil
}

func ofJob(e deploylog.Event) []string {
	switch e.Name {
	case record.JobStarted:
		return []string{onWorker(record.Decode[record.Started](e).Worker)}
	case record.JobFinished:
		return finished(record.Decode[record.Finished](e))
	case record.JobFailed:
		f := record.Decode[record.Failed](e)
		if f.Took > 0 {
			return []string{onWorker(f.Worker), "after " + phrase.Took(f.Took)}
		}
		return []string{onWorker(f.Worker)}
	case record.JobLost:
		return []string{onWorker(record.Decode[record.Lost](e).Worker)}
	case record.JobDependentsEligible:
		return []string{jobs(record.Decode[record.Eligible](e).Jobs)}
	case record.JobDependentsFailed:
		return []string{jobs(record.Decode[record.DependentsFailed](e).Jobs)}
	}
	return nil
}

func onWorker(name string) string {
	if name == "" {
		return ""
	}
	return "on " + clean(name)
}

func finished(f record.Finished) (parts []string) {
	if f.Reused != "" {
		return []string{"what " + clean(string(f.Reused)) + " built"}
	}
	parts = []string{"in " + phrase.Took(f.Took), phrase.Size(f.Size)}
	for _, key := range slices.Sorted(maps.Keys(f.Metadata)) {
		if len(parts) == 4 { // two are enough for a line
			break
		}
		parts = append(parts, clean(key+"="+f.Metadata[key]))
	}
	return parts
}

func byWhom(who string) string {
	if who == "" {
		return ""
	}
	return "by " + clean(who)
}

// jobs is how many jobs there are, with the numbers of some.
func jobs(numbers record.Numbers) string {
	const most = 40 // characters of numbers
	text, _ := numbers.MarshalText()
	return fmt.Sprintf("%s: %s", phrase.Count(len(numbers), "job"), phrase.Cut(string(text), most))
}
