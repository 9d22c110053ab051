package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
)

// The labels that every container carries, so that one that outlived its run
// can be found and judged.
const (
	LabelLog      = "deployster.log"      // id of the deployment log of the run
	LabelRun      = "deployster.run"      // ULID of the run
	LabelResource = "deployster.resource" // name in the manifest
	LabelAction   = "deployster.action"   // "init", "state" or the action's name
	LabelAttempt  = "deployster.attempt"  // of the action, from 1
	LabelKind     = "deployster.kind"     // KindObserve or KindAct
)

// The values of LabelKind. What only observes may be stopped and run again at
// any time; what acts must be let finish. An action may well be called "init".
const (
	KindObserve = "observe"
	KindAct     = "act"
)

// workTarget is where a container finds its work directory, whatever user it
// runs as: outside the workspace, whose directories may be closed to it.
const workTarget = "/var/lib/deployster/work"

// call is one container run for a resource.
type call struct {
	action     string // "init", "state" or the action's name
	attempt    int
	invocation protocol.Invocation
	input      any
	answers    bool                // stdout is an answer to be decoded, rather than text to be shown
	learn      func(answer []byte) // may be nil; finds the secrets in an answer before any of it is kept
}

// result is what came of a call. It is there, as far as it goes, also when the
// call failed.
type result struct {
	exit     engine.Exit
	answer   []byte
	tail     []string // last lines, masked
	duration time.Duration
}

// run runs one container. A non-zero exit is not an error here.
func (r *Runner) run(ctx context.Context, res *resource, c call) (result, error) {
	image := res.image
	if c.invocation.Image != "" && c.invocation.Image != res.Type {
		var err error
		if image, err = r.imageFor(ctx, res, c.invocation.Image); err != nil {
			return result{}, err
		}
	}
	input, err := json.Marshal(c.input)
	if err != nil {
		return result{}, fmt.Errorf("encoding the input of %s: %w", c.action, err)
	}
	res.invocations++
	dir := filepath.Join(res.dir, fmt.Sprintf("%02d-%s", res.invocations, fileName(c.action)))
	work := filepath.Join(dir, "work")
	if err := errors.Join(os.MkdirAll(work, 0o700), openToAll(work)); err != nil {
		return result{}, fmt.Errorf("making the work directory of %s: %w", c.action, err)
	}
	if err := r.keepInput(dir, res, input); err != nil {
		return result{}, err
	}

	var got result
	var said tail
	stdout, stderr := newTranscript(filepath.Join(dir, "stdout")), newTranscript(filepath.Join(dir, "stderr"))
	show := func(stream string, keep *transcript) *lines {
		return &lines{secrets: &r.secrets, each: func(line string) {
			keep.write(line + "\n")
			said.add(line)
			r.show(Event{Kind: Line, Time: r.Now(), Resource: res.Name, Action: c.action, Attempt: c.attempt, Stream: stream, Text: line})
		}}
	}
	var answered answer
	out, errOut := show("stdout", stdout), show("stderr", stderr)
	streams := engine.IO{Stdin: bytes.NewReader(input), Stdout: io.Writer(out), Stderr: errOut}
	if c.answers {
		streams.Stdout = &answered
	}

	r.tell(Working, res.Name, c.action, "")
	started := r.Now()
	got.exit, err = r.Engine.Run(ctx, r.spec(res, c, image, work), streams)
	got.duration = r.Now().Sub(started)
	out.flush()
	errOut.flush()
	got.answer, got.tail = answered.Bytes(), said.last
	if c.learn != nil {
		c.learn(got.answer)
	}
	if c.answers {
		stdout.write(r.secrets.mask(answered.String()))
	}
	if kept := errors.Join(stdout.close(), stderr.close()); kept != nil {
		r.tell(Warning, res.Name, c.action, fmt.Sprintf("output was not kept: %v", kept))
	}
	if err != nil {
		return got, r.interrupted(ctx, explain(err, c, image))
	}
	return got, nil
}

// explain puts an engine's error into the terms of the protocol.
func explain(err error, c call, image engine.Image) error {
	switch {
	case errors.Is(err, errTooMuch):
		return fmt.Errorf("the answer of %s has %w; it must be one JSON document", c.action, errTooMuch)
	default:
		return fmt.Errorf("%s: %w", c.action, &namedError{strings.ReplaceAll(err.Error(), image.ID, image.Ref), err})
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

func (r *Runner) spec(res *resource, c call, image engine.Image, work string) engine.Spec {
	kind := KindAct
	if c.answers {
		kind = KindObserve
	}
	spec := engine.Spec{
		Image:      image.ID,
		Entrypoint: c.invocation.Entrypoint,
		Args:       c.invocation.Args,
		Mounts:     res.mounts,
		Network:    r.Network,
		Timeout:    res.Timeout,
		Labels: map[string]string{
			LabelLog: r.Log, LabelRun: r.Run, LabelResource: res.Name,
			LabelAction: c.action, LabelAttempt: strconv.Itoa(c.attempt), LabelKind: kind,
		},
	}
	if spec.Timeout == 0 {
		spec.Timeout = DefaultTimeout
	}
	if !r.Remote {
		spec.WorkDir = r.Workspace
		spec.Env = []string{"DEPLOYSTER_WORKSPACE=" + r.Workspace, "DEPLOYSTER_WORK=" + workTarget}
		spec.Mounts = append([]engine.Mount{
			{Source: r.Workspace, Target: r.Workspace, ReadOnly: true},
			{Source: work, Target: workTarget},
		}, res.mounts...)
	}
	return spec
}

// keepInput writes down what a container is given, without secrets.
func (r *Runner) keepInput(dir string, res *resource, input []byte) error {
	var document map[string]any
	if err := json.Unmarshal(input, &document); err != nil {
		return fmt.Errorf("reading back the input: %w", err)
	}
	for _, part := range []string{"config", "staleState"} {
		if value, ok := document[part]; ok {
			document[part] = res.hidden.blank(value)
		}
	}
	blanked, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the input for the record: %w", err)
	}
	path := filepath.Join(dir, "stdin.json")
	if err := os.WriteFile(path, []byte(r.secrets.mask(string(blanked))+"\n"), 0o600); err != nil {
		return fmt.Errorf("keeping the input: %w", err)
	}
	return nil
}

// openToAll lets any user of a container write into a directory; on this
// machine its parents keep others out.
func openToAll(dir string) error {
	return os.Chmod(dir, 0o777) //nolint:gosec // see above
}

// exitText describes a container's end in a sentence's tail.
func exitText(e engine.Exit) string {
	text := fmt.Sprintf("exited with %d", e.Code)
	if e.Code > 128 && e.Code < 128+65 {
		text += fmt.Sprintf(" (%s)", syscall.Signal(e.Code-128))
	}
	if e.OOMKilled {
		text += ", out of memory"
	}
	return text
}

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
