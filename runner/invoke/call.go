package invoke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
)

// Call is one question to a resource type, or one of its actions.
type Call struct {
	Action     string // "init", "state" or the action's name, made unique
	TypeAction string // what the type calls it; "" is Action
	Attempt    int
	Invocation protocol.Invocation
	Input      any                 // a protocol.InitInput, StateInput or ActionInput
	Answers    bool                // stdout is an answer to be decoded, rather than text to be shown
	Learn      func(answer []byte) // may be nil; finds the secrets in an answer before any of it is kept
	Keeps      bool                // an action may have something kept of the resource
	Discreet   bool                // what is kept of the resource may be secret: transcripts do not show it
}

// Result is what a call printed, and how it ended. It is there, as far as it goes,
// also when the call failed.
type Result struct {
	Exit     engine.Exit
	Answer   []byte
	Tail     Tail // masked
	Duration time.Duration
	Keep     map[string]any // what an action has kept; nil leaves what is kept
	BadKeep  error          // why what it wants kept cannot be
	Asked    Asked          // of a question whose transcript is not kept: by it, the question can be asked again
}

// pendingCall is a call that is being made: what it is given, and what is collected
// of its output.
type pendingCall struct {
	Call
	resource string
	image    engine.Image
	timeout  time.Duration
	path     string // begins those of its files
	stdin    []byte

	inputSize int64 // of the file that keeps it

	tail           Tail
	answer         answer
	keeping        *keepLines // nil where an action has nothing kept
	keep           map[string]any
	said           lineOf        // by what answered it, if that serves
	transcripts    [2]transcript // of stdout and stderr
	stdout, stderr io.Writer
	flush          func()
}

// Call makes one call. A non-zero exit is not an error here, and a panic is one: so
// whoever recorded that a call begins records how it ended, whatever happens.
func (v *Invoker) Call(ctx context.Context, t *Target, c Call) (got Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %w", c.Action, v.panics.Recovered(p, "calling "+t.Type+" for "+t.Name))
		}
	}()
	if !c.Answers {
		defer v.servers.acted.Add(1)
	}
	input, err := json.Marshal(c.Input)
	if err != nil {
		return Result{}, fmt.Errorf("encoding the input of %s: %w", c.Action, err)
	}
	next := t.Next
	t.Next = nil
	if p := t.takePrepared(c, input); p != nil {
		ended := false
		defer func() {
			if !ended { // or it would wait to start for ever, and the run for it
				p.discard()
				<-p.ended
			}
		}()
		return v.collect(ctx, p.pendingCall, func(ctx context.Context) (engine.Exit, error) {
			p.start()
			v.prepare(ctx, t, next)
			exit, err := p.wait(ctx)
			ended = true
			return exit, err
		})
	}
	p, err := v.newCall(ctx, t, c, input)
	if err != nil {
		return Result{}, err
	}
	var by *server
	defer func() {
		if by != nil && v.containers.Forget && err == nil && got.Exit.Code == 0 {
			got.Asked = by.asked(p, got.Answer)
		}
	}()
	return v.collect(ctx, p, func(ctx context.Context) (engine.Exit, error) {
		if s := t.serverFor(c); s != nil && len(input) <= maxServedInput {
			if exit, sent, err := v.serve(ctx, s, p); sent {
				by = s
				return exit, err
			}
		}
		v.prepare(ctx, t, next)
		return v.container(ctx, t, p, nil)
	})
}

// newCall makes a call ready, down to the file that keeps its input.
func (v *Invoker) newCall(ctx context.Context, t *Target, c Call, input []byte) (*pendingCall, error) {
	image := t.Image
	if !t.runsOwnImage(c.Invocation) {
		var err error
		if image, err = v.Image(ctx, t.Name, c.Invocation.Image); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(v.containers.Work, t.Name, t.Apart)
	if t.calls == 0 && !v.containers.Forget {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("making a directory for %s: %w", t.Name, err)
		}
	}
	t.calls++
	path := filepath.Join(dir, fmt.Sprintf("%02d-%s", t.calls, fileName(c.Action)))
	p := &pendingCall{Call: c, resource: t.Name, image: image, timeout: t.Timeout, path: path, stdin: input}
	if p.timeout == 0 {
		p.timeout = DefaultTimeout
	}
	if err := v.keepInput(t, p); err != nil {
		return nil, fmt.Errorf("keeping the input of %s: %w", c.Action, err)
	}
	p.transcripts[0].path, p.transcripts[1].path = v.kept(path+".stdout"), v.kept(path+stderrSuffix)
	out, errOut := v.lines(p, "stdout", &p.transcripts[0]), v.lines(p, "stderr", &p.transcripts[1])
	p.stdout, p.stderr = out, errOut
	switch {
	case c.Answers:
		p.stdout = &p.answer
	case c.Keeps:
		p.keeping = &keepLines{to: out, discreet: c.Discreet}
		p.stdout = p.keeping
	}
	p.flush = func() { out.flush(); errOut.flush() }
	return p, nil
}

// lines shows and keeps what a stream of a call says.
func (v *Invoker) lines(p *pendingCall, stream string, keep *transcript) *lines {
	line := Line{Resource: p.resource, Action: p.Action, Attempt: p.Attempt, Stream: stream, File: keep.path}
	if rel, err := filepath.Rel(v.containers.Workspace, keep.path); err == nil && filepath.IsLocal(rel) {
		line.File = rel
	}
	return &lines{secrets: v.secrets, each: func(text string) {
		keep.write(text + "\n")
		p.tail.add(stream, text)
		shown := line
		shown.Text = text
		v.observer.Output(shown)
	}}
}

// collect has a call made and puts together its result.
func (v *Invoker) collect(ctx context.Context, p *pendingCall, run func(context.Context) (engine.Exit, error)) (Result, error) {
	v.observer.Calling(p.resource, p.Action)
	var got Result
	var err error
	started := v.containers.Now()
	got.Exit, err = run(ctx)
	got.Duration = v.containers.Now().Sub(started)
	if got.Keep = p.keep; p.keeping != nil && got.Keep == nil {
		got.Keep, got.BadKeep = p.keeping.end()
	}
	if panicked := v.panics.Try("showing the output of "+p.resource, func() error { p.flush(); return nil }); err == nil {
		err = panicked
	}
	got.Answer, got.Tail = p.answer.Bytes(), p.tail
	if p.Learn != nil {
		p.Learn(got.Answer)
	}
	if p.Answers {
		p.transcripts[0].write(v.secrets.Mask(string(v.discreet(got.Answer, p.Discreet, "keep"))))
	}
	if kept := errors.Join(p.transcripts[0].close(), p.transcripts[1].close()); kept != nil {
		v.observer.Warn(p.resource, p.Action, fmt.Sprintf("output was not kept: %v", kept))
	}
	v.count(p)
	if err != nil {
		return got, v.containers.Stop.Interrupted(ctx, explain(err, p))
	}
	return got, nil
}

// explain puts an engine's error into the terms of the protocol.
func explain(err error, p *pendingCall) error {
	switch {
	case errors.Is(err, errTooMuch):
		return fmt.Errorf("the answer of %s has %w; it must be one JSON document", p.Action, errTooMuch)
	default:
		return fmt.Errorf("%s: %w", p.Action, &namedError{strings.ReplaceAll(err.Error(), p.image.ID, p.image.Ref), err})
	}
}

// namedError is an engine's error that calls an image as the manifest does,
// and not by the id that the engine was given.
type namedError struct {
	text string
	err  error
}

func (e *namedError) Error() string { return e.text }
func (e *namedError) Unwrap() error { return e.err }

// fileName makes an action's name usable as a file name.
func fileName(action string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
			return c
		default:
			return '_'
		}
	}, action[:min(len(action), 60)])
}
