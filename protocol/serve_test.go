package protocol

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func exit(code int) *int { return &code }

func TestServedAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		line string
		want ServeAnswer
	}{
		"a document": {
			`{"id":1,"exit":0,"output":{"status":"VALID","state":{"big":9007199254740993}},"stderr":"looked\n"}`,
			ServeAnswer{ID: 1, Exit: exit(0), Output: json.RawMessage(`{"status":"VALID","state":{"big":9007199254740993}}`), Stderr: "looked\n"},
		},
		"text at the end of an action": {`{"id":2,"exit":0,"output":"done"}`, ServeAnswer{ID: 2, Exit: exit(0), Output: json.RawMessage(`"done"`)}},
		"a failure":                    {` {"id":9223372036854775807,"exit":255} ` + "\r", ServeAnswer{ID: 1<<63 - 1, Exit: exit(255)}},
		"output that is null is none":  {`{"id":1,"exit":1,"output":null}`, ServeAnswer{ID: 1, Exit: exit(1)}},
		"text to be shown at once":     {`{"id":3,"output":"pulling\n"}`, ServeAnswer{ID: 3, Output: json.RawMessage(`"pulling\n"`)}},
		"a warning":                    {`{"id":3,"stderr":"slow\n"}`, ServeAnswer{ID: 3, Stderr: "slow\n"}},
		"a document of any kind": { // whose own decoder judges it
			`{"id":1,"exit":0,"output":[1]}`, ServeAnswer{ID: 1, Exit: exit(0), Output: json.RawMessage(`[1]`)},
		},
		"a document as deep as one may be": {
			`{"id":1,"exit":0,"output":` + deep(MaxDepth) + `}`, ServeAnswer{ID: 1, Exit: exit(0), Output: json.RawMessage(deep(MaxDepth))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeServeAnswer([]byte(tc.line))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

// deep is an object within which there are so many levels.
func deep(levels int) string {
	return strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
}

func TestRefusedServedAnswers(t *testing.T) {
	for name, tc := range map[string]struct{ line, message string }{
		"no id":                     {`{"exit":0}`, "id: must be there and be the id of a request"},
		"an id that is text":        {`{"id":"1","exit":0}`, `id: must be there and be the id of a request, a whole number from 1 (received "1")`},
		"an id that is a fraction":  {`{"id":1.5,"exit":0}`, "id: must be there"},
		"an id below 1":             {`{"id":0,"exit":0}`, "id: must be there"},
		"an exit code beyond bytes": {`{"id":1,"exit":256}`, `exit: must be an exit code, a whole number from 0 to 255 (received "256")`},
		"a negative exit code":      {`{"id":1,"exit":-1}`, "exit: must be an exit code"},
		"an exit code of null":      {`{"id":1,"exit":null}`, `exit: must be an exit code, a whole number from 0 to 255 (received "null")`},
		"stderr is a list":          {`{"id":1,"exit":0,"stderr":["x"]}`, "stderr: must be a string, not a list"},
		"a document without exit":   {`{"id":1,"output":{"status":"VALID","state":{}}}`, "output: must be a string, not an object, in an answer without exit"},
		"another spelling":          {`{"id":1,"Exit":0}`, `Exit: unknown key; did you mean "exit"?`},
		"a document that is deeper": {`{"id":1,"exit":0,"output":` + deep(MaxDepth+1) + `}`, "nested more than 128 levels deep"},
		"a duplicate in a document": {`{"id":1,"exit":0,"output":{"state":{"a":1,"a":2}}}`, "output.state.a: duplicate key"},
		"more than an answer may":   {`{"id":1,"exit":0,"output":"` + strings.Repeat("x", MaxAnswer) + `"}`, "larger than 8388608 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeServeAnswer([]byte(tc.line))
			requireAnswerError(t, err, tc.message)
		})
	}
	for name, tc := range brokenDocuments {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeServeAnswer([]byte(tc.answer))
			requireAnswerError(t, err, "")
		})
	}
}

func FuzzDecodeServeAnswer(f *testing.F) {
	f.Add([]byte(`{"id":1,"exit":0,"output":{"status":"VALID","state":{}},"stderr":"x"}`))
	f.Add([]byte(`{"id":2,"output":"line\n"}`))
	f.Add([]byte(`{"id":2,"exit":1,"output":null}`))
	for _, tc := range brokenDocuments {
		f.Add([]byte(tc.answer))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := DecodeServeAnswer(line)
		if err != nil {
			checkFuzzError(t, err)
			return
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeServeAnswer(text)
		if err != nil {
			t.Fatalf("%s was accepted, but not as %s: %v", line, text, err)
		}
		again, err := json.Marshal(back)
		if err != nil || string(again) != string(text) {
			t.Fatalf("%s became %s, then %s (%v)", line, text, again, err)
		}
	})
}
