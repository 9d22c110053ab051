package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/entrypoint"
)

const (
	lostFor        = 10 * time.Minute // of Options.LostFor, unless it is given
	silenceTimeout = 30 * time.Second // of a connection until its Pod is looked at through another one
	answerTimeout  = 20 * time.Second // for an answer about one Pod
	mostSilence    = 8                // times silence: of a log that is followed until it is asked for again
	restarts       = 10               // of a run whose connections break before its program begins
)

var (
	// errUnbegun is the end of a Pod whose program has not begun, and will not. Another Pod may run it.
	errUnbegun = errors.New("the connection with the Pod broke before its program began")

	// errUnread is the end of a run of which nobody knows how its program ended, or what it said. The
	// Pod stays, for whoever waits for it.
	errUnread error = &lostError{"the Pod is left as it is, and the next run of its resource waits for it"}

	errNoLog = errors.New("its log is not there")
)

// lostError is an engine.ErrLost with words of its own.
type lostError struct{ text string }

// Error implements error.
func (e *lostError) Error() string { return e.text }

// Unwrap implements errors.Is and errors.As.
func (e *lostError) Unwrap() error { return engine.ErrLost }

// look has a silent connection looked at. It is of no use any more when its Pod has ended, or has said
// what did not come through, or waits for somebody who speaks to it.
func (r *run) look(s *session) func(context.Context) bool {
	unheard := r.lookTwice(started)
	return func(ctx context.Context) bool {
		if !s.isHeard() {
			return unheard(ctx)
		}
		pod, err := r.api.get(ctx, r.pod)
		if err != nil {
			return apierrors.IsNotFound(err)
		}
		if terminated(pod) != nil || over(pod) {
			return true
		}
		news := errors.New("news")
		_, err = r.readLog(ctx, false, answerTimeout, func(kind entrypoint.Kind, number uint64, _ []byte) error {
			if kind != entrypoint.Attached && number >= s.next.Load() {
				return news
			}
			return nil
		})
		return errors.Is(err, news)
	}
}

// lookTwice reports whether a Pod runs, whose shim a busy node may have kept from answering the first time.
func (r *run) lookTwice(runs func(*corev1.Pod) bool) func(context.Context) bool {
	looks := 0
	return func(ctx context.Context) bool {
		pod, err := r.api.get(ctx, r.pod)
		if err != nil || !runs(pod) {
			return false
		}
		looks++
		return looks > 1
	}
}

// resumption is what is known of a Pod whose connection is lost.
type resumption struct {
	*run
	session  *session
	broken   error
	answered time.Time     // when the cluster last said how it is
	failure  error         // why it has not since
	silent   time.Time     // since then the Pod has ended, and its log has no end
	silence  time.Duration // of the log, until it is asked for again
	failures int           // in a row: nothing new
}

// resume reads on in the log of a Pod whose connection is lost, until its shim has said how the program
// ended, or the cluster that there is nobody who could. While the cluster does not answer it asks again.
func (r *run) resume(ctx context.Context, s *session, broken error) (engine.Exit, error) {
	r.log.DebugContext(ctx, "the connection with a Pod is lost, and its log is read", "pod", r.pod, "error", broken)
	if errors.Is(broken, errGone) && r.lastErr == nil && !started(r.last) {
		return r.endOf(r.last, log{}, broken) // it has no log
	}
	m := &resumption{run: r, session: s, broken: broken, answered: time.Now(), failure: errNoLog, silence: r.silence}
	for m.failures = 1; ; m.failures++ {
		if (closed(r.over) || errors.Is(broken, errGone)) && r.lastErr != nil {
			return r.exit(ctx)
		}
		pod, heard, err := m.readOn(ctx)
		switch {
		case ctx.Err() != nil:
			return engine.Exit{}, context.Cause(ctx)
		case s.isOver():
			return engine.Exit{}, nil
		case err != nil:
			if err := m.final(err); err != nil {
				return engine.Exit{}, err
			}
			m.failure = err
		case m.isEnd(pod, heard):
			return r.endOf(pod, heard, broken)
		}
		if since := time.Since(m.answered); since >= r.lostFor {
			return engine.Exit{}, fmt.Errorf("%w: %w, and the cluster has not said for %s how its program ended (%w); %w",
				engine.ErrUnavailable, broken, since.Round(time.Second), m.failure, errUnread)
		}
		pause(ctx, pauseAfter(m.failures))
	}
}

// readOn asks for the Pod, and reads what it has said: to its end, unless the connection breaks again.
func (m *resumption) readOn(ctx context.Context) (*corev1.Pod, log, error) {
	pod, err := m.api.get(ctx, m.pod)
	if err != nil || !started(pod) {
		return pod, log{}, err
	}
	before := m.session.next.Load()
	heard, err := m.readLog(ctx, terminated(pod) == nil, m.silence, func(kind entrypoint.Kind, number uint64, content []byte) error {
		if kind == entrypoint.Attached {
			return nil
		}
		return m.session.take(kind, number, content)
	})
	if apierrors.IsNotFound(err) {
		err = fmt.Errorf("%w: %s", errNoLog, err) //nolint:errorlint // the Pod is there, and its node does not know it yet
	}
	if m.silence = min(2*m.silence, mostSilence*m.run.silence); m.session.next.Load() > before {
		m.failures, m.silence, m.answered = 1, m.run.silence, time.Now()
	}
	return pod, heard, err
}

// final returns the error of a run that nothing can be read of any more; nil is that it may be asked again.
func (m *resumption) final(err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return errRemoved
	case errors.Is(err, errMissed):
		return fmt.Errorf("%w: %w, and its log does not have all of its output any more (%w); %w", engine.ErrUnavailable, m.broken, err, errUnread)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w: %w: %w; %w", engine.ErrUnavailable, m.broken, m.wrap("read on in the log of the Pod", err), errUnread)
	}
	return nil
}

// isEnd reports whether nothing will come of the Pod any more. What a node says last may come late.
func (m *resumption) isEnd(pod *corev1.Pod, heard log) bool {
	ended := terminated(pod) != nil || over(pod)
	switch {
	case ended && !started(pod):
		return true
	case ended && m.session.isHeard() && !heard.read:
		m.failure = errNoLog
		return false
	}
	m.answered = time.Now()
	if ended && m.silent.IsZero() {
		m.silent = m.answered
	}
	return ended && m.answered.Sub(m.silent) >= lostTimeout
}

// endOf returns how a Pod ended whose shim has not said how its program did.
func (r *run) endOf(pod *corev1.Pod, heard log, broken error) (engine.Exit, error) {
	if r.uncopied && !started(pod) && unprepared(pod) {
		return engine.Exit{}, errUnbegun
	}
	if err := intervened(pod); err != nil {
		return engine.Exit{}, err
	}
	if err := failed(pod); err != nil {
		return engine.Exit{}, err
	}
	ended := terminated(pod)
	switch {
	case ended == nil:
		return engine.Exit{}, fmt.Errorf("the Pod ended, and the cluster does not say how: %s", pod.Status.Message)
	case ended.ExitCode == killed:
		return exitOf(ended), nil // nothing was to come any more
	case heard.other.text != "":
		return engine.Exit{}, shimFailed(heard.other.text)
	}
	return engine.Exit{}, fmt.Errorf("%w: %w; the program %s", engine.ErrUnavailable, broken, exitOf(ended))
}

// unprepared reports whether what prepares a Pod has given up.
func unprepared(pod *corev1.Pod) bool {
	s := status(pod, prepareContainer)
	return s != nil && s.State.Terminated != nil && s.State.Terminated.ExitCode == entrypoint.Failed
}

// log is what was read of a container's log.
type log struct {
	read  bool  // it is that of a shim
	other noise // what was written after the last message
}

// readLog takes the messages in the log of the program's container: those that are there, or all to its
// end. It fails if nothing comes for as long as silence.
func (r *run) readLog(ctx context.Context, follow bool, silence time.Duration, take func(entrypoint.Kind, uint64, []byte) error) (log, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	late := time.AfterFunc(max(silence, answerTimeout), func() { cancel(errSilent) })
	defer late.Stop()
	var found log
	stream, err := r.api.log(ctx, r.pod, mainContainer, follow)
	if err != nil {
		return found, err
	}
	defer func() { _ = stream.Close() }()
	receiver := &entrypoint.Receiver{
		Take: func(kind entrypoint.Kind, number uint64, content []byte) error {
			found = log{read: true}
			return take(kind, number, content)
		},
		Other: func(text []byte) { _, _ = found.other.Write(text) },
	}
	for piece := make([]byte, 32<<10); ; {
		late.Reset(silence)
		n, err := stream.Read(piece)
		late.Stop() // whoever takes it may take their time
		if _, failure := receiver.Write(piece[:n]); failure != nil {
			return found, failure
		}
		switch {
		case errors.Is(err, io.EOF):
			return found, nil
		case err != nil && follow && errors.Is(context.Cause(ctx), errSilent):
			return found, nil // perhaps the program says nothing
		case err != nil:
			return found, fmt.Errorf("read the log of the Pod: %w", err)
		}
	}
}
