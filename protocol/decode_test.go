package protocol

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// The documents that the lifecycle document shows.
const (
	seedInit = `{
  "plugs": {
    "gcp_service_account_file": {
      "container_path": "/internal/path/to/mount/the/plug/in/container",
      "optional": false,
      "writable": false
    }
  },
  "config_schema": {
    "type": "object",
    "additionalProperties": true
  },
  "state_action": {
    "args": ["state"]
  }
}`
	seedValid = `{"status": "VALID", "state": {"name": "www_vm", "zone": "europe-west1-b", "machine-type": "n1-standard-4"}}`
	seedStale = `{
  "status": "STALE",
  "actions": [
    {"name": "create-vm", "description": "Create VM", "entrypoint": "/acme/scripts/create-vm.sh"},
    {"name": "notify-slack", "description": "Signal new VM on slack", "image": "acme/slack-notifier",
     "entrypoint": "/acme/scripts/slack.sh", "args": ["--room=acme_deployments_channel"]}
  ]
}`
	seedOutdated = `{
  "status": "STALE",
  "staleState": {"name": "www_vm", "zone": "europe-west1-b", "machine-type": "n1-standard-1"},
  "actions": [{"name": "update-vm-machine-type", "description": "Update VM machine type", "args": ["--machine-type=n1-standard-4"]}]
}`
)

func TestInitAnswerOfTheLifecycleDocument(t *testing.T) {
	got, err := DecodeInit([]byte(seedInit))
	if err != nil {
		t.Fatal(err)
	}
	if p := got.Plugs["gcp_service_account_file"]; p != (PlugRequest{ContainerPath: "/internal/path/to/mount/the/plug/in/container"}) {
		t.Errorf("plug: %+v", p)
	}
	if !reflect.DeepEqual(got.StateAction, Invocation{Args: []string{"state"}}) {
		t.Errorf("state action: %+v", got.StateAction)
	}
	if !strings.Contains(string(got.ConfigSchema), `"additionalProperties": true`) || !json.Valid(got.ConfigSchema) {
		t.Errorf("config schema: %s", got.ConfigSchema)
	}
}

func TestStateAnswersOfTheLifecycleDocument(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		want   StateOutput
	}{
		"valid": {seedValid, StateOutput{Status: Valid, State: map[string]any{"name": "www_vm", "zone": "europe-west1-b", "machine-type": "n1-standard-4"}}},
		"does not exist": {seedStale, StateOutput{Status: Stale, Actions: []Action{
			{Name: "create-vm", Description: "Create VM", Invocation: Invocation{Entrypoint: "/acme/scripts/create-vm.sh"}},
			{Name: "notify-slack", Description: "Signal new VM on slack", Invocation: Invocation{
				Image: "acme/slack-notifier", Entrypoint: "/acme/scripts/slack.sh", Args: []string{"--room=acme_deployments_channel"},
			}},
		}}},
		"out of date": {seedOutdated, StateOutput{
			Status:     Stale,
			StaleState: map[string]any{"name": "www_vm", "zone": "europe-west1-b", "machine-type": "n1-standard-1"},
			Actions: []Action{{
				Name: "update-vm-machine-type", Description: "Update VM machine type",
				Invocation: Invocation{Args: []string{"--machine-type=n1-standard-4"}},
			}},
		}},
		"an action may be the image as it is": {
			`{"status":"STALE","staleState":{},"actions":[{"name":"go"}]}` + " \r\n\t",
			StateOutput{Status: Stale, StaleState: map[string]any{}, Actions: []Action{{Name: "go"}}},
		},
		"empty state": {`{"status":"VALID","state":{}}`, StateOutput{Status: Valid, State: map[string]any{}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := DecodeState([]byte(tc.answer))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %#v\nwant %#v", got, tc.want)
			}
		})
	}
}

func TestPlugDefaults(t *testing.T) {
	got, err := DecodeInit([]byte(`{"plugs":{"a":{"container_path":"/a"}},"state_action":{"entrypoint":"/state"},"serve_action":{"args":["serve"]},"removable":true}`))
	if err != nil {
		t.Fatal(err)
	}
	if got.Plugs["a"] != (PlugRequest{ContainerPath: "/a", Optional: false, Writable: true}) {
		t.Errorf("plug: %+v", got.Plugs["a"])
	}
	if got.ServeAction == nil || got.ServeAction.Args[0] != "serve" || !got.Removable {
		t.Errorf("additions: %+v", got)
	}
	if got.ConfigSchema != nil {
		t.Errorf("no schema was given, got %s", got.ConfigSchema)
	}
}

func TestNumbersAreNative(t *testing.T) {
	got, err := DecodeState([]byte(`{"status":"VALID","state":{"i":9007199254740993,"neg":-3,"f":1.0,"e":1e3,"big":9223372036854775808,"l":[1,[2.5]],"n":null,"b":true}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"i": int64(9007199254740993), "neg": int64(-3), "f": 1.0, "e": 1000.0, "big": 9223372036854775808.0,
		"l": []any{int64(1), []any{2.5}}, "n": nil, "b": true,
	}
	if !reflect.DeepEqual(got.State, want) {
		t.Errorf("got %#v", got.State)
	}
}

func TestSchemaIsKeptAsWritten(t *testing.T) {
	got, err := DecodeInit([]byte(`{"config_schema": {"maximum": 18446744073709551615},"state_action":{"args":["s"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	if string(got.ConfigSchema) != `{"maximum": 18446744073709551615}` {
		t.Errorf("got %s", got.ConfigSchema)
	}
}

// Every way in which any answer can be wrong, whatever it is an answer to.
var brokenDocuments = map[string]struct{ answer, message string }{
	"nothing":                  {"", "stdout was empty"},
	"white space":              {" \n\t ", "stdout was empty"},
	"log line first":           {"pulling…\n{\"status\":\"VALID\"}", `text before the JSON document; only the document belongs on stdout, everything for people on stderr (received "pulling…\n{"status"`},
	"bracketed log line first": {"[INFO] hello\n{}", "text before the JSON document"},
	"only text":                {"Segmentation fault\n", "the answer is not JSON"},
	"byte order mark":          {"\ufeff{}", `text before the JSON document; only the document belongs on stdout, everything for people on stderr (received "\ufeff{}")`},
	"list":                     {"[1]", "the answer is a list; one JSON object was expected"},
	"string":                   {`"x"`, "the answer is a string"},
	"null":                     {"null", "the answer is null"},
	"number":                   {"42\n", "the answer is a number"},
	"two documents":            {"{}\n{\"a\":1}", `there are two JSON documents; exactly one was expected (received "{"a":1}")`},
	"text after":               {"{}\ndone", `there is text after the JSON document; exactly one JSON document was expected (received "done")`},
	"cut off":                  {`{"status":"VAL`, "ends too early"},
	"cut off between":          {`{"status":`, "ends too early"},
	"cut off object":           {`{"a":1`, "ends too early"},
	"malformed":                {`{"status":VALID}`, "malformed JSON near byte"},
	"trailing comma":           {`{"a":1,}`, "malformed JSON"},
	"wrong bracket":            {`{"a":[1}`, "malformed JSON"},
	"invalid UTF-8":            {"{\"status\":\"\xff\xfeX\"}", `not valid UTF-8 at byte 11 (received "\xff\xfeX"}")`},
	"binary":                   {"\x7fELF\x02\x01", `not JSON; one JSON object was expected (received "\x7fELF\x02\x01")`},
	"duplicate key":            {`{"status":"VALID","status":"STALE"}`, "status: duplicate key"},
	"deep duplicate key":       {`{"state":{"a":[{"b":1,"b":2}]}}`, "state.a[0].b: duplicate key"},
	"escaped duplicate key":    {`{"state":{"a":1,"\u0061":2}}`, "state.a: duplicate key"},
	"too deep":                 {strings.Repeat(`{"a":`, 200) + "1" + strings.Repeat("}", 200), "nested more than 128 levels deep"},
	"number out of range":      {`{"state":{"n":1e999}}`, `state.n: the number is too large (received "1e999")`},
	"unknown key":              {`{"stat":1}`, `stat: unknown key`},
	"terminal escape in key":   {`{"\u001b[31m":1}`, `\x1b[31m: unknown key`},
}

func TestBrokenAnswers(t *testing.T) {
	for name, tc := range brokenDocuments {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeInit([]byte(tc.answer))
			requireAnswerError(t, err, tc.message)
			_, err = DecodeState([]byte(tc.answer))
			requireAnswerError(t, err, tc.message)
		})
	}
}

func TestTooLargeAnswer(t *testing.T) {
	big := `{"status":"VALID","state":{"a":"` + strings.Repeat("a", MaxAnswer) + `"}}`
	_, err := DecodeState([]byte(big))
	requireAnswerError(t, err, "larger than 8388608 bytes")
}

func TestRefusedInitAnswers(t *testing.T) {
	for name, tc := range map[string]struct{ answer, message string }{
		"no state action":               {`{}`, "state_action: missing"},
		"null state action":             {`{"state_action":null}`, "state_action: must be an object, not null"},
		"empty state action":            {`{"state_action":{}}`, "state_action: must have at least one of image, entrypoint and args"},
		"state action with empty args":  {`{"state_action":{"args":[]}}`, "state_action: must have at least one of"},
		"state action with empty image": {`{"state_action":{"image":"","args":["a"]}}`, "state_action.image: must not be empty"},
		"args is text":                  {`{"state_action":{"args":"state"}}`, `state_action.args: must be a list of strings, not a string (received "state")`},
		"an argument is a number":       {`{"state_action":{"args":["a",1]}}`, "state_action.args[1]: must be a string, not a number"},
		"command instead of entrypoint": {`{"state_action":{"command":"x"}}`, "state_action.command: unknown key; known here are image, entrypoint, args"},
		"another spelling":              {`{"stateAction":{"args":["state"]}}`, `stateAction: unknown key; did you mean "state_action"?`},
		"plug without a path":           {`{"plugs":{"a":{}},"state_action":{"args":["s"]}}`, "plugs.a.container_path: missing"},
		"relative plug":                 {`{"plugs":{"a":{"container_path":"a"}},"state_action":{"args":["s"]}}`, "plugs.a.container_path: must be an absolute path"},
		"unclean plug":                  {`{"plugs":{"a":{"container_path":"/a/../etc"}},"state_action":{"args":["s"]}}`, "plugs.a.container_path: must be an absolute path"},
		"plug at the root":              {`{"plugs":{"a":{"container_path":"/"}},"state_action":{"args":["s"]}}`, "plugs.a.container_path: must be an absolute path"},
		"plug at the work directory":    {`{"plugs":{"a":{"container_path":"/var/lib/deployster/work"}},"state_action":{"args":["s"]}}`, "plugs.a.container_path: is where the container has its work directory"},
		"plug name":                     {`{"plugs":{"a b":{"container_path":"/a"}},"state_action":{"args":["s"]}}`, "plugs.a b: the name of a plug must match"},
		"two plugs at one path":         {`{"plugs":{"a":{"container_path":"/a"},"b":{"container_path":"/a"}},"state_action":{"args":["s"]}}`, `plugs.b.container_path: is also the container_path of plug "a"`},
		"writable is text":              {`{"plugs":{"a":{"container_path":"/a","writable":"yes"}},"state_action":{"args":["s"]}}`, "plugs.a.writable: must be true or false, not a string"},
		"plug is a path":                {`{"plugs":{"a":"/a"},"state_action":{"args":["s"]}}`, "plugs.a: must be an object, not a string"},
		"schema is a list":              {`{"config_schema":[],"state_action":{"args":["s"]}}`, "config_schema: must be an object, not a list"},
		"action_images is a text":       {`{"action_images":"a","state_action":{"args":["s"]}}`, "action_images: must be a list, not"},
		"action_images has a number":    {`{"action_images":["a",1],"state_action":{"args":["s"]}}`, "action_images[1]: must be the reference of an image"},
		"action_images has none":        {`{"action_images":[""],"state_action":{"args":["s"]}}`, "action_images[0]: must be the reference of an image"},
		"network of a name":             {`{"network":"host","state_action":{"args":["s"]}}`, `network: must be "none", for a type that needs no network, or be left out`},
		"network without a name":        {`{"network":"","state_action":{"args":["s"]}}`, `network: must be "none"`},
		"network is a boolean":          {`{"network":false,"state_action":{"args":["s"]}}`, "network: must be a string, not a boolean"},
		"removable is a number":         {`{"removable":1,"state_action":{"args":["s"]}}`, "removable: must be true or false"},
		"empty serve action":            {`{"serve_action":{},"state_action":{"args":["s"]}}`, "serve_action: must have at least one of"},
		"NUL in an argument":            {`{"state_action":{"args":["a\u0000"]}}`, "state_action.args[0]: must not contain a NUL"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeInit([]byte(tc.answer))
			requireAnswerError(t, err, tc.message)
		})
	}
}

func TestRefusedStateAnswers(t *testing.T) {
	for name, tc := range map[string]struct{ answer, message string }{
		"no status":                   {`{"state":{}}`, "status: missing; it must be VALID or STALE"},
		"unknown status":              {`{"status":"BROKEN","state":{}}`, `status: must be VALID or STALE, not "BROKEN"`},
		"lower case status":           {`{"status":"valid","state":{}}`, `status: must be VALID or STALE, not "valid"`},
		"status is a number":          {`{"status":1}`, "status: must be a string, not a number"},
		"valid without state":         {`{"status":"VALID"}`, "state: missing; a VALID answer must have it"},
		"valid with null state":       {`{"status":"VALID","state":null}`, "state: must be an object, not null"},
		"valid with a list as state":  {`{"status":"VALID","state":[]}`, "state: must be an object, not a list"},
		"valid with actions":          {`{"status":"VALID","state":{},"actions":[]}`, "actions: must not be there when status is VALID"},
		"valid with stale state":      {`{"status":"VALID","state":{},"staleState":{}}`, "staleState: must not be there when status is VALID"},
		"stale without actions":       {`{"status":"STALE"}`, "actions: missing; a STALE answer"},
		"stale with empty actions":    {`{"status":"STALE","actions":[]}`, "actions: must not be empty"},
		"stale with state":            {`{"status":"STALE","state":{},"actions":[{"name":"a"}]}`, "state: must not be there when status is STALE"},
		"stale state is text":         {`{"status":"STALE","staleState":"x","actions":[{"name":"a"}]}`, "staleState: must be an object, not a string"},
		"another spelling":            {`{"status":"STALE","stale_state":{},"actions":[{"name":"a"}]}`, `stale_state: unknown key; did you mean "staleState"?`},
		"actions is an object":        {`{"status":"STALE","actions":{}}`, "actions: must be a list, not an object"},
		"an action is text":           {`{"status":"STALE","actions":["create"]}`, "actions[0]: must be an object, not a string"},
		"an action without a name":    {`{"status":"STALE","actions":[{"name":"a"},{"args":["x"]}]}`, "actions[1].name: missing"},
		"an empty name":               {`{"status":"STALE","actions":[{"name":""}]}`, "actions[0].name: must not be empty"},
		"a name with a slash":         {`{"status":"STALE","actions":[{"name":"../../etc/passwd"}]}`, "actions[0].name: must not contain slashes"},
		"a name that is a directory":  {`{"status":"STALE","actions":[{"name":".."}]}`, "actions[0].name: must not be . or .."},
		"a name that spans lines":     {`{"status":"STALE","actions":[{"name":"a\nb"}]}`, "actions[0].name: must consist of printable characters"},
		"a name that colours":         {`{"status":"STALE","actions":[{"name":"a\u001b[31m"}]}`, "actions[0].name: must consist of printable characters"},
		"a name without end":          {`{"status":"STALE","actions":[{"name":"` + strings.Repeat("n", 129) + `"}]}`, "actions[0].name: must not have more than 128 characters"},
		"a description that is a map": {`{"status":"STALE","actions":[{"name":"a","description":{}}]}`, "actions[0].description: must be a string, not an object"},
		"an unknown key in an action": {`{"status":"STALE","actions":[{"name":"a","arg":["b"]}]}`, `actions[0].arg: unknown key; did you mean "args"?`},
		"an empty entrypoint":         {`{"status":"STALE","actions":[{"name":"a","entrypoint":""}]}`, "actions[0].entrypoint: must not be empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeState([]byte(tc.answer))
			requireAnswerError(t, err, tc.message)
		})
	}
}

func requireAnswerError(t *testing.T, err error, message string) {
	t.Helper()
	var answer *AnswerError
	if !errors.As(err, &answer) {
		t.Fatalf("got %v, want an AnswerError saying %q", err, message)
	}
	if !strings.Contains(err.Error(), message) {
		t.Errorf("got  %s\nwant %s", err, message)
	}
	checkPrintable(t, answer)
}

type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

func checkPrintable(t failer, e *AnswerError) {
	t.Helper()
	if len(e.Excerpt) > 200 {
		t.Errorf("the excerpt has %d bytes", len(e.Excerpt))
	}
	for _, r := range e.Error() {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			t.Errorf("%q contains the unprintable %q", e.Error(), r)
			return
		}
	}
}

// Whatever is decoded is encoded to something that decodes to the same.
func TestStateRoundTrip(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[any] { return anyValue(3) })
	object := rapid.MapOf(rapid.StringN(0, 5, 20), value)
	rapid.Check(t, func(t *rapid.T) {
		out := StateOutput{Status: Valid, State: object.Draw(t, "state")}
		if rapid.Bool().Draw(t, "stale") {
			out = StateOutput{Status: Stale, Actions: []Action{Do(rapid.StringMatching(`[a-z][a-z -]{0,20}[a-z]`).Draw(t, "name"), "")}}
			if rapid.Bool().Draw(t, "exists") {
				out.StaleState = object.Draw(t, "staleState")
			}
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeState(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if !reflect.DeepEqual(out, back) {
			t.Fatalf("%s\nwas %#v\nis  %#v", text, out, back)
		}
	})
}

func anyValue(depth int) *rapid.Generator[any] {
	plain := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(), rapid.Int64().AsAny(),
		rapid.Map(rapid.Float64Range(-1e300, 1e300), func(f float64) any {
			if f == math.Trunc(f) {
				return int64(f / 1e290) // an integral float is written like an integer
			}
			return f
		}),
	}
	if depth > 0 {
		plain = append(plain,
			rapid.Map(rapid.SliceOfN(anyValue(depth-1), 0, 3), func(v []any) any { return v }),
			rapid.Map(rapid.MapOfN(rapid.StringN(0, 3, 9), anyValue(depth-1), 0, 3), func(v map[string]any) any { return v }))
	}
	return rapid.OneOf(plain...)
}

func FuzzDecodeInit(f *testing.F) {
	f.Add([]byte(seedInit))
	f.Add([]byte(`{"state_action":{"args":["s"]},"keeps":true,"adoptable":true,"accepts_unknown":true,"state_schema":{"type":"object"}}`))
	f.Add([]byte(`{"state_action":{"image":"a","entrypoint":"b"},"serve_action":{"args":["c"]},"removable":true,"action_images":["a"]}`))
	for _, tc := range brokenDocuments {
		f.Add([]byte(tc.answer))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := DecodeInit(data)
		if err != nil {
			checkFuzzError(t, err)
			return
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		back, err := DecodeInit(text)
		if err != nil {
			t.Fatalf("%s was accepted, but not as %s: %v", data, text, err)
		}
		back.ConfigSchema, out.ConfigSchema, back.StateSchema, out.StateSchema = nil, nil, nil, nil // white space may differ
		if len(out.Plugs) == 0 {
			out.Plugs = nil
		}
		if !reflect.DeepEqual(out, back) {
			t.Fatalf("was %#v, is %#v", out, back)
		}
	})
}

func FuzzDecodeState(f *testing.F) {
	for _, s := range []string{
		seedValid, seedStale, seedOutdated,
		`{"status":"VALID","state":{},"keep":{"id":"i-1"}}`, `{"status":"STALE","planned_state":{"id":{"$unknown":true}},"keep":{},"actions":[{"name":"a"}]}`,
	} {
		f.Add([]byte(s))
	}
	for _, tc := range brokenDocuments {
		f.Add([]byte(tc.answer))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := DecodeState(data)
		if err != nil {
			checkFuzzError(t, err)
			return
		}
		if (out.Status == Valid) != (out.State != nil) || (out.Status == Stale) != (len(out.Actions) > 0) {
			t.Fatalf("%s was accepted as %#v", data, out)
		}
		if !json.Valid(data) {
			t.Fatalf("%q was accepted and is not JSON", data)
		}
	})
}

func checkFuzzError(t *testing.T, err error) {
	var answer *AnswerError
	if !errors.As(err, &answer) {
		t.Fatalf("not an AnswerError: %v", err)
	}
	checkPrintable(t, answer)
}
