package expression_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
)

func TestValuesKeepTheirType(t *testing.T) {
	e := expression.New(t.TempDir())
	vars := map[string]any{
		"list": []string{"a", "b"}, "n": 7, "u": uint8(8), "f": float32(0.5), "labels": map[string]string{"env": "prod"},
	}
	for src, want := range map[string]any{
		"plain":                  "plain",
		"trailing\r\n":           "trailing\r\n",
		"{{ list }}":             []any{"a", "b"},
		"{{ list }}\n":           []any{"a", "b"},
		"{{ 'text' }}\n":         "text\n",
		"{{ n }}":                int64(7),
		"{{ u }}":                int64(8),
		"{{ f }}":                0.5,
		"{{ labels }}":           map[string]any{"env": "prod"},
		" {{ n }}":               " 7",
		"{{ n }}{{ n }}":         "77",
		"{{ '5' }}":              "5",
		"{{ {'a': [n, none]} }}": map[string]any{"a": []any{int64(7), nil}},
		"{# nothing #}":          "",
	} {
		got := must.Get(e.Evaluate(src, vars))(t)
		assert.True(t, reflect.DeepEqual(got, want), "%q is %#v, want %#v", src, got, want)
	}
}

func TestMistakesAreExplained(t *testing.T) {
	e := expression.New(t.TempDir())
	vars := map[string]any{
		"db":   map[string]any{"name": "db", "state": map[string]any{"size": 5, "zone": "z"}},
		"list": []any{1, 2},
	}
	for src, want := range map[string]string{
		"{{ dv }}":                      `"dv" is not defined; defined are db, list`,
		"{{ db.state.foo }}":            `db.state has no "foo"; it has size, zone`,
		"{{ db['state']['foo'] }}":      `db['state'] has no "foo"; it has size, zone`,
		"{{ db.state.size.x }}":         `db.state.size has no "x"; it is a number`,
		"{{ list[5] }}":                 `list has no "5"; it is a list of 2`,
		"{{ [] | first }}":              `an empty list has no "first item"; it is empty`,
		"a\nb {{ db.nope }}":            `line 2: db has no "nope"; it has name, state`,
		"{{ 1 / 0 }}":                   `cannot divide by zero`,
		"{{ 'a' + 1 }}":                 `cannot compute text + a number; the operator ~ joins anything as text`,
		"{{ 1 < 'a' }}":                 `cannot compare a number with text`,
		"{{ list.append(3) }}":          `append() would change a list, which an expression cannot; make a new one instead`,
		"{{ db.keys }}":                 `the result is the function keys; to call it, write keys(), and for a key of that name ['keys']`,
		"{{ db() }}":                    `db is a mapping and cannot be called`,
		"{{ 9223372036854775807 + 1 }}": `the result of 9223372036854775807 + 1 is too large for a whole number`,
		"{{ {1: 'a'} }}":                `the result has the key 1, which is not text`,
		"{{ 'a' | replace('a') }}":      `the filter replace needs the argument "new"`,
		"{{ 'a' | upper(1) }}":          `the filter upper takes at most 0 arguments, not 1`,
		"{{ 'a' | nosuch }}":            `line 1, column 10: there is no filter "nosuch"`,
		"{{ 1 is nosuch }}":             `line 1, column 9: there is no test "nosuch"`,
		"x\n  {{ 1 + }}":                `line 2, column 10: expected either a number, string, keyword or identifier, got "}}"`,
		"ü {{ a b }}":                   `line 1, column 8: '}}' expected here, got "b"`,
		"{{ 1 @ 2 }}":                   `line 1, column 6: unexpected character "@"`,
		"{{ 'a }}":                      `line 1, column 4: the text is not closed; expected '`,
		"{{ a":                          `line 1, column 1: the tag is not closed`,
		"{# a":                          `line 1, column 1: the comment is not closed; expected "#}"`,
		"{% if a %}":                    `line 1, column 11: Unexpected EOF, expected tag elif or else or endif, got the end of the text`,
		"{% nosuch %}":                  `line 1, column 4: unknown or unexpected tag "nosuch"`,
		"{% set db.x = 1 %}":            `cannot set db.x: db is not a namespace()`,
		"{% set a, b = [1] %}":          `cannot assign a list of 1 to these names: their numbers differ`,
	} {
		_, err := e.Evaluate(src, vars)
		assert.EqualError(t, err, want, "%q: %v\n want: %s", src, err, want)
	}
}

// A token may be as long as its template; what is said of it is not.
func TestMessagesAreShort(t *testing.T) {
	e := expression.New(t.TempDir())
	for _, src := range []string{
		"{{ NAME }}", "{{ NAME.a }}", "{{ x.NAME }}", "{{ x['NAME'] }}", "{{ {'NAME': 1}.a }}", "{{ NAME() }}", "{{ x() }}{{ x.NAME() }}",
		"{{ 1|NAME }}", "{{ 1 is NAME }}", "{{ 1 NAME }}", "{{ x NAME = 1 }}", "{{ 1 if }} NAME", "{{ x|map('NAME') }}", "{{ x|select('NAME') }}",
		"{{ x|join(NAME=1) }}", "{{ range(NAME=1, NAME=2) }}", "{{ '%(NAME)s' % {} }}", "{{ '{NAME}'.format() }}", "{{ '%'~'NAME' % 1 }}",
		"{% NAME %}", "{% if 1 %}{% NAME %}", "{% set NAME, NAME = 1 %}", "{% set NAME.a = 1 %}", "{% for NAME.a in x %}",
		"{% block NAME %}{% endblock %}{% block NAME %}{% endblock %}", "{% block a %}{% endblock NAME %}",
		"{% macro m(NAME, NAME) %}", "{% macro m(a) %}{% endmacro %}{{ m(NAME=1) }}", "{% macro NAME() %}{% endmacro %}{{ NAME(1) }}{{ NAME }}",
		"{% include 'NAME' %}", "{% include ['NAME', 'NAME'] %}", "{% import 'NAME' as a %}", "{% from 'NAME' import a %}", "{% extends 'NAME' %}",
		"{{ 1DIGITS }}", "{{ 01DIGITS }}", "{{ 1DIGITS.5 }}", "{{ 'DIGITS'|int }}{{ 1DIGITS.0|int }}", "{{ self.NAME() }}", "{{ range.NAME }}",
	} {
		src = strings.NewReplacer("NAME", strings.Repeat("long", 5000), "DIGITS", strings.Repeat("0123456789", 2000)).Replace(src)
		_, err := e.Evaluate(src, map[string]any{"x": []any{1}})
		if err == nil {
			t.Errorf("%.40s evaluates", src)
		} else if n := len(err.Error()); n > 1000 {
			t.Errorf("%.40s fails with %d bytes: %.200s", src, n, err)
		}
	}
}

func TestWhatIsNotProvidedIsNamed(t *testing.T) {
	e := expression.New(t.TempDir())
	tag := func(name string) string { return `unknown or unexpected tag "` + name + `"` }
	for src, want := range map[string]string{
		"{% call m() %}{% endcall %}":       tag("call"),
		"{% do [] %}":                       tag("do"),
		"{% filter upper %}{% endfilter %}": tag("filter"),
		"{{ cycler('a') }}":                 `"cycler" is not defined`,
		"{{ joiner() }}":                    `"joiner" is not defined`,
		"{{ lipsum() }}":                    `"lipsum" is not defined`,
		"{% macro m() %}{{ varargs }}{% endmacro %}{{ m() }}":  `"varargs" is not defined`,
		"{% macro m() %}{{ kwargs }}{% endmacro %}{{ m() }}":   `"kwargs" is not defined`,
		"{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}": `"caller" is not defined`,
		"{% macro m() %}{{ a }}{% endmacro %}{{ m(1) }}":       "received 1 arguments but expected only 0",
		"{{ {'a': 1} | urlencode }}":                           "urlencode takes text, not a mapping",
		"{{ '{!r}'.format(1) }}":                               "the format has {!r}",
		"{{ '{a.b}'.format(a=1) }}":                            "the format has {a.b}",
		"{{ '{:{}}'.format(1, 2) }}":                           "the format has {:{}",
		"{{ '%*d' % (5, 1) }}":                                 "the format has an unknown %*",
	} {
		_, err := e.Evaluate(src, nil)
		assert.ErrorContains(t, err, want, "%s: %v, want %q", src, err, want)
	}
	for _, name := range strings.Fields("wordwrap xmlattr striptags filesizeformat pprint center forceescape batch slice random") {
		_, err := e.Evaluate("{{ x | "+name+" }}", nil)
		want := fmt.Sprintf("there is no filter %q", name)
		assert.ErrorContains(t, err, want, "%s: %v, want %q", name, err, want)
	}
	for _, name := range strings.Fields("expandtabs swapcase istitle isdecimal isnumeric isascii center encode translate") {
		_, err := e.Evaluate("{{ 'x'."+name+"() }}", nil)
		want := fmt.Sprintf("the value has no %q; it is text", name)
		assert.ErrorContains(t, err, want, "%s: %v, want %q", name, err, want)
	}
}

func TestUndefinedIsToldInParts(t *testing.T) {
	_, err := expression.New(t.TempDir()).Evaluate("a\n{{ db.state.foo }}", map[string]any{"db": map[string]any{"state": map[string]any{"b": 1, "a": 2}}})
	var undefined *expression.UndefinedError
	require.ErrorAs(t, err, &undefined)
	if undefined.Name != "db.state.foo" || undefined.Of != "db.state" || undefined.Missing != "foo" || undefined.Line != 2 ||
		!reflect.DeepEqual(undefined.Defined, []string{"a", "b"}) {
		t.Errorf("got %+v", undefined)
	}
}

func TestResolveNamesTheFailingValue(t *testing.T) {
	e := expression.New(t.TempDir())
	config := map[string]any{
		"{{ key }}": "as it is",
		"ports":     []any{map[string]any{"host": "{{ port }}"}, 5, nil, true},
	}
	got, err := e.Resolve(config, map[string]any{"port": 80})
	want := map[string]any{"{{ key }}": "as it is", "ports": []any{map[string]any{"host": int64(80)}, 5, nil, true}}
	require.True(t, err == nil && reflect.DeepEqual(got, want), "got %#v, %v", got, err)
	_, err = e.Resolve(config, nil)
	var where *expression.PathError
	require.True(t, errors.As(err, &where) && reflect.DeepEqual(where.Path, []string{"ports", "0", "host"}), "got %v", err)
	assert.Equal(t, `ports.0.host: "port" is not defined; nothing is`, err.Error(), "got %q", err)
	var undefined *expression.UndefinedError
	assert.ErrorAs(t, err, &undefined, "the cause is lost")
}

func write(t testing.TB, dir, name, content string) {
	path := filepath.Join(dir, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestFilesOfTheWorkspace(t *testing.T) {
	workspace := t.TempDir()
	write(t, workspace, "hello.txt", "Hello {{ name }}{{ local | default('') }}")
	write(t, workspace, "sub/macros.txt", "{% macro twice(x) %}{{ x * 2 }}{% endmacro %}{% set version = 3 %}")
	write(t, workspace, "base.txt", "<{% block body %}base{% endblock %}>")
	e := expression.New(workspace)
	for src, want := range map[string]any{
		"{% include 'hello.txt' %}":                                                       "Hello web",
		"{% for local in [1, 2] %}{% include 'hello.txt' %};{% endfor %}":                 "Hello web1;Hello web2;",
		"{% include './sub/../hello.txt' %}":                                              "Hello web",
		"{% include 'none.txt' ignore missing %}":                                         "",
		"{% include ['none.txt', 'hello.txt'] %}":                                         "Hello web",
		"{% import 'sub/macros.txt' as m %}{{ m.twice('ab') }}{{ m.version }}":            "abab3",
		"{% from 'sub/macros.txt' import twice as t, version %}{{ t(4) }}{{ version }}":   "83",
		"{% extends 'base.txt' %}{% block body %}{{ super() }}, {{ name }}{% endblock %}": "<base, web>",
	} {
		got := must.Get(e.Evaluate(src, map[string]any{"name": "web"}))(t)
		assert.True(t, got == want, "%q is %#v, want %#v", src, got, want)
	}
}

func TestMistakesInFilesNameTheFile(t *testing.T) {
	workspace := t.TempDir()
	write(t, workspace, "a.txt", "x\n{{ nope }}")
	_, err := expression.New(workspace).Evaluate("{% include 'a.txt' %}", map[string]any{"yes": 1})
	assert.EqualError(t, err, `a.txt:2: "nope" is not defined; defined are yes`)
}

func TestNothingOutsideOfTheWorkspaceIsRead(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "secret", "secret")
	workspace := t.TempDir()
	require.NoError(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(workspace, "link")))
	require.NoError(t, os.Symlink(outside, filepath.Join(workspace, "dir")))
	write(t, workspace, "loop", "{% include 'loop' %}")
	write(t, workspace, "self", "{% extends 'self' %}")
	write(t, workspace, "broken", "x\n{{ 1 + }}")
	e := expression.New(workspace)
	for name, want := range map[string]string{
		"../../etc/passwd":               "it is outside of the workspace",
		"/etc/passwd":                    "it is outside of the workspace",
		filepath.Join(outside, "secret"): "it is outside of the workspace",
		"a/../../x":                      "it is outside of the workspace",
		"link":                           "it is outside of the workspace",
		"dir/secret":                     "it is outside of the workspace",
		".":                              "it is not a file",
		"none":                           "there is no such file in the workspace",
		"":                               "the name is not a file name",
		"loop":                           "is one including itself?",
		"broken":                         "broken:2:8: expected",
	} {
		for _, tag := range []string{"{% include '" + name + "' %}", "{% set n = '" + name + "' %}{% include n %}", "{% import '" + name + "' as x %}"} {
			got, err := e.Evaluate(tag, nil)
			assert.True(t, err != nil && (strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "without end")),
				"%s is %#v (%v), want %q", tag, got, err, want)
		}
		_, err := e.Check("{% include '" + name + "' %}")
		assert.True(t, err != nil || name == "loop", "checking an include of %q succeeds", name)
	}
	assert.Error(t, must.Fail(e.Evaluate("{% extends 'self' %}", nil)), "a template extends itself")
}

func TestHostileTemplatesEnd(t *testing.T) {
	e := expression.New(t.TempDir())
	long := func(n int, s string) string { return strings.Repeat(s, n) }
	for _, src := range []string{
		"{% for i in range(10**12) %}{% endfor %}",
		"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
		"{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}",
		"{% for i in range(100000) %}" + long(100000, "x") + "{% endfor %}",
		"{% macro m() %}{% for i in range(100000) %}" + long(100000, "x") + "{% endfor %}{% endmacro %}{% set x = m() %}",
		"{{ 'x' * 10**10 }}",
		"{{ [1] * 10**10 }}",
		"{{ (('x' * 100000) * 100000) * 100000 }}",
		"{{ 9 ** 9 ** 9 }}",
		"{{ 'x'.ljust(10**12) }}",
		"{{ '7'.zfill(10**12) }}",
		"{{ '%1000000000d' % 1 }}",
		"{{ '%.1000000000f' % 1.5 }}",
		"{{ '{:1000000000}'.format(1) }}",
		"{{ '%1000000000d' | format(1) }}",
		"{{ 'a\nb' | indent(10**12) }}",
		"{{ ('a' * 10**6) | replace('a', 'b' * 10**6) }}",
		"{{ range(1000) | join('x' * 10**6) }}",
		"{% set ns = namespace(x='x') %}{% for i in range(64) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
		"{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
		"{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
		"{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x == ns.x }}",
		"{% set ns = namespace(x=[1]) %}{% for i in range(64) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x | tojson }}",
		"{% set ns = namespace(x=[]) %}{% for i in range(90000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x | string }}",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"{% block b %}{{ self.b() }}{% endblock %}",
		"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"{{ " + long(200000, "(") + "1" + long(200000, ")") + " }}",
		"{{ " + long(200000, "[") + " }}",
		"{{ " + long(200000, "-") + "1 }}",
		"{{ " + long(100000, "not ") + "1 }}",
		"{{ 1" + long(200000, "+1") + " }}",
		"{{ 1" + long(100000, "|abs") + " }}",
		"{{ a" + long(200000, ".a") + " }}",
		"{{ 1" + long(50000, " if 1 else 1") + " }}",
		long(50000, "{% if 1 %}"),
		long(50000, "{% set x %}"),
		long(50000, "{% if 1 %}") + long(50000, "{% endif %}"),
		long(2<<20, "x") + "{{ 1 }}",
		"{{ '" + long(900000, "a' '") + "' }}",
		"{{ 'a" + long(300000, "{{") + "' | upper",
		"\xff{{ 1 }}",
		"{{ __body }}",
		"{% set __x = 1 %}",
	} {
		got, err := e.Evaluate(src, nil)
		assert.Error(t, err, "%.80q is %.80v", src, got)
		_, ok := errors.AsType[*expression.EvalError](err)
		assert.True(t, !ok || !strings.Contains(err.Error(), "runtime error"), "%.80q: %v", src, err)
		_, err = e.Check(src)
		assert.True(t, err == nil || !strings.Contains(err.Error(), "runtime error"), "checking %.80q: %v", src, err)
	}
}

func TestVariablesAreNeverChanged(t *testing.T) {
	vars := map[string]any{"list": []any{3, 1, 2}, "map": map[string]any{"a": []any{1}}}
	e := expression.New(t.TempDir())
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for _, src := range []string{
				"{{ list | sort }}{{ list | reverse | list }}{{ list + [4] }}{{ map.items() | list }}",
				"{% set list = [] %}{% set map = 1 %}{% for x in list %}{% set y = x %}{% endfor %}",
				"{% set ns = namespace(map) %}{% set ns.a = 2 %}{{ ns.a }}{{ list.copy() }}",
			} {
				_, err := e.Evaluate(src, vars)
				assert.NoError(t, err)
			}
		})
	}
	wait.Wait()
	assert.Equal(t, map[string]any{"list": []any{3, 1, 2}, "map": map[string]any{"a": []any{1}}}, vars, "the variables")
}

func TestAnyTextInALiteralIsItself(t *testing.T) {
	e := expression.New(t.TempDir())
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[a-zäß世 \n"{}%#'\\]*[a-z]`).Draw(t, "text")
		literal := "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
		got, err := e.Evaluate("{{ "+literal+" }}", nil)
		require.True(t, err == nil && got == text, "%s is %q (%v)", literal, got, err)
		got, err = e.Evaluate("{{ text }}", map[string]any{"text": text})
		require.True(t, err == nil && got == text, "a variable %q is %q (%v)", text, got, err)
	})
}

func TestArithmeticIsPythons(t *testing.T) {
	e := expression.New(t.TempDir())
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Int64().Draw(t, "a"), rapid.Int64().Draw(t, "b")
		vars := map[string]any{"a": a, "b": b}
		got, err := e.Evaluate("{{ (a // b) * b + a % b == a }}", vars)
		require.True(t, err != nil || got == true, "a // b and a %% b do not fit for %d, %d", a, b)
		sum, err := e.Evaluate("{{ a + b }}", vars)
		overflow := (b > 0 && a+b < a) || (b < 0 && a+b > a)
		require.True(t, overflow == (err != nil) && (overflow || sum == a+b), "%d + %d is %v (%v)", a, b, sum, err)
	})
}

func FuzzEvaluate(f *testing.F) {
	for _, c := range load(f).Cases {
		f.Add(c.Template)
	}
	e := expression.New(f.TempDir())
	vars := load(f).Vars
	f.Fuzz(func(t *testing.T, src string) {
		_, checked := e.Check(src)
		_, err := e.Evaluate(src, vars)
		var syntax *expression.SyntaxError
		assert.True(t, !errors.As(checked, &syntax) || err != nil, "%q evaluates although checking says %v", src, checked)
		for _, err := range []error{checked, err} {
			assert.True(t, err == nil || !strings.Contains(err.Error(), "runtime error"), "%q: %v", src, err)
		}
	})
}
