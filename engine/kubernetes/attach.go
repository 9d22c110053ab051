package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"k8s.io/client-go/tools/remotecommand"

	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// It is tried again and again to attach to a container that may not run yet, as the cluster
// reports a second late that it does. Where it takes long, it is tried less often: what that costs
// the cluster keeps it from starting others.
const (
	attachLeast = 100 * time.Millisecond
	attachMost  = time.Second
)

// attachAfter is how long to wait until the next attempt, after so long.
func attachAfter(waited time.Duration) time.Duration {
	return min(max(waited/8, attachLeast), attachMost)
}

// signEvery is how often the shim is called that has not answered yet.
const signEvery = 500 * time.Millisecond

// session is the connection with the shim of a container, by which that gets its input and
// says what its program writes and how it ends.
type session struct {
	stdout, stderr io.Writer
	feed           func(to io.Writer) // gives the input, once the shim is heard

	heard func()        // the shim answers
	isOn  chan struct{} // closed then
	over  chan struct{} // closed when the shim has said how its program ended, or why there is none

	code    int
	refused string // why there is no program
	noise   noise  // what was written otherwise, by a shim that crashed
}

func newSession(stdout, stderr io.Writer, feed func(to io.Writer)) *session {
	s := &session{stdout: stdout, stderr: stderr, feed: feed, isOn: make(chan struct{}), over: make(chan struct{})}
	s.heard = sync.OnceFunc(func() { close(s.isOn) })
	return s
}

// take takes a message of the shim.
func (s *session) take(kind entrypoint.Kind, content []byte) error {
	if s.isOver() {
		return nil
	}
	var err error
	switch kind {
	case entrypoint.Attached:
		s.heard()
	case entrypoint.Stdout:
		_, err = s.stdout.Write(content)
	case entrypoint.Stderr:
		_, err = s.stderr.Write(content)
	case entrypoint.Ended:
		s.code = entrypoint.Code(content)
		close(s.over)
	case entrypoint.Refused:
		s.refused = string(content)
		close(s.over)
	}
	return err
}

func (s *session) isHeard() bool { return closed(s.isOn) }
func (s *session) isOver() bool  { return closed(s.over) }

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// run attaches to a container, again and again until its shim answers, and returns when that
// has said how it ended, of which all that was written before has been read. gone is closed
// when it is no use to try any longer: the container has ended, or nobody can say whether it has.
// over is closed when it has ended for certain.
func (s *session) run(ctx context.Context, attach func() (remotecommand.Executor, error), gone, over <-chan struct{}) error {
	begun := time.Now()
	for {
		err := s.attempt(ctx, attach, gone, over)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case s.isOver():
			return nil
		case s.isHeard():
			return s.broken(err)
		case err != nil && denied(err):
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-gone:
			return errGone
		case <-time.After(attachAfter(time.Since(begun))):
		}
	}
}

// broken is why a session has ended before its program.
func (s *session) broken(err error) error {
	switch {
	case s.noise.text != "":
		return fmt.Errorf("the entrypoint shim failed: %s", s.noise.text)
	case err != nil:
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return errBroken
}

// errGone is the end of a session with a container that has ended before it was heard.
var errGone = errors.New("the container has ended")

// errBroken is the end of a session before the shim has said how its program ended.
var errBroken = errors.New("the connection with the Pod ended, and with that its output")

// attempt attaches once. A connection with a container that has ended may stay, and nothing come
// through it any more: such as where its node has lost the network. A shim that was heard is
// heard on for as long as its container may run.
func (s *session) attempt(ctx context.Context, attach func() (remotecommand.Executor, error), gone, over <-chan struct{}) error {
	executor, err := attach()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from, to := io.Pipe()
	input := &inlet{to: to}
	go func() {
		defer crash.Cancel(cancel, "feeding a Pod")
		if s.call(ctx, input) {
			s.feed(input)
		}
	}()
	ended := make(chan error, 1)
	go func() {
		output := &entrypoint.Receiver{Take: s.take}
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: from, Stdout: output, Stderr: &s.noise})
		_ = from.Close() // nobody reads the input any more
		ended <- err
	}()
	var unheard, late <-chan time.Time
	for {
		select {
		case err := <-ended:
			return err
		case <-gone:
			gone, unheard = nil, time.After(lostTimeout)
		case <-unheard:
			if !s.isHeard() {
				cancel(nil)
				return <-ended
			}
		case <-over:
			over, late = nil, time.After(lostTimeout)
		case <-late:
			cancel(nil)
			<-ended //nolint:errcheck // it was ended here
			return fmt.Errorf("nothing came through it for %s after the container had ended", lostTimeout)
		case <-s.over:
			input.finish()
			cancel(nil)
			<-ended //nolint:errcheck // what else went wrong changes nothing
			return nil
		}
	}
}

// call gives signs until the shim is heard, and reports whether it is.
func (s *session) call(ctx context.Context, to io.Writer) bool {
	for {
		if entrypoint.KeepAlive(to) != nil {
			return false // this attempt is over
		}
		select {
		case <-s.isOn:
			return true
		case <-ctx.Done():
			return false
		case <-time.After(signEvery):
		}
	}
}

// inlet is the input of a shim, of which each write is a message.
type inlet struct {
	mu       sync.Mutex
	to       *io.PipeWriter
	finished bool
}

// Write implements io.Writer.
func (i *inlet) Write(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.finished {
		return 0, io.ErrClosedPipe
	}
	return i.to.Write(p)
}

// finish tells the shim that everything was read.
func (i *inlet) finish() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.finished = true
	_ = entrypoint.Done(i.to)
	_ = i.to.Close()
}

// noise keeps the beginning of what is not to be written at all.
type noise struct{ text string }

// Write implements io.Writer.
func (t *noise) Write(p []byte) (int, error) {
	t.text += string(p[:min(len(p), 1000-len(t.text))])
	return len(p), nil
}
