// Package typetest drives a resource type in tests the way the runner does:
// state, then the actions it asked for, then state again; each as a run of its own,
// or all asked of one process that serves.
package typetest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/protocol"
)

// Type is a resource type under test.
type Type interface {
	Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

// Resource is one resource of a type.
type Resource struct {
	Type      Type
	Name      string
	Config    any // anything that encodes to a JSON object
	Ensure    protocol.Ensure
	Workspace string
}

// With returns the same resource with another configuration.
func (r Resource) With(config any) Resource {
	r.Config = config
	return r
}

// Gone returns the same resource, wanted absent.
func (r Resource) Gone() Resource {
	r.Ensure = protocol.Absent
	return r
}

// Invoke runs the type once.
func (r Resource) Invoke(t testing.TB, staleState map[string]any, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	a, err := r.ask(t.Context(), staleState, args...)
	if err != nil {
		t.Fatal(err)
	}
	return a.code, a.stdout, a.stderr
}

type answer struct {
	code           int
	stdout, stderr string
}

func (r Resource) ask(ctx context.Context, staleState map[string]any, args ...string) (answer, error) {
	input, err := json.Marshal(map[string]any{
		"name": r.Name, "type": "deployster/test", "version": "0", "workspace": r.Workspace,
		"config": r.Config, "ensure": r.Ensure, "staleState": staleState,
	})
	if err != nil {
		return answer{}, err
	}
	var out, errs bytes.Buffer
	code := r.Type.Run(ctx, args, bytes.NewReader(input), &out, &errs)
	return answer{code, out.String(), errs.String()}, nil
}

// State asks for the state and requires an answer.
func (r Resource) State(t testing.TB) protocol.StateOutput {
	t.Helper()
	code, stdout, stderr := r.Invoke(t, nil, "state")
	if code != 0 {
		t.Fatalf("state of %s ended with %d: %s", r.Name, code, stderr)
	}
	answer, err := protocol.DecodeState([]byte(stdout))
	if err != nil {
		t.Fatalf("state of %s: %v", r.Name, err)
	}
	return answer
}

// Fails runs the type and requires exit 1 with a message that contains want.
func (r Resource) Fails(t testing.TB, want string, args ...string) {
	t.Helper()
	code, stdout, stderr := r.Invoke(t, nil, args...)
	if code != 1 || !strings.Contains(stderr, want) {
		t.Errorf("%s %v ended with %d\nstdout %s\nstderr %s\nwant   %s", r.Name, args, code, stdout, stderr, want)
	}
}

// Stale requires the resource to be stale, and exactly these actions.
func (r Resource) Stale(t testing.TB, actions ...string) protocol.StateOutput {
	t.Helper()
	answer := r.State(t)
	var names []string
	for _, a := range answer.Actions {
		names = append(names, a.Name)
	}
	if got, want := strings.Join(names, " "), strings.Join(actions, " "); answer.Status != protocol.Stale || got != want {
		t.Fatalf("%s is %s with actions %q, want STALE with %q; stale state %v", r.Name, answer.Status, got, want, answer.StaleState)
	}
	return answer
}

// Valid requires the resource to be as configured and returns its state.
func (r Resource) Valid(t testing.TB) map[string]any {
	t.Helper()
	answer := r.State(t)
	if answer.Status != protocol.Valid {
		t.Fatalf("%s is %s: %+v, stale state %v", r.Name, answer.Status, answer.Actions, answer.StaleState)
	}
	return answer.State
}

// Apply performs the actions that the state asks for and requires the resource
// to be as configured afterwards. It returns the state and what was printed.
func (r Resource) Apply(t testing.TB) (state map[string]any, output string) {
	t.Helper()
	answer := r.State(t)
	for _, a := range answer.Actions {
		code, stdout, stderr := r.Invoke(t, answer.StaleState, a.Args...)
		output += stdout + stderr
		if code != 0 {
			t.Fatalf("%s of %s ended with %d: %s", a.Name, r.Name, code, stderr)
		}
	}
	return r.Valid(t), output
}
