package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/deployster-go/deployster/internal/crash"
)

// mostReports bounds how many reports one process writes: a controller may meet
// one fault again and again.
const mostReports = 20

// crashes are the internal errors that a command met. Each place in the code is
// reported once, and at once: what comes after a panic is not to be relied on.
type crashes struct {
	now   func() time.Time
	about func() string // what the command was

	mu     sync.Mutex
	values map[string]bool // of variables, which must not stand in a report
	known  map[string]bool
	advice []string
}

func (c *crashes) add(e *crash.Error) {
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
	path, err := crash.Write(stateDir, c.now(), c.about(), &hidden)
	c.advice = append(c.advice, crash.Advice(path, err, &hidden))
}

// tell tells people where the reports are, and whether there are any.
func (c *crashes) tell(to io.Writer) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, text := range c.advice {
		fmt.Fprint(to, text)
	}
	return len(c.advice) > 0
}

// about is what a report tells of a command line: no values.
func about(root *cobra.Command, args []string) string {
	words := []string{"deployster"}
	if c, _, err := root.Find(args); err == nil {
		words = []string{c.CommandPath()}
		for _, arg := range args {
			name, _, _ := strings.Cut(arg, "=")
			if long, ok := strings.CutPrefix(name, "--"); ok && c.Flags().Lookup(long) != nil {
				words = append(words, name)
			}
		}
	}
	return fmt.Sprintf("deployster: %s\ncommand: %s\n", version(), strings.Join(words, " "))
}

// shortestValue is the length from which values of variables are hidden, or half of
// a text would be.
const shortestValue = 4

// hide keeps all that a variable holds out of reports.
func (c *crashes) hide(value any) {
	switch value := value.(type) {
	case map[string]any:
		for _, v := range value {
			c.hide(v)
		}
	case []any:
		for _, v := range value {
			c.hide(v)
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

// without hides what hide was told in a text; c.mu is held.
func (c *crashes) without(text string) string {
	values := slices.Collect(maps.Keys(c.values))
	// The longest goes first: another may be its beginning.
	slices.SortFunc(values, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, "(hidden)")
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// given lists the values of variables that a command line gives.
func given(args []string) (values []any) {
	for i, arg := range args {
		rest, isVar := strings.CutPrefix(arg, "--var=")
		if arg == "--var" && i+1 < len(args) {
			rest, isVar = args[i+1], true
		}
		if _, value, ok := strings.Cut(rest, "="); isVar && ok {
			values = append(values, value)
		}
	}
	return values
}

// guard makes an error of a panic in the work of a controller, which goes on, and
// reports it. It is deferred.
func (a *app) guard(err *error, doing string) {
	if p := recover(); p != nil {
		c := crash.New(p, doing)
		a.crashes.add(c)
		*err = errors.Join(*err, c)
	}
}
