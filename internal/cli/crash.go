package cli

import (
	"errors"
	"fmt"
	"io"
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
	about func() string       // what the command was
	hide  func(string) string // hides what must not stand in a report

	mu     sync.Mutex
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
	hidden.Message = c.hide(e.Message)
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

// hideVariables hides the values of variables that a command line gives.
func hideVariables(args []string) func(string) string {
	const shortest = 4 // or half of a text would be hidden
	var values []string
	for i, arg := range args {
		rest, isVar := strings.CutPrefix(arg, "--var=")
		if arg == "--var" && i+1 < len(args) {
			rest, isVar = args[i+1], true
		}
		if _, value, ok := strings.Cut(rest, "="); isVar && ok && len(value) >= shortest {
			values = append(values, value, "(hidden)")
		}
	}
	return strings.NewReplacer(values...).Replace
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
