// Package output is what commands print: a result as text for people or as JSON
// for programs, tables, live screens, and news beside them.
package output

import (
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/cli/exit"
)

// Printer prints the results of a command in the form that --output asks for.
// Commands hand it both forms.
type Printer struct {
	Out     *os.File
	Err     *os.File
	Getenv  func(string) string
	Now     func() time.Time
	Format  string // the value of --output
	Verbose bool   // show every line that containers print
	Full    bool   // see RegisterFull
	All     bool   // see RegisterAll
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
