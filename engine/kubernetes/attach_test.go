package kubernetes

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/deployster-go/deployster/internal/entrypoint"
)

// attachment is what happens when somebody attaches.
type attachment func(remotecommand.StreamOptions) error

func (a attachment) Stream(o remotecommand.StreamOptions) error { return a(o) }

func (a attachment) StreamWithContext(_ context.Context, o remotecommand.StreamOptions) error {
	return a(o)
}

// say writes a message as a shim does.
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
	t.Helper()
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
	if err != nil || stdout != "out" || s.code != 7 || fed != 1 {
		t.Errorf("code %d, stdout %q, fed %d times, %v", s.code, stdout, fed, err)
	}
}

func TestASessionThatIsCutShortIsNoSuccess(t *testing.T) {
	cut := func(o remotecommand.StreamOptions) error {
		say(o.Stdout, entrypoint.Attached, "")
		listen(o.Stdin, "the input")
		say(o.Stdout, entrypoint.Stdout, "half of ")
		return nil // as attachments end whose last output is lost
	}
	if _, _, _, err := connect(t, cut); !errors.Is(err, errBroken) {
		t.Errorf("a cut output: %v", err)
	}
	if _, _, fed, err := connect(t); !errors.Is(err, errGone) || fed != 0 {
		t.Errorf("a container that has ended: %v, fed %d times", err, fed)
	}
	crash := func(o remotecommand.StreamOptions) error {
		say(o.Stdout, entrypoint.Attached, "")
		_, _ = o.Stderr.Write([]byte("panic: no"))
		return nil
	}
	if _, _, _, err := connect(t, crash); err == nil || !strings.Contains(err.Error(), "panic: no") {
		t.Errorf("a shim that crashed: %v", err)
	}
}

// silent answers once, if at all, and then nothing for long or for ever, as from behind a network
// that is gone.
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
