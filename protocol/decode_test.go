package protocol

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
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
	got := must.Get(DecodeInit([]byte(seedInit)))(t)
	assert.Equal(t, (PlugRequest{ContainerPath: "/internal/path/to/mount/the/plug/in/container"}), got.Plugs["gcp_service_account_file"])
	assert.Equal(t, Invocation{Args: []string{"state"}}, got.StateAction, "state action")
	assert.Contains(t, string(got.ConfigSchema), `"additionalProperties": true`)
	assert.True(t, json.Valid(got.ConfigSchema))
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
		got, err := DecodeState([]byte(tc.answer))
		require.NoError(t, err, name)
		assert.Equal(t, tc.want, got, name)
	}
}

func TestPlugDefaults(t *testing.T) {
	got, err := DecodeInit([]byte(`{"plugs":{"a":{"container_path":"/a"}},"state_action":{"entrypoint":"/state"},"serve_action":{"args":["serve"]},"removable":true}`))
	require.NoError(t, err)
	assert.Equal(t, (PlugRequest{ContainerPath: "/a", Optional: false, Writable: true}), got.Plugs["a"])
	assert.True(t, got.ServeAction != nil && got.ServeAction.Args[0] == "serve" && got.Removable, "additions: %+v", got)
	assert.Nil(t, got.ConfigSchema)
}

func TestNumbersAreNative(t *testing.T) {
	got, err := DecodeState([]byte(`{"status":"VALID","state":{"i":9007199254740993,"neg":-3,"f":1.0,"e":1e3,"big":9223372036854775808,"l":[1,[2.5]],"n":null,"b":true}}`))
	require.NoError(t, err)
	assert.Equal(t, map[string]any{
		"i": int64(9007199254740993), "neg": int64(-3), "f": 1.0, "e": 1000.0, "big": 9223372036854775808.0,
		"l": []any{int64(1), []any{2.5}}, "n": nil, "b": true,
	}, got.State)
}

func TestSchemaIsKeptAsWritten(t *testing.T) {
	got := must.Get(DecodeInit([]byte(`{"config_schema": {"maximum": 18446744073709551615},"state_action":{"args":["s"]}}`)))(t)
	assert.Equal(t, `{"maximum": 18446744073709551615}`, string(got.ConfigSchema), "got %s", got.ConfigSchema)
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
	for _, tc := range brokenDocuments {
		_, err := DecodeInit([]byte(tc.answer))
		requireAnswerError(t, err, tc.message)
		_, err = DecodeState([]byte(tc.answer))
		requireAnswerError(t, err, tc.message)
	}
}

func TestTooLargeAnswer(t *testing.T) {
	big := `{"status":"VALID","state":{"a":"` + strings.Repeat("a", MaxAnswer) + `"}}`
	_, err := DecodeState([]byte(big))
	requireAnswerError(t, err, "larger than 8388608 bytes")
}

func TestRefusedInitAnswers(t *testing.T) {
	for _, tc := range map[string]struct{ answer, message string }{
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
		_, err := DecodeInit([]byte(tc.answer))
		requireAnswerError(t, err, tc.message)
	}
}

func TestRefusedStateAnswers(t *testing.T) {
	for _, tc := range map[string]struct{ answer, message string }{
		"no status":                   {`{"state":{}}`, "status: missing; it must be VALID, STALE or CONFLICT"},
		"unknown status":              {`{"status":"BROKEN","state":{}}`, `status: must be VALID, STALE or CONFLICT, not "BROKEN"`},
		"lower case status":           {`{"status":"valid","state":{}}`, `status: must be VALID, STALE or CONFLICT, not "valid"`},
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
		_, err := DecodeState([]byte(tc.answer))
		requireAnswerError(t, err, tc.message)
	}
}

func requireAnswerError(t *testing.T, err error, message string) {
	t.Helper()
	var answer *AnswerError
	require.ErrorAs(t, err, &answer, message)
	assert.Contains(t, err.Error(), message)
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
		identities := rapid.SliceOfN(rapid.MapOfN(rapid.StringN(0, 5, 20), value, 1, 2), 0, 2).Draw(t, "identities")
		switch {
		case len(identities) == 1 && rapid.Bool().Draw(t, "single"):
			out.Identity = identities[0]
		case len(identities) > 0:
			out.Identities = identities
		}
		if len(identities) > 0 && rapid.Bool().Draw(t, "conflict") {
			out = StateOutput{Status: Conflict, Message: "m", Identity: out.Identity, Identities: out.Identities}
		}
		text := must.Get(json.Marshal(out))(t)
		back, err := DecodeState(text)
		require.NoError(t, err, "%s", text)
		require.Equal(t, back, out, "%s\nwas %#v\nis  %#v", text, out, back)
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
		text := must.Get(json.Marshal(out))(t)
		back, err := DecodeInit(text)
		require.NoError(t, err, "%s was accepted, but not as %s", data, text)
		back.ConfigSchema, out.ConfigSchema, back.StateSchema, out.StateSchema = nil, nil, nil, nil // white space may differ
		if len(out.Plugs) == 0 {
			out.Plugs = nil
		}
		require.Equal(t, back, out)
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
		require.Equal(t, out.State != nil, out.Status == Valid)
		require.Equal(t, len(out.Actions) > 0, out.Status == Stale)
		require.True(t, json.Valid(data))
	})
}

func checkFuzzError(t *testing.T, err error) {
	var answer *AnswerError
	require.ErrorAs(t, err, &answer, "not an AnswerError")
	checkPrintable(t, answer)
}

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
			assert.True(t, err == nil && ok != tc.text && reflect.DeepEqual(keep, tc.keep), "got %v, %v, %v", keep, ok, err)
		})
	}
}

func keeping(bytes int) map[string]any {
	return map[string]any{"id": strings.Repeat("<", bytes-len(`{"id":""}`))}
}

func TestRefusedKeeps(t *testing.T) {
	line := func(keep any) string {
		text := must.Get(json.Marshal(map[string]any{"keep": keep}))(t)
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
			assert.True(t, ok, "it was taken for text")
			requireAnswerError(t, err, tc.message)
			bad := (*AnswerError)(nil)
			assert.True(t, errors.As(err, &bad) && bad.Excerpt == "", "it shows %q", bad.Excerpt)
		})
	}
	for _, where := range []string{`{"status":"VALID","state":{},"keep":`, `{"status":"STALE","actions":[{"name":"a"}],"keep":`} {
		for _, keep := range []any{keeping(MaxKeep + 1), "s3cr3t", map[string]any{"a": Unknown{}}} {
			text := must.Get(json.Marshal(keep))(t)
			_, err := DecodeState([]byte(where + string(text) + "}"))
			requireAnswerError(t, err, "keep")
			assert.NotContains(t, err.Error(), "s3cr3t", "it shows what may be secret")
		}
	}
}

func TestAsMuchAsMayBeKept(t *testing.T) {
	line := must.Get(EncodeKeep(keeping(MaxKeep)))(t)
	_, ok, err := DecodeKeep(line)
	assert.True(t, ok && err == nil, "%v, %v", ok, err)
}

// What an action has kept is read again as it was, and the beginning of a line is enough to know that it may be one.
func TestKeepsAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keep := rapid.MapOfN(rapid.StringN(0, 4, 9), anyValue(2), 0, 3).Draw(t, "keep")
		line := must.Get(EncodeKeep(keep))(t)
		begun := line[:rapid.IntRange(0, len(line)).Draw(t, "begun")]
		require.True(t, MayBeKeep(begun))
		back, ok, err := DecodeKeep(line)
		if len(UnknownPaths(keep)) > 0 {
			require.Error(t, err, "it holds what is not known")
			return
		}
		require.True(t, ok && err == nil && reflect.DeepEqual(keep, back), "%s: %v, %v, %v", line, back, ok, err)
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

func TestATypeThatKeeps(t *testing.T) {
	code, out, _ := run(disk(), `{"name":"d"}`)
	if init, err := DecodeInit([]byte(out)); code != 0 || err != nil || !init.Keeps || !init.Adoptable || !init.AcceptsUnknown || init.StateSchema == nil {
		t.Fatalf("init: %s, %v", out, err)
	}
	code, out, _ = run(disk(), `{"config":{"colour":{"$unknown":true},"watts":3},"id":"w/d","kept":{}}`, "state")
	state, err := DecodeState([]byte(out))
	if want := (map[string]any{"colour": Unknown{}, "id": Unknown{}}); code != 0 || err != nil || !reflect.DeepEqual(state.PlannedState, want) || state.Keep != nil {
		t.Fatalf("state of nothing: %s, %v", out, err)
	}
	code, out, _ = run(disk(), `{"config":{},"id":"w/d","kept":{}}`, "create")
	assert.True(t, code == 0 && out == "creating w/d\n{\"keep\":{\"id\":\"d-7\"}}\n", "create: exit %d, %q", code, out)
	if code, out, _ = run(disk(), `{"config":{},"interrupted":true}`, "create"); code != 1 || !strings.HasSuffix(out, "\n{\"keep\":{\"id\":\"d-7\"}}\n") {
		t.Errorf("what a failed action made is lost: exit %d, %q", code, out)
	}
	code, out, _ = run(disk(), `{"config":{},"kept":{"id":"d-7"}}`, "state")
	assert.True(t, code == 0 && out == `{"status":"VALID","state":{"id":"d-7"}}`+"\n", "state: exit %d, %q", code, out)
	if code, out, _ = run(disk(), `{"config":{},"kept":{},"adopt":"d-9"}`, "state"); code != 0 || out != `{"status":"VALID","state":{"id":"d-9"},"keep":{"id":"d-9"}}`+"\n" {
		t.Errorf("adopting: exit %d, %q", code, out)
	}
	for _, tc := range []struct{ stdin, action, stderr string }{
		{`{"config":{}}`, "hoard", "error: keeping something of : keep: has 65537 bytes of JSON"},
		{`{"config":{"watts":{"$unknown":true}}}`, "create", "error: config: watts is not known, and an action needs all of it"},
		{`{"config":{},"kept":[]}`, "create", "error: kept: the answer is a list"},
	} {
		code, _, stderr := run(disk(), tc.stdin, tc.action)
		assert.True(t, code == 1 && strings.HasPrefix(stderr, tc.stderr), "exit %d, %q, want %q", code, stderr, tc.stderr)
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
		code, _, stderr := run(forgetful, tc.stdin, tc.action)
		assert.True(t, code == 1 && strings.HasPrefix(stderr, tc.stderr), "exit %d, %q, want %q", code, stderr, tc.stderr)
	}
}

func TestAServedTypeKeepsWithItsLastAnswer(t *testing.T) {
	var out bytes.Buffer
	in := `{"id":1,"action":"create","args":["create"],"input":{"config":{},"id":"w/d"}}` + "\n" +
		`{"id":2,"action":"state","args":["state"],"input":{"config":{},"adopt":"d-9"}}` + "\n"
	require.Equal(t, 0, disk().Run(context.Background(), []string{"serve"}, strings.NewReader(in), &out, &bytes.Buffer{}))
	for line := range strings.Lines(out.String()) {
		a := must.Get(DecodeServeAnswer([]byte(line)))(t)
		assert.False(t, a.ID == 1 && (!reflect.DeepEqual(a.Keep, map[string]any{"id": "d-7"}) || string(a.Output) != `"creating w/d"`) ||
			a.ID == 2 && (a.Keep != nil || !strings.Contains(string(a.Output), `"keep":{"id":"d-9"}`)), line)
	}
}

func TestWhatIsNotKnown(t *testing.T) {
	v := map[string]any{"a": Unknown{}, "b": []any{1, map[string]any{"$unknown": true}}, "c": map[string]any{"$unknown": "true"}}
	assert.Equal(t, [][]string{{"a"}, {"b", "1"}}, UnknownPaths(v))
	assert.Equal(t, map[string]any{"a": nil, "b": []any{1, nil}, "c": map[string]any{"$unknown": "true"}}, ReplaceUnknown(v, nil))
	unknown := Unknowns{"networks.0.name"}
	for path, want := range map[string]bool{"networks": true, "networks.0.name": true, "networks.0.name.x": true, "networks.1": false, "net": false} {
		assert.Equal(t, want, unknown.Has(path), path)
	}
}
