package output

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/internal/view"
	"github.com/deployster-go/deployster/runner"
)

// News prints notices beside the output of a command. On a live screen they go
// through the screen, which anything else written to the terminal would tear.
type News struct {
	Fallback io.Writer

	mu   sync.Mutex
	live *view.Live
}

// Show sends further news through a screen, if it is a live one.
func (n *News) Show(s Screen) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.live, _ = s.(*view.Live)
}

// Notice prints a sentence.
func (n *News) Notice(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.live != nil {
		n.live.Observe(runner.Event{Kind: runner.Waiting, Text: text})
		return
	}
	fmt.Fprintln(n.Fallback, text)
}

// Write makes news of what a logger writes.
func (n *News) Write(p []byte) (int, error) {
	n.Notice(strings.TrimRight(string(p), "\n"))
	return len(p), nil
}
