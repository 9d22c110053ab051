package typetest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/deployster-go/deployster/protocol"
)

// Served starts one process of a type that serves, and returns it in the form of
// a type: each Run is a request to that process. When the test is over the
// process must end well.
func Served(t testing.TB, typ Type) Type {
	t.Helper()
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	s := &served{stdin: stdin, calls: map[int64]*call{}}
	// The context of a test is over before its cleanup, in which this ends.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var stderr bytes.Buffer
	ended := make(chan int)
	go func() {
		code := typ.Run(ctx, []string{"serve"}, in, out, &stderr)
		_ = out.Close()
		_ = in.Close()
		ended <- code
	}()
	received := make(chan error)
	go func() { received <- s.receive(stdout) }()
	t.Cleanup(func() {
		defer cancel()
		_ = stdin.Close()
		if err := <-received; err != nil {
			t.Error(err)
		}
		if code := <-ended; code != 0 {
			t.Errorf("the process that served ended with %d: %s", code, stderr.String())
		}
	})
	return s
}

type served struct {
	mu    sync.Mutex // of stdin too
	stdin io.Writer
	last  int64
	calls map[int64]*call // not ended yet
}

type call struct {
	stdout, stderr io.Writer
	exit           chan int // -1 when the process ended without an answer
}

// Run asks the process.
func (s *served) Run(_ context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &call{stdout, stderr, make(chan int, 1)}
	if err := s.ask(c, args, stdin); err != nil {
		_, _ = fmt.Fprintln(stderr, "asking the process that serves:", err)
		return -1
	}
	return <-c.exit
}

func (s *served) ask(c *call, args []string, stdin io.Reader) error {
	input, err := io.ReadAll(stdin)
	if err != nil {
		return err
	}
	action := "init"
	if len(args) > 0 {
		action = args[0]
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last++
	line, err := json.Marshal(protocol.ServeRequest{ID: s.last, Action: action, Args: args, Input: json.RawMessage(input)})
	if err != nil {
		return err
	}
	s.calls[s.last] = c
	_, err = s.stdin.Write(append(line, '\n'))
	return err
}

// receive reads the answers until there are no more.
func (s *served) receive(stdout *io.PipeReader) error {
	lines := bufio.NewScanner(stdout)
	lines.Buffer(nil, protocol.MaxAnswer+1)
	var wrong error
	for wrong == nil && lines.Scan() {
		wrong = s.take(lines.Bytes())
	}
	wrong = errors.Join(wrong, lines.Err())
	_ = stdout.CloseWithError(wrong)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.calls {
		c.exit <- -1
	}
	return wrong
}

func (s *served) take(line []byte) error {
	a, err := protocol.DecodeServeAnswer(line)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.calls[a.ID]
	if c == nil {
		return fmt.Errorf("nobody waits for the answer %s", line)
	}
	var text string
	if json.Unmarshal(a.Output, &text) != nil && len(a.Output) > 0 {
		text = string(a.Output) + "\n"
	}
	_, _ = io.WriteString(c.stdout, text)
	_, _ = io.WriteString(c.stderr, a.Stderr)
	if a.Exit != nil {
		delete(s.calls, a.ID)
		c.exit <- *a.Exit
	}
	return nil
}

// SameAnswers asks a process that serves about all resources at once, and
// requires the answers that a run of the type for each alone gives.
func SameAnswers(t *testing.T, process Type, resources []Resource, args ...string) {
	t.Helper()
	atOnce(t, resources, func(r Resource) error { return r.sameAnswer(t.Context(), process, args...) })
}

// LivesServed takes resources of one type through their lives at once, in one
// process that serves them: made, found as configured, removed. Whatever changes
// nothing is also asked of a run for that alone, which must answer the same.
func LivesServed(t *testing.T, resources ...Resource) {
	t.Helper()
	for i := range resources {
		resources[i].Type = resources[0].Type
	}
	process := Served(t, resources[0].Type)
	SameAnswers(t, process, resources)
	SameAnswers(t, process, resources, "no-such-action")
	SameAnswers(t, process, resources, "state", "twice")
	atOnce(t, resources, func(r Resource) error {
		return errors.Join(r.liveServed(t.Context(), process), r.Gone().liveServed(t.Context(), process))
	})
}

// atOnce is for functions that take no part in the test's control flow.
func atOnce(t *testing.T, resources []Resource, do func(Resource) error) {
	t.Helper()
	failed := make([]error, len(resources))
	var all sync.WaitGroup
	for i, r := range resources {
		all.Go(func() { failed[i] = do(r) })
	}
	all.Wait()
	for i, err := range failed {
		if err != nil {
			t.Errorf("resource %d: %v", i, err)
		}
	}
}

// liveServed brings one resource to what is wanted of it.
func (r Resource) liveServed(ctx context.Context, process Type) error {
	if err := r.sameAnswer(ctx, process, "state"); err != nil {
		return err
	}
	answer, err := r.served(ctx, process, nil, "state")
	if err != nil {
		return err
	}
	state, err := protocol.DecodeState([]byte(answer.stdout))
	if err != nil {
		return err
	}
	for _, a := range state.Actions {
		if answer, err = r.served(ctx, process, state.StaleState, a.Args...); err != nil {
			return err
		}
	}
	if answer, err = r.served(ctx, process, nil, "state"); err != nil {
		return err
	}
	if state, err = protocol.DecodeState([]byte(answer.stdout)); err != nil {
		return err
	}
	if state.Status != protocol.Valid {
		return fmt.Errorf("after its actions it is %+v", state)
	}
	return r.sameAnswer(ctx, process, "state")
}

// served asks the process and requires success.
func (r Resource) served(ctx context.Context, process Type, staleState map[string]any, args ...string) (answer, error) {
	r.Type = process
	got, err := r.ask(ctx, staleState, args...)
	if err == nil && got.code != 0 {
		err = fmt.Errorf("%v ended with %d: %s", args, got.code, got.stderr)
	}
	return got, err
}

func (r Resource) sameAnswer(ctx context.Context, process Type, args ...string) error {
	want, err := r.ask(ctx, nil, args...)
	if err != nil {
		return err
	}
	r.Type = process
	got, err := r.ask(ctx, nil, args...)
	if err == nil && got != want {
		err = fmt.Errorf("%v\nserved   %+v\none-shot %+v", args, got, want)
	}
	return err
}
