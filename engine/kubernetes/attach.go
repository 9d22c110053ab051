package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
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

// session is what a shim says of its program, and what that gets: through a connection with its
// container, and from the log of that once the connection is lost.
type session struct {
	stdout, stderr io.Writer
	feed           func(to io.Writer) // gives the input, once the shim is heard
	silence        time.Duration      // of a connection until it is looked at
	look           func(ctx context.Context) (useless bool)

	heard func()        // the shim answers
	isOn  chan struct{} // closed then
	over  chan struct{} // closed when the shim has said how its program ended, or why there is none

	next    atomic.Uint64 // number of the message that is to come
	started func()        // the program may run
	code    int
	refused string // why there is no program
	cut     string // why the program has not begun, though it could
	noise   noise  // what was written otherwise, by a shim that crashed
}

func newSession(stdout, stderr io.Writer, feed func(to io.Writer)) *session {
	s := &session{stdout: stdout, stderr: stderr, feed: feed, isOn: make(chan struct{}), over: make(chan struct{}), started: func() {}}
	s.heard = sync.OnceFunc(func() { close(s.isOn) })
	return s
}

// take takes a message of the shim, once.
func (s *session) take(kind entrypoint.Kind, number uint64, content []byte) error {
	next := s.next.Load()
	switch {
	case s.isOver(), number < next && kind != entrypoint.Attached:
		return nil
	case number > next:
		return fmt.Errorf("%w: message %d came after %d", errMissed, number, next)
	case kind == entrypoint.Attached:
		s.heard()
		return nil
	}
	s.next.Store(next + 1)
	var err error
	switch kind { //nolint:exhaustive // that it is attached is no message of its program
	case entrypoint.Started:
		s.started()
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
	case entrypoint.Cut:
		s.cut = string(content)
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
		case errors.Is(err, errSilent):
			return err
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
		return shimFailed(s.noise.text)
	case err != nil:
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	return errBroken
}

func shimFailed(said string) error { return fmt.Errorf("the entrypoint shim failed: %s", said) }

var (
	// errGone is the end of a session with a container that has ended before it was heard.
	errGone = errors.New("the container has ended")

	// errBroken is the end of a connection before the shim has said how its program ended.
	errBroken = errors.New("the connection with the Pod ended")

	// errSilent is the end of a connection through which nothing comes, though its container runs.
	errSilent = errors.New("nothing comes through the connection with the Pod")

	// errMissed is the error of what lacks messages: of a connection, or of a log that was begun anew.
	errMissed = errors.New("part of the output is missing")
)

// attempt attaches once. A connection with a container that has ended may stay, and nothing come
// through it any more: such as where its node has lost the network. A shim that was heard is
// heard on for as long as its container may run, and nothing is known that did not come through.
func (s *session) attempt(ctx context.Context, attach func() (remotecommand.Executor, error), gone, over <-chan struct{}) error {
	executor, err := attach()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from, to := io.Pipe()
	var signs signs
	input := newInlet(to, &signs)
	output := &outlet{to: &entrypoint.Receiver{Take: s.take}, signs: &signs, fail: cancel}
	defer output.close()
	go func() {
		defer crash.Cancel(cancel, "feeding a Pod")
		if s.call(ctx, input) {
			s.feed(input)
		}
	}()
	ended := make(chan error, 1)
	go func() {
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: from, Stdout: output, Stderr: &s.noise})
		_ = from.Close() // nobody reads the input any more
		ended <- err
	}()
	stop := func(err error) error {
		cancel(nil)
		select {
		case <-ended: //nolint:errcheck // what else went wrong changes nothing
		case <-time.After(lostTimeout):
		}
		return err
	}
	watching := s.listen(ctx, cancel, input, &signs)
	defer watching.Stop()
	var unheard, late <-chan time.Time
	for {
		select {
		case err := <-ended:
			return cmp.Or(output.failure(), err)
		case <-gone:
			gone, unheard = nil, time.After(lostTimeout)
		case <-unheard:
			if !s.isHeard() {
				return stop(errGone)
			}
		case <-over:
			over, late = nil, time.After(lostTimeout)
		case <-late:
			return stop(fmt.Errorf("nothing came through it for %s after the container had ended", lostTimeout))
		case <-watching.useless:
			return stop(errSilent)
		case <-s.over:
			input.finish()
			return stop(nil)
		}
	}
}

// listening has a connection that is silent looked at.
type listening struct {
	*time.Ticker
	useless chan struct{}
}

// patience is how many parts of the silence there are: after the first the shim is called.
const patience = 3

// listen calls a shim through whose connection nothing comes, and has somebody look what is the
// matter if it does not answer. One whose program does not read its input cannot.
func (s *session) listen(ctx context.Context, fail context.CancelCauseFunc, input *inlet, signs *signs) listening {
	l := listening{time.NewTicker(max(s.silence, patience) / patience), make(chan struct{})}
	if s.look == nil {
		l.Stop()
		return l
	}
	go func() {
		defer crash.Cancel(fail, "listening to a Pod")
		seen, quiet := signs.count.Load(), 0
		var calling atomic.Bool
		for {
			select {
			case <-ctx.Done():
				return
			case <-l.C:
			}
			if now := signs.count.Load(); now != seen || signs.busy.Load() {
				seen, quiet = now, 0
				continue
			}
			if quiet++; quiet < patience {
				if s.isHeard() && calling.CompareAndSwap(false, true) {
					go func() { // it may be kept by an input that nobody reads
						defer calling.Store(false)
						_ = input.call()
					}()
				}
				continue
			}
			if quiet = 0; s.look(ctx) && ctx.Err() == nil && signs.count.Load() == seen && !signs.busy.Load() {
				close(l.useless)
				return
			}
		}
	}()
	return l
}

// signs are those of a connection that works.
type signs struct {
	count atomic.Int64
	busy  atomic.Bool // what came is being taken
}

// outlet takes what comes through a connection, until that is given up.
type outlet struct {
	mu    sync.Mutex
	to    io.Writer
	err   error
	signs *signs
	fail  context.CancelCauseFunc
}

// Write implements io.Writer.
func (o *outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return 0, o.err
	}
	o.signs.busy.Store(true)
	defer o.signs.busy.Store(false)
	o.signs.count.Add(1)
	n, err := o.to.Write(p)
	if err != nil {
		o.err = err
		o.fail(err) // a connection goes on without its reader
	}
	return n, err
}

// close returns when nothing is taken any more.
func (o *outlet) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = io.ErrClosedPipe
}

func (o *outlet) failure() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// call gives signs until the shim is heard, and reports whether it is.
func (s *session) call(ctx context.Context, to *inlet) bool {
	for {
		if to.call() != nil {
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
	turn     chan struct{} // has one token while nobody writes
	to       *io.PipeWriter
	finished bool
	signs    *signs
}

func newInlet(to *io.PipeWriter, signs *signs) *inlet {
	i := &inlet{turn: make(chan struct{}, 1), to: to, signs: signs}
	i.turn <- struct{}{}
	return i
}

// Write implements io.Writer.
func (i *inlet) Write(p []byte) (int, error) {
	n, err := i.write(p)
	i.signs.count.Add(1)
	return n, err
}

func (i *inlet) write(p []byte) (int, error) {
	<-i.turn
	defer func() { i.turn <- struct{}{} }()
	if i.finished {
		return 0, io.ErrClosedPipe
	}
	return i.to.Write(p)
}

// call has the shim answer. That it could be called is no sign of the connection.
func (i *inlet) call() error { return entrypoint.KeepAlive(writerFunc(i.write)) }

// finish tells the shim that everything was read, if it hears that soon.
func (i *inlet) finish() {
	late := time.AfterFunc(lostTimeout, func() { _ = i.to.Close() })
	defer late.Stop()
	<-i.turn
	defer func() { i.turn <- struct{}{} }()
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
