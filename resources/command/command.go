// Package command is the resource type deployster/command: whatever a pair of
// commands can do, inside an image of the user's choice, on the Docker Engine
// behind the plug "docker".
//
// The check command decides: 0 is VALID, and what it prints is the state;
// anything else is STALE, and then the apply command is the action.
package command

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/resources/internal/daemon"
	"github.com/moby/moby/client"
)

// Summary says in one line what the type is for.
const Summary = "a check command and an apply command, run inside an image"

//go:embed schema.json
var configSchema []byte

// maxOutput is how much of what the check prints becomes the state, in bytes.
const maxOutput = 64 << 10

// Config is the configuration of a resource.
type Config struct {
	Image          string           `json:"image"`
	Check          Command          `json:"check"`
	Apply          Command          `json:"apply"`
	Remove         Command          `json:"remove"`
	Env            daemon.Variables `json:"env"`
	SecretEnv      daemon.Variables `json:"secret_env"` // as Env
	Workdir        string           `json:"workdir"`
	User           string           `json:"user"`
	Network        string           `json:"network"`
	MountWorkspace *bool            `json:"mount_workspace"` // default true

	RegistryAuth *daemon.RegistryAuth `json:"registry_auth"`
}

// Command is an executable and its arguments.
type Command []string

// UnmarshalJSON reads a list, or a text for the shell.
func (c *Command) UnmarshalJSON(text []byte) error {
	var script string
	if json.Unmarshal(text, &script) == nil {
		*c = Command{"/bin/sh", "-c", script}
		return nil
	}
	var list []string
	if err := json.Unmarshal(text, &list); err != nil || len(list) == 0 || list[0] == "" {
		return fmt.Errorf("a command must be text for the shell or a list that begins with an executable, not %s", text)
	}
	*c = list
	return nil
}

// Type returns the resource type.
func Type() protocol.Type[Config] { return newType(daemon.Socket) }

// newType is Type with the engine behind another socket.
func newType(socket string) protocol.Type[Config] {
	t := commandType{daemon.Connector(socket)}
	return protocol.Type[Config]{
		Plugs:        daemon.Plugs(),
		ConfigSchema: configSchema,
		Removable:    true,
		Network:      protocol.NetworkNone, // the engine is behind a file
		State:        t.state,
		Actions: map[string]func(context.Context, protocol.Request[Config]) error{
			"run-command": t.apply,
			"run-remove":  t.remove,
		},
	}
}

type commandType struct {
	connect func() (*client.Client, error) // to the engine
}

// result is what the check printed, as state.
type result struct {
	Exit      int            `json:"exit"`
	Stdout    string         `json:"stdout"`              // without white space around it
	Truncated bool           `json:"truncated,omitempty"` // there was more
	Output    map[string]any `json:"output,omitempty"`    // stdout, when it is a JSON object
}

func (t commandType) state(ctx context.Context, r protocol.Request[Config]) (protocol.StateOutput, error) {
	if r.Config.Image == "" || len(r.Config.Check) == 0 {
		return protocol.StateOutput{}, errors.New(`"image" and "check" are required`)
	}
	for name := range r.Config.Env {
		if _, both := r.Config.SecretEnv[name]; both {
			return protocol.StateOutput{}, fmt.Errorf("environment variable %s is in env and in secret_env", name)
		}
	}
	if r.Ensure == protocol.Absent && len(r.Config.Remove) == 0 {
		r.Warnf(`there is no "remove" command, so nothing is undone`)
		return protocol.AnswerValid(map[string]any{})
	}
	var stdout capture
	exit, err := t.run(ctx, r, "check", r.Config.Check, &stdout, r.Stderr)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	found := newResult(exit, &stdout)
	switch {
	case r.Ensure == protocol.Absent && exit != 0:
		return protocol.AnswerValid(map[string]any{})
	case r.Ensure == protocol.Absent:
		return protocol.AnswerStale(found, protocol.Do("run-remove", "run "+brief(r.Config.Remove)))
	case exit == 0:
		return protocol.AnswerValid(found)
	case len(r.Config.Apply) == 0:
		return protocol.AnswerStale(found, protocol.Do("run-command", fmt.Sprintf(`nothing: the check ended with %d, and there is no "apply" command`, exit)))
	}
	return protocol.AnswerStale(found, protocol.Do("run-command", "run "+brief(r.Config.Apply)))
}

func newResult(exit int, stdout *capture) result {
	text := strings.TrimSpace(strings.ToValidUTF8(string(stdout.kept), "\ufffd"))
	found := result{Exit: exit, Stdout: text, Truncated: stdout.more}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var object map[string]any
	if dec.Decode(&object) == nil && object != nil {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			found.Output = object
		}
	}
	return found
}

func (t commandType) apply(ctx context.Context, r protocol.Request[Config]) error {
	if len(r.Config.Apply) == 0 {
		return errors.New(`the configuration has no "apply" command; give one, or declare the resource readonly`)
	}
	return t.perform(ctx, r, "apply", r.Config.Apply)
}

func (t commandType) remove(ctx context.Context, r protocol.Request[Config]) error {
	if len(r.Config.Remove) == 0 {
		return errors.New(`the configuration has no "remove" command`)
	}
	return t.perform(ctx, r, "remove", r.Config.Remove)
}

func (t commandType) perform(ctx context.Context, r protocol.Request[Config], role string, c Command) error {
	exit, err := t.run(ctx, r, role, c, r.Stdout, r.Stderr)
	if err != nil {
		return err
	}
	if exit != 0 {
		return fmt.Errorf("the %s command %s ended with %d", role, brief(c), exit)
	}
	return nil
}

// brief shows a command to people.
func brief(c Command) string {
	text := strings.Join(c, " ")
	if len(c) == 3 && c[0] == "/bin/sh" && c[1] == "-c" {
		text = c[2]
	}
	text = strings.Join(strings.Fields(text), " ")
	if utf8.RuneCountInString(text) > 60 {
		text = string([]rune(text)[:59]) + "…"
	}
	return "`" + text + "`"
}

// capture keeps the beginning of what is written to it.
type capture struct {
	kept []byte
	more bool
}

func (c *capture) Write(p []byte) (int, error) {
	room := maxOutput - len(c.kept)
	if len(p) > room {
		c.more = c.more || len(bytes.TrimSpace(p[room:])) > 0
		c.kept = append(c.kept, p[:room]...)
	} else {
		c.kept = append(c.kept, p...)
	}
	return len(p), nil
}
