package enginetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/waittest"
)

func (s *suite) testEcho(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	sent := make([]byte, 20<<20)
	_, _ = random.Read(sent)
	var received bytes.Buffer
	exit, err := s.engine.Run(waittest.Context(t), s.spec("cat"), engine.IO{Stdin: bytes.NewReader(sent), Stdout: &received})
	if err != nil || exit.Code != 0 {
		t.Fatalf("exit %+v, error %v", exit, err)
	}
	if !bytes.Equal(received.Bytes(), sent) {
		t.Errorf("sent %d bytes, received %d others", len(sent), received.Len())
	}
}

func (s *suite) testEmptyStdin(t *testing.T) {
	for name, stdin := range map[string]io.Reader{"nil": nil, "empty": strings.NewReader("")} {
		if got := s.succeed(t, s.spec("cat"), stdin); got != "" {
			t.Errorf("%s stdin: cat wrote %q", name, got)
		}
	}
}

func (s *suite) testUnreadStdin(t *testing.T) {
	r := s.try(t, s.spec("exit", "3"), endless{})
	if r.err != nil || r.exit.Code != 3 {
		t.Errorf("exit %+v, error %v; want code 3", r.exit, r.err)
	}
}

// endless is a stdin without end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func (s *suite) testWithheldStdin(t *testing.T) {
	b := s.start(t, s.spec("exit", "4"))
	<-b.done
	if b.result.err != nil || b.result.exit.Code != 4 {
		t.Errorf("exit %+v, error %v; want code 4", b.result.exit, b.result.err)
	}
}

func (s *suite) testLateStdin(t *testing.T) {
	b := s.start(t, s.spec("read-exit", "5"))
	b.awaitOutput(t)
	if _, err := b.stdin.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	<-b.done
	if b.result.err != nil || b.result.exit.Code != 5 {
		t.Errorf("exit %+v, error %v; want code 5", b.result.exit, b.result.err)
	}
}

func (s *suite) testBrokenStdin(t *testing.T) {
	r := s.try(t, s.spec("cat"), io.MultiReader(strings.NewReader("half a "), broken{}))
	if !errors.Is(r.err, errBroken) {
		t.Errorf("exit %+v, error %v; want the reader's error", r.exit, r.err)
	}
}

// broken fails to read and to write.
type broken struct{}

func (broken) Read([]byte) (int, error)  { return 0, errBroken }
func (broken) Write([]byte) (int, error) { return 0, errBroken }

func (s *suite) testTwoStreams(t *testing.T) {
	const lines = 500
	r := s.try(t, s.spec("both", fmt.Sprint(lines)), nil)
	if r.err != nil || r.exit.Code != 0 {
		t.Fatalf("exit %+v, error %v", r.exit, r.err)
	}
	var stdout, stderr strings.Builder
	for i := range lines {
		fmt.Fprintf(&stdout, "out %d\n", i)
		fmt.Fprintf(&stderr, "err %d\n", i)
	}
	if r.stdout != stdout.String() {
		t.Errorf("stdout is %q", r.stdout)
	}
	if r.stderr != stderr.String() {
		t.Errorf("stderr is %q", r.stderr)
	}
}

func (s *suite) testNilStreams(t *testing.T) {
	exit, err := s.engine.Run(waittest.Context(t), s.spec("both", "100"), engine.IO{})
	if err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, error %v", exit, err)
	}
}

func (s *suite) testRefusingWriter(t *testing.T) {
	for name, streams := range map[string]engine.IO{
		"at once":       {Stdout: broken{}},
		"after 1 MB":    {Stdout: &limited{left: 1 << 20}},
		"stdin as well": {Stdin: endless{}, Stdout: &limited{left: 1 << 20}},
	} {
		exit, err := s.engine.Run(waittest.Context(t), s.spec("print"), streams)
		if !errors.Is(err, errBroken) {
			t.Errorf("%s: exit %+v, error %v; want the writer's error", name, exit, err)
		}
	}
	exit, err := s.engine.Run(waittest.Context(t), s.spec("both", "1000000000"), engine.IO{Stderr: &limited{left: 1 << 16}})
	if !errors.Is(err, errBroken) {
		t.Errorf("stderr: exit %+v, error %v; want the writer's error", exit, err)
	}
}

// limited accepts so many bytes.
type limited struct{ left int }

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		n := l.left
		l.left = 0
		return n, errBroken
	}
	l.left -= len(p)
	return len(p), nil
}

func (s *suite) testConcurrent(t *testing.T) {
	const runs = 16
	var group sync.WaitGroup
	for i := range runs {
		group.Go(func() {
			sent := strings.Repeat(fmt.Sprintf("run %d\n", i), 10_000)
			var received bytes.Buffer
			exit, err := s.engine.Run(waittest.Context(t), s.spec("cat"), engine.IO{Stdin: strings.NewReader(sent), Stdout: &received})
			if err != nil || exit.Code != 0 {
				t.Errorf("run %d: exit %+v, error %v", i, exit, err)
			}
			if received.String() != sent {
				t.Errorf("run %d received %d bytes of its %d", i, received.Len(), len(sent))
			}
		})
	}
	group.Wait()
}
