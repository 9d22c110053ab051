package vars_test

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/usage"
	"github.com/deployster-go/deployster/manifest/vars"
)

// declared loads the variables that a manifest declares, with a file of variables and flags
// such as a=1.
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
		got, err := declared(t, "  x: {"+c.schema+"}\n", "", "x="+c.text)
		if err != nil || !reflect.DeepEqual(got["x"], c.want) {
			t.Errorf("%s of %s: %#v %v, want %#v", c.text, c.schema, got["x"], err, c.want)
		}
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
		if err == nil && c.want != "" || err != nil && err.Error() != c.want {
			t.Errorf("%s:\n%v\n%s", c.flag, err, c.want)
		}
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
		got, err := declared(t, c.section, c.file, c.flags...)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v %v, want %v", c.section, got, err, c.want)
		}
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
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.100s\n%.500v\n%s", section, err, want)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	read := &usage.Variables{}
	if _, err := vars.Load(vars.Options{Evaluator: expression.New(t.TempDir()), Declared: all, Usage: read, Flags: []vars.Flag{
		{Name: "seed", Value: "1"}, {Name: "unused", Value: "1"}, {Name: "sizes", Value: "1"},
	}}); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
		if _, err := vars.Load(o); err == nil {
			t.Error("nothing is wrong")
		}
		if got := strings.Join(slices.Sorted(maps.Keys(hidden)), " "); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}
