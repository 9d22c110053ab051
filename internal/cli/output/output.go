package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/deployster-go/deployster/deploylog"
)

// documentVersion is the version of the form of documents. It grows when a field
// changes its meaning or goes.
const documentVersion = 1

// Show prints a result: as a document for programs, or with text for people.
func (p *Printer) Show(document map[string]any, text func() error) error {
	if !p.JSON() {
		return text()
	}
	document["version"] = documentVersion
	return p.Line(document)
}

// Say prints a result of which people read a sentence.
func (p *Printer) Say(document map[string]any, format string, args ...any) error {
	return p.Show(document, func() error { return p.Printf(format+"\n", args...) })
}

// List prints a result of which people read a table, below its header, or a
// sentence where it would be empty.
func (p *Printer) List(document map[string]any, none string, rows [][]string) error {
	return p.Show(document, func() error { return p.Table(none, rows) })
}

// Recorded prints what was done, with the events that record it; next is what
// people may do then.
func (p *Printer) Recorded(document map[string]any, events []deploylog.Event, done, next string) error {
	document["events"] = append([]deploylog.Event{}, events...)
	return p.Show(document, func() error {
		for _, e := range events {
			done += fmt.Sprintf(" (event %d)", e.Seq)
		}
		return p.Printf("%s%s\n", done, next)
	})
}

// Ended says to people why a command that works until it is interrupted has ended;
// programs see the end of the output.
func (p *Printer) Ended(text string) error {
	if p.JSON() {
		return nil
	}
	return p.Printf("%s\n", text)
}

// Line prints a value as one line of JSON.
func (p *Printer) Line(value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	return p.Printf("%s\n", text)
}

// Printf prints a text. A failure ends the command.
func (p *Printer) Printf(format string, args ...any) error { return Write(p.Out, format, args...) }

// Write writes a text. A failure ends the command.
func Write(w io.Writer, format string, args ...any) error {
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// Sections prints so many parts, with an empty line between them. Without any it
// prints a sentence.
func (p *Printer) Sections(none string, n int, part func(i int) error) error {
	if n == 0 {
		return p.Printf("%s\n", none)
	}
	for i := range n {
		if i > 0 {
			if err := p.Printf("\n"); err != nil {
				return err
			}
		}
		if err := part(i); err != nil {
			return err
		}
	}
	return nil
}

// Table prints rows in aligned columns below a header, the first row. Without any
// other row it prints a sentence.
func (p *Printer) Table(none string, rows [][]string) error {
	if len(rows) == 1 {
		return p.Printf("%s\n", none)
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		last := len(row) - 1
		for i, cell := range row[:last] {
			line.WriteString(cell + strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		if err := p.Printf("%s%s\n", line.String(), row[last]); err != nil {
			return err
		}
	}
	return nil
}
