// Package output is what commands print: a result as text for people or as JSON
// for programs, tables, live screens, and news beside them.
package output

import (
	"os"
	"time"
)

// Printer prints the results of a command in the form that --output asks for.
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
