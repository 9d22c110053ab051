package protocol

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// serveAction is the argument with which a Type serves.
const serveAction = "serve"

// maxServed is how many requests a process works on at a time; more of them wait
// to be read. Each may hold a thread, and containers may have only so many.
const maxServed = 128

// program is what a process runs: a Type, or Several of them.
type program interface {
	// invoke handles one invocation, as a container of its own would, and returns the exit code.
	invoke(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// runProgram runs a program once, or for as long as it serves.
func runProgram(ctx context.Context, p program, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	if len(args) != 1 || args[0] != serveAction {
		return p.invoke(ctx, args, stdin, stdout, stderr)
	}
	if err := serve(ctx, p, stdin, stdout); err != nil {
		_, _ = fmt.Fprintln(stderr, "error:", oneLine(err.Error()))
		return 1
	}
	return 0
}

// serve answers requests until stdin ends or ctx is cancelled, and returns when
// everything that was begun is done. A line that is not a request ends it, because
// there is no id to answer.
func serve(ctx context.Context, p program, stdin io.Reader, stdout io.Writer) error {
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	answers := &answerWriter{w: stdout, failed: stop}
	var running sync.WaitGroup
	slots := make(chan struct{}, maxServed)
	err := eachRequest(reading, stdin, func(id int64, args []string, input []byte) {
		select {
		case slots <- struct{}{}:
		case <-reading.Done():
			return
		}
		running.Go(func() {
			answerRequest(ctx, p, answers, id, args, input)
			<-slots
		})
	})
	running.Wait()
	if err != nil {
		return err
	}
	return context.Cause(reading)
}

// eachRequest calls do with every request, until stdin ends or ctx is cancelled.
// Stdin is read in a goroutine, which a read that never returns keeps: nothing
// else interrupts it.
func eachRequest(ctx context.Context, stdin io.Reader, do func(id int64, args []string, input []byte)) error {
	lines, ended := make(chan []byte), make(chan error, 1)
	go func() {
		own := polled(stdin)
		defer own.Close() //nolint:errcheck // it was only read
		s := bufio.NewScanner(own)
		s.Buffer(nil, MaxRequest+1)
		for s.Scan() {
			select {
			case lines <- bytes.Clone(s.Bytes()):
			case <-ctx.Done():
				return
			}
		}
		ended <- s.Err()
	}()
	for number := 1; ; number++ {
		select {
		case line := <-lines:
			id, args, input, err := decodeServeRequest(line)
			if err != nil {
				return fmt.Errorf("line %d of stdin is not a request: %w", number, err)
			}
			do(id, args, input)
		case err := <-ended:
			if errors.Is(err, bufio.ErrTooLong) {
				return fmt.Errorf("line %d of stdin has more than %d bytes", number, MaxRequest)
			}
			if err != nil {
				return fmt.Errorf("reading stdin: %w", err)
			}
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// decodeServeRequest reads a ServeRequest and leaves its input as it is. No
// error repeats the line: there may be secrets in it. Unknown members are
// ignored, as in every input.
func decodeServeRequest(line []byte) (id int64, args []string, input []byte, err error) {
	var request struct {
		ID    int64           `json:"id"`
		Args  []string        `json:"args"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(line, &request); err != nil {
		return 0, nil, nil, err
	}
	if request.ID < 1 {
		return 0, nil, nil, errors.New(`"id" must be a whole number from 1`)
	}
	return request.ID, request.Args, request.Input, nil
}

// answerRequest handles one request exactly as a process of its own would.
func answerRequest(ctx context.Context, p program, answers *answerWriter, id int64, args []string, input []byte) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // a process of its own would end here
	if len(args) > 0 && args[0] != "state" {
		output := &actionOutput{id: id, answers: answers}
		stdout, stderr := &stream{actionOutput: output}, &stream{actionOutput: output, stderr: true}
		code := p.invoke(ctx, args, bytes.NewReader(input), stdout, stderr)
		output.end()
		answers.send(ServeAnswer{ID: id, Exit: &code, Output: jsonText(stdout.pending), Stderr: string(stderr.pending), Keep: stdout.keep})
		return
	}
	var document bytes.Buffer // complete or empty, and not larger than an answer may be
	stderr := &tail{}
	code := p.invoke(ctx, args, bytes.NewReader(input), &document, stderr)
	answers.send(ServeAnswer{ID: id, Exit: &code, Output: document.Bytes(), Stderr: stderr.String()})
}

// jsonText is text as a JSON string; nil when there is none.
func jsonText(text []byte) json.RawMessage {
	if len(text) == 0 {
		return nil
	}
	encoded, _ := json.Marshal(string(text)) // text can be encoded
	return encoded
}

// answerWriter writes one line at a time. When that fails there is no way to
// report it to the client, and failed is called.
type answerWriter struct {
	mu     sync.Mutex
	w      io.Writer
	failed context.CancelCauseFunc
}

func (w *answerWriter) send(a ServeAnswer) {
	line, err := json.Marshal(a)
	if err == nil && len(line) > MaxAnswer {
		err = fmt.Errorf("the answer and the output with it are larger than %d bytes", MaxAnswer)
	}
	if err != nil { // of this request only
		code := 1
		line, _ = json.Marshal(ServeAnswer{ID: a.ID, Exit: &code, Stderr: "error: " + err.Error() + "\n"})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.w.Write(append(line, '\n')); err != nil {
		w.failed(fmt.Errorf("writing an answer: %w", err))
	}
}
