package work

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/deployster-go/deployster/runner"
)

// outputTail is a Recorder that keeps the last output of failed actions.
type outputTail struct {
	runner.Recorder
	mu    sync.Mutex
	lines []string
}

// Record implements runner.Recorder.
func (t *outputTail) Record(ctx context.Context, e runner.Event) error {
	if lines := e.Output; e.Kind == runner.ActionFailed && len(lines) > 0 {
		if last := len(lines) - 1; strings.HasSuffix(e.Error, lines[last]) { // the error ends with it
			lines = lines[:last]
		}
		t.mu.Lock()
		t.lines = append(t.lines, lines...)
		t.mu.Unlock()
	}
	return t.Recorder.Record(ctx, e)
}

// with is an error followed by the output.
func (t *outputTail) with(err error) error {
	if err == nil || len(t.lines) == 0 {
		return err
	}
	return fmt.Errorf("%w\n%s", err, strings.Join(t.lines, "\n"))
}
