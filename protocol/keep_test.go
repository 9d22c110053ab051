package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheLastLineOfAnAction(t *testing.T) {
	for name, tc := range map[string]struct {
		line string
		keep map[string]any
		text bool
	}{
		"has an id kept":              {`{"keep":{"id":"i-1"}}`, map[string]any{"id": "i-1"}, false},
		"has nothing kept":            {` { "keep" : {} } ` + "\r", map[string]any{}, false},
		"is text":                     {"created i-1", nil, true},
		"is empty":                    {"", nil, true},
		"is another object":           {`{"level":"info","keep":{}}`, nil, true},
		"has more than is kept":       {`{"keep":{},"level":"info"}`, nil, true},
		"begins as one":               {`{"keep":{"id"`, nil, true},
		"has text after it":           {`{"keep":{}} done`, nil, true},
		"says it twice":               {`{"keep":{},"keep":{}}`, nil, true},
		"keeps another member":        {`{"keeper":{}}`, nil, true},
		"is not text":                 {"{\"keep\":{\"a\":\"\xff\"}}", nil, true},
		"is nested beyond all reason": {`{"keep":` + deep(200) + `}`, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			keep, ok, err := DecodeKeep([]byte(tc.line))
			if err != nil || ok == tc.text || !reflect.DeepEqual(keep, tc.keep) {
				t.Errorf("got %v, %v, %v", keep, ok, err)
			}
		})
	}
}

func keeping(bytes int) map[string]any {
	return map[string]any{"id": strings.Repeat("<", bytes-len(`{"id":""}`))}
}

func TestRefusedKeeps(t *testing.T) {
	line := func(keep any) string {
		text, err := json.Marshal(map[string]any{"keep": keep})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, tc := range map[string]struct{ keep, message string }{
		"not an object":          {line("s3cr3t"), "keep: must be an object, not a string"},
		"null":                   {line(nil), "keep: must be an object, not null"},
		"one byte too many":      {line(keeping(MaxKeep + 1)), "keep: has 65537 bytes of JSON; at most 65536 are kept of a resource"},
		"much too long a line":   {`{"keep":{"a":"` + strings.Repeat("x", MaxKeepLine), "at most 65536 are kept"},
		"something is not known": {line(map[string]any{"a": []any{Unknown{}}}), `keep.a.0: must be known: only a planned_state may hold {"$unknown": true}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, ok, err := DecodeKeep([]byte(tc.keep))
			if !ok {
				t.Error("it was taken for text")
			}
			requireAnswerError(t, err, tc.message)
			if bad := (*AnswerError)(nil); !errors.As(err, &bad) || bad.Excerpt != "" {
				t.Errorf("it shows %q", bad.Excerpt)
			}
		})
	}
	for _, where := range []string{`{"status":"VALID","state":{},"keep":`, `{"status":"STALE","actions":[{"name":"a"}],"keep":`} {
		for _, keep := range []any{keeping(MaxKeep + 1), "s3cr3t", map[string]any{"a": Unknown{}}} {
			text, err := json.Marshal(keep)
			if err != nil {
				t.Fatal(err)
			}
			_, err = DecodeState([]byte(where + string(text) + "}"))
			requireAnswerError(t, err, "keep")
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("it shows what may be secret: %v", err)
			}
		}
	}
}

func TestAsMuchAsMayBeKept(t *testing.T) {
	line, err := EncodeKeep(keeping(MaxKeep))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := DecodeKeep(line); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// What an action has kept is read again as it was, and the beginning of a line is enough to
// know that it may be one.
func TestKeepsAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.MapOfN(rapid.StringN(0, 4, 9), anyValue(2), 0, 3).Draw(t, "keep")
		line, err := EncodeKeep(keep)
		if err != nil {
			t.Fatal(err)
		}
		begun := line[:rapid.IntRange(0, len(line)).Draw(t, "begun")]
		if !MayBeKeep(begun) {
			t.Fatalf("%q is not taken for the beginning of %s", begun, line)
		}
		back, ok, err := DecodeKeep(line)
		if len(UnknownPaths(keep)) > 0 {
			if err == nil {
				t.Fatal("it holds what is not known")
			}
			return
		}
		if !ok || err != nil || !reflect.DeepEqual(keep, back) {
			t.Fatalf("%s: %v, %v, %v", line, back, ok, err)
		}
	})
}

func FuzzDecodeKeep(f *testing.F) {
	for _, line := range []string{`{"keep":{"id":"i-1"}}`, ` {"keep" : {}}`, `{"keep":null}`, `{"keep":{"a":{"$unknown":true}}}`, `{"keep":{}} x`, "created"} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		keep, ok, err := DecodeKeep(line)
		switch {
		case err != nil:
			checkFuzzError(t, err)
		case ok != (keep != nil):
			t.Fatalf("%q: %v, %v", line, keep, ok)
		case ok && (!MayBeKeep(line) || checkKeep(keep) != nil):
			t.Fatalf("%q was accepted", line)
		}
	})
}

// A disk has an id that only the world gives, and that both ways of asking it hand on.
func disk() Type[lampConfig] {
	return Type[lampConfig]{
		Keeps: true, Adoptable: true, AcceptsUnknown: true, StateSchema: json.RawMessage(`{"properties":{"key":{"writeOnly":true}}}`),
		State: func(_ context.Context, r Request[lampConfig]) (StateOutput, error) {
			switch {
			case r.Adopt != "":
				if err := r.Keep(map[string]string{"id": r.Adopt}); err != nil {
					return StateOutput{}, err
				}
				return AnswerValid(map[string]any{"id": r.Adopt})
			case r.Kept["id"] != nil:
				return AnswerValid(r.Kept)
			}
			out, err := AnswerStale(nil, Do("create", "Create it"))
			if err != nil {
				return out, err
			}
			planned := map[string]any{"colour": r.Config.Colour}
			if r.Unknown.Has("colour") {
				planned["colour"] = Unknown{}
			}
			return out.Planned(planned, "id")
		},
		Actions: map[string]func(context.Context, Request[lampConfig]) error{
			"create": func(_ context.Context, r Request[lampConfig]) error {
				if _, err := r.Stdout.Write([]byte("creating " + r.ID)); err != nil {
					return err
				}
				if err := r.Keep(map[string]any{"id": "d-7"}); err != nil || r.Interrupted {
					return errors.Join(err, errors.New("the format failed"))
				}
				return nil
			},
			"hoard": func(_ context.Context, r Request[lampConfig]) error { return r.Keep(keeping(MaxKeep + 1)) },
		},
	}
}

func TestATypeThatKeeps(t *testing.T) { //nolint:gocyclo // one story in its order
	code, out, _ := run(disk(), `{"name":"d"}`)
	if init, err := DecodeInit([]byte(out)); code != 0 || err != nil || !init.Keeps || !init.Adoptable || !init.AcceptsUnknown || init.StateSchema == nil {
		t.Fatalf("init: %s, %v", out, err)
	}
	code, out, _ = run(disk(), `{"config":{"colour":{"$unknown":true},"watts":3},"id":"w/d","kept":{}}`, "state")
	state, err := DecodeState([]byte(out))
	if want := (map[string]any{"colour": Unknown{}, "id": Unknown{}}); code != 0 || err != nil || !reflect.DeepEqual(state.PlannedState, want) || state.Keep != nil {
		t.Fatalf("state of nothing: %s, %v", out, err)
	}
	if code, out, _ = run(disk(), `{"config":{},"id":"w/d","kept":{}}`, "create"); code != 0 || out != "creating w/d\n{\"keep\":{\"id\":\"d-7\"}}\n" {
		t.Errorf("create: exit %d, %q", code, out)
	}
	if code, out, _ = run(disk(), `{"config":{},"interrupted":true}`, "create"); code != 1 || !strings.HasSuffix(out, "\n{\"keep\":{\"id\":\"d-7\"}}\n") {
		t.Errorf("what a failed action made is lost: exit %d, %q", code, out)
	}
	if code, out, _ = run(disk(), `{"config":{},"kept":{"id":"d-7"}}`, "state"); code != 0 || out != `{"status":"VALID","state":{"id":"d-7"}}`+"\n" {
		t.Errorf("state: exit %d, %q", code, out)
	}
	if code, out, _ = run(disk(), `{"config":{},"kept":{},"adopt":"d-9"}`, "state"); code != 0 || out != `{"status":"VALID","state":{"id":"d-9"},"keep":{"id":"d-9"}}`+"\n" {
		t.Errorf("adopting: exit %d, %q", code, out)
	}
	for _, tc := range []struct{ stdin, action, stderr string }{
		{`{"config":{}}`, "hoard", "error: keeping something of : keep: has 65537 bytes of JSON"},
		{`{"config":{"watts":{"$unknown":true}}}`, "create", "error: config: watts is not known, and an action needs all of it"},
		{`{"config":{},"kept":[]}`, "create", "error: kept: the answer is a list"},
	} {
		if code, _, stderr := run(disk(), tc.stdin, tc.action); code != 1 || !strings.HasPrefix(stderr, tc.stderr) {
			t.Errorf("exit %d, %q, want %q", code, stderr, tc.stderr)
		}
	}
}

func TestATypeThatDoesNotKeep(t *testing.T) {
	forgetful := disk()
	forgetful.Keeps, forgetful.Adoptable, forgetful.AcceptsUnknown = false, false, false
	for _, tc := range []struct{ stdin, action, stderr string }{
		{`{"config":{}}`, "create", "error: nothing can be kept: the type does not say that it Keeps"},
		{`{"config":{},"adopt":"d-9"}`, "state", "error: this resource type takes nothing over"},
		{`{"config":{"watts":{"$unknown":true}}}`, "state", "error: config: json: cannot unmarshal object"},
	} {
		if code, _, stderr := run(forgetful, tc.stdin, tc.action); code != 1 || !strings.HasPrefix(stderr, tc.stderr) {
			t.Errorf("exit %d, %q, want %q", code, stderr, tc.stderr)
		}
	}
}

func TestAServedTypeKeepsWithItsLastAnswer(t *testing.T) {
	var out bytes.Buffer
	in := `{"id":1,"action":"create","args":["create"],"input":{"config":{},"id":"w/d"}}` + "\n" +
		`{"id":2,"action":"state","args":["state"],"input":{"config":{},"adopt":"d-9"}}` + "\n"
	if code := disk().Run(context.Background(), []string{"serve"}, strings.NewReader(in), &out, &bytes.Buffer{}); code != 0 {
		t.Fatal(code)
	}
	for line := range strings.Lines(out.String()) {
		a, err := DecodeServeAnswer([]byte(line))
		if err != nil {
			t.Fatal(err)
		}
		if a.ID == 1 && (!reflect.DeepEqual(a.Keep, map[string]any{"id": "d-7"}) || string(a.Output) != `"creating w/d"`) ||
			a.ID == 2 && (a.Keep != nil || !strings.Contains(string(a.Output), `"keep":{"id":"d-9"}`)) {
			t.Errorf("%s", line)
		}
	}
}

func TestWhatIsNotKnown(t *testing.T) {
	v := map[string]any{"a": Unknown{}, "b": []any{1, map[string]any{"$unknown": true}}, "c": map[string]any{"$unknown": "true"}}
	if got := UnknownPaths(v); !reflect.DeepEqual(got, [][]string{{"a"}, {"b", "1"}}) {
		t.Errorf("got %v", got)
	}
	if got := ReplaceUnknown(v, nil); !reflect.DeepEqual(got, map[string]any{"a": nil, "b": []any{1, nil}, "c": map[string]any{"$unknown": "true"}}) {
		t.Errorf("got %v", got)
	}
	unknown := Unknowns{"networks.0.name"}
	for path, want := range map[string]bool{"networks": true, "networks.0.name": true, "networks.0.name.x": true, "networks.1": false, "net": false} {
		if unknown.Has(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}
