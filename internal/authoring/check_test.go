package authoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/engine"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/protocol"
)

type brokenType struct {
	old, new string // in the Python template
	check    string // the first that is not passed
	outcome  Outcome
	detail   string
}

// Every way in which a type can be broken, and the check that finds it.
var broken = map[string]brokenType{
	"init fails": {"json.dump(INIT, sys.stdout)", `sys.exit("no licence \x1b[31mfound")`,
		"init exits with 0", Failed, `exited with 1; the end of its stderr: "no licence \x1b[31mfound\n"`},
	"init prints a log line": {"json.dump(INIT, sys.stdout)", `print("starting"); json.dump(INIT, sys.stdout)`,
		"init writes only JSON to stdout", Failed, `(received "starting\n{"plugs"`},
	"init answers twice": {"json.dump(INIT, sys.stdout)", "json.dump(INIT, sys.stdout); json.dump(INIT, sys.stdout)",
		"init writes only JSON to stdout", Failed, "two JSON documents"},
	"init answers nothing": {"json.dump(INIT, sys.stdout)", "pass", "init writes only JSON to stdout", Failed, "stdout was empty"},
	"init answers without end": {"json.dump(INIT, sys.stdout)", `[print("x" * 65536) for _ in range(1000)]`,
		"init exits with 0", Failed, "init wrote an answer of more than 8388608 bytes"},
	"init misspells a member": {`"removable": True`, `"removeable": True`, "init answer is valid", Failed, "removeable"},
	"init names no list of images": {`"removable": True`, `"removable": True, "action_images": "tool:1"`,
		"init answer is valid", Failed, "action_images: must be a list, not "},
	"init names an image that is a number": {`"removable": True`, `"removable": True, "action_images": ["tool:1", 2]`,
		"init answer is valid", Failed, "action_images[1]: must be the reference of an image"},
	"init names an image that is none": {`"removable": True`, `"removable": True, "action_images": ["tool:1", "Tool 1"]`,
		"init answer is valid", Failed, `action_images[1]: "Tool 1" is not the reference of an image: invalid reference format`},
	"init asks for no state action": {
		`"state_action": {"args": ["state"]},`, "",
		"init answer is valid", Failed, "state_action",
	},
	"init swallows what it cannot read": {
		"    if not args:\n", "    if not args:\n        try: json.load(stdin)\n        except ValueError: print('oh'); return\n",
		"init copes with malformed input", Failed, `without a valid answer`,
	},
	"the schema is none": {`"type": "object"`, `"type": "objekt"`, "config_schema compiles", Failed, "JSON Schema"},
	"there is no schema": {
		`"config_schema": {`, `"config_schema" if False else "plugs": {"root": {"container_path": PLUG}} if True else {`,
		"config_schema compiles", Warning, "add one",
	},
	"another plug is wanted": {`"root": {"container`, `"data": {"container`,
		"plugs are given", Failed, "give --plug data=PATH (the type wants it at "},
	"the schema refuses what is good": {`"required": ["path", "content"]`, `"required": ["path", "content", "mode"]`,
		"good config is accepted", Failed, "mode"},
	"the schema accepts everything": {`"config_schema": {`, `"config_schema": {"type": "object"} if True else {`,
		"bad config is refused", Warning, "accepts everything"},
	"the schema lets misspelt properties through": {`"additionalProperties": False,`, "",
		"bad config is refused", Failed, `add "additionalProperties": false`},
	"the schema lets a value of any kind through": {
		`"content": {"description": "What the file contains.", "type": "string"}`, `"content": {}`,
		"bad config is refused", Warning, "accepted for content",
	},
	"state fails": {"    found = look(config)\n", "    found = look(config)\n    1 / 0\n",
		"state exits with 0", Failed, `ZeroDivisionError: division by zero\n"`},
	"state prints a log line": {"    found = look(config)\n", "    found = look(config)\n    print('looked')\n",
		"state writes only JSON to stdout", Failed, `(received "looked\n{"status"`},
	"state has a status of its own": {`"status": "STALE"`, `"status": "MISSING"`,
		"state answer is valid", Failed, "must be VALID, STALE or CONFLICT"},
	"state names no actions": {`"actions": [action("create", "Create " + config["path"])]`, `"actions": []`,
		"state answer is valid", Failed, "actions"},
	"state changes things": {
		"    found = look(config)\n", "    found = look(config)\n    write(request) if found is None else None\n",
		"state writes only JSON to stdout", Failed, "wrote hello.txt",
	},
	"state changes things silently": {
		"    found = look(config)\n", "    found = look(config)\n    open(file_of(config), 'w').close()\n",
		"state changes nothing", Failed, "hello.txt\" changed, which is in a plug",
	},
	"state answers what it cannot read": {
		"request = json.load(stdin)", "request = json.loads(stdin.read().strip() or '{\"config\": {\"path\": \"x\"}}')",
		"state refuses malformed input", Failed, `given "" on stdin, state exited with 0`,
	},
	"an action fails": {`print("wrote", config["path"])`, `sys.exit("disk full")`,
		"actions exit with 0", Failed, `action "create", run with args ["create"], exited with 1; the end of what it printed: "disk full\n"`},
	"an action cannot be run": {
		`"description": description, "args": [name]`, `"description": description, "image": "elsewhere@sha256:" + "0" * 64, "args": [name]`,
		"actions exit with 0", Failed, `the image of create: image "elsewhere@sha256:` + strings.Repeat("0", 64) + `": no such image`,
	},
	"an action runs an image that init does not name": {
		`"description": description, "args": [name]`, `"description": description, "image": "my-tool", "args": [name]`,
		"state answer is valid", Warning, `action "create" runs the image "my-tool", which action_images of init does not name, so a revision would refuse to run it`,
	},
	"an action does nothing": {`os.replace(temp, path)`, `os.remove(temp)`,
		"state is VALID after the actions", Failed, "it is STALE (create)"},
	"an action writes something else": {
		`f.write(config["content"])`, `f.write(config["content"].strip())`,
		"state is VALID after the actions", Failed, "it is STALE (update)",
	},
	"state is never content twice": {
		"    found = look(config)\n", "    found = look(config)\n    if found is not None:\n        seen = os.environ['DEPLOYSTER_WORKSPACE'] + '/seen'\n        with open(seen, 'a') as f: f.write('x')\n        if os.path.getsize(seen) > 1: found['content'] = ''\n",
		"second apply changes nothing", Failed, "it is STALE (update)",
	},
	"removal is forgotten": {`if request.get("ensure") == "absent":`, "if False:",
		"removal ends VALID", Failed, "hello.txt\" is still there, which its actions made"},
	"state writes into a plug": {
		"    found = look(config)\n", "    found = look(config)\n    open(PLUG + '/.seen', 'a').write('x')\n",
		"state changes nothing", Failed, ".seen\" changed, which is in a plug",
	},
	"actions have random arguments": {
		`"description": description, "args": [name]`, `"description": description, "args": [name, os.urandom(4).hex()]`,
		"state changes nothing", Failed, "as random values and times do",
	},
	"an action fails when it is run again": {`print("wrote", config["path"])`, `os.mkdir(path + ".lock")`,
		"actions may be run again", Failed, `run again, as after an interruption: action "create"`},
	"init floods its stderr": {"json.dump(INIT, sys.stdout)", `json.dump(INIT, sys.stdout); sys.stderr.write("x" * 3_000_000)`,
		"init exits with 0", Failed, "wrote 3000000 bytes to stderr, at most 1048576 are reasonable"},
	"an action floods": {
		`print("wrote", config["path"])`, `[print("x" * (1 << 20), file=sys.stderr if i % 2 else sys.stdout) for i in range(20)]`,
		"actions exit with 0", Failed, `action "create" printed more than 16777216 bytes: say there what people need to know`,
	},
	"removal fails": {`        os.remove(file_of(config))`, `        sys.exit("busy")`,
		"removal ends VALID", Failed, `action "remove", run with args ["remove"], exited with 1`},
	"removal does nothing": {`        os.remove(file_of(config))`, `        pass`,
		"removal ends VALID", Failed, `after its actions the state must be VALID; it is STALE (remove)`},
	"removal only pretends": {
		"ACTIONS = {", `
honest = state
def state(request):
    if request.get("ensure") == "absent" and os.path.exists(PLUG + "/gone"):
        return {"status": "VALID", "state": {}}
    return honest(request)
def remove(request):
    open(PLUG + "/gone", "w").close()
ACTIONS = {`,
		"removal ends VALID", Failed, `after remove the resource is still there`,
	},
}

// The ways in which a type that works can serve badly.
var brokenServing = map[string]brokenType{
	"it greets": {
		"    for line in sys.stdin:\n", "    print('serving', flush=True)\n    for line in sys.stdin:\n",
		"serve starts and answers", Failed, `the process that serves: the answer is not JSON; one JSON object was expected (received "serving"); only lines like`,
	},
	"it answers garbage": {"print(json.dumps(answer), flush=True)", `print('{"id": 1, "exit": "\x1b[31m"}', flush=True)`,
		"serve starts and answers", Failed, "the process that serves: "},
	"it answers twice": {
		"print(json.dumps(answer), flush=True)", "print(json.dumps(answer) + '\\n' + json.dumps(answer), flush=True)",
		"served and one-shot answers agree", Failed, `request 1 was answered again; received "{"id": 1, "exit": 0`,
	},
	"it answers another request": {`answer = {"id": asked["id"]`, `answer = {"id": asked["id"] + 1`,
		"serve starts and answers", Failed, "request 2 was answered, which was never asked; received"},
	"it prints 100 MB on one line": {
		"print(json.dumps(answer), flush=True)", "[print('x' * 1_000_000, end='') for _ in range(100)]",
		"serve starts and answers", Failed, "the process that serves wrote an answer of more than 8388608 bytes on one line",
	},
	"it exits at once": {"    for line in sys.stdin:\n", "    sys.exit('no licence')\n    for line in sys.stdin:\n",
		"serve starts and answers", Failed, `the process that serves exited with 1 before it had answered; the end of its stderr: "no licence\n"`},
	"it exits after one request": {"print(json.dumps(answer), flush=True)", "print(json.dumps(answer), flush=True); return",
		"served and one-shot answers agree", Failed, "the process that serves exited with 0 before it had answered; it wrote nothing to stderr"},
	"it dies of what it does not understand": {"except Exception:", "except ZeroDivisionError:",
		"served and one-shot answers agree", Failed, "the process that serves exited with 1 before it had answered; the end of its stderr: "},
	"it succeeds always": {"code = 1\n", "code = 0\n",
		"served and one-shot answers agree", Failed, `given "" as input, state exited with 1 in a container of its own; served, it exited with 0`},
	"it does not know its arguments": {`args, out, err, code = asked.get("args", [])`, `args, out, err, code = ["start"]`,
		"serve starts and answers", Failed, "init, served, exited with 1; the end of its stderr: "},
	"it answers with text": {"json.loads(out.getvalue()) if document else out.getvalue()", "out.getvalue()",
		"serve starts and answers", Failed, "it must be the document itself, not text that contains it"},
	"it answers with nothing": {"if out.getvalue() and not (document and code):", "if False:",
		"serve starts and answers", Failed, "init, served: output: stdout was empty"},
	"it remembers": {
		"def serve():\n", "import functools\ndef serve():\n    global look; forget = look; look = lambda c, seen={}: seen.setdefault(c['path'], forget(c))\n",
		"served and one-shot answers agree", Failed, `state answered "{"status": "VALID"`,
	},
	"its init is another": {"def serve():\n", "def serve():\n    INIT['removable'] = False\n",
		"served and one-shot answers agree", Failed, "init answered "},
	"its actions fail": {"def serve():\n", "def serve():\n    ACTIONS['create'] = lambda request: sys.exit('read-only')\n",
		"served and one-shot answers agree", Failed, `action "create", served, exited with 1; the end of what it printed: "read-only\n"`},
	"its actions do nothing": {"def serve():\n", "def serve():\n    ACTIONS['create'] = print\n",
		"served and one-shot answers agree", Failed, `after its actions, served, the state must be VALID; it is STALE (create)`},
	"its actions answer documents": {
		"document = args in ([], [\"state\"])", "document = args in ([], ['state'], ['create']); out = io.StringIO('{}') if args == ['create'] else out",
		"served and one-shot answers agree", Failed, `action "create", served, answered output "{}"; it must be a JSON string`,
	},
	"it ends badly": {
		"        print(json.dumps(answer), flush=True)\n", "        print(json.dumps(answer), flush=True)\n    sys.exit('no more')\n",
		"serve ends when its stdin ends", Failed, `serve exited with 1; the end of its stderr: "no more\n"`,
	},
	"it says goodbye": {
		"        print(json.dumps(answer), flush=True)\n", "        print(json.dumps(answer), flush=True)\n    print('bye')\n",
		"serve ends when its stdin ends", Failed, `after everything was answered, and stdin had ended, it wrote "bye"`,
	},
}

func TestBrokenTypesAreFound(t *testing.T) {
	all := maps.Clone(broken)
	maps.Copy(all, brokenServing)
	for name, tc := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := write(t, "python", tc.old, tc.new)
			results, err := w.check(t, nil)
			var first Result
			for _, r := range results {
				if len(r.Detail) > 1000 || strings.ContainsFunc(r.Detail, func(c rune) bool { return c < ' ' }) {
					t.Errorf("%s: not fit to be printed: %q", r.Name, r.Detail)
				}
				if first.Name == "" && r.Outcome != Passed && r.Outcome != Skipped {
					first = r
				}
			}
			if first.Name != tc.check || first.Outcome != tc.outcome || !strings.Contains(first.Detail, tc.detail) {
				t.Errorf("got  %s: %s: %s\nwant %s: %s: …%s…", first.Name, first.Outcome, first.Detail, tc.check, tc.outcome, tc.detail)
			}
			assert.Equal(t, errors.Is(err, ErrFailed), tc.outcome == Failed, "the check returned %v", err)
			assert.Len(t, results, len((&checker{}).steps()), "checks were reported")
		})
	}
}

func TestWithoutConfigOnlyInitIsChecked(t *testing.T) {
	w := write(t, "sh", "", "")
	results := must.Get(w.check(t, func(o *Options) { o.Config, o.Plugs = nil, nil }))(t)
	for _, r := range results {
		if r.Name == "state_schema compiles" && r.Detail == "init answers no state_schema" {
			continue
		}
		init := strings.HasPrefix(r.Name, "i") || strings.HasPrefix(r.Name, "config_schema")
		assert.Equal(t, map[bool]Outcome{true: Passed, false: Skipped}[init], r.Outcome, "%s: %s: %s", r.Name, r.Outcome, r.Detail)
		assert.False(t, !init && !strings.Contains(r.Detail, "--config"), "%s: no reason: %q", r.Name, r.Detail)
	}
}

func TestWhatIsThereAlready(t *testing.T) {
	w := write(t, "sh", "", "")
	require.NoError(t, os.WriteFile(filepath.Join(w.plug, "hello.txt"), []byte("Hello from my-type!\n"), 0o600))
	results := must.Get(w.check(t, func(o *Options) { o.Plugs["rot"] = "/nowhere" }))(t)
	got := map[string]Result{}
	for _, r := range results {
		got[r.Name] = r
	}
	for name, want := range map[string]Outcome{
		"plugs are given": Warning, "actions exit with 0": Skipped, "state is VALID after the actions": Skipped,
		"second apply changes nothing": Passed, "removal ends VALID": Passed,
	} {
		if got[name].Outcome != want {
			t.Errorf("%s: %s: %s", name, got[name].Outcome, got[name].Detail)
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	w := write(t, "python", `"description": "What the file contains.",`, `"writeOnly": True,`)
	file := filepath.Join(w.dir, "type.py")
	text := strings.Replace(read(t, file), "    found = look(config)\n", "    sys.exit('cannot write ' + repr(config['content']) + config['content'])\n", 1)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	results, err := w.check(t, nil)
	require.ErrorIs(t, err, ErrFailed)
	for _, r := range results {
		if strings.Contains(r.Detail, "Hello") || r.Outcome == Failed && !strings.Contains(r.Detail, "cannot write '•••'•••") {
			t.Errorf("%s: %s", r.Name, r.Detail)
		}
	}
}

func TestNoImage(t *testing.T) {
	w := write(t, "sh", "", "")
	results, err := w.check(t, func(o *Options) { o.Image = "nobody/built-it" })
	if !errors.Is(err, ErrFailed) || results[0].Outcome != Failed || !strings.Contains(results[0].Detail, "build it first") {
		t.Errorf("%v: %+v", err, results[0])
	}
	for _, r := range results[1:] {
		assert.True(t, r.Outcome == Skipped && r.Detail == `since "image is available" failed`, "%+v", r)
	}
}

// dead is an engine that fails.
type dead struct{ err error }

func (d dead) Image(context.Context, string, engine.PullPolicy, func(engine.Progress)) (engine.Image, error) {
	return engine.Image{}, d.err
}

func (d dead) Run(context.Context, engine.Spec, engine.IO) (engine.Exit, error) {
	return engine.Exit{}, d.err
}

func TestTroubleThatIsNotTheTypes(t *testing.T) {
	err := Check(t.Context(), Options{Engine: dead{fmt.Errorf("run: %w", engine.ErrUnavailable)}, Image: "i"}, func(r Result) { t.Errorf("reported %+v", r) })
	assert.True(t, errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, ErrFailed), "got %v", err)
	stopped := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	assert.ErrorIs(t, Check(ctx, Options{Engine: dead{context.Canceled}, Image: "i"}, func(r Result) { t.Errorf("reported %+v", r) }), stopped)
}

// What a type wrote is shown in 200 bytes at most, and drives no terminal.
func TestExcerptsArePrintableAndShort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.OneOf(rapid.SliceOf(rapid.Byte()), rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) })).Draw(t, "data")
		for _, text := range []string{received(data), receivedEnd(data)} {
			if len(text) > excerptBytes+2 || !utf8.ValidString(text) || strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c >= 0x7f && c < 0xa0 }) {
				t.Fatalf("%q became %q", data, text)
			}
		}
	})
	long := []byte("begin " + strings.Repeat("\n", 500) + " end")
	got := received(long)
	assert.True(t, strings.HasPrefix(got, `"begin \n`) && strings.HasSuffix(got, `…"`), "got %s", got)
	got = receivedEnd(long)
	assert.True(t, strings.HasPrefix(got, `"…`) && strings.HasSuffix(got, `\n end"`), "got %s", got)
}

func TestTailKeepsTheEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var b tailBuffer
		var all []byte
		for _, n := range rapid.SliceOfN(rapid.IntRange(0, 2*tailBytes), 0, 5).Draw(t, "writes") {
			part := make([]byte, n)
			for i := range part {
				part[i] = byte(len(all) + i)
			}
			all = append(all, part...)
			m, err := b.Write(part)
			require.True(t, m == n && err == nil, "%v %v", m, err)
		}
		want := all[max(0, len(all)-tailBytes):]
		require.Equal(t, string(want), string(b.data), "kept %d bytes, want %d", len(b.data), len(want))
	})
}

func TestReadConfig(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"JSON as it is written": {"c.json", `{"i": 9007199254740993, "f": 1.0, "s": "\ud83d\ude00", "n": null}`, `{"f":1.0,"i":9007199254740993,"n":null,"s":"😀"}`},
		"YAML":                  {"c.yaml", "i: 9007199254740993\nn: -3\nf: 0.5\nl: [1, x]\nd: 2026-01-31\nb: yes\nq: '1'\n", `{"b":"yes","d":"2026-01-31","f":0.5,"i":9007199254740993,"l":[1,"x"],"n":-3,"q":"1"}`},
		"an empty object":       {"c.yml", "{}", `{}`},
		"anchors":               {"c", "a: &x {k: 1}\nb: {<<: *x, m: 2}", `{"a":{"k":1},"b":{"k":1,"m":2}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := must.Get(ReadConfig(file(t, tc.file, tc.text)))(t)
			text, err := json.Marshal(got)
			assert.True(t, err == nil && string(text) == tc.want, "got  %s (%v)\nwant %s", text, err, tc.want)
		})
	}
}

func TestReadConfigRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ file, text, want string }{
		"no JSON":        {"c.json", "{", "one JSON object"},
		"a list":         {"c.json", "[1]", "must be a JSON object"},
		"two documents":  {"c.json", "{} {}", "after the JSON object"},
		"broken YAML":    {"c.yaml", "a: [", "yaml"},
		"text":           {"c.yaml", "hello", "must be a mapping"},
		"nothing":        {"c.yaml", "", "must be a mapping"},
		"not a number":   {"c.yaml", "a: .nan", "JSON cannot express"},
		"a number a key": {"c.yaml", "a: {1: x}", "a key must be text"},
		"a YAML bomb":    {"c.yaml", bomb(), "excessive aliasing"},
	} {
		t.Run(name, func(t *testing.T) {
			path := file(t, tc.file, tc.text)
			_, err := ReadConfig(path)
			require.ErrorContains(t, err, tc.want)
			assert.Contains(t, err.Error(), path)
		})
	}
	assert.Error(t, must.Fail(ReadConfig(filepath.Join(t.TempDir(), "none.json"))), "a file that is not there was read")
}

func bomb() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += strings.NewReplacer("I", string(rune('0'+i)), "N", string(rune('1'+i))).Replace("aN: &aN [*aI, *aI, *aI, *aI, *aI, *aI, *aI, *aI, *aI, *aI]\n")
	}
	return text
}

func file(t *testing.T, name, text string) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestSecretsOfStatesAreNotShown(t *testing.T) {
	v := newVMType()
	v.Actions["delete"] = func(_ context.Context, r protocol.Request[vm]) error {
		r.Sayf("%v %v", r.StaleState["password"], r.Kept["id"])
		return fmt.Errorf("cannot delete")
	}
	v.StateSchema = json.RawMessage(`{"properties": {"password": {"writeOnly": true}}}`)
	for _, r := range checked(t, v.Run, aVM()) {
		assert.NotContains(t, r.Detail, "i-0001", "%s: %s", r.Name, r.Detail)
		if r.Name == "removal ends VALID" && !strings.Contains(r.Detail, `••• •••\nerror: cannot delete`) {
			t.Errorf("%s: %s", r.Outcome, r.Detail)
		}
	}
}

func TestTypesOf2018KeepToTheProtocol(t *testing.T) {
	w := write(t, "python", "", "")
	text := strings.ReplaceAll(read(t, filepath.Join("testdata", "type2018.py")), "/plug/root", w.plug)
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "type.py"), []byte(text), 0o600))
	good := map[string]any{"path": "hello.txt", "content": "Hello!", "load": 0.5, "timeout_ms": 5000, "day": 7}
	results, err := w.check(t, func(o *Options) { o.Config, o.Verbose = good, true })
	assert.NoError(t, err)
	for _, r := range results {
		assert.True(t, r.Outcome != Failed && r.Outcome != Warning, "%s: %s: %s", r.Name, r.Outcome, r.Detail)
	}
}
