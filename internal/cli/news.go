package cli

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// news is what has to be said beside the output of a command. On a live screen
// it goes through the screen, which would be torn by anything else that is
// written to the terminal.
type news struct {
	fallback io.Writer

	mu   sync.Mutex
	live *view.Live
}

// show sends further news through a screen, if it is a live one.
func (n *news) show(s screen) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.live, _ = s.(*view.Live)
}

// tell says a sentence.
func (n *news) tell(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live != nil {
		n.live.Observe(runner.Event{Kind: runner.Waiting, Text: text})
		return
	}
	fmt.Fprintln(n.fallback, text)
}

// Write makes news of what a logger writes.
func (n *news) Write(p []byte) (int, error) {
	n.tell(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
