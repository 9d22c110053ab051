package oci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// container is a launcher and this end of its container's streams.
type container struct {
	*launcher
	stdin, stdout, stderr *os.File
}

// prepare starts a launcher whose standard streams are pipes to this process.
func (e *Engine) prepare() (*container, error) {
	c := &container{}
	var theirs [3]*os.File
	defer func() {
		for _, end := range theirs {
			_ = end.Close()
		}
	}()
	var err error
	theirs[0], c.stdin, err = os.Pipe()
	if err == nil {
		c.stdout, theirs[1], err = os.Pipe()
	}
	if err == nil {
		c.stderr, theirs[2], err = os.Pipe()
	}
	if err == nil {
		c.launcher, err = e.startLauncher(theirs[0], theirs[1], theirs[2])
	}
	if err != nil {
		c.closeStreams()
		return nil, fmt.Errorf("prepare the container: %w", err)
	}
	return c, nil
}

// end returns the exit code of the container's program, or why there was none.
func (c *container) end() (int, *entrypoint.Failure) {
	report := c.report()
	<-c.ended
	switch {
	case report.Failed != nil:
		return 0, report.Failed
	case report.Ended != nil:
		return *report.Ended, nil
	case !c.state.Exited():
		return killed, nil
	default:
		return 0, &entrypoint.Failure{Doing: "run the container", Text: "the launcher ended before there was one: " + c.state.String()}
	}
}

func (c *container) close() {
	c.launcher.close()
	c.closeStreams()
}

// closeStreams frees a stdin copy that the container did not care to read.
func (c *container) closeStreams() {
	for _, end := range []*os.File{c.stdin, c.stdout, c.stderr} {
		_ = end.Close() // of none it is an error that nobody minds
	}
}

// copy copies the streams until the container has closed its output. What the
// runtime writes to stderr, because it cannot run the container, it has written
// to its log before; that comes back as an error.
func (c *container) copy(streams engine.IO, request entrypoint.Request, fail context.CancelCauseFunc) {
	if streams.Stdin != nil {
		go func() {
			defer crash.Cancel(fail, "feeding a container")
			if err := entrypoint.Send(c.stdin, streams.Stdin, request.Whole, c.stdin.Close); err != nil {
				fail(err)
			}
		}()
	} else {
		_ = c.stdin.Close()
	}
	// One goroutine writes what two have read.
	outputs := []*output{
		{name: "stdout", from: c.stdout, to: streams.Stdout},
		{name: "stderr", from: c.stderr, to: streams.Stderr},
	}
	ready := make(chan *output)
	for _, o := range outputs {
		o.written = make(chan struct{})
		go o.read(ready)
	}
	silent := true
	for open := len(outputs); open > 0; {
		o := <-ready
		if silent && o.from == c.stderr && o.err == nil {
			silent = false
			if entrypoint.LastError(request.Log) != "" {
				o.to = nil
			}
		}
		if o.err != nil {
			open--
			if !errors.Is(o.err, io.EOF) {
				fail(fmt.Errorf("read the container's %s: %w", o.name, o.err))
			}
			continue
		}
		if o.to != nil {
			n, err := o.to.Write(o.chunk)
			if err == nil && n < len(o.chunk) {
				err = io.ErrShortWrite
			}
			if err != nil {
				o.to = nil // what comes until the container is dead is dropped
				fail(fmt.Errorf("write the container's %s: %w", o.name, err))
			}
		}
		o.written <- struct{}{}
	}
}

// output is an output stream on its way to the caller's writer.
type output struct {
	name    string
	from    *os.File
	to      io.Writer // nil discards
	chunk   []byte
	err     error // ends the stream
	written chan struct{}
}

// How many bytes are read at once, in bytes: of a container that writes little, as one that answers
// questions from time to time does for hours, and of one that fills such a chunk.
const smallChunk, largeChunk = 4 << 10, 64 << 10

// read hands chunk after chunk to ready, and reads on when one is written.
func (o *output) read(ready chan<- *output) {
	buffer := make([]byte, smallChunk)
	for {
		n, err := o.from.Read(buffer)
		if n > 0 {
			o.chunk = buffer[:n]
			ready <- o
			<-o.written
			if n == len(buffer) && n < largeChunk {
				buffer = make([]byte, largeChunk)
			}
		}
		if err != nil {
			o.err = err
			ready <- o
			return
		}
	}
}
