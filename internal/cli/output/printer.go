// Package output is what commands print. The Printer decides once, by --output,
// whether programs or people read: a command hands it a result in both forms. What
// goes on while a command works is on a Screen, for a run, or among Events, for
// pipelines and environments; notices go through the screen that is drawn.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/deploylog"
	"github.com/deployster-go/deployster/internal/cli/exit"
	"github.com/deployster-go/deployster/internal/picture"
	"github.com/deployster-go/deployster/internal/terminal"
	"github.com/deployster-go/deployster/internal/view"
)

// Printer prints the results of a command in the form that --output asks for.
type Printer struct {
	Out     *os.File
	Err     *os.File
	Getenv  func(string) string
	Now     func() time.Time
	Version string // of Deployster
	Format  string // the value of --output
	Verbose bool   // show every line that containers print
	Full    bool   // see RegisterFull
	All     bool   // see RegisterAll

	mu   sync.Mutex
	live *view.Live // drawn at present, or nil: anything else written to the terminal would tear it
}

// JSON reports whether programs read the output.
func (p *Printer) JSON() bool { return p.Format == "json" }

// pictures is the annotation of commands that can also draw.
const pictures = "pictures"

// Pictures lets a command take the formats of pictures, too.
func Pictures(c *cobra.Command) *cobra.Command {
	c.Annotations = map[string]string{pictures: ""}
	return c
}

// Formats are the values of --output that a command takes.
func Formats(c *cobra.Command) []string {
	formats := []string{"text", "json"}
	if _, can := c.Annotations[pictures]; can {
		formats = append(formats, "dot", "mermaid", "svg")
	}
	return formats
}

// Check refuses a value of --output that a command does not take.
func (p *Printer) Check(c *cobra.Command) error {
	formats := Formats(c)
	switch {
	case slices.Contains(formats, p.Format):
		return nil
	case len(formats) > 2:
		return exit.Usage("--output %s: a graph can be text, dot, mermaid, svg or json", p.Format)
	}
	return exit.Usage("--output %s: it must be text or json", p.Format)
}

// Draw draws a graph in the format that --output asks for.
func (p *Printer) Draw(g picture.Graph) error {
	draw := map[string]func(io.Writer, picture.Graph) error{
		"text": picture.Text, "json": picture.JSON, "dot": picture.Dot, "mermaid": picture.Mermaid, "svg": picture.SVG,
	}[p.Format]
	if err := draw(p.Out, g); err != nil {
		return fmt.Errorf("drawing the graph: %w", err)
	}
	return nil
}

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
func (p *Printer) List(document map[string]any, none string, rows [][]string, extra ...int) error {
	return p.Show(document, func() error { return p.Table(none, rows, extra...) })
}

// History prints a result of which people read a table that grows at its end: on a terminal
// as much of that as it shows at once, unless all is asked for (RegisterWhole).
func (p *Printer) History(document map[string]any, none string, rows [][]string, extra ...int) error {
	return p.Show(document, func() error {
		return p.table(none, rows, terminal.Table{Extra: extra, Height: p.PlanOptions(p.Out).Height})
	})
}

// Listing is History of a table of which the first rows are shown, for none is the newest.
func (p *Printer) Listing(document map[string]any, none string, rows [][]string, extra ...int) error {
	return p.Show(document, func() error {
		return p.table(none, rows, terminal.Table{Extra: extra, Height: p.PlanOptions(p.Out).Height, First: true})
	})
}

// Wrapped are lines of a text that are wider than the terminal in several, each of which begins
// with the spaces and the marks of a comment of the one it continues.
func (p *Printer) Wrapped(text string) string { return wrapped(text, p.PlanOptions(p.Out).Width) }

func wrapped(text string, width int) string {
	const deeper, least = "  ", 10
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		rest := strings.TrimLeft(line, "# ")
		prefix := line[:len(line)-len(rest)]
		if width <= 0 || ansi.StringWidth(line) <= width {
			out.WriteString(line + "\n")
			continue
		}
		for i, part := range terminal.Words(rest, max(width-len(prefix)-len(deeper), least)) {
			if i == 1 {
				prefix += deeper
			}
			out.WriteString(prefix + part + "\n")
		}
	}
	return out.String()
}

// Recorded prints what was done, with the events that record it; next is what
// people may do then.
func (p *Printer) Recorded(document map[string]any, events []deploylog.Event, done, next string) error {
	document["events"] = append([]deploylog.Event{}, events...)
	for _, e := range events {
		done += fmt.Sprintf(" (event %d)", e.Seq)
	}
	return p.Say(document, "%s%s", done, next)
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
// other row it prints a sentence. On a terminal it is as wide as that, and as high unless
// all is asked for; extra are the columns that are left out there where there is no room.
func (p *Printer) Table(none string, rows [][]string, extra ...int) error {
	return p.table(none, rows, terminal.Table{Extra: extra})
}

func (p *Printer) table(none string, rows [][]string, t terminal.Table) error {
	if len(rows) == 1 {
		return p.Printf("%s\n", none)
	}
	t.Rows, t.Width = rows, p.PlanOptions(p.Out).Width
	return p.Printf("%s\n", strings.Join(t.Lines(), "\n"))
}
