package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// input is stdin on its way to a container.
type input struct {
	to     *client.HijackedResponse
	from   *source
	framed bool // for the gate, which passes it on when it is whole
	given  bool // all of it
}

// ahead is how much of an input an engine is given before the container starts,
// which it takes without anybody reading it.
const ahead = 32 << 10

// begin gives the engine the input of a container that has no gate and is not
// started yet. One that is no longer than ahead is whole then, whatever happens
// to this process; the rest of a longer one has to follow.
func (in *input) begin(ctx context.Context) error {
	begun := make(chan error, 1)
	go func() { begun <- in.write() }()
	select {
	case err := <-begun:
		return err
	case <-ctx.Done(): // the caller may withhold what is to be read
		return context.Cause(ctx)
	}
}

func (in *input) write() error {
	first := make([]byte, ahead)
	n, err := io.ReadFull(in.from, first)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		in.given, err = true, nil
	}
	if err != nil {
		return fmt.Errorf("read what the container gets on stdin: %w", err)
	}
	// What can not be written shows when the container starts.
	_, _ = in.to.Conn.Write(first[:n])
	if in.given {
		_ = in.to.CloseWrite()
	}
	return nil
}

// release returns once a held program may start. Until then a gate that waits for
// a whole input hears that it is still to come.
func (e *Engine) release(ctx context.Context, spec engine.Spec, in *input, fail context.CancelCauseFunc) error {
	if spec.Hold == nil {
		return nil
	}
	if in.framed {
		signs := time.NewTicker(e.silence / 4)
		defer signs.Stop()
		for waiting := true; waiting; {
			select {
			case <-ctx.Done():
				waiting = false
			case <-spec.Hold:
				waiting = false
			case <-signs.C:
				_ = entrypoint.Alive(in.to.Conn)
			}
		}
	}
	return release(ctx, spec, fail)
}

// feed copies stdin to the container and closes it. A container need not read
// its stdin, so failing to write is no failure; failing to read is, because the
// container would take what came before for all there is.
func (in *input) feed(fail context.CancelCauseFunc) {
	switch {
	case in.given:
		return
	case in.framed:
		_ = entrypoint.Frame(in.to.Conn, in.from)
	default:
		_, _ = io.Copy(in.to.Conn, in.from)
	}
	if in.from.err != nil {
		fail(fmt.Errorf("read what the container gets on stdin: %w", in.from.err))
		return
	}
	_ = in.to.CloseWrite()
}

// source remembers why reading failed.
type source struct {
	reader io.Reader
	err    error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}
