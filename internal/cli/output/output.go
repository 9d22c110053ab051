package output

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/view"
)

// AsJSON tells whether machine-readable output was asked for.
func (p *Printer) AsJSON() (bool, error) {
	switch p.Format {
	case "text":
		return false, nil
	case "json":
		return true, nil
	default:
		return false, exit.Usage("--output %s: it must be text or json", p.Format)
	}
}

// Write is for output whose failure ends the command.
func Write(w io.Writer, format string, args ...any) error {
	if _, err := fmt.Fprintf(w, format, args...); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// Recorded tells what was done, with the events that record it, and what
// there is to say of that.
func (p *Printer) Recorded(document map[string]any, events []deploylog.Event, asJSON bool, done, next string) error {
	if asJSON {
		document["events"] = append([]deploylog.Event{}, events...)
		return p.Document(document)
	}
	for _, e := range events {
		done += fmt.Sprintf(" (event %d)", e.Seq)
	}
	return p.Printf("%s%s\n", done, next)
}

// InLine makes what somebody wrote one line that is safe to print.
func InLine(text string) string { return strings.Join(strings.Fields(view.Clean(text)), " ") }

func Moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

func Dash(text string) string {
	if text == "" {
		return "–"
	}
	return text
}

func (p *Printer) Document(document map[string]any) error {
	document["version"] = 1
	text, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("encoding the output: %w", err)
	}
	return p.Printf("%s\n", text)
}

// Table writes rows in aligned columns.
func (p *Printer) Table(rows [][]string) error {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			if i == len(row)-1 {
				line.WriteString(cell)
				break
			}
			line.WriteString(cell + strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
		}
		if err := p.Printf("%s\n", line.String()); err != nil {
			return err
		}
	}
	return nil
}

// Progress writes to one line of a terminal, from the first second on; "" ends
// it. Elsewhere it writes nothing.
func (p *Printer) Progress(what string) func(string) {
	if !p.Terminal(p.Err) {
		return func(string) {}
	}
	begun, shown := p.Now(), false
	return func(text string) {
		switch {
		case text == "" && shown:
			fmt.Fprint(p.Err, "\r\x1b[K")
		case text != "" && p.Now().Sub(begun) > time.Second:
			shown = true
			fmt.Fprintf(p.Err, "\r\x1b[K%s: %s", what, text)
		}
	}
}

// PlainText keeps what a container said from driving the terminal.
func PlainText(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return ' '
		}
		return c
	}, s)
}

func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Printf prints a text, whose failure ends the command.
func (p *Printer) Printf(format string, args ...any) error { return Write(p.Out, format, args...) }
