package protocol

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
