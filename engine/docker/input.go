package docker

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// input is stdin on its way to a container.
type input struct {
	to     *client.HijackedResponse
	from   io.Reader
	framed bool // for the shim, which passes it on when it is whole
	given  bool // all of it
}

// ahead is how much of an input an engine is given before the container starts,
// which it takes without anybody reading it.
const ahead = 32 << 10

// begin gives the engine the input of a container that has no shim and is not
// started yet, and returns what it read of it. One that is no longer than ahead is whole
// then, whatever happens to this process; the rest of a longer one has to follow.
func (in *input) begin(ctx context.Context) (read []byte, err error) {
	begun := make(chan error, 1)
	var first []byte
	go func() {
		var err error
		first, err = in.write()
		begun <- err
	}()
	select {
	case err := <-begun:
		return first, err
	case <-ctx.Done(): // the caller may withhold what is to be read
		return nil, context.Cause(ctx)
	}
}

func (in *input) write() (read []byte, err error) {
	first := make([]byte, ahead)
	n, err := io.ReadFull(in.from, first)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		in.given, err = true, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the container gets on stdin: %w", err)
	}
	// What cannot be written shows when the container starts.
	_, _ = in.to.Conn.Write(first[:n])
	if in.given {
		_ = in.to.CloseWrite()
	}
	return first[:n], nil
}

// feed copies stdin to the container and closes it. It returns why not all of it was written, which
// is no failure of a container that need not read it.
func (in *input) feed(fail context.CancelCauseFunc) (unsent error) {
	if in.given {
		return nil
	}
	to := &noted{to: in.to.Conn}
	closed := func() error {
		to.err = errors.Join(to.err, in.to.CloseWrite())
		return nil
	}
	if err := entrypoint.Send(to, in.from, in.framed, closed); err != nil {
		fail(err)
	}
	return to.err
}

// noted remembers why writing failed.
type noted struct {
	to  io.Writer
	err error
}

func (n *noted) Write(p []byte) (int, error) {
	written, err := n.to.Write(p)
	n.err = errors.Join(n.err, err)
	return written, err
}
