package authoring

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/crash"
	"github.com/deployster-go/deployster/protocol"
)

// session is a conversation with a process that serves. Its methods are called
// from one goroutine. Errors are about the type, and are failures of a check.
type session struct {
	c      *checker
	cancel context.CancelFunc
	stdin  *io.PipeWriter
	lines  chan []byte   // its stdout
	ended  chan struct{} // closed when it has ended and every line was taken
	exit   engine.Exit   // once it has ended
	err    error         // once it has ended
	stderr tailBuffer    // once it has ended
	last   int64
}

// start starts the process. It has no timeout but that of each answer.
func (c *checker) start(ctx context.Context) (*session, error) {
	spec, err := c.spec(ctx, "serve", *c.init.ServeAction)
	if err != nil {
		return nil, err
	}
	spec.Timeout = 0
	ctx, cancel := context.WithCancel(ctx)
	in, stdin := io.Pipe()
	s := &session{c: c, cancel: cancel, stdin: stdin, lines: make(chan []byte), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		defer func() { _ = in.Close() }()
		defer crash.Catch(&s.err, "running a process that serves")
		s.exit, s.err = c.Engine.Run(ctx, spec, engine.IO{Stdin: in, Stdout: &lineWriter{ctx: ctx, lines: s.lines}, Stderr: &s.stderr})
	}()
	return s, nil
}

// stop kills the process, if there is one and it still runs.
func (s *session) stop() {
	if s != nil {
		s.cancel()
		_ = s.stdin.Close()
		<-s.ended
	}
}

// served is everything that was answered to one request.
type served struct {
	said
	document bool           // stdout is one, and not text
	keep     map[string]any // that is to be kept; nil leaves what is
	stderrs  int            // bytes that went to stderr
	printed  int            // bytes of text that went to both streams
}

// question is what is asked of a process.
type question struct {
	action string
	args   []string
	input  any
}

// ask asks, all at once, and returns the answers in the order of the questions.
func (s *session) ask(ctx context.Context, questions ...question) ([]served, error) {
	var text []byte
	first := s.last + 1
	for _, q := range questions {
		s.last++
		line, err := json.Marshal(protocol.ServeRequest{ID: s.last, Action: q.action, Args: q.args, Input: q.input})
		if err != nil {
			return nil, fmt.Errorf("%w: encoding the request %s: %w", errOurs, q.action, err)
		}
		text = append(append(text, line...), '\n')
	}
	// A process that does not read shows in that it does not answer.
	go func() { _, _ = s.stdin.Write(text) }()
	answers := make([]served, len(questions))
	open := len(questions)
	ended := make([]bool, len(questions))
	for open > 0 {
		line, err := s.next(ctx, "did not answer "+questions[slices.Index(ended, false)].action)
		if err != nil {
			return nil, err
		}
		if line == nil {
			return nil, s.endedEarly()
		}
		a, err := protocol.DecodeServeAnswer(line)
		if err != nil {
			return nil, fmt.Errorf("the process that serves: %s; only lines like {\"id\": 1, \"exit\": 0, \"output\": …} belong on its stdout", s.c.explain(decodeServed, line))
		}
		i := int(a.ID - first)
		switch {
		case a.ID > s.last:
			return nil, fmt.Errorf("request %d was answered, which was never asked; received %s; answer with the id of the request", a.ID, received(s.c.hide(line)))
		case i < 0 || ended[i]:
			return nil, again(a.ID, s.c.hide(line))
		}
		answers[i].add(a)
		if answers[i].printed > mostPrinted {
			return nil, s.c.flooded(questions[i].action, append(answers[i].stdout, answers[i].stderr...))
		}
		if a.Exit != nil {
			ended[i] = true
			open--
		}
	}
	return answers, nil
}

func again(id int64, line []byte) error {
	return fmt.Errorf("request %d was answered again; received %s; the line with exit must be its last", id, received(line))
}

func decodeServed(line []byte) error {
	_, err := protocol.DecodeServeAnswer(line)
	return err
}

func (a *served) add(line protocol.ServeAnswer) {
	var text string
	if json.Unmarshal(line.Output, &text) == nil {
		kept := tailBuffer{data: a.stdout}
		_, _ = kept.Write([]byte(text))
		a.stdout = kept.data
		a.printed += len(text)
	} else if len(line.Output) > 0 {
		a.stdout, a.document = line.Output, true
	}
	kept := tailBuffer{data: a.stderr}
	_, _ = kept.Write([]byte(line.Stderr))
	a.stderr = kept.data
	a.stderrs += len(line.Stderr)
	a.printed += len(line.Stderr)
	a.flood, a.keep = flood(a.stderrs), line.Keep
	if line.Exit != nil {
		a.exit.Code = *line.Exit
	}
}

// next waits for a line; nil means that the process has ended.
func (s *session) next(ctx context.Context, failure string) ([]byte, error) {
	late := time.NewTimer(s.c.Timeout)
	defer late.Stop()
	select {
	case line := <-s.lines:
		return line, nil
	case <-s.ended:
		switch {
		case errors.Is(s.err, errTooMuch):
			return nil, fmt.Errorf("the process that serves wrote %w on one line; an answer is one JSON document and a line end", errTooMuch)
		case s.err != nil:
			return nil, fmt.Errorf("serve could not be run: %w", s.err)
		}
		return nil, nil
	case <-late.C:
		return nil, fmt.Errorf("the process that serves %s within %s; where it needs longer, --timeout gives it more", failure, s.c.Timeout)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *session) endedEarly() error {
	said := "it wrote nothing to stderr (say there why)"
	if len(s.stderr.data) > 0 {
		said = s.c.errorText(s.stderr.data)
	}
	return fmt.Errorf("the process that serves %s before it had answered; %s; it must go on until its stdin ends", s.exit, said)
}

// lineWriter hands on whole lines, without their ends, and refuses one that is
// too long.
type lineWriter struct {
	ctx   context.Context
	lines chan<- []byte
	rest  []byte
}

func (w *lineWriter) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part, whole := p[n:], false
		if i := bytes.IndexByte(part, '\n'); i >= 0 {
			part, whole = part[:i], true
		}
		if len(w.rest)+len(part) > protocol.MaxAnswer {
			return n, errTooMuch
		}
		w.rest = append(w.rest, part...)
		n += len(part)
		if !whole {
			break
		}
		n++
		select {
		case w.lines <- w.rest:
			w.rest = nil
		case <-w.ctx.Done():
			return n, context.Cause(w.ctx)
		}
	}
	return n, nil
}
