package vars_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
)

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v %v\nwant %v", got, err, want)
	}
}

func TestTheLastVariablesWinAndAreTakenAsTheyAre(t *testing.T) {
	options := vars.Options{
		Evaluator: expression.New(t.TempDir()), Builtin: map[string]any{"host": "antworker001"},
		Flags: []vars.Flag{{Name: "a", Value: "{x: 1, y: 1}"}, {Name: "b", Value: "1"}},
		Last:  map[string]any{"a": map[string]any{"y": 2.5}, "b": "{{ host }}"},
	}
	got, err := vars.Load(options)
	want := map[string]any{"host": "antworker001", "a": map[string]any{"x": int64(1), "y": 2.5}, "b": "{{ host }}"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v %v\nwant %v", got, err, want)
	}
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
		got, err := vars.Load(vars.Options{
			Evaluator: expression.New(t.TempDir()), Builtin: map[string]any{"base": []any{"x"}, "n": int64(7)},
			Flags: []vars.Flag{{Name: "x", Value: test.typed}},
		})
		if err != nil || !reflect.DeepEqual(got["x"], test.want) {
			t.Errorf("--var 'x=%s' is %#v (%v), want %#v", test.typed, got["x"], err, test.want)
		}
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
	if err := os.Mkdir(filepath.Join(dir, "vars.e.auto.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
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
	if !errors.As(err, &invalid) || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
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
		if !reflect.DeepEqual(b, below) || !reflect.DeepEqual(a, above) {
			t.Fatal("merging changed what was merged")
		}
		var holds func(got, below, above any)
		holds = func(got, below, above any) {
			x, mapBelow := below.(map[string]any)
			y, mapAbove := above.(map[string]any)
			if !mapBelow || !mapAbove {
				if !reflect.DeepEqual(got, above) {
					t.Fatalf("%v over %v is %v", above, below, got)
				}
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
				if _, there := z[key]; !there {
					t.Fatalf("%q is lost", key)
				}
			}
			for key := range y {
				if _, there := z[key]; !there {
					t.Fatalf("%q is lost", key)
				}
			}
		}
		holds(got, below, above)
		if again := vars.Merge(got, above); !reflect.DeepEqual(again, got) {
			t.Fatalf("merging again changes %v to %v", got, again)
		}
	})
}
