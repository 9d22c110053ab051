package authoring

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

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/pattern"
	"github.com/deployster-go/deployster/protocol"
)

// labelTest marks the containers of a check; its value is the action.
const labelTest = "deployster.type-test"

// said is what came of one run.
type said struct {
	exit   engine.Exit
	stdout []byte // of an action the end of both streams
	stderr []byte // the end; not of an action
	flood  int    // how many bytes went to stderr, where they are too many
	last   []byte // of an action in a container: the last line on stdout
}

// MakeWork makes a directory below a workspace for Options.Work. remove removes it
// with all that containers left in it.
func MakeWork(workspace string) (work string, remove func() error, err error) {
	parent := filepath.Join(workspace, engine.StateDir, "work")
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, fmt.Errorf("making a work directory: %w", err)
	}
	if work, err = os.MkdirTemp(parent, "type-test-"); err != nil {
		return "", nil, fmt.Errorf("making a work directory: %w", err)
	}
	return work, func() error {
		err := os.RemoveAll(work)
		// In a directory without deployments nothing is left; what is not empty stays.
		_ = os.Remove(parent)
		_ = os.Remove(filepath.Dir(parent))
		return err
	}, nil
}

func (c *checker) initInput() protocol.InitInput { return c.inputOf(c.one) }

func (c *checker) inputOf(r *resource) protocol.InitInput {
	return protocol.InitInput{Name: r.name, Type: c.Image, Version: c.Version, Verbose: c.Verbose, Workspace: c.Workspace}
}

func (c *checker) stateInput(ensure protocol.Ensure) protocol.StateInput {
	return c.stateInputOf(c.one, ensure)
}

// logID stands for that of the deployment log, in the ids of resources.
const logID = "typetest0000000000000000"

func (c *checker) stateInputOf(r *resource, ensure protocol.Ensure) protocol.StateInput {
	in := protocol.StateInput{InitInput: c.inputOf(r), Config: r.config, ID: logID + "/" + r.name}
	if c.init.Keeps {
		if in.Kept = r.kept; in.Kept == nil {
			in.Kept = map[string]any{}
		}
	}
	if c.init.Removable {
		in.Ensure = ensure
	}
	return in
}

// ask runs init or the state action with a document.
func (c *checker) ask(ctx context.Context, action string, document any) (said, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return said{}, fmt.Errorf("%w: encoding the input of %s: %w", errOurs, action, err)
	}
	return c.askText(ctx, action, string(text))
}

// askText runs init or the state action with any text.
func (c *checker) askText(ctx context.Context, action, stdin string) (said, error) {
	var invocation protocol.Invocation
	if action == "state" {
		invocation = c.init.StateAction
	}
	var stdout answerBuffer
	stderr := tailBuffer{most: 64 << 10} // so that the line before a stack is not lost
	exit, err := c.run(ctx, action, invocation, engine.IO{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr})
	c.learn(stdout.data)
	return said{exit: exit, stdout: stdout.data, stderr: stderr.data, flood: flood(stderr.total)}, err
}

// flooded is the failure of an action that printed too much.
func (c *checker) flooded(action string, end []byte) error {
	return fmt.Errorf("action %q printed %w: say there what people need to know, and more only when \"verbose\" is true; its end: %s", action, errFlood, receivedEnd(c.hide(end)))
}

// mostStderr is how much init and state may write for people, in bytes.
const mostStderr = 1 << 20

// flood is how many bytes of so many are too many; 0 is that they are not.
func flood(total int) int {
	if total > mostStderr {
		return total
	}
	return 0
}

// prepare makes all ready to run an action. What it returns can be called while others are.
func (c *checker) prepare(ctx context.Context, action protocol.Action, in protocol.ActionInput) (func(context.Context) (said, error), error) {
	c.turn.Lock()
	defer c.turn.Unlock()
	if in.StaleState == nil {
		in.StaleState = map[string]any{}
	}
	text, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("%w: encoding the input of %s: %w", errOurs, action.Name, err)
	}
	spec, err := c.spec(ctx, action.Name, action.Invocation)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (said, error) {
		var both tailBuffer
		last := tailBuffer{most: protocol.MaxKeepLine + 2}
		bound := &bound{}
		streams := engine.IO{Stdin: strings.NewReader(string(text)), Stdout: io.MultiWriter(bound, &both, &last), Stderr: io.MultiWriter(bound, &both)}
		exit, err := c.runSpec(ctx, action.Name, spec, streams)
		if errors.Is(err, errFlood) {
			err = c.flooded(action.Name, both.data)
		}
		return said{exit: exit, stdout: both.data, last: lastLine(last.data)}, err
	}, nil
}

// lastLine is the last line of a text, without its end.
func lastLine(text []byte) []byte {
	text = bytes.TrimSuffix(text, []byte("\n"))
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

func (c *checker) run(ctx context.Context, action string, invocation protocol.Invocation, streams engine.IO) (engine.Exit, error) {
	spec, err := c.spec(ctx, action, invocation)
	if err != nil {
		return engine.Exit{}, err
	}
	return c.runSpec(ctx, action, spec, streams)
}

func (c *checker) runSpec(ctx context.Context, action string, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	spec.Whole = true
	exit, err := c.Engine.Run(ctx, spec, streams)
	switch {
	case errors.Is(err, errTooMuch):
		return exit, fmt.Errorf("%s wrote %w to stdout; it must be one JSON document", action, errTooMuch)
	case errors.Is(err, errFlood):
		return exit, err
	case errors.Is(err, engine.ErrTimeout):
		return exit, fmt.Errorf("%s did not end within %s; it must end by itself, and where it needs longer, --timeout gives it more: %w", action, c.Timeout, err)
	case err != nil:
		return exit, fmt.Errorf("%s could not be run: %w", action, err)
	}
	return exit, nil
}

// spec is the container of an action.
func (c *checker) spec(ctx context.Context, action string, invocation protocol.Invocation) (engine.Spec, error) {
	ref := invocation.Image
	if ref == "" {
		ref = c.Image
	}
	id, err := c.image(ctx, ref)
	if err != nil {
		return engine.Spec{}, fmt.Errorf("the image of %s: %w", action, err)
	}
	spec := engine.Spec{
		Image: id, Entrypoint: invocation.Entrypoint, Args: invocation.Args,
		Mounts: c.mounts, Network: c.Network, Timeout: c.Timeout,
		// As in a run: what a type says it needs, it says of its own image.
		Offline: ref == c.Image && c.init.Network == protocol.NetworkNone,
		Labels:  map[string]string{labelTest: action},
	}
	if c.Workspace != "" {
		if spec.Mounts, err = c.finder().Pin(c.mounts); err != nil {
			return engine.Spec{}, fmt.Errorf("plugs: %w", err)
		}
		spec.WorkDir = c.Workspace
		spec.Env = append(spec.Env, "DEPLOYSTER_WORKSPACE="+c.Workspace)
		spec.Mounts = append([]engine.Mount{{Source: c.Workspace, Target: c.Workspace, ReadOnly: true}}, spec.Mounts...)
	}
	if c.OwnWork {
		spec.Work, spec.Env = protocol.WorkDir, append(spec.Env, "DEPLOYSTER_WORK="+protocol.WorkDir)
	}
	if c.Work != "" {
		c.runs++
		work := filepath.Join(c.Work, strconv.Itoa(c.runs))
		if err := os.MkdirAll(work, 0o700); err != nil {
			return engine.Spec{}, fmt.Errorf("%w: making the work directory of %s: %w", errOurs, action, err)
		}
		spec.Env = append(spec.Env, "DEPLOYSTER_WORK="+protocol.WorkDir)
		spec.Mounts = append([]engine.Mount{{Source: work, Target: protocol.WorkDir}}, spec.Mounts...)
	}
	if c.Workspace == "" {
		return spec, nil
	}
	if spec.Hide, err = engine.Seen(filepath.Join(c.Workspace, engine.StateDir), spec.Mounts); err != nil {
		return engine.Spec{}, fmt.Errorf("%w: hiding what types may not see: %w", errOurs, err)
	}
	return spec, nil
}

// finder finds what plugs lead to, as in a run.
func (c *checker) finder() engine.Finder {
	f := engine.Finder{Hidden: filepath.Join(c.Workspace, engine.StateDir)}
	for _, m := range c.mounts {
		if !m.ReadOnly {
			f.Written = append(f.Written, m.Source)
		}
	}
	return f
}

// exited judges the exit code of init or state.
func (c *checker) exited(action string, s said) verdict {
	switch {
	case s.exit.Code == 0 && s.flood > 0:
		return fail("%s wrote %d bytes to stderr, at most %d are reasonable: say there what people need to know, and more only when \"verbose\" is true; its end: %s", action, s.flood, mostStderr, receivedEnd(c.hide(s.stderr)))
	case s.exit.Code == 0:
		return pass("")
	case len(s.stderr) == 0:
		return fail("%s %s; it wrote nothing to stderr (say there why), and to stdout %s", action, s.exit, received(c.hide(s.stdout)))
	default:
		return fail("%s %s; %s", action, s.exit, c.errorText(s.stderr))
	}
}

// errorText is what stderr says about an error.
func (c *checker) errorText(stderr []byte) string {
	if line := panicked().Find(stderr); line != nil {
		return "on its stderr: " + received(c.hide(line))
	}
	return "the end of its stderr: " + receivedEnd(c.hide(stderr))
}

var (
	// panicked recognizes the line that says what happened where a stack follows it.
	panicked = pattern.Lazy(`(?m)^(panic: |fatal error: |thread '.*' panicked at|Exception in thread ).*$`)

	// crashed recognizes what runtimes print of an error that nobody has handled.
	crashed = pattern.Lazy(`(?m)^(Traceback \(most recent call last\):|panic: |fatal error: |thread '.*' panicked at|Exception in thread |\s+at .*:\d+:\d+\)?$)`)
)

// onlyJSON judges whether stdout is one JSON document, whatever it says.
func (c *checker) onlyJSON(action string, stdout []byte, decode func([]byte) error) verdict {
	if json.Valid(stdout) {
		return pass("")
	}
	return fail("%s: %s; the answer goes to stdout as one JSON document, all other output to stderr", action, c.explain(decode, stdout))
}

// explain says what is wrong with an answer, and what was received, without
// secrets: they are hidden before anything is cut off.
func (c *checker) explain(decode func([]byte) error, stdout []byte) string {
	hidden := c.hide(stdout)
	err := decode(hidden)
	if err == nil {
		return "it is not the answer that was expected"
	}
	var wrong *protocol.AnswerError
	if errors.As(err, &wrong) && wrong.Excerpt == "" && len(stdout) > 0 {
		return fmt.Sprintf("%v (received %s)", err, received(hidden))
	}
	return err.Error()
}

func decodeInit(data []byte) error {
	_, err := protocol.DecodeInit(data)
	return err
}

func decodeState(data []byte) error {
	_, err := protocol.DecodeState(data)
	return err
}
