package vars_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/declaration"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/manifest/vars"
)

func write(t testing.TB, dir, name, text string) string {
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestVariablesComeInTheirOrder(t *testing.T) {
	conf, workspace, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, conf, "vars.auto.yaml", "who: conf\na: {x: 1, y: 1}\nseen: [conf]\n")
	write(t, conf, "vars.zz.auto.yaml", "who: zz\nzz: '{{ aa }}'\n")
	write(t, conf, "vars.aa.auto.yaml", "who: aa\naa: '{{ who }}'\n")
	write(t, conf, "other.yaml", "other: 1\n")
	write(t, conf, "vars.yaml", "other: 1\n")
	write(t, workspace, "vars.auto.yaml", "a: {y: 2, z: {q: 1}}\nseen: '{{ seen }}'\nnested: {deep: ['{{ a.y }}', 'v{{ a.y }}']}\n")
	file := write(t, elsewhere, "prod.yaml", "a: {z: {r: '{{ early }}'}}\n")
	got, err := vars.Load(vars.Options{
		ConfDir: conf, Workspace: workspace, Evaluator: expression.New(workspace),
		Builtin: map[string]any{"_version": "1.2.3"},
		Flags: []vars.Flag{
			{Name: "early", Value: "1"}, {File: file}, {Name: "late", Value: "{{ a.z }}"}, {Name: "v", Value: "{{ _version }}-{{ early }}"},
		},
	})
	want := map[string]any{
		"_version": "1.2.3", "who": "zz", "aa": "aa", "zz": "aa", "seen": []any{"conf"}, "early": int64(1),
		"a":      map[string]any{"x": int64(1), "y": int64(2), "z": map[string]any{"q": int64(1), "r": int64(1)}},
		"nested": map[string]any{"deep": []any{int64(2), "v2"}},
		"late":   map[string]any{"q": int64(1), "r": int64(1)}, "v": "1.2.3-1",
	}
	require.NoError(t, err)
	assert.Equal(t, want, got)
}

func TestTheLastVariablesWinAndAreTakenAsTheyAre(t *testing.T) {
	options := vars.Options{
		Evaluator: expression.New(t.TempDir()), Builtin: map[string]any{"host": "antworker001"},
		Flags: []vars.Flag{{Name: "a", Value: "{x: 1, y: 1}"}, {Name: "b", Value: "1"}},
		Last:  map[string]any{"a": map[string]any{"y": 2.5}, "b": "{{ host }}"},
	}
	got, err := vars.Load(options)
	want := map[string]any{"host": "antworker001", "a": map[string]any{"x": int64(1), "y": 2.5}, "b": "{{ host }}"}
	require.NoError(t, err)
	assert.Equal(t, want, got)
	options.Last = map[string]any{"host": "another", "a b": 1}
	_, err = vars.Load(options)
	var invalid *manifest.Error
	if !errors.As(err, &invalid) || len(invalid.Problems) != 2 ||
		!strings.Contains(err.Error(), `"host" is set by deployster itself`) || !strings.Contains(err.Error(), `"a b" cannot be the name`) {
		t.Errorf("got %v", err)
	}
}

func TestVariablesOfTheCommandLineAreWhatTheyLookLike(t *testing.T) {
	tests := []struct {
		typed string
		want  any
	}{
		{"3", int64(3)}, {"-3", int64(-3)}, {"1.5", 1.5}, {"true", true}, {"False", false}, {"null", nil},
		{"", ""}, {"text", "text"}, {" spaced ", " spaced "}, {"a: b", "a: b"}, {"- a", "- a"}, {"note: [x", "note: [x"},
		{"1.10", "1.10"}, {"007", "007"}, {"1e3", "1e3"}, {"0x1F", "0x1F"}, {"1_000", "1_000"}, {"2020-01-02", "2020-01-02"},
		{"12345678901234567890", "12345678901234567890"}, {".inf", ".inf"},
		{"#fff", "#fff"}, {"a #b", "a #b"}, {"3 # three", "3 # three"}, {"*", "*"}, {"&a b", "&a b"}, {"!tag x", "!tag x"}, {"|\n x", "|\n x"},
		{"'3'", "3"}, {`"a\tb"`, "a\tb"}, {"'it", "'it"}, {"yes", "yes"},
		{"[a, 2, {b: true}]", []any{"a", int64(2), map[string]any{"b": true}}}, {"{a: 1}", map[string]any{"a": int64(1)}},
		{"[draft] title", "[draft] title"}, {"{}", map[string]any{}},
		{"{{ base }}", []any{"x"}}, {"v{{ n }}", "v7"}, {"['{{ n }}', {m: '{{ base }}'}]", []any{int64(7), map[string]any{"m": []any{"x"}}}},
	}
	for _, test := range tests {
		assert.Equal(t, test.want, must.Get(vars.Load(vars.Options{
			Evaluator: expression.New(t.TempDir()), Builtin: map[string]any{"base": []any{"x"}, "n": int64(7)},
			Flags: []vars.Flag{{Name: "x", Value: test.typed}},
		}))(t)["x"], test.typed)
	}
}

func TestVariableProblemsAreReportedTogether(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "vars.auto.yaml", `_version: mine
1: x
"a b": y
ok: 1
twice: 1
twice: 2
broken: '{{ nowhere }}'
follows: '{{ broken }}'
deep:
  list:
    - fine
    - 'bad {{ okk }}'
`)
	write(t, dir, "vars.b.auto.yaml", "- a\n- b\n")
	write(t, dir, "vars.c.auto.yaml", "# nothing\n")
	write(t, dir, "vars.d.auto.yaml", "a: [\n")
	require.NoError(t, os.Mkdir(filepath.Join(dir, "vars.e.auto.yaml"), 0o700))
	_, err := vars.Load(vars.Options{
		ConfDir: filepath.Join(dir, "none"), Workspace: dir, Evaluator: expression.New(dir),
		Builtin: map[string]any{"_version": "1"},
		Flags: []vars.Flag{
			{Name: "_version", Value: "2"}, {File: filepath.Join(dir, "gone.yaml")}, {Name: "a b", Value: "2"},
			{Name: "x", Value: "{{ nope }}"}, {Name: "y", Value: "{a: 1, a: 2}"},
			{Name: "z", Value: "a\xff"}, {Name: "w", Value: "{{ z }}"}, {File: filepath.Join(dir, "caf\xe9.yaml")},
		},
	})
	want := strings.NewReplacer("DIR", dir, "LATIN", "\xe9").Replace(`DIR/vars.auto.yaml:1:1: "_version" is set by deployster itself and cannot be changed
DIR/vars.auto.yaml:2:1: a key must be text, not a number: write it as "1"
DIR/vars.auto.yaml:3:1: "a b" cannot be the name of a variable: it begins with a letter or _ and consists of letters, digits, _ and -
DIR/vars.auto.yaml:6:1: twice: duplicate variable "twice", first at DIR/vars.auto.yaml:5:1
DIR/vars.auto.yaml:7:13: broken: "nowhere" is not defined; defined are _version, ok, twice
DIR/vars.auto.yaml:12:15: deep.list[1]: "okk" is not defined; defined are _version, ok, twice, did you mean "ok"?
DIR/vars.b.auto.yaml:1:1: a file of variables must be a mapping of names to values, not a list
DIR/vars.d.auto.yaml:1:1: malformed YAML: did not find expected node content
DIR/vars.e.auto.yaml: is a directory; give the files in it
DIR/gone.yaml: there is no such file
DIR/cafLATIN.yaml: the name of the file is not valid UTF-8; rename it
--var _version: "_version" is set by deployster itself and cannot be changed
--var a b: "a b" cannot be the name of a variable: it begins with a letter or _ and consists of letters, digits, _ and -
--var x: "nope" is not defined; defined are _version, ok, twice
--var y: a: duplicate key "a", first at 1:2
--var z: the value is not valid UTF-8`)
	var invalid *manifest.Error
	require.ErrorAs(t, err, &invalid)
	assert.Equal(t, want, err.Error())
}

func anyValue(depth int) *rapid.Generator[any] {
	scalars := rapid.OneOf(rapid.Int64().AsAny(), rapid.Bool().AsAny(), rapid.StringMatching(`[a-z]{0,3}`).AsAny(), rapid.Just(any(nil)))
	if depth == 0 {
		return scalars
	}
	keys := rapid.SampledFrom([]string{"a", "b", "c"})
	return rapid.OneOf(scalars, rapid.SliceOfN(scalars, 0, 2).AsAny(),
		rapid.MapOfN(keys, anyValue(depth-1), 0, 3).AsAny(), rapid.MapOfN(keys, anyValue(depth-1), 0, 3).AsAny())
}

// What is set later wins, wherever a mapping does not meet a mapping; nothing
// else is lost; and merging changes neither side.
func TestVariablesMergeDeeply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		below, above := anyValue(3).Draw(t, "below"), anyValue(3).Draw(t, "above")
		b, a := vars.Clone(below), vars.Clone(above)
		got := vars.Merge(below, above)
		require.Equal(t, below, b)
		require.Equal(t, above, a)
		var holds func(got, below, above any)
		holds = func(got, below, above any) {
			x, mapBelow := below.(map[string]any)
			y, mapAbove := above.(map[string]any)
			if !mapBelow || !mapAbove {
				require.Equal(t, above, got, "%v over %v is %v", above, below, got)
				return
			}
			z := got.(map[string]any)
			for key := range z {
				_, inBelow := x[key]
				above, inAbove := y[key]
				switch {
				case inAbove && inBelow:
					holds(z[key], x[key], above)
				case inAbove:
					holds(z[key], nil, above)
				case !inBelow || !reflect.DeepEqual(z[key], x[key]):
					t.Fatalf("%q is %v, was %v", key, z[key], x[key])
				}
			}
			for key := range x {
				_, there := z[key]
				require.True(t, there, key)
			}
			for key := range y {
				_, there := z[key]
				require.True(t, there, key)
			}
		}
		holds(got, below, above)
		require.Equal(t, got, vars.Merge(got, above), "merging again changes")
	})
}

// declared loads the variables that a manifest declares, with a file of variables and flags such as a=1.
func declared(t testing.TB, section, file string, flags ...string) (map[string]any, error) {
	t.Helper()
	all, err := manifest.Declarations([]manifest.Source{{Name: "m.yaml", Data: []byte("variables:\n" + section)}})
	if err != nil {
		return nil, err
	}
	dir := t.TempDir()
	o := vars.Options{Evaluator: expression.New(dir), Declared: all, Builtin: map[string]any{"_version": "1.2.3", "host": "antworker001"}}
	if file != "" {
		o.Flags = append(o.Flags, vars.Flag{File: write(t, dir, "prod.yaml", file)})
	}
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		o.Flags = append(o.Flags, vars.Flag{Name: name, Value: value})
	}
	got, err := vars.Load(o)
	if err != nil {
		return nil, fmt.Errorf("%s", strings.ReplaceAll(err.Error(), dir+"/", ""))
	}
	delete(got, "_version")
	delete(got, "host")
	return got, nil
}

func TestTextsOfTheCommandLineAreReadAsTheSchemaWants(t *testing.T) {
	for _, c := range []struct {
		schema, text string
		want         any
	}{
		{"type: string", "15", "15"},
		{"type: string", "true", "true"},
		{"type: string", "null", "null"},
		{"type: string", "1.10", "1.10"},
		{"type: string", "[a", "[a"},
		{"type: string", "[a, b]", "[a, b]"},
		{"type: string", "{a: b}", "{a: b}"},
		{"type: string", "", ""},
		{"type: string", "'15'", "15"}, // as where nothing is declared
		{"type: string", "{{ 1 + 2 }}.0", "3.0"},
		{"type: boolean", "true", true},
		{"type: integer", "15", int64(15)},
		{"type: integer", "1e3", 1000.0},
		{"type: number", "1.10", 1.1},
		{"type: number", "15", int64(15)},
		{"type: [string, 'null']", "null", nil},
		{"type: [string, integer]", "15", int64(15)},
		{"type: [string, 'null']", "15", "15"},
		{"type: array", "[1, '2']", []any{int64(1), "2"}},
		{"type: object", "{a: 1}", map[string]any{"a": int64(1)}},
		{"enum: ['1', '2']", "2", "2"},
		{"anyOf: [{type: boolean}, {type: string, minLength: 3}]", "007", "007"},
		{"pattern: '^v'", "15", int64(15)}, // which is no text, so nothing is said of it
		{"description: anything", "15", int64(15)},
		{"description: anything", "007", "007"},
	} {
		got := must.Get(declared(t, "  x: {"+c.schema+"}\n", "", "x="+c.text))(t)
		assert.Equal(t, c.want, got["x"], "%s: %s", c.schema, c.text)
	}
}

func TestWhatIsNoValueOfAVariableIsSaidWithBothPlaces(t *testing.T) {
	const section = `  size: {type: integer, minimum: 1}
  name: {type: string, pattern: "^[a-z]+$"}
  debug: {type: boolean}
  ports: {type: array, items: {type: integer}}
  db: {type: object, properties: {host: {type: string}}, additionalProperties: false}
`
	const others = "size: 1\nname: a\ndebug: true\nports: []\ndb: {}\n"
	for _, c := range []struct{ file, flag, want string }{
		{others, "size=big", `--var size: must be an integer, not a string (rule "type" of the variable size at m.yaml:2:3)`},
		{others, "size=0", `--var size: must be at least 1 (rule "minimum" of the variable size at m.yaml:2:3)`},
		{others, "name=15", `--var name: must match the pattern "^[a-z]+$" (rule "pattern" of the variable name at m.yaml:3:3)`},
		{others, "debug=yes", `--var debug: must be true or false, not a string (rule "type" of the variable debug at m.yaml:4:3)`},
		{others, "ports=[1, x]", `--var ports: ports[1]: must be an integer, not a string (rule "type" of the variable ports at m.yaml:5:3)`},
		{others + "x: 1\n", "db={hots: a}", `--var db: db.hots: unknown property "hots", did you mean "host"? (rule "additionalProperties" of the variable db at m.yaml:6:3)`},
		{strings.Replace(others, "[]", "\n  - 1\n  - x", 1), "x=1", `prod.yaml:6:5: ports[1]: must be an integer, not a string (rule "type" of the variable ports at m.yaml:5:3)`},
		{strings.Replace(others, "size: 1", "size: '1'", 1), "x=1", `prod.yaml:1:7: size: must be an integer, not a string (rule "type" of the variable size at m.yaml:2:3)`},
		{strings.Replace(others, "size: 1", "size: '1'", 1), "size=2", ""}, // what is replaced does not count
	} {
		_, err := declared(t, section, c.file, c.flag)
		assert.True(t, (err != nil || c.want == "") && (err == nil || err.Error() == c.want), "%s:\n%v\n%s", c.flag, err, c.want)
	}
}

func TestDefaultsAreLaidBelowWhatIsGiven(t *testing.T) {
	for _, c := range []struct {
		section, file string
		flags         []string
		want          map[string]any
	}{
		{"  a: {default: 1}\n  b: {default: null}\n", "", nil, map[string]any{"a": int64(1), "b": nil}},
		{"  a: {default: 1}\n", "a: 2\n", []string{"a=3"}, map[string]any{"a": int64(3)}},
		{"  a: {default: {x: 1, y: 1}}\n", "a: {y: 2, z: 2}\n", []string{"a={z: 3}"}, map[string]any{"a": map[string]any{"x": int64(1), "y": int64(2), "z": int64(3)}}},
		// What is given may read a default that is known at once.
		{"  a: {default: 1}\n", "b: '{{ a + 1 }}'\n", nil, map[string]any{"a": int64(1), "b": int64(2)}},
		// A default that reads others sees the values that they have in the end.
		{
			"  image: {default: 'app:{{ tag }}'}\n  tag: {default: '1'}\n  also: {default: '{{ image }} on {{ host }}'}\n", "", []string{"tag=v2"},
			map[string]any{"tag": "v2", "image": "app:v2", "also": "app:v2 on antworker001"},
		},
		{"  image: {default: 'app:{{ tag }}'}\n", "", []string{"image=x"}, map[string]any{"image": "x"}}, // so the default is not evaluated
		{"  a: {default: {x: '{{ b }}', y: 1}}\n  b: {default: 5}\n", "", []string{"a={y: 2}"}, map[string]any{"a": map[string]any{"x": int64(5), "y": int64(2)}, "b": int64(5)}},
		{"  a: {type: string}\n  b:\n", "", []string{"a=1", "b=1", "c=1"}, map[string]any{"a": "1", "b": int64(1), "c": int64(1)}},
		{"  host: {type: string}\n", "", nil, map[string]any{}}, // the program sets it here
	} {
		assert.Equal(t, c.want, must.Get(declared(t, c.section, c.file, c.flags...))(t), c.section)
	}
}

func TestVariablesThatCannotBeAsTheyAreDeclared(t *testing.T) {
	for section, want := range map[string]string{
		"  a: {type: string}\n": `m.yaml:2:3: variables.a: has no value; give it with --var a=VALUE, in a file of variables (--var-file FILE, or vars.auto.yaml in the workspace), or in the environment as DEPLOYSTER_VAR_a`,
		"  a: {}\n  b: {default: 1}\n  c:\n  d: {default: '{{ a }}'}\n": `m.yaml:2:3: variables.a: has no value, nor have c (m.yaml:4:3); give each with --var NAME=VALUE, in a file of variables (--var-file FILE, or vars.auto.yaml in the workspace), or in the environment as DEPLOYSTER_VAR_NAME`,
		"  a: {default: '{{ b }}'}\n  b: {default: '{{ a }}'}\n":        `m.yaml:2:20: variables.a.default: "b" is not defined; defined are _version, host`,
		"  a: {type: string, default: '{{ 1 }}'}\n":                     `m.yaml:2:30: variables.a: must be a string, not a number (rule "type" of the variable)`,
		"  a: {type: string, default: 1}\n":                             `m.yaml:2:30: variables.a: must be a string, not a number (rule "type" of the variable)`,
		"  a: {type: bool}\n":                                           `m.yaml:2:3: variables.a: it is not a valid JSON Schema: `,
		"  a: {writeonly: true}\n":                                      `m.yaml:2:7: variables.a: unknown key "writeonly", did you mean "writeOnly"?`,
		"  a: {pattern: '(?=a)'}\n":                                     `m.yaml:2:3: variables.a: `,
		"  a: string\n":                                                 `m.yaml:2:6: variables.a: a variable must be a mapping with type, `,
		"  a: {}\n  a: {}\n":                                            `m.yaml:3:3: variables.a: duplicate variable "a", first at m.yaml:2:3`,
		"  1a: {}\n":                                                    `m.yaml:2:3: variables.1a: "1a" cannot be the name of a variable: `,
		"  _version: {}\n":                                              `m.yaml:2:3: variables._version: "_version" is set by deployster itself and cannot be changed`,
		"  a: {default: 1, file: x}\n":                                  `m.yaml:2:19: variables.a.file: the variable has default, too; each says what it is where nobody gives a value`,
		"  a: {command: pass}\n":                                        `m.yaml:2:16: variables.a.command: must be a list of a program and its arguments, such as [pass, show, db], not text`,
		"  a: {command: []}\n":                                          `m.yaml:2:16: variables.a.command: must be a list of a program and its arguments, such as [pass, show, db], not a list`,
		"  a: {file: '{{ b }}'}\n":                                      `m.yaml:2:13: variables.a.file: cannot be an expression`,
		"  - a\n":                                                       `m.yaml:2:3: variables: must be a mapping of names to JSON Schemas, not a list`,
		"  a: {$ref: 'file:///etc/passwd'}\n":                           `m.yaml:2:3: variables.a: `,
		"  a: {description: " + strings.Repeat("x", 1<<20) + "}\n":      `m.yaml:2:3: variables.a: the schema has `,
		"  a: " + strings.Repeat("{not: ", 200) + "{}" + strings.Repeat("}", 200) + "\n": `m.yaml:2:`,
		manyVariables(1001): `m.yaml:1002:3: variables.v1000: there are more than 1000 variables`,
	} {
		_, err := declared(t, section, "")
		assert.Error(t, err, section)
		assert.True(t, strings.HasPrefix(err.Error(), want), section)
	}
}

func manyVariables(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  v%d: {default: 1}\n", i)
	}
	return b.String()
}

func TestWhatIsDeclaredIsNotMistyped(t *testing.T) {
	all, err := manifest.Declarations([]manifest.Source{{Name: "m.yaml", Data: []byte("variables: {size: {default: 1}, unused: {default: '{{ seed }}'}}")}})
	require.NoError(t, err)
	read := &usage.Variables{}
	must.Get(vars.Load(vars.Options{Evaluator: expression.New(t.TempDir()), Declared: all, Usage: read, Flags: []vars.Flag{
		{Name: "seed", Value: "1"}, {Name: "unused", Value: "1"}, {Name: "sizes", Value: "1"},
	}}))(t)
	if got, want := fmt.Sprint(read.Unread()), `[--var sizes: nothing reads the variable "sizes", did you mean "size"?]`; got != want {
		t.Error(got)
	}
}

// What may not be shown is said before anything is that could show it: also of what is wrong.
func TestWhatIsSecretIsHiddenFirst(t *testing.T) {
	all, err := manifest.Declarations([]manifest.Source{{Name: "m.yaml", Data: []byte(`variables:
  password: {type: string, writeOnly: true, maxLength: 10}
  token: {writeOnly: true, default: 'of {{ password }}'}
  code: {writeOnly: true, default: 1234}
  db: {type: object, properties: {user: {type: string}, key: {type: string, writeOnly: true}}}
  plain: {type: string}
`)}})
	require.NoError(t, err)
	for _, c := range []struct{ file, password, want string }{
		{"db: {user: me, key: k3y}\nplain: {a: shown}\n", "s3cret", "1234 k3y of s3cret s3cret {{ 's3c' ~ 'ret' }}"},
		{"db: {user: me, key: [k3y]}\npassword: too-long-for-it\n", "", "1234 [k3y] of too-long-for-it too-long-for-it"},
	} {
		hidden := map[string]bool{}
		dir := t.TempDir()
		o := vars.Options{
			Evaluator: expression.New(dir), Declared: all, Hide: func(value any) { hidden[fmt.Sprint(value)] = true },
			Flags: []vars.Flag{{File: write(t, dir, "prod.yaml", c.file)}},
		}
		if c.password != "" {
			o.Flags = append(o.Flags, vars.Flag{Name: "password", Value: "{{ 's3c' ~ 'ret' }}"})
		}
		_, err = vars.Load(o)
		assert.Error(t, err, "nothing is wrong")
		assert.Equal(t, c.want, strings.Join(slices.Sorted(maps.Keys(hidden)), " "))
	}
}

// world is where values come from that nobody gives.
type world struct {
	dir         string
	environment map[string]string
	prints      map[string]string // by command
	ran         []string
}

func newWorld(t *testing.T) *world {
	return &world{dir: t.TempDir(), environment: map[string]string{}, prints: map[string]string{}}
}

func (w *world) options(t *testing.T, section string, flags ...vars.Flag) vars.Options {
	all := must.Get(manifest.Declarations([]manifest.Source{{Name: "m.yaml", Data: []byte("variables:\n" + section)}}))(t)
	return vars.Options{
		Workspace: w.dir, Evaluator: expression.New(w.dir), Declared: all, Flags: flags,
		Outside: &vars.Outside{
			Workspace: w.dir, Home: filepath.Join(w.dir, "home"),
			Lookup: func(name string) (string, bool) { value, set := w.environment[name]; return value, set },
			Run: func(argv []string) (string, error) {
				w.ran = append(w.ran, strings.Join(argv, " "))
				text, known := w.prints[argv[0]]
				if !known {
					return "", errors.New("running " + argv[0] + ": exit status 1: no such entry")
				}
				return text, nil
			},
		},
	}
}

func TestValuesFromOutsideAreBelowThoseThatAreGiven(t *testing.T) {
	const section = "  a: {default: 1}\n  b: {type: string, file: secret}\n  c: {command: [pass, show, c]}\n"
	for _, c := range []struct {
		environment, file, flag string // values of all three
		want, ran               string
	}{
		{"", "", "", "1 of-file of-command", "pass show c"},
		{"env", "", "", "env env env", ""},
		{"env", "file", "", "file file file", ""},
		{"", "file", "", "file file file", ""},
		{"env", "file", "flag", "flag flag flag", ""},
		{"", "", "flag", "flag flag flag", ""},
	} {
		w := newWorld(t)
		w.prints["pass"] = "of-command"
		write(t, w.dir, "secret", "of-file\n")
		var flags []vars.Flag
		for _, name := range []string{"a", "b", "c"} {
			if c.environment != "" {
				w.environment[vars.EnvironmentPrefix+name] = c.environment
			}
			if c.flag != "" {
				flags = append(flags, vars.Flag{Name: name, Value: c.flag})
			}
		}
		if c.file != "" {
			write(t, w.dir, "vars.auto.yaml", fmt.Sprintf("a: %[1]s\nb: %[1]s\nc: %[1]s\n", c.file))
		}
		got, err := vars.Load(w.options(t, section, flags...))
		if said := fmt.Sprint(got["a"], " ", got["b"], " ", got["c"]); err != nil || said != c.want || strings.Join(w.ran, ";") != c.ran {
			t.Errorf("%v: %s %v (ran %v)", c, said, err, w.ran)
		}
	}
}

func TestTextsFromOutsideAreTakenAsTheyStand(t *testing.T) {
	for _, c := range []struct {
		schema, text string
		want         any
	}{
		{"type: string", "15", "15"},
		{"type: string", `"quoted"`, `"quoted"`},
		{"type: string", "{{ 1 + 1 }} {% if", "{{ 1 + 1 }} {% if"},
		{"type: string", "", ""},
		{"description: any", "15", "15"},
		{"type: integer", "15", int64(15)},
		{"type: boolean", "true", true},
		{"type: array", "[1, a]", []any{int64(1), "a"}},
		{"type: object", "{a: '{{ 1 }}'}", map[string]any{"a": "{{ 1 }}"}},
	} {
		w := newWorld(t)
		w.environment[vars.EnvironmentPrefix+"x"] = c.text
		got := must.Get(vars.Load(w.options(t, "  x: {"+c.schema+"}\n")))(t)
		assert.Equal(t, c.want, got["x"], "%s: %s", c.schema, c.text)
	}
}

func TestValuesFromOutsideThatCannotBeHad(t *testing.T) {
	for section, want := range map[string]string{
		"  x: {file: nosuch}\n":              `m.yaml:2:13: variables.x.file: DIR/nosuch: there is no such file`,
		"  x: {file: ~/key}\n":               `m.yaml:2:13: variables.x.file: DIR/home/key: there is no such file`,
		"  x: {file: fifo}\n":                `m.yaml:2:13: variables.x.file: DIR/fifo: is a FIFO, not a file: `,
		"  x: {file: .}\n":                   `m.yaml:2:13: variables.x.file: DIR: is a directory`,
		"  x: {file: huge}\n":                `m.yaml:2:13: variables.x.file: DIR/huge: has 1048577 bytes or more; at most 1048576 (1 MiB) are possible`,
		"  x: {file: latin1}\n":              `DIR/latin1: x: the value is not valid UTF-8`,
		"  x: {type: integer, file: link}\n": `DIR/link: x: must be an integer, not a string (rule "type" of the variable x at m.yaml:2:3)`,
		"  x: {command: [pass]}\n":           `m.yaml:2:16: variables.x.command: running pass: exit status 1: no such entry`,
		"  x: {type: integer}\n":             `DEPLOYSTER_VAR_x: x: must be an integer, not a string (rule "type" of the variable x at m.yaml:2:3)`,
	} {
		w := newWorld(t)
		if strings.Contains(section, "{type: integer}") {
			w.environment[vars.EnvironmentPrefix+"x"] = "many"
		}
		write(t, w.dir, "huge", strings.Repeat("x", 1<<20+1))
		write(t, w.dir, "latin1", "caf\xe9")
		write(t, w.dir, "text", "no number\n")
		require.NoError(t, errors.Join(os.Symlink("text", filepath.Join(w.dir, "link")), syscall.Mkfifo(filepath.Join(w.dir, "fifo"), 0o600)))
		_, err := vars.Load(w.options(t, section))
		assert.Error(t, err, section)
		assert.True(t, strings.HasPrefix(strings.ReplaceAll(err.Error(), w.dir, "DIR"), want), section)
	}
}

// Where commands are not run, something stands for what they would print.
func TestCommandsThatAreNotRun(t *testing.T) {
	for schema, want := range map[string]any{
		"type: string": "", "type: string, minLength: 1": "x", "type: integer, minimum: 1": int64(1), "type: array": []any{}, "enum: [{a: 1}]": "",
	} {
		w := newWorld(t)
		o := w.options(t, "  x: {command: [pass], "+schema+"}\n")
		var unknown []string
		o.Outside.Run, o.Outside.Unknown = nil, func(d *declaration.Variable) { unknown = append(unknown, d.Name) }
		got, err := vars.Load(o)
		assert.True(t, err == nil && reflect.DeepEqual(got["x"], want) &&
			strings.Join(unknown, " ") == "x", "%s: %#v %v %v", schema, got["x"], err, unknown)
	}
}

// A revision may look like a number, wherever it is given: what it is says the schema of the variable.
func TestANumberIsATextWhereTheSchemaWantsOne(t *testing.T) {
	const section = "variables:\n  tag: {type: string}\n  count: {type: integer}\n  either: {type: [string, integer]}\n  of: {type: object, properties: {tags: {type: array, items: {type: string}}}}\n"
	const file = "tag: %s\ncount: 3\neither: 5\nof: {tags: [7, true, a]}\n"
	all := must.Get(manifest.Declarations([]manifest.Source{{Name: "m.yaml", Data: []byte(section)}}))(t)
	for value, want := range map[string]string{"5176135": "5176135", "0123456": "0123456", "1.10": "1.10", "1e5": "1e5", "true": "true", `"0123456"`: "0123456", "abc": "abc"} {
		u := &usage.Variables{}
		got, err := vars.Load(vars.Options{
			Declared: all, Evaluator: expression.New(t.TempDir()), Usage: u,
			Flags: []vars.Flag{{File: write(t, t.TempDir(), "v.yaml", fmt.Sprintf(file, value))}},
		})
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"tag": want, "count": int64(3), "either": int64(5), "of": map[string]any{"tags": []any{"7", "true", "a"}}}, got)
		lost := strings.ContainsAny(value, ".e0") && value != "true" && value[0] != '"'
		require.Len(t, u.Unread(), map[bool]int{true: 1, false: 0}[lost], value)
		if lost {
			assert.Equal(t, "tag: is the text \""+value+"\", as it is declared, and a number for others that read the file: put it in quotes", u.Unread()[0].Path+": "+u.Unread()[0].Message)
		}
	}
	secret, err := manifest.Declarations([]manifest.Source{{Name: "m.yaml", Data: []byte("variables:\n  pin: {type: string, writeOnly: true}\n")}})
	require.NoError(t, err)
	u := &usage.Variables{}
	_, err = vars.Load(vars.Options{Declared: secret, Evaluator: expression.New(t.TempDir()), Usage: u, Flags: []vars.Flag{{File: write(t, t.TempDir(), "v.yaml", "pin: 0123456\n")}}})
	require.NoError(t, err)
	assert.NotContains(t, u.Unread()[0].Message, "123456")
	got, err := vars.Load(vars.Options{Declared: all, Evaluator: expression.New(t.TempDir()), Last: map[string]any{
		"tag": float64(5176135), "count": int64(3), "either": int64(5), "of": map[string]any{"tags": []any{int64(7)}},
	}})
	require.NoError(t, err)
	assert.Equal(t, map[string]any{"tag": "5176135", "count": int64(3), "either": int64(5), "of": map[string]any{"tags": []any{"7"}}}, got)
}

func TestALostTextOfAVariableThatIsNotDeclaredIsRefused(t *testing.T) {
	_, err := vars.Load(vars.Options{Evaluator: expression.New(t.TempDir()), Flags: []vars.Flag{{File: write(t, t.TempDir(), "v.yaml", "a: {b: [1.10, 1.5]}\nc: 22:30\nd: '{{ a }}'\n")}}})
	var invalid *manifest.Error
	require.ErrorAs(t, err, &invalid)
	require.Len(t, invalid.Problems, 2)
	assert.Contains(t, invalid.Problems[0].String(), "v.yaml:1:9: a.b[0]: readers of YAML disagree about its value, or its text is lost: put it in quotes")
	assert.Contains(t, invalid.Problems[1].String(), "v.yaml:2:4: c: readers of YAML disagree")
}

// A value that is read from what Written returned is the same, in its texts, too.
func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	scalar := rapid.OneOf(
		rapid.SampledFrom([]string{"1.10", "0644", "0x1F", "1e3", "-0.0", "+1", "1_000", "True", "false", "1", "1.0", "~", "null", "!!float 1", "!!int '7'", "!!bool TRUE", "yes", "'1.10'", `"a\n\"b\x07"`, "'{{ x }}'", "''", "é", "2024-01-01"}),
		rapid.Map(rapid.StringMatching(`[ -~é☃\x{7f}\x{feff}]{0,6}`), func(s string) string { return quoted(s) }),
	)
	var value func(depth int) *rapid.Generator[string]
	value = func(depth int) *rapid.Generator[string] {
		if depth == 0 {
			return scalar
		}
		key := rapid.Map(rapid.SampledFrom([]string{"a", "b c", "<<", "1", "true", "é"}), quoted)
		return rapid.OneOf(scalar,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 3), func(all []string) string { return "[" + strings.Join(all, ", ") + "]" }),
			rapid.Map(rapid.MapOfN(key, value(depth-1), 0, 3), func(all map[string]string) string {
				var members []string
				for key, item := range all {
					members = append(members, key+": "+item)
				}
				return "{" + strings.Join(members, ", ") + "}"
			}))
	}
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		path := write(t, dir, "v.yaml", "v: "+value(2).Draw(rt, "value")+"\n")
		all := must.Get(vars.In(path))(rt)
		yaml := all[0].Written()
		if yaml == "" {
			return
		}
		assert.NotContains(rt, yaml, "\n")
		again, err := vars.Assignment{Name: "v", File: path}.Rewritten(yaml)
		require.NoError(rt, err, yaml)
		assert.Equal(rt, all[0].Value, again.Value, yaml)
		assert.Equal(rt, yaml, again.Written())
	})
}

func TestOnlyWhatLosesItsTextIsWritten(t *testing.T) {
	for text, want := range map[string]string{
		"1": "", "'1.10'": "", "text": "", "true": "", "{a: [1, x]}": "", "1.5": "", "1.10": "1.10", "0644": "0644", "[x, True]": `["x", True]`, "{a b: 1.0, c: }": `{"a b": 1.0, "c": null}`,
	} {
		all := must.Get(vars.In(write(t, t.TempDir(), "v.yaml", "v: "+text+"\n")))(t)
		assert.Equal(t, want, all[0].Written(), text)
	}
	_, err := vars.Assignment{Name: "v", File: filepath.Join("a", "v.yaml")}.Rewritten("[1")
	assert.ErrorContains(t, err, `its value "[1"`)
}

func quoted(text string) string {
	out, _ := json.Marshal(text)
	return strings.ReplaceAll(string(out), "\x7f", `\u007f`)
}
