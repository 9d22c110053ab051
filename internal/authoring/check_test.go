package authoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
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

// program is a type within the test: what a container of it does with its arguments and streams.
type program func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int

func (p program) Image(_ context.Context, ref string, _ engine.PullPolicy, _ func(engine.Progress)) (engine.Image, error) {
	return engine.Image{Ref: ref, ID: "sha256:" + ref}, nil
}

func (p program) Run(ctx context.Context, spec engine.Spec, streams engine.IO) (engine.Exit, error) {
	if spec.Timeout > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeoutCause(ctx, spec.Timeout, engine.ErrTimeout)
		defer cancel()
	}
	stdout := &guarded{w: streams.Stdout}
	code := p(ctx, spec.Args, streams.Stdin, stdout, streams.Stderr)
	if ctx.Err() != nil {
		return engine.Exit{}, context.Cause(ctx)
	}
	return engine.Exit{Code: code}, stdout.err
}

// checked is what a check of a program finds, by the names of the checks.
func checked(t *testing.T, p program, opts Options) map[string]Result {
	opts.Engine, opts.Image = p, "vm"
	results := map[string]Result{}
	_ = Check(t.Context(), opts, func(r Result) { results[r.Name] = r })
	return results
}

// onlyFound is the finding that is expected of a check, and no other.
func onlyFound(t *testing.T, results map[string]Result, name string, outcome Outcome, detail string) {
	t.Helper()
	for _, r := range results {
		assert.False(t, (r.Outcome == Failed || r.Outcome == Warning) && r.Name != name, "also %s: %s: %s", r.Name, r.Outcome, r.Detail)
	}
	if r := results[name]; r.Outcome != outcome || !strings.Contains(r.Detail, detail) {
		t.Errorf("%s: got %s: %s\nwant %s: …%s…", name, r.Outcome, r.Detail, outcome, detail)
	}
}

// vm is the configuration of a virtual machine.
type vm struct {
	Size  string            `json:"size"`
	Image string            `json:"image"`
	Tags  map[string]string `json:"tags"`
}

// cloud is where machines get ids that nobody knows before.
type cloud struct {
	mu       sync.Mutex
	made     int
	machines map[string]*machine
}

type machine struct {
	vm
	owner string
}

// vmType is a type with every optional member, and with none of their mistakes.
type vmType struct {
	protocol.Type[vm]
	cloud *cloud
	find  func(protocol.Request[vm]) (string, error) // the id of the machine that is meant, "" for none
}

func newVMType() *vmType {
	v := &vmType{cloud: &cloud{machines: map[string]*machine{}}}
	v.Removable, v.Keeps, v.AcceptsUnknown, v.Adoptable = true, true, true, true
	v.ConfigSchema = json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["size"], "properties": {
		"size": {"type": "string"}, "image": {"type": "string"}, "tags": {"type": "object", "additionalProperties": {"type": "string"}}}}`)
	v.StateSchema = json.RawMessage(`{"type": "object", "properties": {"id": {"type": "string"}, "password": {"type": "string", "writeOnly": true}}}`)
	v.State, v.find = v.state, v.machine
	v.Actions = map[string]func(context.Context, protocol.Request[vm]) error{"create": v.create, "resize": v.resize, "delete": v.remove}
	return v
}

// machine finds a machine by what is to be adopted, by what was kept, and by whose it is.
func (v *vmType) machine(r protocol.Request[vm]) (string, error) {
	if r.Adopt != "" {
		if !strings.HasPrefix(r.Adopt, "i-") {
			return "", fmt.Errorf("%q is not the id of a machine, which begins with i-", r.Adopt)
		}
		if v.cloud.machines[r.Adopt] == nil {
			return "", nil
		}
		return r.Adopt, nil
	}
	if id, _ := r.Kept["id"].(string); v.cloud.machines[id] != nil {
		return id, nil
	}
	for id, m := range v.cloud.machines {
		if m.owner == r.ID {
			return id, nil
		}
	}
	return "", nil
}

func (v *vmType) state(_ context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
	v.cloud.mu.Lock()
	defer v.cloud.mu.Unlock()
	id, err := v.find(r)
	if err != nil {
		return protocol.StateOutput{}, err
	}
	m := v.cloud.machines[id]
	switch {
	case r.Ensure == protocol.Absent && m == nil:
		return protocol.AnswerValid(nil)
	case m == nil:
		answer, err := protocol.AnswerStale(nil, protocol.Do("create", "create a machine"))
		if err != nil {
			return answer, err
		}
		planned := map[string]any{"size": r.Config.Size, "image": r.Config.Image, "tags": r.Config.Tags}
		for _, path := range r.Unknown {
			property, _, _ := strings.Cut(path, ".")
			planned[property] = protocol.Unknown{}
		}
		return answer.Planned(planned, "id", "password")
	}
	if err := r.Keep(map[string]any{"id": id}); err != nil {
		return protocol.StateOutput{}, err
	}
	found := map[string]any{"id": id, "size": m.Size, "image": m.Image, "tags": m.Tags, "password": "hunter-" + id}
	switch {
	case r.Ensure == protocol.Absent:
		return protocol.AnswerStale(found, protocol.Do("delete", "delete "+id))
	case m.Size != r.Config.Size && !r.Unknown.Has("size"):
		return protocol.AnswerStale(found, protocol.Do("resize", "resize "+id))
	}
	return protocol.AnswerValid(found)
}

func (v *vmType) create(_ context.Context, r protocol.Request[vm]) error {
	v.cloud.mu.Lock()
	defer v.cloud.mu.Unlock()
	id, err := v.find(r)
	if err != nil {
		return err
	}
	if id == "" {
		v.cloud.made++
		id = fmt.Sprintf("i-%04d", v.cloud.made)
		v.cloud.machines[id] = &machine{r.Config, r.ID}
	}
	r.Sayf("made %s with the password hunter-%s", id, id)
	return r.Keep(map[string]any{"id": id})
}

func (v *vmType) resize(context.Context, protocol.Request[vm]) error { return nil }

func (v *vmType) remove(_ context.Context, r protocol.Request[vm]) error {
	v.cloud.mu.Lock()
	defer v.cloud.mu.Unlock()
	id, err := v.find(r)
	delete(v.cloud.machines, id)
	return err
}

func aVM() Options {
	return Options{Config: map[string]any{"size": "small", "image": "debian", "tags": map[string]any{"team": "web"}}}
}

func TestATypeWithEveryOptionalMemberPasses(t *testing.T) {
	v := newVMType()
	opts := aVM()
	opts.Second = map[string]any{"size": "large"}
	for _, r := range checked(t, v.Run, opts) {
		assert.Equal(t, Passed, r.Outcome, "%s: %s: %s", r.Name, r.Outcome, r.Detail)
	}
	assert.True(t, len(v.cloud.machines) <= 0, "the check left %v", v.cloud.machines)
}

func TestMistakesWithOptionalMembersAreFound(t *testing.T) {
	stale := func(state func(context.Context, protocol.Request[vm]) (protocol.StateOutput, error), change func(protocol.Request[vm], *protocol.StateOutput)) func(context.Context, protocol.Request[vm]) (protocol.StateOutput, error) {
		return func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
			answer, err := state(ctx, r)
			if answer.Status == protocol.Stale {
				change(r, &answer)
			}
			return answer, err
		}
	}
	for name, tc := range map[string]struct {
		change  func(*vmType)
		check   string
		outcome Outcome
		detail  string
	}{
		"something kept, which init does not say": {func(v *vmType) { v.Keeps, v.Adoptable = false, false },
			"actions exit with 0", Failed, "nothing can be kept: the type does not say that it Keeps"},
		"a schema of states that is none": {func(v *vmType) { v.StateSchema = json.RawMessage(`{"type": "objekt"}`) },
			"state_schema compiles", Failed, "state_schema must be a JSON Schema"},
		"a schema of states that they do not keep to": {func(v *vmType) { v.StateSchema = json.RawMessage(`{"required": ["ip"]}`) },
			"states are as state_schema says", Warning, `state missing property "ip"; it is no error`},
		"a plan that does not come true": {
			func(v *vmType) {
				v.State = stale(v.state, func(_ protocol.Request[vm], o *protocol.StateOutput) {
					if o.PlannedState != nil {
						o.PlannedState["tags"] = map[string]any{"team": "another"}
					}
				})
			},
			"state is as planned", Failed, "after the actions state.tags.team is another than planned_state said",
		},
		"a plan that leaves something out": {
			func(v *vmType) {
				v.State = stale(v.state, func(_ protocol.Request[vm], o *protocol.StateOutput) { delete(o.PlannedState, "id") })
			},
			"state is as planned", Warning, `the state has "id", of which planned_state says nothing`,
		},
		"what is unknown is taken for what is there": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					if len(r.Unknown) > 0 {
						return protocol.AnswerValid(nil)
					}
					return v.state(ctx, r)
				}
			},
			"state accepts what is unknown", Failed, "with image unknown, state answered VALID, although there is nothing",
		},
		"whatever is unknown is refused": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					if len(r.Unknown) > 0 {
						return protocol.StateOutput{}, fmt.Errorf("%s is not known", r.Unknown[0])
					}
					return v.state(ctx, r)
				}
			},
			"state accepts what is unknown", Failed, "state refuses whatever is unknown (image, size, tags.team)",
		},
		"what is unknown is a crash": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					if r.Unknown.Has("size") && v.cloud.made == 0 {
						panic("no size")
					}
					return v.state(ctx, r)
				}
			},
			"state accepts what is unknown", Failed, `exited with 1; on its stderr: "panic: no size"; that is a crash`,
		},
		"what is unknown is compared": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					if r.Unknown.Has("size") {
						r.Unknown, r.Config.Size = nil, "?"
					}
					return v.state(ctx, r)
				}
			},
			"what is unknown is not compared", Warning, "with size unknown, and all else as configured, state answered STALE (resize)",
		},
		"what is unknown becomes an argument": {
			func(v *vmType) {
				v.State = stale(v.state, func(r protocol.Request[vm], o *protocol.StateOutput) {
					if len(r.Unknown) > 0 && o.StaleState == nil {
						o.Actions[0].Args = []string{"create", `{"$unknown": true}`}
					}
				})
			},
			"state accepts what is unknown", Failed, `state put {"$unknown": true} into the args of an action`,
		},
		"what was not kept is made again": {
			func(v *vmType) {
				v.find = func(r protocol.Request[vm]) (string, error) {
					r.ID = "nobody's"
					return v.machine(r)
				}
			},
			"what is not kept is found again", Warning, `state answered STALE (create) without staleState, so another one would be made; mark what you make with the "id"`,
		},
		"whatever id is given, what is configured is adopted": {
			func(v *vmType) {
				v.find = func(r protocol.Request[vm]) (string, error) {
					r.Adopt = ""
					return v.machine(r)
				}
			},
			"only what has the id is adopted", Failed, `asked to adopt "no-such-id", which nothing has as its id, state found something`,
		},
		"an id that is none is a crash": {
			func(v *vmType) {
				v.find = func(r protocol.Request[vm]) (string, error) {
					if strings.Contains(r.Adopt, "\n") {
						panic("split")
					}
					return v.machine(r)
				}
			},
			"only what has the id is adopted", Failed, `"\"';$(exit 1)\n\\", which nothing has as its id: state exited with 1`,
		},
		"the id of what is adopted is not kept": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					answer, err := v.state(ctx, r)
					if r.Adopt != "" {
						err = r.Keep(nil)
					}
					return answer, err
				}
			},
			"only what has the id is adopted", Failed, `that was kept as "id", state found it, and had nothing kept`,
		},
		"removing fails where nothing is left": {
			func(v *vmType) {
				v.Actions["delete"] = func(ctx context.Context, r protocol.Request[vm]) error {
					if id, _ := r.Kept["id"].(string); v.cloud.machines[id] == nil {
						return fmt.Errorf("no machine %s", id)
					}
					return v.remove(ctx, r)
				}
			},
			"removal ends VALID", Failed, `when all was gone: action "delete"`,
		},
		"removing has random arguments": {
			func(v *vmType) {
				var asked atomic.Int64
				v.State = stale(v.state, func(r protocol.Request[vm], o *protocol.StateOutput) {
					if r.Ensure == protocol.Absent {
						o.StaleState["asked"] = asked.Add(1)
					}
				})
			},
			"removal ends VALID", Failed, `with "ensure": "absent": asked twice, with nothing in between, state named other actions`,
		},
		"what is absent is as what is present": {
			func(v *vmType) {
				v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
					r.Ensure = protocol.Present
					return v.state(ctx, r)
				}
			},
			"removal ends VALID", Failed, `with "ensure": "absent" state answered VALID, with the same state as with "present"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVMType()
			tc.change(v)
			onlyFound(t, checked(t, v.Run, aVM()), tc.check, tc.outcome, tc.detail)
		})
	}
}

// What tells a thing from others must be known, so a configuration that has no more shows nothing.
func TestAConfigurationOfOneValueSaysNothingOfTheUnknown(t *testing.T) {
	v := newVMType()
	v.State = func(ctx context.Context, r protocol.Request[vm]) (protocol.StateOutput, error) {
		if r.Unknown.Has("size") {
			return protocol.StateOutput{}, errors.New("which machine it is is not known yet")
		}
		return v.state(ctx, r)
	}
	onlyFound(t, checked(t, v.Run, Options{Config: map[string]any{"size": "small"}}), "state accepts what is unknown", Skipped, "too few values")
}

// What keeps to the form, and says what nobody has asked for.
func TestWhatIsKeptMustBeAnnounced(t *testing.T) {
	say := func(init, state, action string) program {
		acted := false
		return func(_ context.Context, args []string, stdin io.Reader, stdout, _ io.Writer) int {
			text, _ := io.ReadAll(stdin)
			switch {
			case len(args) == 0:
				fmt.Fprintf(stdout, `{"state_action": {"args": ["state"]}, "config_schema": {"type": "object", "additionalProperties": false, "properties": {"a": {"type": "string"}}}%s}`, init)
			case !json.Valid(text):
				return 1
			case args[0] == "state" && acted:
				fmt.Fprintf(stdout, `{"status": "VALID", "state": {}%s}`, state)
			case args[0] == "state":
				fmt.Fprintf(stdout, `{"status": "STALE", "actions": [{"name": "make", "args": ["make"]}]%s}`, state)
			default:
				acted = true
				fmt.Fprint(stdout, "making\n", action)
			}
			return 0
		}
	}
	for name, tc := range map[string]struct {
		program program
		check   string
		detail  string
	}{
		"by state":                {say("", `, "keep": {"id": "i-1"}`, ""), "state answer is valid", `state has something kept ("keep"), and init does not answer "keeps": true`},
		"by an action":            {say("", "", `{"keep": {"id": "i-1"}}`+"\n"), "actions exit with 0", `the last line of action "make" is to have something kept ("keep"), and init`},
		"by an action, in excess": {say(`, "keeps": true`, "", `{"keep": {"id": "`+strings.Repeat("x", 70_000)+`"}}`), "actions exit with 0", "at most 65536 are kept of a resource"},
		"an action that keeps no object": {
			say(`, "keeps": true`, "", `{"keep": "i-1"}`), "actions exit with 0", "keep: must be an object, not ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			onlyFound(t, checked(t, tc.program, Options{Config: map[string]any{"a": "b"}}), tc.check, Failed, tc.detail)
		})
	}
	results := checked(t, say(`, "keeps": true`, "", `{"keep": {"id": "i-1"}}`+"\n"), Options{Config: map[string]any{"a": "b"}})
	onlyFound(t, results, "what is not kept is found again", Passed, "")
}
