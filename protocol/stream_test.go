package protocol

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// talk is a conversation with a process, line by line.
type talk struct {
	stdin   *io.PipeWriter
	answers *bufio.Scanner
	ended   chan int
	stderr  bytes.Buffer
}

func start(ctx context.Context, typ Type[script]) *talk {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	s := &talk{stdin: stdin, answers: bufio.NewScanner(stdout), ended: make(chan int, 1)}
	go func() {
		s.ended <- typ.Run(ctx, []string{"serve"}, in, out, &s.stderr)
		_ = out.Close()
	}()
	return s
}

func (s *talk) ask(t testing.TB, text string) {
	if _, err := io.WriteString(s.stdin, text); err != nil {
		t.Fatal(err)
	}
}

func (s *talk) hear(t testing.TB) ServeAnswer {
	if !s.answers.Scan() {
		t.Fatalf("it ended: %v", s.answers.Err())
	}
	a, err := DecodeServeAnswer(s.answers.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestLinesOfAnActionAreSentAtOnce(t *testing.T) {
	meet := make(chan struct{})
	s := start(t.Context(), obedient(meet, nil))
	s.ask(t, line(t, 1, script{Say: "first\nsecond\nrest", Wait: true}, "act"))
	if a := s.hear(t); a.Exit != nil || string(a.Output) != `"first\nsecond\n"` {
		t.Errorf("while it runs: %+v", a)
	}
	s.ask(t, line(t, 2, script{Say: "careful\n", Wait: true}, "warn"))
	if a := s.hear(t); a.ID != 2 || a.Exit != nil || a.Stderr != "careful\n" || a.Output != nil {
		t.Errorf("a warning: %+v", a)
	}
	for range 2 {
		a := s.hear(t)
		if a.Exit == nil || *a.Exit != 0 || a.ID == 1 && string(a.Output) != `"rest"` {
			t.Errorf("at the end: %+v", a)
		}
	}
	_ = s.stdin.Close()
	if code := <-s.ended; code != 0 {
		t.Errorf("ended with %d: %s", code, s.stderr.String())
	}
}

func TestWhatWasAskedIsFinishedWhenStdinEnds(t *testing.T) {
	meet := make(chan struct{})
	s := start(t.Context(), obedient(meet, nil))
	s.ask(t, line(t, 1, script{Wait: true}, "act"))
	_ = s.stdin.Close()
	<-meet
	if a := s.hear(t); *a.Exit != 0 {
		t.Errorf("%+v", a)
	}
	if code := <-s.ended; code != 0 {
		t.Errorf("ended with %d: %s", code, s.stderr.String())
	}
}

func TestCancelledServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := start(ctx, obedient(make(chan struct{}), nil))
		s.ask(t, line(t, 1, script{Wait: true}, "act"))
		synctest.Wait()
		cancel(errors.New("enough"))
		if a := s.hear(t); a.Exit != nil || a.Stderr != "error: enough\n" {
			t.Errorf("what it says: %+v", a)
		}
		if a := s.hear(t); a.Exit == nil || *a.Exit != 1 {
			t.Errorf("how it ends: %+v", a)
		}
		if code := <-s.ended; code != 1 || s.stderr.String() != "error: enough\n" {
			t.Errorf("ended with %d: %s", code, s.stderr.String())
		}
		_ = s.stdin.Close()
	})
}

func TestNobodyReadsTheAnswers(t *testing.T) {
	var errs bytes.Buffer
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	_ = stdout.CloseWithError(errors.New("gone"))
	go func() { _, _ = io.WriteString(stdin, line(t, 1, script{}, "state")) }() // and stdin stays open
	if code := obedient(nil, nil).Run(t.Context(), []string{"serve"}, in, out, &errs); code != 1 || errs.String() != "error: writing an answer: gone\n" {
		t.Errorf("ended with %d: %s", code, errs.String())
	}
	_ = stdin.Close()
}

func TestNothingFollowsTheLastAnswer(t *testing.T) {
	meet, late := make(chan struct{}), make(chan error, 1)
	s := start(t.Context(), obedient(meet, late))
	s.ask(t, line(t, 1, script{Leak: true}, "act"))
	if a := s.hear(t); a.Exit == nil {
		t.Fatalf("%+v", a)
	}
	close(meet)
	if err := <-late; !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("printing after the end gave %v", err)
	}
	_ = s.stdin.Close()
	if s.answers.Scan() {
		t.Errorf("after the end came %s", s.answers.Text())
	}
	<-s.ended
}

// Whatever is printed, in whatever pieces, arrives; what is kept is bounded.
func TestPrintedTextArrivesWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		p := &stream{actionOutput: &actionOutput{id: 1, answers: &answerWriter{w: &out}}}
		piece := rapid.OneOf(rapid.String(), rapid.Just("\n"), rapid.Map(rapid.IntRange(0, 3*maxText), func(n int) string { return strings.Repeat("ü", n/2) }))
		said := strings.Join(rapid.SliceOfN(piece, 0, 4).Draw(t, "pieces"), "")
		for rest := []byte(said); len(rest) > 0; {
			n := min(len(rest), rapid.IntRange(1, 2*maxText).Draw(t, "written"))
			if m, err := p.Write(rest[:n]); m != n || err != nil {
				t.Fatal(m, err)
			}
			if len(p.pending) >= maxText {
				t.Fatalf("%d bytes are kept", len(p.pending))
			}
			rest = rest[n:]
		}
		var got strings.Builder
		for text := range strings.Lines(out.String()) {
			a, err := DecodeServeAnswer([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			var part string
			if err := json.Unmarshal(a.Output, &part); err != nil {
				t.Fatal(err)
			}
			got.WriteString(part)
		}
		got.Write(p.pending)
		if got.String() != said {
			t.Fatalf("said %d bytes, %d arrived", len(said), got.Len())
		}
	})
}

func TestTheEndOfWhatStateSaysIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e tail
		said := ""
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 2*maxText), 0, 6).Draw(t, "writes") {
			part := strings.Repeat("aü", n/3)
			said += part
			if m, err := e.Write([]byte(part)); m != len(part) || err != nil {
				t.Fatal(m, err)
			}
			if len(e.text) > 3*maxText {
				t.Fatalf("%d bytes are kept", len(e.text))
			}
		}
		got := e.String()
		if !strings.HasSuffix(said, got) || len(got) < min(len(said), maxText-utf8.UTFMax) || len(got) > maxText || !utf8.ValidString(got) {
			t.Fatalf("of %d bytes %d are kept", len(said), len(got))
		}
	})
}
