package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	exit, err := e.run(ctx, fail, spec, streams)
	if errors.Is(err, errShim) {
		exit, err = e.run(ctx, fail, spec, streams) // which does without
	}
	if err == nil {
		return exit, nil
	}
	if ctx.Err() != nil {
		// The cause of the interruption, in place of what the interrupted step reports.
		err = context.Cause(ctx)
	}
	return engine.Exit{}, fmt.Errorf("run image %q: %w", spec.Image, err)
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

func (e *Engine) run(ctx context.Context, fail context.CancelCauseFunc, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	id, mark, err := e.create(ctx, spec, streams.Stdin != nil)
	if err != nil {
		return engine.Exit{}, err
	}
	ended := false
	defer func() {
		switch {
		case ended && passing(spec):
		case ended:
			e.removals.begin(id, func() { e.discard(ctx, id) })
		default:
			e.discard(ctx, id)
		}
	}()
	r := &run{Engine: e, id: id, mark: mark, spec: spec, streams: streams, fail: fail}
	if err := r.attach(ctx); err != nil {
		return engine.Exit{}, err
	}
	defer r.attached.Close()
	// Closing is what ends reads and writes of the connection on a cancel.
	defer context.AfterFunc(ctx, r.attached.Close)()

	exited := e.await(ctx, id, container.WaitConditionNextExit)
	memory := e.watchMemory(ctx, id, spec)
	if err := r.start(ctx); err != nil {
		return engine.Exit{}, err
	}
	shim, err := r.copyOutput(ctx)
	if err != nil {
		return engine.Exit{}, err
	}
	select {
	case <-ctx.Done():
		return engine.Exit{}, context.Cause(ctx)
	case end := <-exited:
		if end.err != nil {
			return engine.Exit{}, e.unreachable("wait for the container", end.err)
		}
		ended = true
		if shim.failed() {
			if err := replaced(spec, shim.reason()); err != nil {
				return engine.Exit{}, err
			}
			return engine.Exit{}, e.runError("start the container", spec, errors.New(shim.reason()))
		}
		exit, _, err := e.exit(ctx, id, end.code)
		if err == nil && !exit.OOMKilled {
			exit.OOMKilled = memory.happened(ctx, end.code)
		}
		return exit, err
	}
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
}

func (r *run) attach(ctx context.Context) error {
	attached, err := r.client.ContainerAttach(ctx, r.id, client.ContainerAttachOptions{
		Stream: true,
		Stdin:  r.streams.Stdin != nil,
		Stdout: true,
		Stderr: true,
	})
	if err != nil {
		return r.wrap("attach to the container", err)
	}
	r.attached = attached.HijackedResponse
	return nil
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
	if r.spec.Whole && !shimmed && r.streams.Stdin != nil {
		if err := in.begin(ctx); err != nil {
			return err
		}
		if !in.given && !r.warned.Swap(true) {
			r.log.WarnContext(ctx, "an input of more than 32 KiB is given to a program that may have started: it can be cut short where this process dies", "image", r.spec.Image)
		}
	}
	r.passes("the container is about to start")
	if _, err := r.client.ContainerStart(ctx, r.id, client.ContainerStartOptions{}); err != nil {
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
		go func() {
			defer crash.Cancel(r.fail, "feeding a container")
			if !shimmed || r.release(ctx, r.spec, in, r.fail) == nil {
				in.feed(r.fail)
				r.passes("the input is given")
			}
		}()
	}
	return nil
}

// copyOutput copies the output until it ends, and returns what the shim reported.
func (r *run) copyOutput(ctx context.Context) (*shimReport, error) {
	output := outlet{fail: r.fail}
	shim := &shimReport{mark: r.mark, out: output.to("stderr", r.streams.Stderr)}
	from := io.Reader(r.attached.Reader)
	if r.attached.Conn.LocalAddr().Network() == "unix" {
		from = unreset{from}
	}
	_, err := stdcopy.StdCopy(output.to("stdout", r.streams.Stdout), shim, from)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, r.unreachable("read the container's output", err)
	}
	if err := shim.flush(); err != nil {
		return nil, fmt.Errorf("write the container's output: %w", err)
	}
	return shim, nil
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

// exit adds to an exit code whether the container lacked memory, which the code
// need not show, and when it ended, zero where that is not known. Docker does not notice what happens in the first milliseconds
// of a container.
func (e *Engine) exit(ctx context.Context, id string, code int) (exit engine.Exit, ended time.Time, err error) {
	inspected, err := e.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if errdefs.IsNotFound(err) {
		return engine.Exit{Code: code}, time.Time{}, nil
	}
	if err != nil {
		return engine.Exit{}, time.Time{}, e.wrap("inspect the ended container", err)
	}
	state := inspected.Container.State
	if state == nil {
		return engine.Exit{Code: code}, time.Time{}, nil
	}
	ended, err = time.Parse(time.RFC3339Nano, state.FinishedAt)
	if err != nil || ended.Unix() <= 0 { // it has never started, or the engine does not say
		ended = time.Time{}
	}
	return engine.Exit{Code: code, OOMKilled: state.OOMKilled}, ended.UTC(), nil
}
