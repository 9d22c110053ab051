package groups

import (
	"fmt"
	"io"

	"github.com/deployster-go/deployster/build"
	"github.com/deployster-go/deployster/build/reason"
	"github.com/deployster-go/deployster/build/transition"
	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/query"
)

// reasonLines is how many lines a message takes on a terminal, unless all is asked for.
const reasonLines = 3

// Reasons writes why what is at or below a target does not move. On a terminal it takes no
// more than a screen.
func Reasons(w io.Writer, t deploylog.Target, reasons []query.BuildReason, opts Options) error {
	p := page{opts: opts, style: opts.style()}
	if len(reasons) == 0 {
		what := "Nothing of " + clean(string(t))
		if t == "" {
			what = "No build group"
		}
		p.line(what + " is waiting.")
	}
	left := opts.Height - 2 // beside the note and the prompt
	for i, r := range reasons {
		lines := p.reason(r)
		if opts.Height > 0 && i > 0 && left < len(lines) {
			p.line(fmt.Sprintf("… and %d more: --all shows them", len(reasons)-i))
			break
		}
		left -= len(lines)
		for _, line := range lines {
			p.line(line)
		}
	}
	return p.writeTo(w, "explanation")
}

// reason are the lines of one.
func (p *page) reason(r query.BuildReason) (lines []string) {
	name := clean(r.Target)
	if n := len(r.Others); n > 0 {
		numbers, _ := r.Others.MarshalText()
		name += fmt.Sprintf(" and %d more (%s)", n, phrase.Cut(string(numbers), 40))
	}
	if r.Seq > 0 {
		name += p.style.Dim(fmt.Sprintf(", event %d", r.Seq))
	}
	if r.Code == reason.JobFailed || r.Code == reason.GroupFailed || r.Code == reason.GroupStalled {
		name = p.style.Red(name)
	}
	lines = append(lines, "  "+name)
	for _, of := range []struct{ prefix, text string }{{"      ", r.Message}, {"      → ", r.Change}} {
		below := page{opts: p.opts, style: p.style}
		if of.text == "" {
			continue
		}
		below.text(of.prefix, of.text)
		said := splitLines(below.String())
		if more := len(said) - reasonLines; p.opts.Height > 0 && more > 0 {
			said = append(said[:reasonLines], "      …")
		}
		lines = append(lines, said...)
	}
	return lines
}

// Forecast writes when a group will have ended, and what that depends on.
func Forecast(w io.Writer, s build.Summary, f build.Forecast, names func(job int) string, opts Options) error {
	p := page{opts: opts, style: opts.style()}
	id := p.style.Bold(clean(s.ID))
	switch {
	case s.State.Ended():
		p.line(fmt.Sprintf("%s is %s since %s: nothing is left of it.", id, s.State, phrase.Moment(s.Ended)))
		return p.writeTo(w, "forecast")
	case s.State == transition.Canceling:
		p.line(fmt.Sprintf("%s is being canceled: it ends when what runs is stopped.", id))
		return p.writeTo(w, "forecast")
	case s.State == transition.Triggered || s.State == transition.Created:
		p.line(fmt.Sprintf("%s will not end: its submission has not ended. Cancel it, and submit it again: deployster build cancel %s", id, clean(s.ID)))
		return p.writeTo(w, "forecast")
	case f.Unknown != "":
		p.text("", fmt.Sprintf("When %s ends is not known, for it is not known which workers there are: %s", id, clean(f.Unknown)))
	case len(f.Unserved) > 0:
		p.line(fmt.Sprintf("%s will not end: no worker serves %s of it: %s; what would: deployster build explain %s", id, phrase.Count(len(f.Unserved), "job"), some(f.Unserved, names), clean(s.ID)))
	case f.Slots == 0 || f.End.IsZero():
		p.line(fmt.Sprintf("%s will not end: there is no worker; what is wanted: deployster build explain %s", id, clean(s.ID)))
	case f.Measured == 0:
		p.line(fmt.Sprintf("When %s ends is not known: no job like those that are left has been built so far.", id))
	case f.Left <= 0:
		p.line(fmt.Sprintf("%s was expected to have ended by now: what runs takes longer than it did last.", id))
	default:
		p.line(fmt.Sprintf("%s is expected to end at %s, in %s.", id, phrase.Moment(f.End), phrase.Took(f.Left)))
	}
	text := "  " + are(f.Jobs, "job") + " left"
	if f.Measured < f.Jobs && f.Measured > 0 {
		text += fmt.Sprintf(", of %d of which it is not known how long they take", f.Jobs-f.Measured)
	}
	if f.Unknown == "" {
		text += fmt.Sprintf("; %s at once", phrase.Count(f.Slots, "job"))
	}
	p.line(text)
	if f.Measured > 0 {
		p.line("  work in all: " + phrase.Took(f.Work))
	}
	if len(f.Critical) > 0 && f.Measured > 0 {
		p.line(fmt.Sprintf("  longest chain: %s, of %s: %s", phrase.Took(f.Path), phrase.Count(len(f.Critical), "job"), some(f.Critical, names)))
	}
	if f.Ahead > 0 {
		p.line(fmt.Sprintf("  %s of older groups ahead of it", are(f.Ahead, "job")))
	}
	return p.writeTo(w, "forecast")
}

// some are the names of the first of many jobs.
func some(jobs []int, names func(job int) string) string {
	texts := make([]string, len(jobs))
	for i, n := range jobs {
		if i <= shownNames {
			texts[i] = clean(names(n))
		}
	}
	return phrase.First(texts, shownNames)
}
