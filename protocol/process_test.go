package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/must"
)

type script struct {
	Say    string `json:"say"`
	Panic  string `json:"panic"`
	Fail   string `json:"fail"`
	Wait   bool   `json:"wait"`   // until somebody else meets it, or its context is over
	Leak   bool   `json:"leak"`   // print after the end
	Answer string `json:"answer"` // the state
}

// obedient is a type that does what its configuration says. Two requests that
// wait meet in meet; what leaked after its request had ended goes to late.
func obedient(meet chan struct{}, late chan error) Type[script] {
	act := func(ctx context.Context, r Request[script]) error {
		_, _ = io.WriteString(r.Stdout, r.Config.Say)
		switch {
		case r.Config.Panic != "":
			panic(r.Config.Panic)
		case r.Config.Fail != "":
			return errors.New(r.Config.Fail)
		case r.Config.Wait:
			select {
			case meet <- struct{}{}:
			case <-meet:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		case r.Config.Leak:
			go func() {
				<-ctx.Done()
				<-meet
				_, err := io.WriteString(r.Stdout, "too late\n")
				late <- err
			}()
		}
		return nil
	}
	return Type[script]{
		State: func(ctx context.Context, r Request[script]) (StateOutput, error) {
			if err := act(ctx, r); err != nil {
				return StateOutput{}, err
			}
			return AnswerValid(map[string]string{"answer": r.Config.Answer})
		},
		Actions: map[string]func(context.Context, Request[script]) error{
			"act":  act,
			"warn": func(ctx context.Context, r Request[script]) error { r.Stdout = r.Stderr; return act(ctx, r) },
		},
	}
}

func line(t interface{ Fatal(...any) }, id int64, d script, args ...string) string {
	text, err := json.Marshal(ServeRequest{ID: id, Action: strings.Join(args, ""), Args: args, Input: StateInput{
		InitInput: InitInput{Name: "r"}, Config: map[string]any{
			"say": d.Say, "panic": d.Panic, "fail": d.Fail, "wait": d.Wait, "leak": d.Leak, "answer": d.Answer,
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n"
}

// serveAll gives a type all of stdin, and returns its answers by id: text for people joined, the last line as it was.
func serveAll(t *testing.T, typ Type[script], stdin string) (code int, answers map[int64]whole, stderr string) {
	var out, errs bytes.Buffer
	code = typ.Run(t.Context(), []string{"serve"}, strings.NewReader(stdin), &out, &errs)
	answers = map[int64]whole{}
	for text := range strings.Lines(out.String()) {
		a, err := DecodeServeAnswer([]byte(text))
		require.NoError(t, err, "%s", text)
		w := answers[a.ID]
		assert.Nil(t, w.exit, text)
		w.add(t, a)
		answers[a.ID] = w
	}
	return code, answers, errs.String()
}

// whole is everything that came for one request.
type whole struct {
	exit                   *int
	document, text, stderr string
	parts                  int
}

func (w *whole) add(t *testing.T, a ServeAnswer) {
	w.exit = a.Exit
	w.stderr += a.Stderr
	w.parts++
	var text string
	if json.Unmarshal(a.Output, &text) == nil {
		w.text += text
	} else {
		w.document = string(a.Output)
	}
}

// Whatever is asked, a served process says what a process of its own would.
func TestServedAndOneShotAnswersAgree(t *testing.T) {
	typ := obedient(nil, nil)
	asked := map[string]struct {
		args  []string
		input string
	}{
		"init":                  {nil, `{"name":"r"}`},
		"state":                 {[]string{"state"}, `{"config":{"answer":"<ü>","say":"looking\n"}}`},
		"state that fails":      {[]string{"state"}, `{"config":{"fail":"no\nsuch thing"}}`},
		"an action":             {[]string{"act"}, `{"config":{"say":"one\ntwo\nthree"}}`},
		"an action that warns":  {[]string{"warn"}, `{"config":{"say":"careful"}}`},
		"an action that fails":  {[]string{"act"}, `{"config":{"say":"half","fail":"disk full"}}`},
		"a large output":        {[]string{"act"}, `{"config":{"say":"` + strings.Repeat(`a line\nü`, 50_000) + `"}}`},
		"an unknown action":     {[]string{"pain"}, `{}`},
		"too many arguments":    {[]string{"state", "now"}, `{}`},
		"an unknown property":   {[]string{"state"}, `{"config":{"sya":1}}`},
		"input of another kind": {[]string{"state"}, `[]`},
		"ensure that cannot be": {[]string{"act"}, `{"ensure":"absent"}`},
	}
	for name, tc := range asked {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			want := typ.Run(t.Context(), tc.args, strings.NewReader(tc.input), &out, &errs)
			text := must.Get(json.Marshal(ServeRequest{ID: 7, Action: "a", Args: tc.args, Input: json.RawMessage(tc.input)}))(t)
			code, answers, stderr := serveAll(t, typ, string(text)+"\n")
			assert.Equal(t, 0, code)
			assert.Empty(t, stderr)
			got := answers[7]
			if got.exit == nil || *got.exit != want || got.document+got.text != strings.TrimSuffix(out.String(), "\n") && got.text != out.String() || got.stderr != errs.String() {
				t.Errorf("served   %+v\none-shot %d %q %q", got, want, out.String(), errs.String())
			}
		})
	}
}

func TestRequestsAreServedAtOnce(t *testing.T) {
	meet := make(chan struct{})
	code, answers, _ := serveAll(t, obedient(meet, nil), line(t, 1, script{Wait: true}, "act")+line(t, 2, script{Wait: true}, "state"))
	assert.True(t, code == 0 && *answers[1].exit == 0 && *answers[2].exit == 0, "ended with %d: %+v", code, answers)
}

func TestAPanicEndsItsRequestOnly(t *testing.T) {
	code, answers, _ := serveAll(t, obedient(nil, nil), line(t, 1, script{Panic: "magic"}, "act")+line(t, 2, script{Answer: "fine"}, "state"))
	assert.True(t, code == 0 && *answers[1].exit == 1 &&
		strings.HasPrefix(answers[1].stderr, "panic: magic\ngoroutine "), "ended with %d: %+v", code, answers[1])
	assert.Equal(t, 0, *answers[2].exit)
	assert.Equal(t, `{"status":"VALID","state":{"answer":"fine"}}`, answers[2].document)
}

func TestWhatEndsAProcess(t *testing.T) {
	good := line(t, 1, script{Say: "hello"}, "act")
	for name, tc := range map[string]struct{ stdin, stderr string }{
		"text":                  {good + "hello\n", "error: line 2 of stdin is not a request: invalid character 'h'"},
		"an empty line":         {good + "\n", "error: line 2 of stdin is not a request: unexpected end of JSON input"},
		"null":                  {good + "null\n", `error: line 2 of stdin is not a request: "id" must be a whole number from 1`},
		"no id":                 {good + `{"action":"state","args":["state"],"input":{}}`, `error: line 2 of stdin is not a request: "id" must be`},
		"an id that is text":    {good + `{"id":"a"}`, "error: line 2 of stdin is not a request: json: cannot unmarshal string"},
		"arguments are no list": {good + `{"id":2,"args":"state"}`, "error: line 2 of stdin is not a request: json: cannot unmarshal string"},
		"two on a line":         {good + `{"id":2}{"id":3}`, "error: line 2 of stdin is not a request: invalid character '{' after"},
		"a line that is cut":    {good + `{"id":2,"args":["sta`, "error: line 2 of stdin is not a request: unexpected end"},
		"a line without end":    {good + `{"id":2,"input":"` + strings.Repeat("x", MaxRequest), "error: line 2 of stdin has more than 33554432 bytes\n"},
	} {
		t.Run(name, func(t *testing.T) {
			code, answers, stderr := serveAll(t, obedient(nil, nil), tc.stdin)
			assert.Equal(t, 1, code)
			assert.True(t, strings.HasPrefix(stderr, tc.stderr))
			assert.True(t, answers[1].exit != nil && *answers[1].exit == 0 && answers[1].text == "hello" &&
				len(answers) == 1, "what was asked before it: %+v", answers)
		})
	}
}

func TestALineMayBeAsLongAsItMay(t *testing.T) {
	text := `{"id":1,"args":["state"],"input":{"config":{}}`
	code, answers, stderr := serveAll(t, obedient(nil, nil), text+strings.Repeat(" ", MaxRequest-len(text)-1)+"}\n")
	require.Equal(t, 0, code, stderr)
	assert.Equal(t, 0, *answers[1].exit)
}

func TestAnAnswerThatIsTooLongFailsItsRequest(t *testing.T) {
	code, answers, _ := serveAll(t, obedient(nil, nil), line(t, 1, script{Answer: strings.Repeat("x", MaxAnswer-60)}, "state"))
	if code != 0 || *answers[1].exit != 1 || answers[1].document != "" || answers[1].stderr != "error: the answer and the output with it are larger than 8388608 bytes\n" {
		t.Errorf("ended with %d: %.200v", code, answers)
	}
}

func TestServingWithinServing(t *testing.T) {
	code, answers, _ := serveAll(t, obedient(nil, nil), `{"id":1,"args":["serve"],"input":{"id":2}}`)
	if code != 0 || *answers[1].exit != 1 || answers[1].stderr != `error: unknown action "serve"; known are state, act, warn`+"\n" {
		t.Errorf("ended with %d: %+v", code, answers)
	}
}

// More requests than are worked on at a time wait their turn.
func TestManyRequests(t *testing.T) {
	var all strings.Builder
	const n = 5 * maxServed
	for id := range int64(n) {
		all.WriteString(line(t, id+1, script{Say: strings.Repeat("x\n", 20), Answer: fmt.Sprint(id)}, []string{"state", "act"}[id%2]))
	}
	code, answers, stderr := serveAll(t, obedient(nil, nil), all.String())
	require.Equal(t, 0, code, stderr)
	require.Len(t, answers, n, stderr)
	for id, a := range answers {
		require.True(t, *a.exit == 0 && (id%2 != 1 || strings.Contains(a.document, fmt.Sprintf(`"%d"`, id-1))) &&
			(id%2 != 0 || len(a.text) == 40), "request %d: %+v", id, a)
	}
}

// Whatever comes on stdin, each line of stdout is an answer, to something that was asked, and at most one ends it.
func FuzzServe(f *testing.F) {
	f.Add([]byte(line(f, 1, script{Say: "a\nb"}, "act") + line(f, 2, script{Fail: "x"}, "state") + line(f, 3, script{Panic: "x"}, "warn")))
	f.Add([]byte(`{"id":1}` + "\n" + `{"id":2,"action":"init","input":{}}` + "\r\n" + `{"id":2,"args":["state"],"input":null}`))
	f.Add([]byte(`{"id":1,"args":["act"],"input":{"config":{"say":"\ud800"}}}` + "\nnonsense"))
	for _, tc := range brokenDocuments {
		f.Add([]byte(tc.answer))
	}
	typ := obedient(nil, nil)
	hasty := func(do func(context.Context, Request[script]) error) func(context.Context, Request[script]) error {
		return func(ctx context.Context, r Request[script]) error {
			r.Config.Wait, r.Config.Leak = false, false // nobody is there to meet
			return do(ctx, r)
		}
	}
	for name, do := range typ.Actions {
		typ.Actions[name] = hasty(do)
	}
	state := typ.State
	typ.State = func(ctx context.Context, r Request[script]) (out StateOutput, err error) {
		err = hasty(func(ctx context.Context, r Request[script]) error {
			out, err = state(ctx, r)
			return err
		})(ctx, r)
		return out, err
	}
	f.Fuzz(func(t *testing.T, stdin []byte) {
		var out, errs bytes.Buffer
		code := typ.Run(t.Context(), []string{"serve"}, bytes.NewReader(stdin), &out, &errs)
		require.True(t, (code == 0 || code == 1) && (code == 0) == (errs.Len() == 0), "ended with %d: %s", code, errs.String())
		asked, answered := 0, 0
		for range bytes.Lines(stdin) {
			asked++
		}
		for text := range bytes.Lines(out.Bytes()) {
			a, err := DecodeServeAnswer(text)
			require.NoError(t, err, "%s", text)
			require.True(t, bytes.Contains(stdin, fmt.Append(nil, a.ID)), "nobody asked for %d", a.ID)
			if a.Exit != nil {
				answered++
			}
		}
		require.True(t, answered <= asked && (code != 0 || answered >= asked), "%d requests, %d answers", asked, answered)
	})
}
