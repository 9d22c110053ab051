package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// Type is a resource type written in Go: what its container does when it runs.
// C is the configuration of a resource, decoded by encoding/json; a member
// that C does not have is an error.
//
//	func main() { os.Exit(Type().Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
//
// One process may be asked many things at once (see Run), for several
// resources: State and Actions must be safe for concurrent use, must print with
// the request's Stdout and Stderr and never with those of the process, and must
// leave alone what a process has only once, such as its working directory and
// its environment.
type Type[C any] struct {
	Plugs        map[string]PlugRequest // note that a PlugRequest made in Go is read-only unless Writable is set
	ConfigSchema json.RawMessage        // JSON Schema; nil accepts any object
	Removable    bool                   // State and the actions understand Request.Ensure == Absent

	Keeps          bool            // State and the actions may have something kept, with Request.Keep
	StateSchema    json.RawMessage // JSON Schema of the states; writeOnly marks what is secret; may be nil
	AcceptsUnknown bool            // State understands Request.Unknown
	Adoptable      bool            // State understands Request.Adopt; needs Keeps
	Network        string          // NetworkNone where neither State nor an action needs one; else ""
	Identity       []string        // members of a configuration that identify what it manages; see InitOutput
	Replace        ReplaceOrder    // where it comes to be another thing; "" is CreateFirst
	MakesNothing   bool            // resources only look, or wait; see InitOutput

	// State observes the resource and changes nothing. It answers with
	// AnswerValid or AnswerStale.
	State func(ctx context.Context, r Request[C]) (StateOutput, error)

	// Actions are what the answers of State may ask for, by name (see Do).
	// Each must be safe to run again after it was interrupted.
	Actions map[string]func(ctx context.Context, r Request[C]) error
}

// Request is one question to a resource type.
type Request[C any] struct {
	InitInput
	Config     C
	Ensure     Ensure         // Present or Absent
	StaleState map[string]any // actions only: what State had found; empty when the resource does not exist
	Stdout     io.Writer      // for people; when State is asked it leads to stderr, as stdout carries the answer
	Stderr     io.Writer      // for people

	ID          string         // of the resource: its own in all the world, and always the same
	Interrupted bool           // how the last action of the resource ended is not known
	Kept        map[string]any // what was kept last; empty where nothing is
	Adopt       string         // State only: the id of what the resource is to take over; "" is nothing
	Unknown     Unknowns       // State only: which parts of Config are not known yet; they are zero there

	keep func(map[string]any) error // of a type that keeps
}

// Keep has something kept of the resource from now on: it is given back as Kept. value is
// anything that encodes to a JSON object, which may have MaxKeep bytes; {} keeps nothing.
// What an action keeps is kept also where it fails afterwards. Of several the last is kept.
func (r Request[C]) Keep(value any) error {
	if r.keep == nil {
		return errors.New("nothing can be kept: the type does not say that it Keeps")
	}
	object, err := toObject(value)
	if err == nil && object == nil {
		object = map[string]any{}
	}
	if err == nil {
		err = r.keep(object)
	}
	if err != nil {
		return fmt.Errorf("keeping something of %s: %w", r.Name, err)
	}
	return nil
}

// Sayf prints a line for people on Stdout. A failure to print does not fail the
// request, so it is not reported.
func (r Request[C]) Sayf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.Stdout, format+"\n", args...)
}

// Warnf prints a line for people on Stderr, as Sayf does.
func (r Request[C]) Warnf(format string, args ...any) {
	_, _ = fmt.Fprintf(r.Stderr, format+"\n", args...)
}

// AnswerValid says that the resource is as configured. state is anything that
// encodes to a JSON object.
func AnswerValid(state any) (StateOutput, error) {
	object, err := toObject(state)
	if err != nil {
		return StateOutput{}, fmt.Errorf("encoding the state: %w", err)
	}
	if object == nil {
		object = map[string]any{}
	}
	return StateOutput{Status: Valid, State: object}, nil
}

// AnswerStale says that the actions are needed, in this order. staleState is
// anything that encodes to a JSON object, or nil when the resource does not
// exist.
func AnswerStale(staleState any, actions ...Action) (StateOutput, error) {
	object, err := toObject(staleState)
	if err != nil {
		return StateOutput{}, fmt.Errorf("encoding the stale state: %w", err)
	}
	return StateOutput{Status: Stale, StaleState: object, Actions: actions}, nil
}

// AnswerConflict says that another resource has the things of the identities. why is for people, and says what
// they can do.
func AnswerConflict(why string, identities ...map[string]any) StateOutput {
	return StateOutput{Status: Conflict, Message: why, Identities: identities}
}

// Planned adds to an answer of AnswerStale what the state will be once the actions are
// done, so that dependents can be planned. state is anything that encodes to a JSON object,
// which may hold Unknown. unknown names members of it that are not known before.
func (o StateOutput) Planned(state any, unknown ...string) (StateOutput, error) {
	object, err := toObject(state)
	if err != nil {
		return StateOutput{}, fmt.Errorf("encoding the planned state: %w", err)
	}
	if object == nil {
		object = map[string]any{}
	}
	for _, name := range unknown {
		object[name] = Unknown{}
	}
	o.PlannedState, _ = ReplaceUnknown(object, Unknown{}).(map[string]any)
	return o, nil
}

// Do is the action of Type.Actions with this name. description says what
// it will do.
func Do(name, description string) Action {
	return Action{Name: name, Description: description, Invocation: Invocation{Args: []string{name}}}
}

// DoDestroy is Do for an action by which what there is of the resource is lost.
func DoDestroy(name, description string) Action {
	a := Do(name, description)
	a.Destroys = true
	return a
}

// toObject turns a value into the map that JSON would make of it; nil stays nil.
func toObject(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(text, []byte("null")) {
		return nil, nil
	}
	return parseObject(text)
}

// Run does what args ask for and returns the exit code: without arguments it
// answers init, with "state" the state, with the name of an action it runs
// that action. An error is printed on stderr as one line and gives 1.
//
// With "serve" it does all of that many times: it reads a ServeRequest from each
// line of stdin and answers on stdout, until stdin ends and everything that was
// asked is done, or ctx is cancelled. Every type answers init that it can.
func (t Type[C]) Run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	return runProgram(ctx, t, args, stdin, stdout, stderr)
}

// invoke handles one invocation, as a container of its own would.
func (t Type[C]) invoke(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	defer func() {
		if r := recover(); r != nil {
			_, _ = fmt.Fprintf(stderr, "panic: %v\n%s", r, stack())
			code = 1
		}
	}()
	if err := t.run(ctx, args, stdin, stdout, stderr); err != nil {
		_, _ = fmt.Fprintln(stderr, "error:", oneLine(err.Error()))
		return 1
	}
	return 0
}

func (t Type[C]) run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) (err error) {
	if t.State == nil || t.Actions["state"] != nil || t.Actions[serveAction] != nil {
		return errors.New(`this resource type is incomplete: it needs a State function, and no action may be called "state" or "serve"`)
	}
	switch {
	case len(args) == 0:
		return answer(stdout, InitOutput{
			Plugs: t.Plugs, ConfigSchema: t.ConfigSchema, Removable: t.Removable,
			StateAction: Invocation{Args: []string{"state"}}, ServeAction: &Invocation{Args: []string{serveAction}},
			Keeps: t.Keeps, StateSchema: t.StateSchema, AcceptsUnknown: t.AcceptsUnknown, Adoptable: t.Adoptable, Network: t.Network,
			Identity: t.Identity, Replace: t.Replace, MakesNothing: t.MakesNothing,
		}, func(b []byte) error { _, err := DecodeInit(b); return err })
	case len(args) > 1:
		return fmt.Errorf("one argument was expected, not %d: %s", len(args), strings.Join(args, " "))
	case args[0] == "state":
		r, err := t.request(stdin)
		if err != nil {
			return err
		}
		r.Stdout, r.Stderr = stderr, stderr
		var kept map[string]any
		if t.Keeps {
			r.keep = func(keep map[string]any) error { kept = keep; return nil }
		}
		out, err := t.State(ctx, r)
		if err != nil {
			return err
		}
		if kept != nil {
			out.Keep = kept
		}
		if out.Keep != nil && !t.Keeps {
			return errors.New("the answer of this resource type is not acceptable: keep: the type does not say that it Keeps")
		}
		return answer(stdout, out, func(b []byte) error { _, err := DecodeState(b); return err })
	}
	action, ok := t.Actions[args[0]]
	if !ok {
		return fmt.Errorf("unknown action %q; known are state, %s", args[0], strings.Join(slices.Sorted(maps.Keys(t.Actions)), ", "))
	}
	r, err := t.request(stdin)
	if err != nil {
		return err
	}
	if len(r.Unknown) > 0 {
		return fmt.Errorf("config: %s is not known, and an action needs all of it", r.Unknown[0])
	}
	r.Stdout, r.Stderr = stdout, stderr
	var kept map[string]any
	if t.Keeps {
		r.keep = func(keep map[string]any) error { kept = keep; return checkKeep(keep) }
		if out, served := stdout.(*stream); served {
			defer func() { out.keep = kept }()
		} else {
			lines := &lineTracker{Writer: stdout}
			r.Stdout = lines
			defer func() { err = errors.Join(err, lines.keep(kept)) }()
		}
	}
	return action(ctx, r)
}

// request reads what the state action and the actions are given. Other
// members, which a newer Deployster may send, are ignored; within config they are
// errors.
func (t Type[C]) request(stdin io.Reader) (Request[C], error) {
	var input struct {
		InitInput
		Config      json.RawMessage `json:"config"`
		Ensure      Ensure          `json:"ensure"`
		StaleState  json.RawMessage `json:"staleState"`
		ID          string          `json:"id"`
		Interrupted bool            `json:"interrupted"`
		Kept        json.RawMessage `json:"kept"`
		Adopt       string          `json:"adopt"`
	}
	var r Request[C]
	if err := json.NewDecoder(stdin).Decode(&input); err != nil {
		return r, fmt.Errorf("reading the request on stdin, which must be a JSON object: %w", err)
	}
	r.InitInput, r.Ensure = input.InitInput, input.Ensure
	r.ID, r.Interrupted, r.Adopt = input.ID, input.Interrupted, input.Adopt
	switch r.Ensure {
	case "":
		r.Ensure = Present
	case Present:
	case Absent:
		if !t.Removable {
			return r, errors.New(`this resource type cannot remove: "ensure" must be "present"`)
		}
	default:
		return r, fmt.Errorf(`"ensure" must be "present" or "absent", not %q`, r.Ensure)
	}
	if r.Adopt != "" && !t.Adoptable {
		return r, errors.New(`this resource type takes nothing over: there must be no "adopt"`)
	}
	if t.AcceptsUnknown {
		var err error
		if input.Config, r.Unknown, err = withoutUnknown(input.Config); err != nil {
			return r, fmt.Errorf("config: %w", err)
		}
	}
	if len(input.Config) > 0 {
		dec := json.NewDecoder(bytes.NewReader(input.Config))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&r.Config); err != nil {
			return r, fmt.Errorf("config: %w", err)
		}
	}
	var err error
	if r.StaleState, err = objectOrNone(input.StaleState); err != nil {
		return r, fmt.Errorf("staleState: %w", err)
	}
	if r.Kept, err = objectOrNone(input.Kept); err != nil {
		return r, fmt.Errorf("kept: %w", err)
	}
	return r, nil
}

// objectOrNone reads an object, which is empty where it is absent.
func objectOrNone(text json.RawMessage) (map[string]any, error) {
	if len(text) == 0 || bytes.Equal(text, []byte("null")) {
		return map[string]any{}, nil
	}
	return parseObject(text)
}

// answer writes the one document of an invocation, after checking that
// Deployster would accept it.
func answer(w io.Writer, document any, check func([]byte) error) error {
	text, err := json.Marshal(document)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	if err := check(text); err != nil {
		return fmt.Errorf("the answer of this resource type is not acceptable: %w", err)
	}
	if _, err := w.Write(append(text, '\n')); err != nil {
		return fmt.Errorf("writing the answer: %w", err)
	}
	return nil
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), " ")
}

// stack is that of the goroutine, as far as it fits. runtime/debug would have each type
// wait, at its start, for packages that Go initializes before that.
func stack() []byte {
	text := make([]byte, 64<<10)
	return text[:runtime.Stack(text, false)]
}
