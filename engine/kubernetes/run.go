package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

// Run runs one Pod to its end and removes it:
//
//	create → copy files into it → attach to the shim, until it answers → give the input
//	→ copy output until it ends → exit → remove
//
// The Pod of a program that is held waits, as its shim, from before the release on. A
// Timeout counts from when the shim was told to start the program: scheduling and pulling
// have their own.
func (e *Engine) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	exit, err := e.run(ctx, fail, spec, streams)
	if err == nil {
		return exit, nil
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // in place of what the interrupted step reports
	}
	return engine.Exit{}, fmt.Errorf("run image %q: %w", spec.Image, err)
}

func (e *Engine) run(ctx context.Context, fail context.CancelCauseFunc, spec engine.Spec, streams engine.IO) (exit engine.Exit, err error) {
	if err := ctx.Err(); err != nil {
		return engine.Exit{}, err
	}
	image, err := e.held(ctx, spec.Image)
	if err != nil {
		return engine.Exit{}, err
	}
	shim, err := e.shimImage(ctx)
	if err != nil {
		return engine.Exit{}, err
	}
	p, err := newPlan(spec, image, shim, e.idle, e.life)
	if err != nil {
		return engine.Exit{}, err
	}
	p.copied.workspace = e.options.CopyWorkspace
	pod, err := p.pod(e.options)
	if err != nil {
		return engine.Exit{}, err
	}
	created, err := e.create(ctx, pod)
	if err != nil {
		return engine.Exit{}, err
	}
	r := newRun(e, p, created.Name, streams, fail)
	defer func() {
		if !errors.Is(err, errUnconfirmed) { // nobody would say now that it is gone
			e.discard(ctx, r.pod, r.allEnded())
		}
	}()
	go r.watchOver(ctx)
	defer r.outlived().Stop()
	defer r.output.close()
	return r.perform(ctx)
}

// create makes the Pod. It is not cut short by a cancel, as nobody would know then whether
// there is one. Where the answer is lost, the Pod that may be there is removed.
func (e *Engine) create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	var created *corev1.Pod
	var err error
	for failures := 1; ; failures++ {
		created, err = e.api.create(ctx, pod)
		// An API server that counts several Pods for a quota at once gives up, and has made none.
		if !apierrors.IsConflict(err) || !pause(ctx, pauseAfter(failures)) {
			break
		}
	}
	if err != nil && maybeDone(err) {
		e.discard(ctx, pod.Name, false)
	}
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return nil, &engine.SpecError{Cause: e.wrap("create a Pod", err)}
	}
	if err != nil {
		return nil, e.wrap("create a Pod", err)
	}
	e.ran.Store(true)
	return created, nil
}

// run is the run of a Pod that is created.
type run struct {
	*Engine
	*plan
	pod     string
	streams engine.IO
	output  output
	fail    context.CancelCauseFunc

	node    atomic.Pointer[string] // that has the Pod, once one has
	begun   atomic.Bool            // the program may have started
	quiet   atomic.Bool            // the shim has said that nothing runs any more
	over    chan struct{}          // closed when nothing will come of the Pod any more
	ended   chan struct{}          // closed when what follows is known: it is over, or cannot be watched
	last    *corev1.Pod            // once it has ended
	lastErr error
}

func newRun(e *Engine, p *plan, pod string, streams engine.IO, fail context.CancelCauseFunc) *run {
	return &run{Engine: e, plan: p, pod: pod, streams: streams, fail: fail, over: make(chan struct{}), ended: make(chan struct{})}
}

// outlived ends the run when the cluster has ended the Pod for certain, and nobody has said so: its
// connection may stay for ever, and the API server may not let anybody watch.
func (r *run) outlived() *time.Timer {
	most := r.lasts() + startTimeout
	return time.AfterFunc(most, func() {
		r.fail(r.interrupted(fmt.Errorf("%w: nothing has said for %s how it ended", engine.ErrUnavailable, most)))
	})
}

// watchOver follows the Pod to its end, and ends the run where it never starts.
func (r *run) watchOver(ctx context.Context) {
	defer crash.Cancel(r.fail, "watching a Pod")
	defer close(r.ended)
	var mu sync.Mutex
	waitsFor := "the cluster has not said anything of it"
	late := time.AfterFunc(startTimeout, func() {
		mu.Lock()
		defer mu.Unlock()
		r.fail(fmt.Errorf("the Pod has not started within %s: %s", startTimeout, waitsFor))
	})
	defer late.Stop()
	var trouble error
	var lasts time.Duration // the trouble, until it is believed
	believed := time.AfterFunc(startTimeout, func() {
		mu.Lock()
		defer mu.Unlock()
		if trouble != nil {
			r.fail(trouble)
		}
	})
	defer believed.Stop()
	r.last, r.lastErr = r.follow(ctx, r.pod, func(pod *corev1.Pod) bool {
		r.node.Store(&pod.Spec.NodeName)
		if started(pod) {
			late.Stop()
		}
		mu.Lock()
		defer mu.Unlock()
		waitsFor = pending(pod)
		before := lasts
		if lasts, trouble = troubled(pod); trouble != nil && lasts != before {
			believed.Reset(lasts)
		}
		return failed(pod) != nil || terminated(pod) != nil || over(pod)
	})
	if r.lastErr == nil || apierrors.IsNotFound(r.lastErr) || errors.Is(r.lastErr, errUnconfirmed) {
		close(r.over)
	}
}

// perform has the program run, and returns how it ended.
func (r *run) perform(ctx context.Context) (engine.Exit, error) {
	if r.copies() {
		if err := r.copy(ctx, r.attach(prepareContainer)); err != nil {
			return engine.Exit{}, r.interrupted(err)
		}
	}
	s := newSession(r.output.to("stdout", r.streams.Stdout, r.fail), r.output.to("stderr", r.streams.Stderr, r.fail),
		func(to io.Writer) { r.give(ctx, to) })
	err := s.run(ctx, r.attach(mainContainer), r.ended, r.over)
	switch {
	case ctx.Err() != nil:
		return engine.Exit{}, context.Cause(ctx)
	case errors.Is(err, errGone), errors.Is(err, errBroken):
		exit, err := r.lost(ctx, err)
		return exit, r.interrupted(err)
	case err != nil:
		return engine.Exit{}, r.wrap("attach to the Pod", err)
	case s.refused != "":
		r.quiet.Store(true)
		return engine.Exit{}, &engine.SpecError{Cause: fmt.Errorf("start the program: %s", s.refused)}
	}
	if s.code != 0 {
		if err := r.endedByOthers(ctx); err != nil {
			return engine.Exit{}, r.interrupted(err)
		}
	}
	if s.code == killed || r.spec.Memory > 0 && s.code != 0 { // which the cluster knows more of
		if exit, err := r.exit(ctx); err == nil && exit.OOMKilled {
			return exit, nil
		}
	}
	r.quiet.Store(true)
	return engine.Exit{Code: s.code}, ctx.Err()
}

// endedByOthers returns who has ended the Pod of a program that failed, as far as the cluster
// says that; nil is nobody.
func (r *run) endedByOthers(ctx context.Context) error {
	pod, err := r.api.get(ctx, r.pod)
	switch {
	case apierrors.IsNotFound(err):
		return errRemoved
	case err != nil:
		return nil // how the program ended is known
	}
	return cmp.Or(intervened(pod), failed(pod))
}

// interrupted adds to why a program did not come to its end which Pod that was, on which node, and
// whether what it does may have been done.
func (r *run) interrupted(err error) error {
	var wrong *engine.SpecError
	if err == nil || errors.As(err, &wrong) || errors.Is(err, engine.ErrNoImage) {
		return err
	}
	where, did := "Pod "+r.pod, "its program had not begun"
	if node := r.node.Load(); node != nil && *node != "" {
		where += " on node " + *node
	}
	if r.begun.Load() {
		did = "its program had begun, and may have done all of its work, or part of it"
	}
	return fmt.Errorf("%s: %w; %s", where, err, did)
}

// killed is the exit code of what was killed.
const killed = 128 + 9

// lost finds out why the connection with a Pod has ended: where the Pod was killed that is
// the end of its program, too.
func (r *run) lost(ctx context.Context, broken error) (engine.Exit, error) {
	found, cancel := context.WithTimeout(ctx, lostTimeout)
	defer cancel()
	exit, err := r.exit(found)
	switch {
	case ctx.Err() != nil:
		return engine.Exit{}, context.Cause(ctx)
	case found.Err() != nil:
		return engine.Exit{}, fmt.Errorf("%w: %w, and the node has not said for %s how it ended", engine.ErrUnavailable, broken, lostTimeout)
	case err != nil:
		return engine.Exit{}, err
	case intervened(r.last) != nil:
		return engine.Exit{}, intervened(r.last)
	case exit.Code == killed:
		return exit, nil // nothing was to come any more
	}
	return engine.Exit{}, fmt.Errorf("%w: %w; the program %s", engine.ErrUnavailable, broken, exit)
}

// lostTimeout is how long the cluster may take to say how a Pod ended with which the
// connection is lost.
const lostTimeout = 10 * time.Second

func (r *run) attach(container string) func() (remotecommand.Executor, error) {
	return func() (remotecommand.Executor, error) { return r.api.attach(r.pod, container) }
}

// copy gives the Pod its copies of what this machine has. That it has them all shows when the
// program's container begins.
func (r *run) copy(ctx context.Context, attach func() (remotecommand.Executor, error)) error {
	sending, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	packed := make(chan error, 1)
	s := newSession(io.Discard, io.Discard, func(to io.Writer) {
		from, w := io.Pipe()
		go func() {
			err := crash.Do("packing what a Pod is to see", func() error { return r.copied.pack(w) })
			packed <- err
			w.CloseWithError(err)
		}()
		if err := entrypoint.Send(to, from, true, func() error { return nil }); err != nil {
			stop(err) // the shim waits for the rest
		}
		_ = from.Close()
	})
	err := s.run(sending, attach, r.ended, r.over)
	select {
	case failure := <-packed:
		if failure != nil && !errors.Is(failure, io.ErrClosedPipe) {
			return failure
		}
	default:
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.refused != "":
		return fmt.Errorf("copy files into the Pod: %s", s.refused)
	case errors.Is(err, errGone):
		_, err = r.exit(ctx)
		return err
	case err != nil && !errors.Is(err, errBroken):
		return r.wrap("copy files into the Pod", err)
	}
	return nil
}

// give gives the program its input once it is released.
func (r *run) give(ctx context.Context, to io.Writer) {
	if r.release(ctx, to) != nil {
		return
	}
	r.begun.Store(true)
	r.spec.Limit(ctx, r.fail)
	input := r.streams.Stdin
	if input == nil {
		input = strings.NewReader("")
	}
	if !r.spec.Whole {
		if entrypoint.Begin(to) != nil {
			return
		}
	}
	if err := entrypoint.Send(to, input, true, func() error { return nil }); err != nil {
		r.fail(err)
	}
}

// release returns once a held program may start. Until then its shim learns that there is
// somebody.
func (r *run) release(ctx context.Context, to io.Writer) error {
	if r.spec.Hold == nil {
		return nil
	}
	signs := time.NewTicker(r.plan.idle / 4)
	defer signs.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.spec.Hold:
			return ctx.Err()
		case <-signs.C:
			_ = entrypoint.KeepAlive(to)
		}
	}
}

// exit waits for the cluster to say how the Pod ended.
func (r *run) exit(ctx context.Context) (engine.Exit, error) {
	select {
	case <-ctx.Done():
		return engine.Exit{}, context.Cause(ctx)
	case <-r.ended:
	}
	switch {
	case ctx.Err() != nil:
		return engine.Exit{}, context.Cause(ctx)
	case apierrors.IsNotFound(r.lastErr):
		return engine.Exit{}, errRemoved
	case errors.Is(r.lastErr, errUnconfirmed):
		return engine.Exit{}, r.lastErr
	case r.lastErr != nil:
		return engine.Exit{}, r.wrap("ask how the Pod ended", r.lastErr)
	}
	if err := failed(r.last); err != nil {
		return engine.Exit{}, err
	}
	if ended := terminated(r.last); ended != nil {
		return exitOf(ended), nil
	}
	return engine.Exit{}, fmt.Errorf("the Pod ended, and the cluster does not say how: %s", r.last.Status.Message)
}

// allEnded reports whether nothing of the program runs any more.
func (r *run) allEnded() bool {
	if r.quiet.Load() {
		return true
	}
	return closed(r.ended) && r.lastErr == nil && terminated(r.last) != nil
}

// output is where a container writes to. What comes after its run is dropped, and nothing
// is written to both streams at once.
type output struct {
	mu     sync.Mutex
	closed bool
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// to is a writer whose failure ends the run.
func (o *output) to(name string, w io.Writer, fail context.CancelCauseFunc) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if w == nil || o.closed {
			return len(p), nil
		}
		n, err := w.Write(p)
		if err == nil && n < len(p) {
			err = io.ErrShortWrite
		}
		if err != nil {
			fail(fmt.Errorf("write the container's %s: %w", name, err))
		}
		return n, err
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
