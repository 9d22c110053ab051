package docker

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/unwatched"
)

// Connections break while containers run on: a firewall drops a silent one, sshd restarts, a
// laptop sleeps. These are the times until a run notices that, and for which it asks the engine
// again.
const (
	// DefaultLostFor is how long an engine may be silent until what it does is lost.
	DefaultLostFor = 10 * time.Minute

	defaultRetryFor  = 10 * time.Second // for which an engine is asked again that has nothing at work: to make a container, or to remove one
	defaultLookEvery = 30 * time.Second // without any output, until the container is looked at through another connection
	leastPause       = 100 * time.Millisecond
	longestPause     = 5 * time.Second
)

// unbegunError is that the connection broke before a program began. Its container is removed, and
// another one can be made.
type unbegunError struct {
	cause error
	read  []byte // of stdin
}

// Error implements error.
func (e *unbegunError) Error() string { return e.cause.Error() }

// Unwrap implements errors.Is and errors.As.
func (e *unbegunError) Unwrap() error { return e.cause }

// unbegun returns the error of a run, which is an unbegunError if its program will never begin
// for want of a connection.
func (r *run) unbegun(err error) error {
	if broken(err) && r.stage.CompareAndSwap(stageWaiting, stageDropped) {
		return &unbegunError{cause: err, read: r.given}
	}
	return err
}

// broken reports whether an error is of the connection, and not of the engine.
func broken(err error) bool {
	var dialed *dialError
	var network net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled), errors.Is(err, engine.ErrLost):
		return false
	case errors.Is(err, engine.ErrUnavailable), client.IsErrConnectionFailed(err), errors.As(err, &dialed):
		return true
	case errdefs.IsNotFound(err), errdefs.IsConflict(err), errdefs.IsInvalidArgument(err):
		return false
	}
	return errdefs.IsUnavailable(err) || errors.As(err, &network) || hungUp(err) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ETIMEDOUT)
}

// askTimeout is how long a request may take that is repeated.
func (e *Engine) askTimeout() time.Duration { return e.lookEvery / 2 }

// unanswered reports whether a request has no answer of a working engine. An engine that is overloaded
// or restarts, and a proxy in front of it, answer with an internal error.
func unanswered(err error) bool {
	return broken(err) || errdefs.IsInternal(err) || errdefs.IsUnknown(err)
}

// tries are the attempts to reach an engine that does not answer.
type tries struct {
	bound  time.Duration // from the first failure on
	pauses pauses
	over   chan struct{}
	cancel func()
}

func (e *Engine) newTries(bound time.Duration) *tries {
	return &tries{bound: bound, pauses: pauses{leastPause, longestPause, rand.Float64}}
}

// again waits, longer each time, and reports whether it is to be tried again.
func (t *tries) again(ctx context.Context) bool {
	if t.over == nil {
		over := make(chan struct{})
		t.over, t.cancel = over, unwatched.AfterFunc(t.bound, func() { close(over) })
	}
	return pause(ctx, t.over, t.pauses.length())
}

// end stops the clock.
func (t *tries) end() {
	if t.cancel != nil {
		t.cancel()
	}
}

// once makes a request that may be made several times, and that any engine answers soon.
func (e *Engine) once(ctx context.Context, request func(context.Context) error) error {
	asking, cancel := context.WithTimeout(ctx, e.askTimeout())
	defer cancel()
	err := request(asking)
	if asking.Err() != nil && ctx.Err() == nil && isCancelled(err) {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, errSilent)
	}
	return err
}

// insist makes a request that may be made several times, until the engine answers. It fails with
// engine.ErrLost if the engine is silent for lostFor.
func (e *Engine) insist(ctx context.Context, request func(context.Context) error) error {
	tries := e.newTries(e.lostFor)
	defer tries.end()
	for {
		err := e.once(ctx, request)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !unanswered(err):
			return err
		case !tries.again(ctx):
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return e.lost(err)
		}
		_ = e.client.Close() // idle connections, which may be broken, too
	}
}

// Requests that are not answered: how often their effect is looked for until they are given up.
const (
	mostLooks = 10 // an engine may take minutes to make or start a container
	oneLook   = 1
)

// ask makes a request whose answer may never come, as through a connection that is silent. It looks for
// the effect of the request through another connection meanwhile, and goes on if that is there. The
// context of the request ends with the request only if it fails.
func (e *Engine) ask(ctx context.Context, looks int, request func(context.Context) error, done func(context.Context) bool) error {
	asking, cancel := context.WithCancel(ctx)
	kept := false // the request outlives this call
	defer func() {
		if !kept {
			cancel()
		}
	}()
	answered := make(chan error, 1)
	go func() { answered <- crash.Do("asking the engine", func() error { return request(asking) }) }()
	look := time.NewTicker(e.lookEvery)
	defer look.Stop()
	for {
		select {
		case err := <-answered:
			kept = err == nil
			return err
		case <-look.C:
		}
		looking, stop := context.WithTimeout(ctx, e.askTimeout())
		there := done(looking)
		stop()
		if there {
			kept = true
			return nil
		}
		if looks--; looks == 0 && ctx.Err() == nil {
			cancel()
			<-answered //nolint:errcheck // it was given up
			return fmt.Errorf("%w: %w", engine.ErrUnavailable, errSilent)
		}
	}
}

func never(context.Context) bool { return false }

// state asks how a container is.
func (e *Engine) state(ctx context.Context, id string) (state container.State, err error) {
	err = e.insist(ctx, func(ctx context.Context) error {
		inspected, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
		if err == nil && inspected.Container.State != nil {
			state = *inspected.Container.State
		}
		return err
	})
	return state, err
}

// awaitEnd waits until a container runs no more, through as many connections as that takes.
func (e *Engine) awaitEnd(ctx context.Context, id string) (container.State, error) {
	for {
		state, err := e.state(ctx, id)
		if err != nil || !alive(state.Status) {
			return state, err
		}
		begun := time.Now()
		waiting, cancel := context.WithTimeout(ctx, e.lookEvery)
		end := <-e.await(waiting, id, container.WaitConditionNotRunning)
		cancel()
		if end.err != nil && ctx.Err() == nil && time.Since(begun) < time.Second {
			pause(ctx, nil, time.Second)
		}
	}
}

// follow waits for the end of a container that was started and of its output, and returns its exit code.
func (r *run) follow(ctx context.Context, exited <-chan end) (code int, err error) {
	look := time.NewTicker(r.lookEvery)
	defer look.Stop()
	var settled <-chan time.Time
	known := false
	for {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case end := <-exited:
			exited = nil
			if known, code = end.err == nil, end.code; r.copied != nil {
				continue
			}
			if !known {
				return r.resume(ctx, end.err)
			}
			return code, nil
		case err := <-r.copied:
			r.copied = nil
			switch {
			case ctx.Err() != nil:
				return 0, context.Cause(ctx)
			case err == nil && known:
				return code, nil
			case err == nil && exited != nil:
				settled = time.After(r.settle())
			default:
				return r.resume(ctx, err)
			}
		case <-settled:
			return r.resume(ctx, nil)
		case <-look.C:
			if r.copied != nil && r.isSilent(ctx) {
				r.detach()
				return r.resume(ctx, errSilent)
			}
		}
	}
}

// settle is how long the engine may take to say that a container has ended whose output has. It alone
// knows the end of one that it removes by itself.
func (r *run) settle() time.Duration {
	if passing(r.spec) {
		return r.lookEvery
	}
	return r.lookEvery / 10
}

// errSilent is the error of a connection through which nothing comes.
var errSilent = errors.New("nothing came through the connection")

// isSilent reports whether no output comes because of the connection: the container has ended, or cannot be
// asked for, through another one. Output that is not kept can come only through this one, which is not given
// up before the container has ended.
func (r *run) isSilent(ctx context.Context) bool {
	if !r.output.isQuiet(r.lookEvery) {
		return false
	}
	asking, cancel := context.WithTimeout(ctx, r.lookEvery)
	defer cancel()
	inspected, err := r.client.ContainerInspect(asking, r.id, client.ContainerInspectOptions{})
	over := err != nil && r.spec.Kept > 0 || err == nil && inspected.Container.State != nil && !alive(inspected.Container.State.Status)
	return over && r.output.isQuiet(r.lookEvery) && ctx.Err() == nil
}

// resume continues follow after the first connection has ended, unless the container is known to have ended
// with it. It asks for the container again, and reads the rest of its output from what the engine keeps.
func (r *run) resume(ctx context.Context, cause error) (code int, err error) {
	r.detach()
	r.cut = true
	if cause != nil {
		r.broke = true
		r.log.WarnContext(ctx, "the connection to the engine broke; asking for the container again", "engine", r.endpoint.address, "container", r.id, "for", r.lostFor, "error", causeOf(cause))
		_ = r.client.Close() // idle connections, which may be broken, too
	}
	pauses := r.newTries(r.lostFor)
	defer pauses.end()
	for {
		state, err := r.state(ctx, r.id)
		switch {
		case errdefs.IsNotFound(err):
			return 0, r.gone()
		case err != nil && ctx.Err() == nil && !errors.Is(err, engine.ErrLost):
			return 0, r.lost(err)
		case err != nil:
			return 0, err
		case state.Status == container.StateRemoving, state.Status == container.StateDead:
			return 0, r.gone()
		case state.Status == container.StateCreated:
			if err := r.drop(ctx); err != nil {
				return 0, err
			}
			continue // it was started meanwhile
		}
		before := r.output.bytes()
		err = r.readKept(ctx, alive(state.Status))
		switch {
		case ctx.Err() != nil:
			return 0, context.Cause(ctx)
		case err == nil && !alive(state.Status):
			return state.ExitCode, nil
		case errors.Is(err, errUnkept):
			return r.endUnread(ctx, cause)
		case r.output.bytes() > before:
			pauses.end()
			pauses = r.newTries(r.lostFor)
		}
		if !pauses.again(ctx) && ctx.Err() == nil {
			return 0, r.lost(cmp.Or(err, errSilent))
		}
	}
}

// drop removes a container whose start was asked for, and that has not started. It returns nil if
// it has by now.
func (r *run) drop(ctx context.Context) error {
	err := r.insist(ctx, func(ctx context.Context) error {
		_, err := r.client.ContainerRemove(ctx, r.id, client.ContainerRemoveOptions{RemoveVolumes: true})
		return err
	})
	switch {
	case errdefs.IsConflict(err): // it has started, or is being removed because of an earlier request
		state, err := r.state(ctx, r.id)
		if err == nil && (alive(state.Status) || !endOf(state).IsZero()) {
			return nil
		}
		if err != nil && !errdefs.IsNotFound(err) {
			return err
		}
	case err != nil && !errdefs.IsNotFound(err):
		return err
	}
	return &unbegunError{cause: fmt.Errorf("%w: the connection broke before the container started", engine.ErrUnavailable), read: r.given}
}

// errIncomplete is of an output that ended before what the engine keeps of it.
var errIncomplete = errors.New("the output ended early")

// lacksOutput reports whether the engine, which is elsewhere, keeps an output that ends otherwise than what was
// received. A proxy that closes a connection does so as an engine does whose container has ended.
func (r *run) lacksOutput(ctx context.Context) bool {
	if r.endpoint.local() || r.spec.Kept <= 0 {
		return false
	}
	kept := newReceived(io.Discard, io.Discard)
	err := r.once(ctx, func(ctx context.Context) error {
		log, err := r.client.ContainerLogs(ctx, r.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "1"})
		if err != nil {
			return err
		}
		defer func() { _ = log.Close() }()
		_, err = stdcopy.StdCopy(&kept.stdout, &kept.stderr, log)
		return err
	})
	if err != nil {
		return broken(err)
	}
	return !r.output.stdout.endsWith(kept.stdout.end) || !r.output.stderr.endsWith(kept.stderr.end)
}

// gone is the error of a container of which the engine knows nothing any more.
func (r *run) gone() error {
	return &lostError{fmt.Sprintf("container %.12s is gone from the engine, and the connection broke before it said how the container ended", r.id)}
}

// errUnkept is that the engine has nothing of a container's output.
var errUnkept = errors.New("the engine does not keep the output")

// endUnread waits for the end of a container of whose output nothing more can be read.
func (r *run) endUnread(ctx context.Context, cause error) (int, error) {
	state, err := r.awaitEnd(ctx, r.id)
	switch {
	case errdefs.IsNotFound(err):
		return 0, r.gone()
	case err != nil:
		return 0, err
	case cause != nil:
		return 0, fmt.Errorf("read the container's output: %w: the rest of it is not kept; the program %s", cause, engine.Exit{Code: state.ExitCode})
	}
	return state.ExitCode, nil
}

// readKept reads the output that was not read yet from what the engine keeps. Of a container that runs it goes on
// until that ends, or the connection does.
func (r *run) readKept(ctx context.Context, running bool) error {
	if r.spec.Kept <= 0 {
		return errUnkept
	}
	stdout, stderr := r.output.rest(&r.output.stdout), r.output.rest(&r.output.stderr)
	err := r.readLog(ctx, running, stdout, stderr)
	if err == nil && !running && stdout.skip+stderr.skip > 0 {
		err = errCutOff // less is kept than was received
	}
	if !errors.Is(err, errCutOff) {
		return err
	}
	fmt.Fprintln(r.output.stderr.to, "deployster: the connection to the engine broke, and the output was too long to be kept meanwhile: some of it is missing, or repeated")
	return r.readLog(ctx, running, &r.output.stdout, &r.output.stderr)
}

// readLog copies what the engine keeps. Neither the request nor the end of
// the container need ever be answered, where a connection is silent.
func (r *run) readLog(ctx context.Context, running bool, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.output.touch()
	copied := make(chan error, 1)
	go func() {
		var err error
		defer func() { copied <- err }()
		defer crash.Cancel(r.fail, "reading the output of a container")
		err = r.copyLog(ctx, running, stdout, stderr)
	}()
	look := time.NewTicker(r.lookEvery)
	defer look.Stop()
	for {
		select {
		case err := <-copied:
			return err
		case <-look.C:
			if r.isSilent(ctx) {
				cancel()
				<-copied //nolint:errcheck // it was given up
				return errSilent
			}
		}
	}
}

func (r *run) copyLog(ctx context.Context, running bool, stdout, stderr io.Writer) error {
	kept, err := r.client.ContainerLogs(ctx, r.id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Follow: running})
	switch {
	case err == nil:
	case unanswered(err), ctx.Err() != nil, errdefs.IsNotFound(err):
		return err
	default:
		return fmt.Errorf("%w: %w", errUnkept, err)
	}
	defer func() { _ = kept.Close() }()
	_, err = stdcopy.StdCopy(whole(stdout), whole(stderr), kept)
	return err
}

// received is what was read of a container's output, and is passed on.
type received struct {
	stdout, stderr stream
	writing        atomic.Bool
	last           atomic.Int64 // when something was, in nanoseconds
}

func newReceived(stdout, stderr io.Writer) *received {
	r := &received{}
	r.touch()
	r.stdout, r.stderr = stream{of: r, to: stdout}, stream{of: r, to: stderr}
	return r
}

// touch notes that something was received.
func (r *received) touch() { r.last.Store(time.Now().UnixNano()) }

// isQuiet reports whether nothing was received for some time. Output that waits for its reader does not count
// as quiet.
func (r *received) isQuiet(d time.Duration) bool {
	return !r.writing.Load() && time.Now().UnixNano()-r.last.Load() >= int64(d)
}

func (r *received) bytes() int64 { return r.stdout.n + r.stderr.n }

// rest takes all of a stream, and passes on what was not received before.
func (r *received) rest(s *stream) *rest {
	return &rest{of: s, skip: s.n, end: bytes.Clone(s.end)}
}

// stream is one of the two that a container writes.
type stream struct {
	of  *received
	to  io.Writer
	n   int64  // bytes
	end []byte // the last of them
}

// endSize is how many bytes tell that a stream goes on where it ended.
const endSize = 256

// Write implements io.Writer.
func (s *stream) Write(p []byte) (n int, err error) {
	s.of.writing.Store(true)
	n, err = s.to.Write(p)
	s.n += int64(n)
	s.end = last(s.end, p[:n])
	s.of.touch()
	s.of.writing.Store(false)
	return n, err
}

// endsWith reports whether the stream ends with what another one does. The engine keeps the end of a line, or not.
func (s *stream) endsWith(end []byte) bool {
	ours, theirs := bytes.TrimSuffix(s.end, []byte("\n")), bytes.TrimSuffix(end, []byte("\n"))
	n := min(len(theirs), endSize-1)
	return bytes.HasSuffix(ours, theirs[len(theirs)-n:])
}

func last(before, p []byte) []byte {
	if len(p) >= endSize {
		return append(before[:0], p[len(p)-endSize:]...)
	}
	before = append(before, p...)
	return append(before[:0], before[max(0, len(before)-endSize):]...)
}

// errCutOff is that the engine does not keep the beginning of an output any more.
var errCutOff = errors.New("the beginning is not kept")

// rest is what follows so many bytes of a stream.
type rest struct {
	of   *stream
	skip int64
	seen []byte // the last of what was skipped
	end  []byte // what it has to be
}

// Write implements io.Writer.
func (r *rest) Write(p []byte) (int, error) {
	skipped := int(min(r.skip, int64(len(p))))
	if skipped > 0 {
		r.of.of.touch()
		r.seen = last(r.seen, p[:skipped])
		if r.skip -= int64(skipped); r.skip == 0 && !bytes.Equal(r.seen, r.end) {
			return 0, errCutOff
		}
	}
	if skipped == len(p) {
		return len(p), nil
	}
	n, err := r.of.Write(p[skipped:])
	return skipped + n, err
}
