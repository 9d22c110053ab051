package authoring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/protocol"
)

// labelTest marks the containers of a check; its value is the action.
const labelTest = "deployster.type-test"

// workTarget is where a container finds its work directory, as in a run.
const workTarget = "/var/lib/deployster/work"

// said is what came of one run.
type said struct {
	exit   engine.Exit
	stdout []byte // of an action the end of both streams
	stderr []byte // the end; not of an action
	flood  int    // how many bytes went to stderr, where they are too many
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

func (c *checker) initInput() protocol.InitInput {
	return protocol.InitInput{Name: "test", Type: c.Image, Version: c.Version, Verbose: c.Verbose, Workspace: c.Workspace}
}

func (c *checker) stateInput(ensure protocol.Ensure) protocol.StateInput {
	in := protocol.StateInput{InitInput: c.initInput(), Config: c.Config}
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
	var stderr tailBuffer
	exit, err := c.run(ctx, action, invocation, engine.IO{Stdin: strings.NewReader(stdin), Stdout: &stdout, Stderr: &stderr})
	answer := said{exit: exit, stdout: stdout.data, stderr: stderr.data}
	if stderr.total > mostStderr {
		answer.flood = stderr.total
	}
	return answer, err
}

// mostStderr is how much init and state may write for people, in bytes.
const mostStderr = 1 << 20

// do runs an action.
func (c *checker) do(ctx context.Context, action protocol.Action, in protocol.ActionInput) (said, error) {
	if in.StaleState == nil {
		in.StaleState = map[string]any{}
	}
	text, err := json.Marshal(in)
	if err != nil {
		return said{}, fmt.Errorf("%w: encoding the input of %s: %w", errOurs, action.Name, err)
	}
	var both tailBuffer
	exit, err := c.run(ctx, action.Name, action.Invocation, engine.IO{Stdin: strings.NewReader(string(text)), Stdout: &both, Stderr: &both})
	return said{exit: exit, stdout: both.data}, err
}

func (c *checker) run(ctx context.Context, action string, invocation protocol.Invocation, streams engine.IO) (engine.Exit, error) {
	spec, err := c.spec(ctx, action, invocation)
	if err != nil {
		return engine.Exit{}, err
	}
	spec.Whole = true
	exit, err := c.Engine.Run(ctx, spec, streams)
	switch {
	case errors.Is(err, errTooMuch):
		return exit, fmt.Errorf("%s wrote %w to stdout; it must be one JSON document", action, errTooMuch)
	case errors.Is(err, engine.ErrTimeout):
		return exit, fmt.Errorf("%s did not end within %s; it must end by itself: %w", action, c.Timeout, err)
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
	network := c.Network
	if ref == c.Image { // as in a run: what a type says it needs, it says of its own image
		network = cmp.Or(network, c.init.Network)
	}
	spec := engine.Spec{
		Image: id, Entrypoint: invocation.Entrypoint, Args: invocation.Args,
		Mounts: c.mounts, Network: network, Timeout: c.Timeout,
		Labels: map[string]string{labelTest: action},
	}
	if c.Workspace != "" {
		spec.WorkDir = c.Workspace
		spec.Env = append(spec.Env, "DEPLOYSTER_WORKSPACE="+c.Workspace)
		spec.Mounts = append([]engine.Mount{{Source: c.Workspace, Target: c.Workspace, ReadOnly: true}}, spec.Mounts...)
	}
	if c.Work != "" {
		c.runs++
		work := filepath.Join(c.Work, strconv.Itoa(c.runs))
		if err := os.MkdirAll(work, 0o700); err != nil {
			return engine.Spec{}, fmt.Errorf("%w: making the work directory of %s: %w", errOurs, action, err)
		}
		spec.Env = append(spec.Env, "DEPLOYSTER_WORK="+workTarget)
		spec.Mounts = append([]engine.Mount{{Source: work, Target: workTarget}}, spec.Mounts...)
	}
	if c.Workspace == "" {
		return spec, nil
	}
	if spec.Hide, err = engine.Seen(filepath.Join(c.Workspace, engine.StateDir), spec.Mounts); err != nil {
		return engine.Spec{}, fmt.Errorf("%w: hiding what types may not see: %w", errOurs, err)
	}
	return spec, nil
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
		return fail("%s %s; the end of its stderr: %s", action, s.exit, receivedEnd(c.hide(s.stderr)))
	}
}

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
