package protocol

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

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

// talk is a conversation with a process, line by line.
type talk struct {
	stdin   *io.PipeWriter
	answers *bufio.Scanner
	ended   chan int
	stderr  bytes.Buffer
}

func start(ctx context.Context, typ Type[script]) *talk {
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	s := &talk{stdin: stdin, answers: bufio.NewScanner(stdout), ended: make(chan int, 1)}
	go func() {
		s.ended <- typ.Run(ctx, []string{"serve"}, in, out, &s.stderr)
		_ = out.Close()
	}()
	return s
}

func (s *talk) ask(t testing.TB, text string) { must.Get(io.WriteString(s.stdin, text))(t) }

func (s *talk) hear(t testing.TB) ServeAnswer {
	require.True(t, s.answers.Scan())
	return must.Get(DecodeServeAnswer(s.answers.Bytes()))(t)
}

func TestLinesOfAnActionAreSentAtOnce(t *testing.T) {
	meet := make(chan struct{})
	s := start(t.Context(), obedient(meet, nil))
	s.ask(t, line(t, 1, script{Say: "first\nsecond\nrest", Wait: true}, "act"))
	a := s.hear(t)
	assert.True(t, a.Exit == nil && string(a.Output) == `"first\nsecond\n"`, "while it runs: %+v", a)
	s.ask(t, line(t, 2, script{Say: "careful\n", Wait: true}, "warn"))
	a = s.hear(t)
	assert.True(t, a.ID == 2 && a.Exit == nil && a.Stderr == "careful\n" && a.Output == nil, "a warning: %+v", a)
	for range 2 {
		a := s.hear(t)
		assert.True(t, a.Exit != nil && *a.Exit == 0 && (a.ID != 1 || string(a.Output) == `"rest"`), "at the end: %+v", a)
	}
	_ = s.stdin.Close()
	assert.Equal(t, 0, <-s.ended)
}

func TestWhatWasAskedIsFinishedWhenStdinEnds(t *testing.T) {
	meet := make(chan struct{})
	s := start(t.Context(), obedient(meet, nil))
	s.ask(t, line(t, 1, script{Wait: true}, "act"))
	_ = s.stdin.Close()
	<-meet
	assert.Equal(t, 0, *s.hear(t).Exit)
	assert.Equal(t, 0, <-s.ended)
}

func TestCancelledServing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		s := start(ctx, obedient(make(chan struct{}), nil))
		s.ask(t, line(t, 1, script{Wait: true}, "act"))
		synctest.Wait()
		cancel(errors.New("enough"))
		a := s.hear(t)
		assert.True(t, a.Exit == nil && a.Stderr == "error: enough\n", "what it says: %+v", a)
		a = s.hear(t)
		assert.True(t, a.Exit != nil && *a.Exit == 1, "how it ends: %+v", a)
		code := <-s.ended
		assert.True(t, code == 1 && s.stderr.String() == "error: enough\n", "ended with %d: %s", code, s.stderr.String())
		_ = s.stdin.Close()
	})
}

func TestNobodyReadsTheAnswers(t *testing.T) {
	var errs bytes.Buffer
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	_ = stdout.CloseWithError(errors.New("gone"))
	go func() { _, _ = io.WriteString(stdin, line(t, 1, script{}, "state")) }() // and stdin stays open
	code := obedient(nil, nil).Run(t.Context(), []string{"serve"}, in, out, &errs)
	assert.True(t, code == 1 && errs.String() == "error: writing an answer: gone\n", "ended with %d: %s", code, errs.String())
	_ = stdin.Close()
}

func TestNothingFollowsTheLastAnswer(t *testing.T) {
	meet, late := make(chan struct{}), make(chan error, 1)
	s := start(t.Context(), obedient(meet, late))
	s.ask(t, line(t, 1, script{Leak: true}, "act"))
	require.NotNil(t, s.hear(t).Exit)
	close(meet)
	assert.ErrorIs(t, <-late, io.ErrClosedPipe)
	_ = s.stdin.Close()
	assert.False(t, s.answers.Scan())
	<-s.ended
}

func TestPrintedTextArrivesWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var out bytes.Buffer
		p := &stream{actionOutput: &actionOutput{id: 1, answers: &answerWriter{w: &out}}}
		piece := rapid.OneOf(rapid.String(), rapid.Just("\n"), rapid.Map(rapid.IntRange(0, 3*maxText), func(n int) string { return strings.Repeat("ü", n/2) }))
		said := strings.Join(rapid.SliceOfN(piece, 0, 4).Draw(t, "pieces"), "")
		for rest := []byte(said); len(rest) > 0; {
			n := min(len(rest), rapid.IntRange(1, 2*maxText).Draw(t, "written"))
			m, err := p.Write(rest[:n])
			require.True(t, m == n && err == nil, "%v %v", m, err)
			require.Less(t, len(p.pending), maxText)
			rest = rest[n:]
		}
		var got strings.Builder
		for text := range strings.Lines(out.String()) {
			a := must.Get(DecodeServeAnswer([]byte(text)))(t)
			var part string
			require.NoError(t, json.Unmarshal(a.Output, &part))
			got.WriteString(part)
		}
		got.Write(p.pending)
		require.Equal(t, said, got.String())
	})
}

func TestTheEndOfWhatStateSaysIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var e tail
		said := ""
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 2*maxText), 0, 6).Draw(t, "writes") {
			part := strings.Repeat("aü", n/3)
			said += part
			m, err := e.Write([]byte(part))
			require.True(t, m == len(part) && err == nil, "%v %v", m, err)
			require.LessOrEqual(t, len(e.text), 3*maxText)
		}
		got := e.String()
		require.True(t, strings.HasSuffix(said, got) && len(got) >= min(len(said), maxText-utf8.UTFMax) &&
			len(got) <= maxText && utf8.ValidString(got), "of %d bytes %d are kept", len(said), len(got))
	})
}

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
		got, err := DecodeServeAnswer([]byte(tc.line))
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, got, name)
	}
}

func deep(levels int) string {
	return strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
}

func TestRefusedServedAnswers(t *testing.T) {
	for _, tc := range map[string]struct{ line, message string }{
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
		_, err := DecodeServeAnswer([]byte(tc.line))
		requireAnswerError(t, err, tc.message)
	}
	for _, tc := range brokenDocuments {
		_, err := DecodeServeAnswer([]byte(tc.answer))
		requireAnswerError(t, err, "")
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
		text := must.Get(json.Marshal(a))(t)
		back, err := DecodeServeAnswer(text)
		require.NoError(t, err, "%s was accepted, but not as %s", line, text)
		require.Equal(t, string(text), string(must.Get(json.Marshal(back))(t)))
	})
}

// houses is an image of two types, which are told apart by the name of what is asked.
func houses() (both Several, lit, warm *string) {
	lit, warm = new(string), new(string)
	return Several{"lamp": lamp(lit), "oven": lamp(warm)}, lit, warm
}

// Every type of an image is asked by its own name, wherever the image was copied to, one at a time or all in one process.
func TestSeveralTypesAreOneProgram(t *testing.T) {
	both, lit, warm := houses()
	for typ, painted := range map[string]*string{"deployster/lamp": lit, "registry.example:5000/copied/oven:1.2": warm, "lamp@sha256:0123": lit} {
		input := `{"name": "r", "type": "` + typ + `", "config": {"colour": "red of ` + typ + `"}}`
		var out, errs bytes.Buffer
		if code := both.Run(t.Context(), []string{"paint"}, strings.NewReader(input), &out, &errs); code != 0 || *painted != "red of "+typ {
			t.Errorf("%s: exit code %d, %q was painted: %s", typ, code, *painted, errs.String())
		}
	}
	var asked bytes.Buffer
	for i, typ := range []string{"deployster/oven", "deployster/lamp"} {
		line, err := json.Marshal(ServeRequest{ID: int64(i + 1), Action: "paint", Args: []string{"paint"}, Input: StateInput{InitInput: InitInput{Type: typ}, Config: map[string]any{"colour": typ}}})
		require.NoError(t, err)
		asked.Write(append(line, '\n'))
	}
	var out, errs bytes.Buffer
	code := both.Run(t.Context(), []string{"serve"}, &asked, &out, &errs)
	require.True(t, code == 0 && errs.Len() <= 0, "exit code %d: %s", code, errs.String())
	assert.Equal(t, "deployster/lamp", *lit)
	assert.Equal(t, "deployster/oven", *warm)
}

func TestSeveralTypesAndNoneIsMeant(t *testing.T) {
	for input, want := range map[string]string{
		`{"type": "acme/stove:1", "config": {}}`: `"type" is "acme/stove:1", and this image has lamp, oven: the name of the image must end with one of them`,
		`{"config": {}}`:                         `"type" is "", and this image has lamp, oven`,
		`{"type": "lamp/"}`:                      `"type" is "lamp/"`,
		`{"type": 7}`:                            `must be a JSON object`,
		`[]`:                                     `must be a JSON object`,
		``:                                       `must be a JSON object`,
	} {
		both, lit, warm := houses()
		var out, errs bytes.Buffer
		if code := both.Run(t.Context(), []string{"paint"}, strings.NewReader(input), &out, &errs); code != 1 || !strings.Contains(errs.String(), want) || out.Len() > 0 {
			t.Errorf("%s: exit code %d, %q, %q; want %s", input, code, out.String(), errs.String(), want)
		}
		assert.Empty(t, *lit+*warm, "%s: something was painted", input)
	}
	both, _, _ := houses()
	var out, errs bytes.Buffer
	endless := io.MultiReader(strings.NewReader(`{"type": "`), bytes.NewReader(bytes.Repeat([]byte("x"), MaxRequest)))
	code := both.Run(t.Context(), []string{"state"}, endless, &out, &errs)
	assert.True(t, code == 1 && strings.Contains(errs.String(), "has more than"), "exit code %d: %.200s", code, errs.String())
}

type lampConfig struct {
	Colour string `json:"colour"`
	Watts  int    `json:"watts"`
}

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

func toText(v any) string { s, _ := v.(string); return s }

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
	require.True(t, code == 0 && err == nil && answer.Removable &&
		answer.Plugs["socket"].Writable, "init: exit %d, %q, %v", code, stdout, err)
	const input = `{"name":"l","type":"t","version":"1","verbose":true,"workspace":"/w","future":1,"config":{"colour":"red","watts":3}`
	code, stdout, _ = run(typ, input+"}", "state")
	state, err := DecodeState([]byte(stdout))
	require.True(t, code == 0 && err == nil && state.Status == Stale && state.StaleState == nil &&
		state.Actions[0].Args[0] == "paint", "state of what does not exist: exit %d, %q, %v", code, stdout, err)
	code, stdout, _ = run(typ, input+`,"staleState":{"colour":"blue"}}`, "paint")
	require.True(t, code == 0 && stdout == "was blue" && colour == "red", "action: exit %d, %q, colour %q", code, stdout, colour)
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

// What a request costs in addition to the work of the type: two pipes, decoding and encoding, on both sides.
func BenchmarkServedRequest(b *testing.B) {
	s := start(b.Context(), obedient(nil, nil))
	request := line(b, 1, script{Answer: "fine"}, "state")
	for b.Loop() {
		s.ask(b, request)
		a := s.hear(b)
		must.Get(DecodeState(a.Output))(b)
	}
	_ = s.stdin.Close()
	<-s.ended
}

// The same, with as many questions on their way as the process takes.
func BenchmarkServedRequestsAtOnce(b *testing.B) {
	s := start(b.Context(), obedient(nil, nil))
	request := line(b, 1, script{Answer: "fine"}, "state")
	var asking sync.WaitGroup
	asking.Go(func() {
		for range b.N {
			s.ask(b, request)
		}
	})
	for range b.N {
		s.hear(b)
	}
	asking.Wait()
	_ = s.stdin.Close()
	<-s.ended
}
