package docker

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
)

var _ engine.Keeper = (*Engine)(nil)

// logConfig has the output of a container kept within bounds, or not at all: output of any
// size must not fill the engine's disk. When a file is full, it becomes the former one, and
// the former one is dropped. The driver is the one that keeps all bytes as they are. With each
// line it keeps up to 28 bytes of its own, so a line takes twice what it counts for at most.
func logConfig(spec engine.Spec) container.LogConfig {
	if spec.Kept <= 0 {
		return container.LogConfig{Type: "none"}
	}
	return container.LogConfig{Type: "local", Config: map[string]string{
		"max-size": strconv.FormatInt(2*min(spec.Kept, math.MaxInt64/2), 10),
		"max-file": "2",
		"compress": "false", // it would take the processor from the containers
	}}
}

// Logs implements engine.Keeper.
func (e *Engine) Logs(ctx context.Context, id string, streams engine.IO) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	kept, err := e.client.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return e.noContainer("read the output of container", id, err)
	}
	defer func() { _ = kept.Close() }()
	output := outlet{fail: fail}
	_, err = stdcopy.StdCopy(whole(output.to("stdout", streams.Stdout)), whole(output.to("stderr", streams.Stderr)), kept)
	if ctx.Err() != nil {
		return fmt.Errorf("read the output of container %s: %w", id, context.Cause(ctx))
	}
	if err != nil {
		return e.wrap("read the output of container "+id, err)
	}
	return nil
}

// part is how many bytes of a line the driver keeps as one. A longer line is in several parts,
// all but the last of which are as long as that; and the last is given without its end.
const part = 16 << 10

// whole gives long lines their ends again. What is written to it are whole parts.
func whole(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		n, err := w.Write(p)
		if err == nil && len(p) < part && !bytes.HasSuffix(p, []byte("\n")) {
			_, err = w.Write([]byte("\n"))
		}
		return n, err
	})
}
