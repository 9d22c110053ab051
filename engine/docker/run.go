package docker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
)

// Run runs one container to its end and removes it:
//
//	create → attach → wait (for the next exit) → start → copy stdin, close it
//	→ copy output until it ends → exit → remove
//
// Streams and wait are in place before the process starts, so a container that
// ends at once loses nothing. The attached connection stays open until the
// container has ended, and its closing frees a stdin copy that a container did
// not care to read. A Read of streams.Stdin may still be outstanding when Run
// returns; what it yields is dropped.
//
// A container that is held starts ahead with the shim (see Options.Shim) in
// place of its program, and lists as started; stdin, which the shim waits for, is
// copied from the release on. Without a shim everything up to the start is done
// ahead.
//
// A connection that breaks ends no container. Run asks the engine for the container
// through new connections, reads the rest of its output if Spec.Kept has Docker keep
// it, and returns how it ended (see run.resume). If the program had not begun yet, Run
// makes another container. It fails with engine.ErrLost, and leaves the container, if the
// engine does not answer for Options.LostFor.
//
// A container that has ended is removed in the background, one that a failing
// run cuts short before Run returns. The engine removes one by itself that is Passing.
//
// Docker keeps no log of the container unless Spec.Kept says so: its output is the
// caller's alone.
//
// A container that is removed by others while it runs ended by that: its exit
// is returned like any other.
func (e *Engine) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	if spec.Hold == nil {
		spec.Limit(ctx, fail)
	}
	exit, err := e.runOnce(ctx, fail, spec, streams)
	if err == nil {
		return exit, nil
	}
	if ctx.Err() != nil {
		// The cause of the interruption, in place of what the interrupted step reports.
		err = context.Cause(ctx)
	}
	return engine.Exit{}, fmt.Errorf("run image %q: %w", spec.Image, err)
}

// runOnce runs the program once. It makes another container if the program of the first
// never began: the shim cannot be used, or the connection broke.
func (e *Engine) runOnce(ctx context.Context, fail context.CancelCauseFunc, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	tries := e.newTries(e.retryFor)
	defer tries.end()
	for {
		exit, err := e.run(ctx, fail, spec, streams)
		var unbegun *unbegunError
		switch {
		case errors.Is(err, errShim): // the next one does without
		case errors.As(err, &unbegun) && tries.again(ctx):
			e.log.InfoContext(ctx, "the connection to the engine broke before a container began its work; making another one", "image", spec.Image, "error", unbegun.cause)
			if streams.Stdin != nil {
				streams.Stdin = io.MultiReader(bytes.NewReader(unbegun.read), streams.Stdin)
			}
		default:
			return exit, err
		}
	}
}

// passes marks a point in the life of a container.
func (e *Engine) passes(point string) {
	if e.passed != nil {
		e.passed(point)
	}
}

// errShim is why a container was not started whose program was to be held by the
// shim: the engine cannot execute the shim.
var errShim = errors.New("the entrypoint shim cannot be executed")

func (e *Engine) run(ctx context.Context, fail context.CancelCauseFunc, spec engine.Spec, streams engine.IO) (exit engine.Exit, err error) {
	id, mark, err := e.create(ctx, spec, streams.Stdin != nil)
	if err != nil {
		return engine.Exit{}, err
	}
	r := &run{Engine: e, id: id, mark: mark, spec: spec, streams: streams, fail: fail}
	defer func() { r.clear(ctx, err) }()
	if err := r.attach(ctx); err != nil {
		return engine.Exit{}, r.unbegun(err)
	}
	defer r.detach()
	// Closing is what ends reads and writes of the connection on a cancel.
	defer context.AfterFunc(ctx, r.attached.Close)()

	exited, err := r.awaitNextExit(ctx)
	if err != nil {
		return engine.Exit{}, r.unbegun(err)
	}
	memory := e.watchMemory(ctx, id, spec)
	r.read(ctx)
	err = r.start(ctx)
	r.started()
	if err == nil || broken(err) && r.stage.Load() == stageBegun {
		exit.Code, err = r.follow(ctx, exited)
	}
	if err == nil && !r.cut && r.lacksOutput(ctx) {
		exit.Code, err = r.resume(ctx, errIncomplete)
	}
	if err != nil {
		return engine.Exit{}, r.unbegun(err)
	}
	r.ended = true
	if err := r.shim.flush(); err != nil {
		return engine.Exit{}, fmt.Errorf("write the container's output: %w", err)
	}
	if r.shim.failed() {
		if r.isReplayable(ctx) {
			return engine.Exit{}, &unbegunError{cause: errors.New(r.shim.reason()), read: r.fedWith.Bytes()}
		}
		if err := replaced(spec, r.shim.reason()); err != nil {
			return engine.Exit{}, err
		}
		return engine.Exit{}, e.runError("start the container", spec, errors.New(r.shim.reason()))
	}
	if err := r.inputCut(exit.Code); err != nil {
		return engine.Exit{}, err
	}
	exit.OOMKilled = r.lackedMemory(ctx) || memory.happened(ctx, exit.Code)
	return exit, nil
}

// run is the run of a container that is created.
type run struct {
	*Engine
	id       string
	mark     string // of its shim; "" for a container without one
	spec     engine.Spec
	streams  engine.IO
	attached client.HijackedResponse
	fail     context.CancelCauseFunc

	given  []byte       // of stdin, that was read before the start
	stage  atomic.Int32 // of the program
	ended  bool         // and all that is known of its output was read
	output *received
	shim   *shimReport
	copied chan error // by the attached connection: how its output ended

	started func()        // lets the output through
	cut     bool          // the attached connection was not the last one
	broke   bool          // for a known reason, and not because the end of the container was late
	fed     chan struct{} // closed when no more input is read
	unsent  error         // why not all of it was sent
	fedWith bytes.Buffer  // what was read of the input by then, for a shim that needs all of it
}

// The stages of a program.
const (
	stageWaiting = iota
	stageBegun   // it may have begun: its start was asked for, or the shim gets its input
	stageDropped // it will never begin
)

// clear removes the container, unless it may be at work: a later run asks for it then.
func (r *run) clear(ctx context.Context, err error) {
	switch {
	case errors.Is(err, engine.ErrLost): // it is asked for later
	case r.ended && passing(r.spec):
	case r.ended:
		r.removals.begin(r.id, func() { r.discard(ctx, r.id) })
	case !r.discard(ctx, r.id): // Docker loses the end of some containers that are killed as they start
		r.removals.begin(r.id, func() { r.discard(context.WithoutCancel(ctx), r.id) })
	}
}

func (r *run) attach(ctx context.Context) error {
	err := r.ask(ctx, oneLook, func(ctx context.Context) error {
		attached, err := r.client.ContainerAttach(ctx, r.id, client.ContainerAttachOptions{
			Stream: true,
			Stdin:  r.streams.Stdin != nil,
			Stdout: true,
			Stderr: true,
		})
		r.attached = attached.HijackedResponse
		return err
	}, never)
	if err != nil {
		return r.wrap("attach to the container", err)
	}
	return nil
}

// awaitNextExit registers a wait for the end of the container, which has not started.
func (r *run) awaitNextExit(ctx context.Context) (exited <-chan end, err error) {
	err = r.ask(ctx, oneLook, func(ctx context.Context) error {
		exited = r.await(ctx, r.id, container.WaitConditionNextExit)
		return nil
	}, never)
	return exited, err
}

// detach ends the attached connection, and returns when nothing of it is being written any more.
func (r *run) detach() {
	r.attached.Close()
	if r.copied != nil {
		<-r.copied //nolint:errcheck // it was ended here
		r.copied = nil
	}
}

// start starts the container, and the copying of its input. A container without a
// shim is not started before its release.
func (r *run) start(ctx context.Context) error {
	shimmed := r.mark != ""
	if !shimmed {
		if err := r.release(ctx, r.spec, nil, r.fail); err != nil {
			return err
		}
	}
	in := &input{to: &r.attached, from: r.streams.Stdin, framed: shimmed && r.spec.Whole}
	if in.framed {
		in.from = io.TeeReader(in.from, &r.fedWith)
	}
	if r.spec.Whole && !shimmed && r.streams.Stdin != nil {
		var err error
		if r.given, err = in.begin(ctx); err != nil {
			return err
		}
		if !in.given && !r.warned.Swap(true) {
			r.log.WarnContext(ctx, "an input of more than 32 KiB is given to a program that may have started: it can be cut short where this process dies", "image", r.spec.Image)
		}
	}
	r.passes("the container is about to start")
	if err := r.startOnce(ctx); err != nil {
		if r.shimFailed(ctx, r.spec.Image, r.mark, err) {
			err = fmt.Errorf("%w: %w", errShim, err)
		}
		return r.runError("start the container", r.spec, err)
	}
	r.passes("the container is started")
	if !shimmed { // nobody has looked from inside
		for _, m := range r.spec.Mounts {
			if err := m.Changed(); err != nil {
				return err
			}
		}
	}
	if r.streams.Stdin != nil {
		r.fed = make(chan struct{})
		go func() {
			defer close(r.fed)
			defer crash.Cancel(r.fail, "feeding a container")
			if r.mayFeed(ctx, in) {
				r.unsent = in.feed(r.fail)
				r.passes("the input is given")
			}
		}()
	}
	return nil
}

// isReplayable reports whether the shim did not begin the program because the connection broke by which
// it was to get the input, and all of that can be given again.
func (r *run) isReplayable(ctx context.Context) bool {
	if !r.cut || !r.spec.Whole || r.fed == nil {
		return false
	}
	select {
	case <-r.fed:
		return true
	case <-ctx.Done():
	case <-time.After(r.lookEvery): // the caller withholds the rest
	}
	return false
}

// mayFeed waits until the program may have its input, and reports whether it is to have it.
func (r *run) mayFeed(ctx context.Context, in *input) bool {
	if r.mark == "" {
		return true // it was released before its start
	}
	return r.release(ctx, r.spec, in, r.fail) == nil && (!r.shimWaits() || r.stage.CompareAndSwap(stageWaiting, stageBegun))
}

// inputCut returns the error of a program that had only a part of its input, as far as that is known: the
// connection broke while that was sent. A program need not read all that it is given.
func (r *run) inputCut(code int) error {
	if !r.broke || r.fed == nil || r.mark != "" || !r.spec.Whole {
		return nil
	}
	select {
	case <-r.fed:
		if r.unsent == nil {
			return nil
		}
	default: // the caller withholds the rest
	}
	return fmt.Errorf("the connection broke while the input was sent, so the program may have had only a part of it; it %s", engine.Exit{Code: code})
}

// shimWaits reports whether the program begins only with input that the shim is given after the start.
func (r *run) shimWaits() bool {
	return r.mark != "" && r.streams.Stdin != nil && (r.spec.Hold != nil || r.spec.Whole)
}

// startOnce asks for the start of the container, unless the attached connection broke by then: its
// program would lack its input.
func (r *run) startOnce(ctx context.Context) error {
	if !r.shimWaits() {
		r.stage.Store(stageBegun)
	}
	var cut atomic.Bool
	err := r.ask(ctx, mostLooks, func(ctx context.Context) error {
		asking, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := r.client.ContainerStart(httptrace.WithClientTrace(asking, &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
			if cut.Store(r.isCut(c.Reused)); cut.Load() {
				_ = c.Conn.Close() // so that the request is not written
				cancel()
			}
		}}), r.id, client.ContainerStartOptions{})
		return err
	}, func(ctx context.Context) bool {
		inspected, err := r.client.ContainerInspect(ctx, r.id, client.ContainerInspectOptions{})
		return err == nil && inspected.Container.State != nil && inspected.Container.State.Status != container.StateCreated
	})
	if cut.Load() && ctx.Err() == nil {
		r.stage.CompareAndSwap(stageBegun, stageWaiting)
		return fmt.Errorf("%w: the connection broke before the container was started", engine.ErrUnavailable)
	}
	return err
}

// isCut reports whether the attached connection is known to be broken. When another one had to
// be made, the end of this one may just be on its way.
func (r *run) isCut(reused bool) bool {
	within := endsWithin
	if reused {
		within = 0
	}
	select {
	case err := <-r.copied:
		r.copied <- err
		return true
	case <-time.After(within):
		return false
	}
}

// endsWithin is how long this machine may take to tell of a connection that ended with others.
const endsWithin = 5 * time.Millisecond

// read begins to copy the output of the attached connection. A connection that breaks before
// the start shows by that.
func (r *run) read(ctx context.Context) {
	to := outlet{fail: r.fail}
	r.shim = &shimReport{mark: r.mark, out: to.to("stderr", r.streams.Stderr)}
	r.output = newReceived(to.to("stdout", r.streams.Stdout), r.shim)
	r.copied = make(chan error, 1)
	from := io.Reader(r.attached.Reader)
	if r.attached.Conn.LocalAddr().Network() == "unix" {
		from = unreset{from}
	}
	copied, started := r.copied, make(chan struct{})
	r.started = sync.OnceFunc(func() { close(started) })
	go func() {
		var err error
		defer func() { copied <- err }()
		defer crash.Cancel(r.fail, "reading the output of a container")
		from := bufio.NewReader(from)
		if _, err = from.Peek(1); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return
		}
		<-started // who sees output finds the container running
		_, err = stdcopy.StdCopy(&r.output.stdout, &r.output.stderr, from)
	}()
}

// unreset reads from a socket that the engine closes with input in it that the container has not read.
// That resets it, when all that the engine has sent was read. An engine that dies resets it, too, and
// then does not say how the container ended.
type unreset struct{ io.Reader }

// Read implements io.Reader.
func (u unreset) Read(p []byte) (n int, err error) {
	n, err = u.Reader.Read(p)
	if errors.Is(err, syscall.ECONNRESET) {
		err = io.EOF
	}
	return n, err
}

// outlet makes writers whose failure ends the run.
type outlet struct{ fail context.CancelCauseFunc }

func (o outlet) to(name string, w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return writerFunc(func(p []byte) (int, error) {
		n, err := w.Write(p)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			o.fail(fmt.Errorf("write the container's %s: %w", name, err))
		}
		return n, err
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// lackedMemory reports whether the engine noticed that memory was lacking, which an exit code need not
// show. Docker does not notice what happens in the first milliseconds of a container, and
// knows nothing of one that is removed. That the container has ended is known without.
func (r *run) lackedMemory(ctx context.Context) (lacked bool) {
	err := r.once(ctx, func(ctx context.Context) error {
		inspected, err := r.client.ContainerInspect(ctx, r.id, client.ContainerInspectOptions{})
		lacked = err == nil && inspected.Container.State != nil && inspected.Container.State.OOMKilled
		return err
	})
	if err != nil && !errdefs.IsNotFound(err) {
		r.log.DebugContext(ctx, "cannot ask whether memory was lacking in a container", "container", r.id, "error", err)
	}
	return lacked
}

// endOf returns when a container ended, zero if it has never started or the engine does not say.
func endOf(state container.State) time.Time {
	ended, err := time.Parse(time.RFC3339Nano, state.FinishedAt)
	if err != nil || ended.Unix() <= 0 {
		return time.Time{}
	}
	return ended.UTC()
}
