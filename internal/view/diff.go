package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/deployster-go/deployster/internal/phrase"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/runner/diff"
)

// maxDiffLines bounds how much of one changed text is shown, in lines.
const maxDiffLines = 20

// changes writes a diff: one line per value, several for texts of several
// lines.
func (d *document) changes(changes []diff.Change) {
	paths := 0
	for _, c := range changes {
		paths = max(paths, ansi.StringWidth(path(c)))
	}
	for _, c := range changes {
		name := pad(path(c), min(paths, 32))
		old, isText := c.Old.(string)
		text, isNewText := c.New.(string)
		switch {
		case c.Op == diff.Modify && isText && isNewText && strings.Contains(old+text, "\n"):
			d.line("      " + d.style.Yellow("~") + " " + path(c))
			d.textChange(old, text)
		case c.Op == diff.Modify:
			d.line(fmt.Sprintf("      %s %s  %s → %s", d.style.Yellow("~"), name, d.value(c.Old), d.value(c.New)))
		case c.Op == diff.Remove:
			d.line(fmt.Sprintf("      %s %s  %s", d.style.Red("-"), name, d.value(c.Old)))
		default:
			d.line(fmt.Sprintf("      %s %s  %s", d.style.Green("+"), name, d.value(c.New)))
		}
	}
}

func path(c diff.Change) string {
	if c.Path == "" {
		return "config"
	}
	return clean(c.Path)
}

// value writes any value on one line, as JSON, cut to the width unless all is to
// be shown.
func (d *document) value(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return clean(fmt.Sprintf("%v", v))
	}
	written := d.known(b.String())
	if d.full {
		return terminal.Scrub(written)
	}
	text := clean(written)
	short := text
	if d.width > 0 {
		short = ansi.Truncate(text, max(d.width/2, 16), "…")
	}
	d.cut = d.cut || short != text || b.Len() > terminal.MaxText
	return short
}

// known says of what is not known in a value when it will be.
func (d *document) known(value string) string {
	const unknown = `{"$unknown":true}`
	if len(d.after) == 0 {
		return value
	}
	return strings.ReplaceAll(value, unknown, "(known after apply of "+strings.Join(d.after, ", ")+")")
}

// textChange writes the lines in which two texts differ: what they share at
// their beginnings and ends is left out.
func (d *document) textChange(old, text string) {
	from, to := strings.Split(old, "\n"), strings.Split(text, "\n")
	for len(from) > 0 && len(to) > 0 && from[0] == to[0] {
		from, to = from[1:], to[1:]
	}
	for len(from) > 0 && len(to) > 0 && from[len(from)-1] == to[len(to)-1] {
		from, to = from[:len(from)-1], to[:len(to)-1]
	}
	d.side(d.style.Red, "-", from)
	d.side(d.style.Green, "+", to)
}

func (d *document) side(paint func(string) string, mark string, lines []string) {
	more := 0
	if len(lines) > maxDiffLines && !d.full {
		d.cut = true
		more = len(lines) - maxDiffLines
		lines = lines[:maxDiffLines]
	}
	for _, line := range lines {
		text := terminal.Scrub(line)
		if !d.full {
			text = clean(line)
		}
		d.line("          " + paint(mark+" "+text))
	}
	if more > 0 {
		d.line("          " + d.style.Dim(fmt.Sprintf("… and %s", phrase.Count(more, "more line"))))
	}
}
