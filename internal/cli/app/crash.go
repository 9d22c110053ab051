package app

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/deployster-go/deployster/internal/crash"
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
	values map[string]bool // of variables, which must not stand in a report
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
	hidden.Message = c.without(e.Message)
	path, err := crash.Write(StateDir, c.Now(), c.About(), &hidden)
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

// shortestValue is the length from which values of variables are hidden, or half of
// a text would be.
const shortestValue = 4

// Hide keeps all that a variable holds out of reports.
func (c *Crashes) Hide(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			c.Hide(v)
		}
	case []any:
		for _, v := range value {
			c.Hide(v)
		}
	case nil, bool:
	default:
		text := fmt.Sprint(value)
		if len(text) < shortestValue {
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.values == nil {
			c.values = map[string]bool{}
		}
		c.values[text] = true
	}
}

// without hides in a text what Hide received; c.mu is held.
func (c *Crashes) without(text string) string {
	values := slices.Collect(maps.Keys(c.values))
	// The longest goes first: another may be its beginning.
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, "(hidden)")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
