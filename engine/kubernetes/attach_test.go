package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// attachment is what happens when somebody attaches.
type attachment func(remotecommand.StreamOptions) error

func (a attachment) Stream(o remotecommand.StreamOptions) error { return a(o) }

func (a attachment) StreamWithContext(_ context.Context, o remotecommand.StreamOptions) error {
	return a(o)
}

func say(to io.Writer, kind entrypoint.Kind, content string) {
	_, _ = to.Write(append([]byte{byte(kind), 0, 0, 0, byte(len(content))}, content...))
}

// listen reads what the caller gives up to a text.
func listen(from io.Reader, until string) {
	var heard []byte
	for !strings.Contains(string(heard), until) {
		piece := make([]byte, 100)
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		heard = append(heard, piece[:n]...)
	}
}

// connect runs a session in which the attempts to attach go as they are given.
func connect(t *testing.T, attempts ...attachment) (s *session, stdout string, fed int, err error) {
	var out bytes.Buffer
	s = newSession(&out, io.Discard, func(to io.Writer) {
		fed++
		_ = entrypoint.Send(to, strings.NewReader("the input"), true, func() error { return nil })
	})
	gone := make(chan struct{})
	next := func() (remotecommand.Executor, error) {
		if len(attempts) == 0 {
			close(gone)
			return nil, errors.New("container not found")
		}
		a := attempts[0]
		attempts = attempts[1:]
		return a, nil
	}
	err = s.run(t.Context(), next, gone, gone)
	return s, out.String(), fed, err
}

func TestASessionEndsWhenTheShimHasSaidHow(t *testing.T) {
	notYet := func(o remotecommand.StreamOptions) error {
		_, _ = o.Stdin.Read(make([]byte, 4)) // a call that nobody hears
		return errors.New("container not found")
	}
	whole := func(o remotecommand.StreamOptions) error {
		say(o.Stdout, entrypoint.Attached, "")
		listen(o.Stdin, "the input")
		say(o.Stdout, entrypoint.Stdout, "out")
		say(o.Stdout, entrypoint.Ended, "\x00\x00\x00\x07")
		return errors.New("cut, but all was said")
	}
	s, stdout, fed, err := connect(t, notYet, notYet, whole)
	assert.True(t, err == nil && stdout == "out" && s.code == 7 &&
		fed == 1, "code %d, stdout %q, fed %d times, %v", s.code, stdout, fed, err)
}

func TestASessionThatIsCutShortIsNoSuccess(t *testing.T) {
	cut := func(o remotecommand.StreamOptions) error {
		say(o.Stdout, entrypoint.Attached, "")
		listen(o.Stdin, "the input")
		say(o.Stdout, entrypoint.Stdout, "half of ")
		return nil // as attachments end whose last output is lost
	}
	_, _, _, err := connect(t, cut)
	assert.ErrorIs(t, err, errBroken, "a cut output")
	_, _, fed, err := connect(t)
	assert.True(t, errors.Is(err, errGone) && fed == 0, "a container that has ended: %v, fed %d times", err, fed)
	crash := func(o remotecommand.StreamOptions) error {
		say(o.Stdout, entrypoint.Attached, "")
		_, _ = o.Stderr.Write([]byte("panic: no"))
		return nil
	}
	_, _, _, err = connect(t, crash)
	assert.ErrorContains(t, err, "panic: no", "a shim that crashed")
}

// silent answers once, if at all, and then nothing for long or for ever, as from behind a network that is gone.
type silent struct {
	attachment
	answers bool
	listens bool          // to its input, for as long
	ends    time.Duration // after which it says that its program has; 0 is never
}

func (s silent) StreamWithContext(ctx context.Context, o remotecommand.StreamOptions) error {
	if s.answers {
		say(o.Stdout, entrypoint.Attached, "")
	}
	if s.listens {
		go func() { _, _ = io.Copy(io.Discard, o.Stdin) }()
	}
	var ends <-chan time.Time
	if s.ends > 0 {
		ends = time.After(s.ends)
	}
	select {
	case <-ends:
		say(o.Stdout, entrypoint.Ended, "\x00\x00\x00\x07")
	case <-ctx.Done():
	}
	return ctx.Err()
}

func TestASessionEndsWithItsContainerThoughItsConnectionStays(t *testing.T) {
	for answers, want := range map[bool]error{true: errBroken, false: errGone} {
		synctest.Test(t, func(t *testing.T) {
			s := newSession(io.Discard, io.Discard, func(io.Writer) {})
			gone := make(chan struct{})
			time.AfterFunc(time.Hour, func() { close(gone) })
			begun := time.Now()
			err := s.run(t.Context(), func() (remotecommand.Executor, error) { return silent{answers: answers}, nil }, gone, gone)
			if took := time.Since(begun); !errors.Is(err, want) || took < time.Hour+lostTimeout || took > time.Hour+2*lostTimeout {
				t.Errorf("after %s: %v, want %v", took, err, want)
			}
		})
	}
}

func TestAttemptsThatCostAClusterMuchBecomeFewer(t *testing.T) {
	attempts := 0
	for waited := time.Duration(0); waited < time.Minute; waited += attachAfter(waited) {
		attempts++
	}
	assert.True(t, attempts <= 90, "there are %d in a minute", attempts)
	assert.Equal(t, attachLeast, attachAfter(800*time.Millisecond), "a Pod that starts as usual waits")
}

// refused is the error of a request while no API server listens.
var refused = &net.OpError{Op: "dial", Net: "tcp", Err: unix.ECONNREFUSED}

func TestWhoFollowsAPodWaitsForItsAPIServer(t *testing.T) {
	for name, c := range map[string]struct {
		down time.Duration
		ends bool
	}{"it comes back": {restartTimeout / 2, true}, "it is gone for longer": {2 * restartTimeout, false}} {
		synctest.Test(t, func(t *testing.T) {
			begun, lives := time.Now(), 10*time.Minute
			e := onServer(t, func(request string) (int, any) {
				switch at := time.Since(begun); {
				case request == "watch":
					return http.StatusOK, lasting(lives)
				case at < lives:
					return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodRunning})
				case at < lives+c.down:
					return 0, refused
				}
				return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodSucceeded})
			})
			_, err := e.follow(t.Context(), "one", over)
			took := time.Since(begun) - lives
			assert.True(t, (err == nil) == c.ends && (err == nil || errors.Is(err, unix.ECONNREFUSED)) &&
				took <= min(c.down, restartTimeout)+2*mostPause, "%s: after %s: %v", name, took, err)
		})
	}
}

func TestAnAPIServerThatEndsWatchesIsLeftAlone(t *testing.T) {
	for name, lasts := range map[string]time.Duration{"at once": 0, "after a second": time.Second} {
		synctest.Test(t, func(t *testing.T) {
			asked := 0
			e := onServer(t, func(request string) (int, any) {
				if asked++; request == "watch" {
					return http.StatusOK, lasting(lasts)
				}
				return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodRunning})
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := e.follow(ctx, "one", over); !errors.Is(err, context.DeadlineExceeded) || asked > 50 {
				t.Errorf("%s: it was asked %d times in a minute; %v", name, asked, err)
			}
		})
	}
}

func TestAPodIsRemovedOnceTheAPIServerIsBack(t *testing.T) {
	for name, c := range map[string]struct {
		lost    error // what requests get while it is not there
		down    time.Duration
		removed bool
	}{
		"it refuses connections":         {refused, restartTimeout / 2, true},
		"it breaks connections off":      {io.EOF, restartTimeout / 2, true},
		"it is off":                      {refused, time.Hour, false},
		"whoever asks may not remove it": {nil, time.Hour, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun, removed := time.Now(), false
			e := onServer(t, func(request string) (int, any) {
				switch {
				case time.Since(begun) < c.down && c.lost != nil:
					return 0, c.lost
				case c.lost == nil:
					return refusal(http.StatusForbidden, metav1.StatusReasonForbidden)
				case removed:
					return refusal(http.StatusNotFound, metav1.StatusReasonNotFound)
				}
				removed = request == "DELETE one"
				return http.StatusOK, aPod(corev1.PodStatus{Phase: corev1.PodRunning})
			})
			e.discard(t.Context(), "one", false)
			if took := time.Since(begun); removed != c.removed || took > gracePeriod || c.lost == nil && took > 0 {
				t.Errorf("%s: after %s it is %t that it is removed", name, took, removed)
			}
		})
	}
}

// A Pod that is made, and of which the API server could not say so any more, is not left behind.
func TestAPodIsRemovedWhoseCreationIsNotConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		answer func() (int, any)
		made   bool
	}{
		"the answer is lost":   {func() (int, any) { return 0, io.ErrUnexpectedEOF }, true},
		"the answer is no Pod": {func() (int, any) { return http.StatusCreated, "<html>" }, true},
		"its storage is late":  {func() (int, any) { return refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError) }, true},
		"nobody was asked":     {func() (int, any) { return 0, refused }, false},
		"its name is there":    {func() (int, any) { return refusal(http.StatusConflict, metav1.StatusReasonAlreadyExists) }, true},
		"it is refused":        {func() (int, any) { return refusal(http.StatusForbidden, metav1.StatusReasonForbidden) }, false},
		"it is there":          {func() (int, any) { return http.StatusCreated, aPod(corev1.PodStatus{}) }, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			removals := 0
			e := onServer(t, func(request string) (int, any) {
				switch {
				case request == http.MethodPost:
					return c.answer()
				case request == "DELETE one" && removals == 0:
					removals++
					return http.StatusOK, aPod(corev1.PodStatus{})
				}
				return refusal(http.StatusNotFound, metav1.StatusReasonNotFound)
			})
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // also where the run was cancelled
			_, err := e.create(ctx, aPod(corev1.PodStatus{}))
			assert.True(t, (removals > 0) == c.made && (err == nil) == (name == "it is there") &&
				!apierrors.IsNotFound(err), "%s: %d removals, %v", name, removals, err)
		})
	}
}

// An API server that counts Pods for a quota, of which several come at once, refuses some of them with
// a conflict. None of these was made.
func TestAPodIsMadeAgainThatAQuotaCouldNotCount(t *testing.T) {
	for name, c := range map[string]struct{ conflicts, requests int }{"twice": {2, 3}, "for long": {1000, 20}} {
		synctest.Test(t, func(t *testing.T) {
			requests := 0
			e := onServer(t, func(request string) (int, any) {
				assert.Equal(t, http.MethodPost, request, "%s: %s", name, request)
				if requests++; requests <= c.conflicts {
					return refusal(http.StatusConflict, metav1.StatusReasonConflict)
				}
				return http.StatusCreated, aPod(corev1.PodStatus{})
			})
			begun := time.Now()
			_, err := e.create(t.Context(), aPod(corev1.PodStatus{}))
			if (err == nil) != (c.conflicts < c.requests) || requests < min(c.requests, 3) || time.Since(begun) > time.Minute {
				t.Errorf("%s: %v after %d requests and %s", name, err, requests, time.Since(begun))
			}
		})
	}
}
