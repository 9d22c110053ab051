package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

type lampConfig struct {
	Colour string `json:"colour"`
	Watts  int    `json:"watts"`
}

// lamp is a resource type whose resource is the colour in its field.
func lamp(colour *string) Type[lampConfig] {
	return Type[lampConfig]{
		Plugs:        map[string]PlugRequest{"socket": {ContainerPath: "/socket", Writable: true}},
		ConfigSchema: json.RawMessage(`{"type":"object"}`),
		Removable:    true,
		State: func(_ context.Context, r Request[lampConfig]) (StateOutput, error) {
			want := r.Config.Colour
			if r.Ensure == Absent {
				want = ""
			}
			switch {
			case want == "ultraviolet":
				return StateOutput{}, errors.New("no such colour:\nultraviolet")
			case want == "octarine":
				panic("magic")
			case want == "nothing":
				return AnswerStale(nil)
			case *colour == want:
				return AnswerValid(map[string]string{"colour": want})
			case *colour == "":
				return AnswerStale(nil, Do("paint", "Paint it "+want))
			}
			return AnswerStale(map[string]string{"colour": *colour}, Do("paint", "Paint it "+want))
		},
		Actions: map[string]func(context.Context, Request[lampConfig]) error{
			"paint": func(_ context.Context, r Request[lampConfig]) error {
				*colour = r.Config.Colour
				_, err := r.Stdout.Write([]byte("was " + toText(r.StaleState["colour"])))
				return err
			},
		},
	}
}

func toText(v any) string {
	s, _ := v.(string)
	return s
}

func run(t Type[lampConfig], stdin string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = t.Run(context.Background(), args, strings.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

func TestTypeLifecycle(t *testing.T) {
	colour := ""
	typ := lamp(&colour)

	code, stdout, _ := run(typ, `{"name":"l"}`)
	answer, err := DecodeInit([]byte(stdout))
	if code != 0 || err != nil || !answer.Removable || !answer.Plugs["socket"].Writable {
		t.Fatalf("init: exit %d, %q, %v", code, stdout, err)
	}

	const input = `{"name":"l","type":"t","version":"1","verbose":true,"workspace":"/w","future":1,"config":{"colour":"red","watts":3}`
	code, stdout, _ = run(typ, input+"}", "state")
	state, err := DecodeState([]byte(stdout))
	if code != 0 || err != nil || state.Status != Stale || state.StaleState != nil || state.Actions[0].Args[0] != "paint" {
		t.Fatalf("state of what does not exist: exit %d, %q, %v", code, stdout, err)
	}

	code, stdout, _ = run(typ, input+`,"staleState":{"colour":"blue"}}`, "paint")
	if code != 0 || stdout != "was blue" || colour != "red" {
		t.Fatalf("action: exit %d, %q, colour %q", code, stdout, colour)
	}

	code, stdout, _ = run(typ, input+"}", "state")
	if state, err = DecodeState([]byte(stdout)); code != 0 || err != nil || state.Status != Valid || state.State["colour"] != "red" {
		t.Fatalf("state after the action: exit %d, %q, %v", code, stdout, err)
	}

	code, stdout, _ = run(typ, input+`,"ensure":"absent"}`, "state")
	if state, err = DecodeState([]byte(stdout)); code != 0 || err != nil || state.Status != Stale {
		t.Fatalf("state when it should be gone: exit %d, %q, %v", code, stdout, err)
	}
}

func TestTypeRefusals(t *testing.T) {
	fixed := lamp(new(string))
	fixed.Removable = false
	for name, tc := range map[string]struct {
		stdin  string
		args   []string
		stderr string
	}{
		"unknown config member":      {`{"config":{"color":"red"}}`, []string{"state"}, `error: config: json: unknown field "color"`},
		"wrong kind of config":       {`{"config":{"watts":"many"}}`, []string{"state"}, "error: config: json: cannot unmarshal string"},
		"no input":                   {"", []string{"state"}, "error: reading the request on stdin"},
		"unknown action":             {"{}", []string{"pain"}, `error: unknown action "pain"; known are state, paint`},
		"too many arguments":         {"{}", []string{"state", "now"}, "error: one argument was expected, not 2: state now"},
		"remove what cannot be":      {`{"ensure":"absent"}`, []string{"state"}, "error: this resource type cannot remove"},
		"unknown ensure":             {`{"ensure":"perhaps"}`, []string{"state"}, `error: "ensure" must be`},
		"an error spanning lines":    {`{"config":{"colour":"ultraviolet"}}`, []string{"state"}, "error: no such colour: ultraviolet\n"},
		"a panic":                    {`{"config":{"colour":"octarine"}}`, []string{"state"}, "panic: magic\n"},
		"an answer without actions":  {`{"config":{"colour":"nothing"}}`, []string{"state"}, "error: the answer of this resource type is not acceptable: actions: "},
		"stale state is not a state": {`{"staleState":[]}`, []string{"paint"}, "error: staleState: the answer is a list"},
	} {
		code, stdout, stderr := run(fixed, tc.stdin, tc.args...)
		assert.Equal(t, 1, code, name)
		assert.Empty(t, stdout, name)
		assert.True(t, strings.HasPrefix(stderr, tc.stderr), name)
	}
}

func TestIncompleteType(t *testing.T) {
	code, _, stderr := run(Type[lampConfig]{}, "{}")
	assert.Equal(t, 1, code)
	assert.Contains(t, stderr, "needs a State function")
}
