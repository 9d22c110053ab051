package planfile_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/objects"
	"github.com/deployster-go/deployster/internal/planfile"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/protocol"
	"github.com/deployster-go/deployster/runner/diff"
	"github.com/deployster-go/deployster/runner/report"
	"github.com/deployster-go/deployster/schema"
)

const salt = planfile.Salt("000102030405060708090a0b0c0d0e0f")

func hash(of string) string {
	h, err := salt.Fingerprint(of)
	if err != nil {
		panic(err)
	}
	return h
}

func some() *planfile.File {
	return &planfile.File{
		CreatedAt: time.Date(2026, 11, 21, 8, 6, 55, 123456789, time.UTC), Deployster: "1.2.3", Salt: salt, Run: "RUN", Log: planfile.Log{ID: "LOG", Event: 7},
		Engine:    planfile.Engine{Name: "docker", Address: "tcp://build:2376", Network: "none", Remote: true},
		Manifests: []string{"web.yaml", "../base.yaml"}, ManifestHash: hash("manifest"),
		Definitions: map[string]string{"net": hash("net"), "db": hash("db"), "api": hash("api")},
		Includes:    map[string]string{"conf/api": hash("text")},
		Targets:     []string{"api"},
		Given:       []planfile.Variable{{File: "ci.yaml"}, {Name: "tag"}},
		Variables:   map[string]string{"tag": hash("1.2"), "region": hash("eu")},
		Resources: []report.ResourcePlan{
			{
				Name: "net", Type: "acme/net:1", ImageID: "sha256:1", ImageDigest: "sha256:2", Status: report.Valid,
				Config: map[string]any{}, ConfigHash: hash("{}"), State: map[string]any{"id": "n1", "size": int64(1 << 60), "share": 0.5}, StateHash: hash("s"),
			},
			{
				Name: "db", Type: "acme/db:1", ImageID: "sha256:3", DependsOn: []string{"net"}, Status: report.Stale, Exists: true, ReadOnly: true,
				Config: map[string]any{"password": "(secret)", "ports": []any{int64(1), 2.5, nil, true}}, ConfigHash: hash("c"),
				State: map[string]any{"ports": []any{}}, StateHash: hash("t"),
				Diff:    []diff.Change{{Path: "ports", Op: diff.Modify, Old: []any{}, New: []any{int64(1)}}, {Path: "a", Op: diff.Add, New: false}},
				Actions: []protocol.Action{protocol.Do("grow", "make it <larger>"), {Name: "other", Invocation: protocol.Invocation{Image: "x", Entrypoint: "/y"}}}, ActionsHash: hash("a"),
			},
			{Name: "api", Type: "acme/api:1", ImageID: "sha256:4", DependsOn: []string{"db"}, Status: report.Unknown, After: []string{"db"}},
		},
	}
}

func encoded(t testing.TB, f *planfile.File) []byte {
	data := must.Get(f.Encode())(t)
	return data
}

func TestWhatWasEncodedIsDecoded(t *testing.T) {
	f := some()
	data := encoded(t, f)
	assert.Equal(t, f, must.Get(planfile.Decode(data))(t))
	assert.True(t, planfile.Is(bytes.NewReader(data)), "it is not recognised")
	open := f.Open()
	assert.True(t, len(open) == 1 && open[0] == "api", "open is %v", open)
	assert.True(t, reflect.DeepEqual(f.Bound()["db"], f.Resources[1]) && f.Plan().Run == "RUN", "the runner is told something else")
}

// Files of the version before are read, and are the same plan by their digest. They do not say where the log was.
func TestAFileOfTheVersionBeforeIsDecoded(t *testing.T) {
	f := some()
	f.Log = planfile.Log{}
	data := encoded(t, f)
	assert.Contains(t, string(data), `"version": 2,`)
	assert.Equal(t, f, must.Get(planfile.Decode(data))(t))
	assert.Equal(t, f.CreatedAt, f.Made())
	f.Run = "01M8NXZ5HPXNDK31T79DRDVGV5"
	assert.Equal(t, "2026-11-30T09:53:22", f.Made().UTC().Format("2006-01-02T15:04:05"))
}

func TestAFileKeepsItsSchema(t *testing.T) {
	text := must.Get(schema.Source("plan"))(t)
	s := must.Get(schema.CompileConfig(text))(t)
	document := map[string]any{}
	require.NoError(t, json.Unmarshal(encoded(t, some()), &document))
	found := s.Validate(document)
	assert.True(t, len(found) == 0, "%+v", found)
	document["resources"].([]any)[0].(map[string]any)["status"] = "FAILED"
	assert.True(t, len(s.Validate(document)) != 0, "the schema accepts anything")
}

func TestDecodeRefuses(t *testing.T) {
	whole := string(encoded(t, some()))
	// forged is what somebody makes who knows how the digest is taken.
	forged := func(change func(*planfile.File)) string {
		f := some()
		change(f)
		data := must.Get(f.EncodeUnread())(t)
		return string(data)
	}
	nested := func(levels int) any {
		var v any = []any{}
		for range levels - 1 {
			v = []any{v}
		}
		return v
	}
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                          {"", "is empty"},
		"a blank":                          {" \n", "is empty"},
		"a manifest":                       {"resources: {}\n", "is not a saved plan"},
		"other JSON":                       {`{"resources": {}}`, "is not a saved plan"},
		"a list":                           {`[1]`, "is not a saved plan"},
		"half of it":                       {whole[:len(whole)/2], "was cut off"},
		"its first lines":                  {whole[:60], "was cut off"},
		"another version":                  {strings.Replace(whole, `"version": 3`, `"version": 1`, 1), `has version "1" of the format, made by deployster "1.2.3", and this one reads versions 2 and 3`},
		"no version":                       {strings.Replace(whole, `"version": 3,`, ``, 1), `has version ""`},
		"forged: an event of no log":       {forged(func(f *planfile.File) { f.Log.Event = -1 }), "does not say what was in the log"},
		"another status":                   {strings.Replace(whole, "STALE", "VALID", 1), "was changed after it was made"},
		"another layout":                   {strings.ReplaceAll(whole, "\n", "\r\n"), "was changed after it was made"},
		"no digest":                        {strings.Replace(whole, "sha256:", "", 1), "was changed after it was made"},
		"more of it":                       {whole + "{}", "was changed after it was made"},
		"malformed JSON":                   {strings.Replace(whole, `"run": "RUN"`, `"run": RUN`, 1), "was changed after it was made"},
		"forged: no manifest":              {forged(func(f *planfile.File) { f.Manifests = nil }), "names no manifest"},
		"forged: no salt":                  {forged(func(f *planfile.File) { f.Salt = "" }), "has no salt"},
		"forged: no hash":                  {forged(func(f *planfile.File) { f.ManifestHash = "x" }), "no hash of its manifest"},
		"forged: failed":                   {forged(func(f *planfile.File) { f.Resources[1].Status = report.Failed }), `"db" has the status "FAILED"`},
		"forged: no image":                 {forged(func(f *planfile.File) { f.Resources[0].ImageID = "" }), `"net" is VALID, and not all of it is pinned`},
		"forged: no actions":               {forged(func(f *planfile.File) { f.Resources[1].Actions = nil }), `"db" is STALE, and not all of it is pinned`},
		"forged: no state hash":            {forged(func(f *planfile.File) { f.Resources[0].StateHash = "" }), `"net" is VALID, and not all of it is pinned`},
		"forged: twice":                    {forged(func(f *planfile.File) { f.Resources[2] = f.Resources[0] }), `"net" is there twice`},
		"forged: undefined":                {forged(func(f *planfile.File) { delete(f.Definitions, "db"); f.Definitions["x"] = "y" }), `"db" is there twice, or is not defined`},
		"forged: a text that is not UTF-8": {forged(func(f *planfile.File) { f.Given[1].Name = "a\xff" }), "is not a plan as deployster saves it"},
		"forged: nowhere":                  {forged(func(f *planfile.File) { f.Engine.Name = "" }), "does not say on which engine"},
		"forged: a variable's hash":        {forged(func(f *planfile.File) { f.Variables["tag"] = "" }), `has no hash of the variable "tag"`},
		"forged: a file's hash":            {forged(func(f *planfile.File) { f.Includes["conf/api"] = "" }), `has no hash of the file "conf/api"`},
		"forged: nested deep":              {forged(func(f *planfile.File) { f.Resources[0].State["deep"] = nested(planfile.MaxDepth) }), "is nested more than 132 levels deep"},
		"brackets without end":             {`{"format":"deployster-plan","a":` + strings.Repeat("[", 1<<20), "is nested more than 132 levels deep"},
		"forged: a variable":               {forged(func(f *planfile.File) { f.Given[0].Name = "x" }), "either a name or a file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := planfile.Decode([]byte(tc.text))
			assert.True(t, err != nil && strings.Contains(err.Error(), tc.want), "got %v, want %q", err, tc.want)
		})
	}
	for name, change := range map[string]func(*planfile.File){
		"a text that is not UTF-8": func(f *planfile.File) { f.Engine.Address = "unix:///run/d\xff.sock" },
		"values nested too deep":   func(f *planfile.File) { f.Resources[0].State["deep"] = nested(planfile.MaxDepth) },
	} {
		f := some()
		change(f)
		data, err := f.Encode()
		assert.True(t, err != nil && data == nil && strings.Contains(err.Error(), "could not be read again"), "%s is saved: %v", name, err)
	}
	f := some()
	f.Resources[0].State["deep"] = nested(protocol.MaxDepth - 2)
	assert.NoError(t, must.Fail(f.Encode()), "a state as deep as an answer can be")
	assert.ErrorContains(t, must.Fail(planfile.Decode(make([]byte, planfile.MaxSize+1))), "more than 64 MiB")
}

func TestAPlanThatNoServerTakesIsNotSaved(t *testing.T) {
	f := some()
	f.Server = "https://deploy.example"
	room := objects.MaxSize - len(encoded(t, f)) - len(`"text": "",`)
	f.Resources[0].State["text"] = strings.Repeat("x", room+200)
	assert.ErrorContains(t, must.Fail(f.Encode()), "at most 16777216 are taken by a server: plan parts of it with --target")
	f.Resources[0].State["text"] = strings.Repeat("x", room-200)
	data := encoded(t, f)
	assert.True(t, len(data) >= objects.MaxSize-1000 && len(data) <= objects.MaxSize, "it has %d bytes", len(data))
	f.Server, f.Resources[0].State["text"] = "", strings.Repeat("x", room+200)
	encoded(t, f) // here nobody has to take it
}

func TestAnyEditIsRefused(t *testing.T) {
	whole := encoded(t, some())
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(whole)-1).Draw(t, "at")
		b := rapid.Byte().Draw(t, "byte")
		edited := bytes.Clone(whole)
		switch rapid.SampledFrom([]string{"replace", "insert", "remove"}).Draw(t, "edit") {
		case "replace":
			if edited[at] == b {
				t.Skip("no edit")
			}
			edited[at] = b
		case "insert":
			edited = append(edited[:at], append([]byte{b}, edited[at:]...)...)
		default:
			edited = append(edited[:at], edited[at+1:]...)
		}
		require.Error(t, must.Fail(planfile.Decode(edited)), "accepted with an edit at %d", at)
	})
}

func TestWhateverIsEncodedIsDecoded(t *testing.T) {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(v bool) any { return v }), rapid.Map(rapid.String(), func(v string) any { return v }),
		rapid.Map(rapid.Int64(), func(v int64) any { return v }),
		rapid.Map(rapid.Float64().Filter(func(f float64) bool { return f != math.Trunc(f) || math.Abs(f) > 1e22 }), func(v float64) any { return v }),
	)
	value := rapid.OneOf(leaf, rapid.Map(rapid.SliceOfN(leaf, 0, 3), func(l []any) any { return l }))
	object := rapid.OneOf(rapid.Just(map[string]any(nil)), rapid.MapOfN(rapid.String(), value, 0, 3))
	rapid.Check(t, func(t *rapid.T) {
		f := some()
		f.CreatedAt = time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
		f.Deployster, f.Run = rapid.String().Draw(t, "deployster"), rapid.String().Draw(t, "run")
		f.Manifests = rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "manifests")
		f.Resources[0].Config, f.Resources[0].State = object.Draw(t, "config"), object.Draw(t, "state")
		f.Resources[1].Diff[0] = diff.Change{Path: rapid.String().Draw(t, "path"), Op: diff.Modify, Old: value.Draw(t, "old"), New: value.Draw(t, "new")}
		f.Resources[1].Actions[0].Args = rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "args")
		data := must.Get(f.Encode())(t)
		got, err := planfile.Decode(data)
		require.NoError(t, err, "%s", data)
		require.Equal(t, f, got)
	})
}

// A file that says little may not take much to be read: indented, what is deep
// is many times as long.
func TestAHostileFileTakesLittleMemory(t *testing.T) {
	f := some()
	var deep any = slices.Repeat([]any{int64(1)}, 10_000)
	for range protocol.MaxDepth - 2 {
		deep = []any{deep}
	}
	f.Resources[0].State = map[string]any{"deep": deep}
	data := must.Get(f.EncodeUnread())(t)
	var small bytes.Buffer
	require.NoError(t, json.Compact(&small, data))
	hostile := redigested(small.Bytes(), f.Digest)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	require.NoError(t, must.Fail(planfile.Decode(hostile)))
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	assert.True(t, allocated <= uint64(100*len(hostile)), "%d bytes took %d to be read", len(hostile), allocated)
}

// redigested gives a file in another layout the digest that it needs.
func redigested(compact []byte, digest string) []byte {
	const key = `"digest":`
	spaced := bytes.Replace(compact, []byte(key), []byte(`"digest": `), 1)
	blank := bytes.Replace(spaced, []byte(digest), nil, 1)
	sum := sha256.Sum256(blank)
	return bytes.Replace(spaced, []byte(digest), []byte("sha256:"+hex.EncodeToString(sum[:])), 1)
}

func FuzzDecode(f *testing.F) {
	whole := encoded(f, some())
	for _, seed := range [][]byte{whole, whole[:200], nil, []byte(`{"format":"deployster-plan","version":2}`), []byte(`{"a":{},"format":`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := planfile.Decode(data)
		if err != nil {
			assert.True(t, strings.TrimSpace(err.Error()) != "", "refused without a word")
			return
		}
		var given, again bytes.Buffer
		require.NoError(t, errors.Join(json.Compact(&given, data), json.Compact(&again, encoded(t, file))))
		// The digest is of the layout, too.
		if a, b := given.Bytes(), again.Bytes(); !bytes.Equal(a[bytes.Index(a, []byte(`"created_at"`)):], b[bytes.Index(b, []byte(`"created_at"`)):]) {
			t.Errorf("accepted, and is written otherwise:\n%s\n%s", a, b)
		}
		assert.True(t, planfile.Is(bytes.NewReader(data)), "accepted, and not recognised")
	})
}

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{
		`{"format":"deployster-plan"`:                      true,
		`  {"a": [{"b": 1}], "format" : "deployster-plan"`: true,
		`{"format":"other"}`:                               false,
		`{"format":["deployster-plan"]}`:                   false,
		`{"a":{"format":"deployster-plan"}}`:               false,
		`["format","deployster-plan"]`:                     false,
		`format: deployster-plan`:                          false,
		`{"resources":{}}`:                                 false,
		"":                                                 false,
		"\x00\xff":                                         false,
		`{"a":"` + strings.Repeat("x", 2<<20) + `","format":"deployster-plan"}`: false,
	} {
		assert.True(t, planfile.Is(strings.NewReader(text)) == want, "%.60s: %v", text, !want)
	}
}

func TestSalts(t *testing.T) {
	a, err := planfile.NewSalt(strings.NewReader("0123456789abcdef"))
	require.True(t, err == nil && len(a) == 32, "%v %v", a, err)
	assert.Error(t, must.Fail(planfile.NewSalt(strings.NewReader("too little"))), "a salt of too little randomness")
	assert.Error(t, must.Fail(planfile.NewSalt(broken{})), "a salt of no randomness")
	of := func(s planfile.Salt, v any) string {
		h, err := s.Fingerprint(v)
		assert.NoError(t, err)
		return h
	}
	assert.True(t, of(a, "x") != of(salt, "x"), "two salts, one hash")
	assert.True(t, of(a, int64(1)) == of(a, 1.0) && of(a, 1) != of(a, "1"), "a hash is not that of the JSON")
	assert.Equal(t, of(a, map[string]any{"b": 2, "a": 1}), of(a, map[string]any{"a": 1, "b": 2}), "the order of keys counts")
	h, err := a.Fingerprint(math.NaN())
	assert.True(t, err != nil, "%q is the hash of what has no JSON", h)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("no randomness") }

func load(t *testing.T, text string) *manifest.Manifest {
	m := must.Get(manifest.Load([]manifest.Source{{Name: "m.yaml", Data: []byte(text)}},
		manifest.Options{Evaluator: expression.New(t.TempDir()), Workspace: "/ws"}))(t)
	return m
}

func TestWhatBecameOfTheInputsOfAPlanIsNamed(t *testing.T) {
	const two = "resources:\n  a: {type: x}\n  b: {type: x}\n"
	was := map[string]any{"kept": 1, "set": "one", "gone": nil}
	f := &planfile.File{Salt: salt}
	require.NoError(t, f.Pin(load(t, two), was))
	for _, c := range []struct {
		name, text      string
		variables       map[string]any
		defined, valued []string
	}{
		{"nothing", two, was, nil, nil},
		{"resources", "resources:\n  c: {type: x}\n  b: {type: y}\n", was, []string{"c (m.yaml:2:3) is new", "b (m.yaml:3:3) is another", "a was removed"}, nil},
		{"a plug", "plugs: {p: {path: /p}}\n" + two, was, []string{"its plugs are others"}, nil},
		{"variables", two, map[string]any{"set": "two", "new": "", "kept": 1}, nil, []string{"new is new", "set has another value", "gone was removed"}},
	} {
		defined, valued, err := f.Changed(load(t, c.text), c.variables)
		if err != nil || !reflect.DeepEqual(defined, c.defined) || !reflect.DeepEqual(valued, c.valued) {
			t.Errorf("%s: %q, %q, %v; want %q, %q", c.name, defined, valued, err, c.defined, c.valued)
		}
	}
	_, _, err := f.Changed(load(t, two), map[string]any{"f": func() {}})
	assert.True(t, err != nil, "a variable that JSON cannot express was compared")
}

func TestVariablesAreCompletedByThoseOfAPlan(t *testing.T) {
	type flags = []vars.Flag
	file := func(path string) vars.Flag { return vars.Flag{File: path} }
	value := func(name, value string) vars.Flag { return vars.Flag{Name: name, Value: value} }
	f := &planfile.File{Given: []planfile.Variable{{Name: "a"}, {File: "f.yaml"}, {Name: "b"}, {Name: "a"}}}
	for _, c := range []struct {
		name       string
		given, all flags
		missing    []string
	}{
		{"in its order", flags{value("b", "1"), value("a", "2"), value("a", "3")}, flags{value("a", "2"), file("f.yaml"), value("b", "1"), value("a", "3")}, nil},
		{"one is for both", flags{value("a", "1"), value("b", "2")}, flags{value("a", "1"), file("f.yaml"), value("b", "2")}, nil},
		{"others come last", flags{value("z", "1"), value("y", "2"), value("a", "3"), value("b", "4")},
			flags{value("a", "3"), file("f.yaml"), value("b", "4"), value("y", "2"), value("z", "1")}, nil},
		{"files are taken as they are", flags{value("b", "1"), file("g.yaml"), value("a", "2")}, flags{value("b", "1"), file("g.yaml"), value("a", "2")}, nil},
		{"each that is missing is named once", nil, flags{file("f.yaml")}, []string{"a", "b"}},
	} {
		all, missing := f.Complete(c.given)
		assert.True(t, reflect.DeepEqual(all, c.all) && reflect.DeepEqual(missing, c.missing), "%s: %v, %v; want %v, %v", c.name, all, missing, c.all, c.missing)
	}
}

func TestAPlanIsShownElsewhereAsItIs(t *testing.T) {
	plan := &report.Plan{Run: "01JZ", Destroy: true, Resources: []report.ResourcePlan{
		{Name: "a", Type: "x", ImageID: "sha256:1", Status: report.Stale, Exists: true, Config: map[string]any{"port": int64(8080), "share": 0.5, "list": []any{"x", nil}},
			State: map[string]any{"port": int64(1 << 60)}, Diff: []diff.Change{{Path: "port", Op: "change", Old: int64(1), New: int64(8080)}}, Actions: []protocol.Action{{Name: "set"}}},
		{Name: "b", Type: "x", DependsOn: []string{"a"}, Status: report.Unknown, After: []string{"a"}},
		{Name: "c", Type: "x", Status: report.Failed, Reason: report.ReasonRunRefused, Error: "why\n\x1b[1m"},
	}}
	whole := *plan
	whole.Resources = append([]report.ResourcePlan{}, plan.Resources...)
	whole.Resources[0].ConfigHash, whole.Resources[0].StateHash, whole.Resources[0].ActionsHash = "hash", "hash", "hash"
	text, err := planfile.Show(&whole)
	require.True(t, err == nil && !strings.Contains(string(text), `"hash"`), "%v %v", string(text), err)
	got, err := planfile.Shown(text)
	assert.True(t, err == nil && reflect.DeepEqual(got, plan), "%+v, %v, want %+v", got, err, plan)
	for _, text := range []string{"", "[]", `{"resources":[{"name":1}]}`} {
		p, err := planfile.Shown([]byte(text))
		assert.True(t, err != nil, "%q is %+v", text, p)
	}
}

func TestAReportOfDriftIsShownElsewhereAsItIs(t *testing.T) {
	found := &report.Drift{Run: "01JZ", Unmatched: []diff.Unmatched{{Resource: "a", Instances: 2, Setting: "ignore_drift", Path: "p"}}, Resources: []report.ResourceDrift{
		{Name: "a", Type: "x", Status: report.Valid, Output: []string{"\x1b[1mwell"}},
		{Name: "b", Type: "x", DependsOn: []string{"a"}, Status: report.Stale, Asked: "set", Diff: []diff.Change{{Path: "port", Op: diff.Modify, Old: int64(1 << 60), New: 0.5}, {Path: "", Op: diff.Add, New: map[string]any{"n": int64(1)}}},
			Ignored: []diff.Change{{Path: "list", Op: diff.Remove, Old: []any{"x", nil, true}}}},
		{Name: "c", Type: "x", Status: report.Stale, Missing: true},
		{Name: "d", Type: "x", Status: report.Unknown, Because: []string{"c"}},
		{Name: "e", Type: "x", Status: report.Failed, Reason: report.ReasonRunRefused, Error: "why\n\x1b[1m"},
	}}
	text := must.Get(planfile.ShowDrift(found))(t)
	got, err := planfile.ShownDrift(text)
	assert.True(t, err == nil && reflect.DeepEqual(got, found), "%+v, %v, want %+v", got, err, found)
	// Nothing that a report has is left out.
	assert.Equal(t, 12, reflect.TypeFor[report.ResourceDrift]().NumField(), "what is known of a resource")
	assert.Equal(t, 4, reflect.TypeFor[report.Drift]().NumField(), "what is known of all")
	for _, text := range []string{"", "[]", `{"resources":[{"name":1}]}`} {
		d, err := planfile.ShownDrift([]byte(text))
		assert.True(t, err != nil, "%q is %+v", text, d)
	}
}
