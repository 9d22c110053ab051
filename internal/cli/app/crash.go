package app

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/runner/invoke"
)

// mostReports bounds how many reports one process writes: a controller may meet
// one fault again and again.
const mostReports = 20

// Crashes are the internal errors that a command met. Each place in the code is
// reported once, and at once: what comes after a panic is not to be relied on.
type Crashes struct {
	Now   func() time.Time
	About func() string // what the command was

	mu     sync.Mutex
	hidden invoke.Secrets // what must not stand in a report
	known  map[string]bool
	advice []string
}

// Add reports an internal error, unless its place was reported before.
func (c *Crashes) Add(e *crash.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known[e.Place] || len(c.known) == mostReports {
		return
	}
	if c.known == nil {
		c.known = map[string]bool{}
	}
	c.known[e.Place] = true
	hidden := *e
	hidden.Message = c.hidden.Replace(e.Message, "(hidden)")
	path, err := crash.Write(engine.StateDir, c.Now(), c.About(), &hidden)
	c.advice = append(c.advice, crash.Advice(path, err, &hidden))
}

// Print prints where the reports are, and reports whether there are any.
func (c *Crashes) Print(to io.Writer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.advice {
		fmt.Fprint(to, text)
	}
	return len(c.advice) > 0
}

// Hide keeps all that a variable holds out of reports.
func (c *Crashes) Hide(value any) { c.hidden.Add(value, [][]string{nil}) }
