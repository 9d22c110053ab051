package enginetest

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/deployster-go/deployster/engine"
)

var _ engine.Keeper = (*Fake)(nil)

// Print has a container that was left (see Leave) write to its stdout, and to its stderr.
func (f *Fake) Print(id, stdout, stderr string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if container := f.containers[id]; container != nil {
		container.kept = append(container.kept, [2]string{stdout, stderr})
	}
}

// Logs writes what a container was made to print until then.
func (f *Fake) Logs(ctx context.Context, id string, streams engine.IO) error {
	doing := "read the output of container " + id
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", doing, context.Cause(ctx))
	}
	f.mu.Lock()
	container, ok := f.containers[id]
	var kept [][2]string
	if ok {
		kept = slices.Clone(container.kept)
	}
	f.mu.Unlock()
	if !ok {
		return fmt.Errorf("%s: %w", doing, engine.ErrNoContainer)
	}
	for _, texts := range kept {
		for i, to := range []io.Writer{streams.Stdout, streams.Stderr} {
			if to == nil || texts[i] == "" {
				continue
			}
			if _, err := io.WriteString(to, texts[i]); err != nil {
				return fmt.Errorf("%s: %w", doing, err)
			}
		}
	}
	return nil
}
