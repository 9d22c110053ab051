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
// If the connection breaks, the rest of the output is read from the Pod's log. If it breaks before the
// program begins, another Pod begins anew.
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
	input := newReplay(streams.Stdin)
	begun := time.Now()
	for tries := 1; ; tries++ {
		p, err := newPlan(spec, image, shim, e.idle, e.life)
		if err != nil {
			return engine.Exit{}, err
		}
		p.copied.workspace = e.options.CopyWorkspace
		exit, err := e.runPod(ctx, fail, p, streams, input)
		if !errors.Is(err, errUnbegun) {
			return exit, err
		}
		if tries > restarts || tries > 1 && time.Since(begun) > e.lostFor || !input.again() || !pause(ctx, pauseAfter(tries)) {
			return engine.Exit{}, fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
		}
		e.log.DebugContext(ctx, "another Pod runs a program that had not begun", "image", spec.Image, "error", err)
	}
}

// runPod runs the program in a Pod of its own. errUnbegun is that it has not begun.
func (e *Engine) runPod(ctx context.Context, fail context.CancelCauseFunc, p *plan, streams engine.IO, input *replay) (exit engine.Exit, err error) {
	ctx, over := context.WithCancel(ctx)
	defer over()
	pod, err := p.pod(e.options)
	if err != nil {
		return engine.Exit{}, err
	}
	created, err := e.create(ctx, pod)
	if err != nil {
		return engine.Exit{}, err
	}
	r := newRun(e, p, created.Name, streams, fail)
	r.input = input
	defer func() {
		// One is not gone, as nobody would say now, and the other is not read.
		if !errors.Is(err, errUnconfirmed) && !errors.Is(err, errUnread) {
			e.discard(ctx, r.pod, r.allEnded())
		}
	}()
	go r.watchOver(ctx)
	defer r.outlived().Stop()
	defer r.output.close()
	return r.perform(ctx)
}

// create makes the Pod. It is not cut short by a cancel, as nobody would know then whether
// there is one. Where the answer is lost it asks again, and removes the Pod that may be there if
// there is none.
func (e *Engine) create(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	making, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	created, err := e.api.create(making, pod)
	sent := false
	for failures := 1; err != nil; failures++ {
		sent = sent || maybeDone(err)
		// An API server that counts several Pods for a quota at once gives up, and has made none.
		conflict := apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err)
		if !conflict && (!sent || ctx.Err() != nil || !passing(err)) || !pause(making, pauseAfter(failures)) {
			break
		}
		if created, err = e.api.create(making, pod); sent && apierrors.IsAlreadyExists(err) { // by an earlier request
			created, err = e.api.get(making, pod.Name)
		}
	}
	if err != nil && sent {
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
	input   *replay
	output  output
	fail    context.CancelCauseFunc

	node     atomic.Pointer[string] // that has the Pod, once one has
	spoke    atomic.Bool            // the shim was heard
	begun    atomic.Bool            // the program may have started
	uncopied bool                   // it is not known whether the Pod has its copies of files
	quiet    atomic.Bool            // the shim has said that nothing runs any more
	over     chan struct{}          // closed when nothing will come of the Pod any more
	ended    chan struct{}          // closed when what follows is known: it is over, or cannot be watched
	last     *corev1.Pod            // once it has ended
	lastErr  error
}

func newRun(e *Engine, p *plan, pod string, streams engine.IO, fail context.CancelCauseFunc) *run {
	return &run{
		Engine: e, plan: p, pod: pod, streams: streams, fail: fail, over: make(chan struct{}), ended: make(chan struct{}),
		input: newReplay(streams.Stdin),
	}
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
		if r.spoke.Load() {
			return // whatever the cluster says, or does not
		}
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
	r.last, r.lastErr = r.followFor(ctx, max(restartTimeout, r.lostFor), r.pod, func(pod *corev1.Pod) bool {
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
	s := r.session(func(to io.Writer) { r.give(ctx, to) })
	err := s.run(ctx, r.attach(mainContainer), r.ended, r.over)
	var exit engine.Exit
	if errors.Is(err, errGone) || errors.Is(err, errBroken) {
		if exit, err = r.resume(ctx, s, err); !s.isOver() {
			return exit, r.interrupted(err)
		}
	}
	switch {
	case ctx.Err() != nil:
		return engine.Exit{}, context.Cause(ctx)
	case errors.Is(err, errSilent):
		return engine.Exit{}, fmt.Errorf("%w: %w", errUnbegun, err)
	case err != nil:
		return engine.Exit{}, r.wrap("attach to the Pod", err)
	case s.cut != "":
		r.quiet.Store(true)
		return engine.Exit{}, fmt.Errorf("%w: %s", errUnbegun, s.cut)
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
		found, cancel := context.WithTimeout(ctx, restartTimeout)
		defer cancel()
		if exit, err := r.exit(found); err == nil && exit.OOMKilled {
			return exit, nil
		}
	}
	r.quiet.Store(true)
	return engine.Exit{Code: s.code}, ctx.Err()
}

// session is the one with the shim of the program.
func (r *run) session(feed func(to io.Writer)) *session {
	s := newSession(r.output.to("stdout", r.streams.Stdout, r.fail), r.output.to("stderr", r.streams.Stderr, r.fail), feed)
	heard := s.heard
	s.heard = func() { r.spoke.Store(true); heard() }
	s.started = r.input.forget
	s.silence, s.look = r.silence, r.look(s)
	return s
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
	if err == nil || errors.As(err, &wrong) || errors.Is(err, engine.ErrNoImage) || errors.Is(err, errUnbegun) {
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

// lostTimeout is how much later than the end of a Pod what it said last may come.
const lostTimeout = 10 * time.Second

func (r *run) attach(container string) func() (remotecommand.Executor, error) {
	return func() (remotecommand.Executor, error) { return r.connect(r.pod, container) }
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
	s.silence, s.look = r.silence, r.lookTwice(func(pod *corev1.Pod) bool {
		p := status(pod, prepareContainer)
		return p != nil && p.State.Running != nil
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
	case s.cut != "":
		return fmt.Errorf("%w: %s", errUnbegun, s.cut)
	case s.refused != "":
		return fmt.Errorf("copy files into the Pod: %s", s.refused)
	case errors.Is(err, errSilent):
		return fmt.Errorf("%w: %w", errUnbegun, err)
	case errors.Is(err, errGone):
		if _, err = r.exit(ctx); r.lastErr == nil && unprepared(r.last) {
			return fmt.Errorf("%w: %w", errUnbegun, err)
		}
		return err
	case errors.Is(err, errBroken):
		r.uncopied = true
	case err != nil:
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
	if !r.spec.Whole {
		if entrypoint.Begin(to) != nil {
			return
		}
	}
	err := entrypoint.Send(to, r.input.reader(), true, func() error { return nil })
	if err != nil && !errors.Is(err, errReplayed) {
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
