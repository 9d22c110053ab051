package protocol

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// MaxRequest is how many bytes one line on the stdin of a served process may
// have. It is more than MaxAnswer, since the input of an action holds both what
// state answered and the configuration. A line of its stdout has at most
// MaxAnswer bytes, the line end not counted.
const MaxRequest = 4 * MaxAnswer

// ServeRequest is one line on the stdin of a process that a type's serve
// action started. Requests come without waiting for answers; the process may
// answer them in any order. At the end of stdin it finishes what it was asked
// and exits.
type ServeRequest struct {
	ID     int64    `json:"id"`             // unique within the process, from 1
	Action string   `json:"action"`         // "init", "state" or the action's name
	Args   []string `json:"args,omitempty"` // what a container for this alone would be given as arguments
	Input  any      `json:"input"`          // what that container would read on stdin
}

// ServeAnswer is one line on the stdout of such a process. An answer with Exit
// ends its request; one without carries text of an action that is to be shown
// at once, and more follows.
type ServeAnswer struct {
	ID     int64           `json:"id"`
	Exit   *int            `json:"exit,omitempty"`   // the exit code that a container for this alone would have had
	Output json.RawMessage `json:"output,omitempty"` // init and state: the answering document; actions: a JSON string with text for people
	Stderr string          `json:"stderr,omitempty"` // text for people
	Keep   map[string]any  `json:"keep,omitzero"`    // actions, with Exit: what is to be kept from now on, {} for nothing
}

// DecodeServeAnswer reads one line of a served process. Errors about the line
// are of type *AnswerError.
func DecodeServeAnswer(line []byte) (ServeAnswer, error) {
	object, err := parseNested(line, -1) // output is a document of its own
	if err != nil {
		return ServeAnswer{}, err
	}
	f := fields{object: object, data: line}
	f.only("id", "exit", "output", "stderr", "keep")
	a := ServeAnswer{Keep: f.keep()}
	if id, ok := object["id"].(int64); ok && id > 0 {
		a.ID = id
	} else {
		f.fail("id", "must be there and be the id of a request, a whole number from 1")
	}
	if exit, ok := object["exit"]; ok {
		code, whole := exit.(int64)
		if !whole || code < 0 || code > 255 {
			f.fail("exit", "must be an exit code, a whole number from 0 to 255")
		}
		n := int(code)
		a.Exit = &n
	}
	if _, ok := object["stderr"]; ok {
		a.Stderr, _ = f.text("stderr")
	}
	if _, text := object["output"].(string); object["output"] != nil && a.Exit == nil && !text {
		f.fail("output", fmt.Sprintf("must be a string, not %s, in an answer without exit: more follows it, so it can only be text for people", kindOf(object["output"])))
	}
	if a.Keep != nil && a.Exit == nil {
		f.fail("keep", "must stand in the answer with exit: more follows this one")
	}
	if f.err != nil {
		return ServeAnswer{}, f.err
	}
	var raw struct {
		Output json.RawMessage `json:"output"`
	}
	// The line is known to be one object.
	if err := json.Unmarshal(line, &raw); err != nil {
		return ServeAnswer{}, &AnswerError{Message: err.Error(), Excerpt: excerpt(line)}
	}
	if !bytes.Equal(raw.Output, []byte("null")) {
		a.Output = raw.Output
	}
	return a, nil
}
