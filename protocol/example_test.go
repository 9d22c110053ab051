package protocol_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/deployster-go/deployster/protocol"
)

// Greeting is the configuration of the example's resource type.
type Greeting struct {
	Text string `json:"text"`
}

// GreetingType keeps one line of text in a file.
func GreetingType(path string) protocol.Type[Greeting] {
	return protocol.Type[Greeting]{
		ConfigSchema: json.RawMessage(`{
			"type": "object", "additionalProperties": false, "required": ["text"],
			"properties": {"text": {"type": "string"}}
		}`),
		State: func(_ context.Context, r protocol.Request[Greeting]) (protocol.StateOutput, error) {
			text, err := os.ReadFile(path)
			switch {
			case os.IsNotExist(err):
				return protocol.AnswerStale(nil, protocol.Do("write", "Write the greeting"))
			case err != nil:
				return protocol.StateOutput{}, err
			}
			state := Greeting{Text: string(text)}
			if state != r.Config {
				return protocol.AnswerStale(state, protocol.Do("write", "Change the greeting"))
			}
			return protocol.AnswerValid(state)
		},
		Actions: map[string]func(context.Context, protocol.Request[Greeting]) error{
			"write": func(_ context.Context, r protocol.Request[Greeting]) error {
				r.Sayf("writing the greeting of %s", r.Name)
				return os.WriteFile(path, []byte(r.Config.Text), 0o600)
			},
		},
	}
}

// A resource type is a Type and a main function that hands Run the arguments
// and streams of the process. Here the three steps of a deployment are shown.
func Example() {
	dir, err := os.MkdirTemp("", "greeting")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	t := GreetingType(filepath.Join(dir, "greeting"))

	for _, action := range []string{"state", "write", "state"} {
		input := strings.NewReader(`{"name": "hello", "config": {"text": "Hello!"}}`)
		code := t.Run(context.Background(), []string{action}, input, os.Stdout, os.Stderr)
		fmt.Println(action, "ended with", code)
	}
	// Output:
	// {"status":"STALE","actions":[{"name":"write","description":"Write the greeting","args":["write"]}]}
	// state ended with 0
	// writing the greeting of hello
	// write ended with 0
	// {"status":"VALID","state":{"text":"Hello!"}}
	// state ended with 0
}
