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

// The labels that containers carry, so that one that outlived its run can be
// found and judged. One that serves belongs to no resource: it has no others
// than those of log, run and kind.
const (
	LabelLog      = "deployster.log"      // id of the deployment log of the run
	LabelRun      = "deployster.run"      // ULID of the run
	LabelResource = "deployster.resource" // name in the manifest; see Placed
	LabelAction   = "deployster.action"   // "init", "state" or the action's name
	LabelAttempt  = "deployster.attempt"  // of the action, from 1
	LabelKind     = "deployster.kind"     // KindObserve, KindAct or KindServe
)

// The values of LabelKind. What only observes may be stopped and run again at
// any time; what acts must be let finish; what serves does either, as it is
// asked. An action may well be called "init".
const (
	KindObserve = "observe"
	KindAct     = "act"
	KindServe   = "serve"
)

// workTarget is where a container finds its work directory, whatever user it
// runs as: outside the workspace, whose directories may be closed to it.
const workTarget = "/var/lib/deployster/work"

// The endings of what is kept of a call, besides those of its output.
const (
	inputEnding = ".stdin.json"
	workEnding  = ".work" // the container's work directory
)

// call is one question to a resource type. It takes a container of its own, or
// goes to a process that serves many.
type call struct {
	action     string // "init", "state" or the action's name, made unique
	asked      string // what the type calls it; "" is action
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
	tail     tail // masked
	duration time.Duration
}

// calling is a call on its way: what it is given, and what is collected of its
// output.
type calling struct {
	call
	resource string
	image    engine.Image
	timeout  time.Duration
	path     string // begins those of its files
	stdin    []byte

	said           tail
	answered       answer
	kept           [2]transcript // stdout, stderr
	stdout, stderr io.Writer
	flush          func()
}

// run makes one call. A non-zero exit is not an error here, and a panic is one: so
// whoever recorded that a call begins records how it ended, whatever happens.
func (r *Runner) run(ctx context.Context, res *resource, c call) (got result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%s: %w", c.action, r.panicked(p, "calling "+res.Type+" for "+res.Name))
		}
	}()
	input, err := json.Marshal(c.input)
	if err != nil {
		return result{}, fmt.Errorf("encoding the input of %s: %w", c.action, err)
	}
	next := res.next
	res.next = nil
	if a := res.take(c, input); a != nil {
		ended := false
		defer func() {
			if !ended { // or it would wait for its turn for ever, and the run for it
				a.discard()
				<-a.ended
			}
		}()
		return r.complete(ctx, a.calling, func(ctx context.Context) (engine.Exit, error) {
			a.begin()
			r.hold(ctx, res, next)
			exit, err := a.wait(ctx)
			ended = true
			return exit, err
		})
	}
	i, err := r.invoke(ctx, res, c, input)
	if err != nil {
		return result{}, err
	}
	return r.complete(ctx, i, func(ctx context.Context) (engine.Exit, error) {
		if s := res.servedBy(c); s != nil && len(input) <= mostServed {
			if exit, asked, err := r.served(ctx, s, i); asked {
				return exit, err
			}
		}
		r.hold(ctx, res, next)
		return r.container(ctx, res, i, nil)
	})
}

// invoke prepares a call, down to the file that keeps its input.
func (r *Runner) invoke(ctx context.Context, res *resource, c call, input []byte) (*calling, error) {
	image := res.image
	if !res.runsOwn(c.invocation) {
		var err error
		if image, err = r.imageFor(ctx, res.Name, c.invocation.Image); err != nil {
			return nil, err
		}
	}
	if res.invocations == 0 {
		if err := os.MkdirAll(res.dir, 0o700); err != nil {
			return nil, fmt.Errorf("making a directory for %s: %w", res.Name, err)
		}
	}
	res.invocations++
	path := filepath.Join(res.dir, fmt.Sprintf("%02d-%s", res.invocations, fileName(c.action)))
	i := &calling{call: c, resource: res.Name, image: image, timeout: res.Timeout, path: path, stdin: input}
	if i.timeout == 0 {
		i.timeout = DefaultTimeout
	}
	if err := r.keepInput(res, i); err != nil {
		return nil, fmt.Errorf("keeping the input of %s: %w", c.action, err)
	}
	i.kept[0].path, i.kept[1].path = path+".stdout", path+".stderr"
	show := func(stream string, keep *transcript) *lines {
		file := keep.path
		if rel, err := filepath.Rel(r.containers.Workspace, file); err == nil && filepath.IsLocal(rel) {
			file = rel
		}
		return &lines{secrets: &r.secrets, each: func(line string) {
			keep.write(line + "\n")
			i.said.add(stream, line)
			r.show(Event{Kind: Line, Time: r.now(), Resource: res.Name, Action: c.action, Attempt: c.attempt, Stream: stream, Text: line, File: file})
		}}
	}
	out, errOut := show("stdout", &i.kept[0]), show("stderr", &i.kept[1])
	i.stdout, i.stderr = out, errOut
	if c.answers {
		i.stdout = &i.answered
	}
	i.flush = func() { out.flush(); errOut.flush() }
	return i, nil
}

// complete has a call made and puts together what came of it.
func (r *Runner) complete(ctx context.Context, i *calling, run func(context.Context) (engine.Exit, error)) (result, error) {
	r.tell(Working, i.resource, i.action, "")
	var got result
	var err error
	started := r.now()
	got.exit, err = run(ctx)
	got.duration = r.now().Sub(started)
	if panicked := r.try("showing what "+i.resource+" said", func() error { i.flush(); return nil }); err == nil {
		err = panicked
	}
	got.answer, got.tail = i.answered.Bytes(), i.said
	if i.learn != nil {
		i.learn(got.answer)
	}
	if i.answers {
		i.kept[0].write(r.secrets.mask(string(got.answer)))
	}
	if kept := errors.Join(i.kept[0].close(), i.kept[1].close()); kept != nil {
		r.tell(Warning, i.resource, i.action, fmt.Sprintf("output was not kept: %v", kept))
	}
	if err != nil {
		return got, r.interrupted(ctx, explain(err, i))
	}
	return got, nil
}

// container makes a call by running a container for it, which begins when hold
// is closed, if there is one.
func (r *Runner) container(ctx context.Context, res *resource, i *calling, hold <-chan struct{}) (engine.Exit, error) {
	spec, err := r.containerSpec(res, i)
	if err != nil {
		return engine.Exit{}, err
	}
	spec.Hold, spec.Whole = hold, true
	return r.engineRun(ctx, spec, engine.IO{Stdin: bytes.NewReader(i.stdin), Stdout: i.stdout, Stderr: i.stderr})
}

// explain puts an engine's error into the terms of the protocol.
func explain(err error, i *calling) error {
	switch {
	case errors.Is(err, errTooMuch):
		return fmt.Errorf("the answer of %s has %w; it must be one JSON document", i.action, errTooMuch)
	default:
		return fmt.Errorf("%s: %w", i.action, &namedError{strings.ReplaceAll(err.Error(), i.image.ID, i.image.Ref), err})
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

// containerSpec is the container for one call.
func (r *Runner) containerSpec(res *resource, i *calling) (engine.Spec, error) {
	spec, err := r.plainSpec(i.invocation, i.image, res.mounts, i.path)
	spec.Timeout = i.timeout
	spec.Labels[LabelResource], spec.Labels[LabelAction] = Placed(i.resource, r.containers.Place), i.action
	spec.Labels[LabelAttempt], spec.Labels[LabelKind] = strconv.Itoa(i.attempt), KindAct
	if i.answers {
		spec.Labels[LabelKind] = KindObserve
	}
	return spec, err
}

// plainSpec is what the containers of a run have in common. path begins that of
// the container's work directory, which is made.
func (r *Runner) plainSpec(run protocol.Invocation, image engine.Image, plugs []engine.Mount, path string) (engine.Spec, error) {
	spec := engine.Spec{
		Image: image.ID, Entrypoint: run.Entrypoint, Args: run.Args, Mounts: plugs, Network: r.containers.Network, Memory: r.containers.Memory, Pids: r.containers.Pids,
		Labels: map[string]string{LabelLog: r.containers.Log, LabelRun: r.containers.Run},
	}
	if r.containers.Remote {
		return spec, nil
	}
	// One that appears while the container runs would be seen.
	if err := os.MkdirAll(r.stateDir(), 0o700); err != nil {
		return spec, fmt.Errorf("making the directory that no type sees: %w", err)
	}
	work := path + workEnding
	if err := errors.Join(os.MkdirAll(work, 0o700), openToAll(work)); err != nil {
		return spec, fmt.Errorf("making a work directory: %w", err)
	}
	spec.WorkDir = r.containers.Workspace
	spec.Env = []string{"DEPLOYSTER_WORKSPACE=" + r.containers.Workspace, "DEPLOYSTER_WORK=" + workTarget}
	spec.Mounts = append([]engine.Mount{
		{Source: r.containers.Workspace, Target: r.containers.Workspace, ReadOnly: true},
		{Source: work, Target: workTarget},
	}, plugs...)
	var err error
	if spec.Hide, err = engine.Seen(r.stateDir(), spec.Mounts); err != nil {
		return spec, fmt.Errorf("hiding what types may not see: %w", err)
	}
	return spec, nil
}

// stateDir is what Deployster keeps below the workspace.
func (r *Runner) stateDir() string { return filepath.Join(r.containers.Workspace, engine.StateDir) }

// runsOwn tells whether an invocation runs the image of the resource's type.
func (r *resource) runsOwn(run protocol.Invocation) bool {
	return run.Image == "" || run.Image == r.Type
}

// keepInput writes down what a type is given, without secrets.
func (r *Runner) keepInput(res *resource, i *calling) error {
	var document map[string]any
	if err := json.Unmarshal(i.stdin, &document); err != nil {
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
	return os.WriteFile(i.path+inputEnding, []byte(r.secrets.mask(string(blanked))+"\n"), 0o600)
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
