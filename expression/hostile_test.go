package expression_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/waittest"
)

func series(n int, text, separator string) string {
	var list []string
	for i := range n {
		list = append(list, strings.ReplaceAll(text, "#", fmt.Sprint(i)))
	}
	return strings.Join(list, separator)
}

// What a single node of a template can have many of must count, too, or a small
// template takes minutes within the bound on steps.
func TestLongLists(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "empty", "")
	write(t, dir, "blocks", "{% if false %}"+series(20_000, "{% block b# %}{% endblock %}", "")+"{% endif %}")
	loop := func(body string) string {
		return "{% for i in range(100000) %}{% for j in range(10) %}" + body + "{% endfor %}{% endfor %}"
	}
	for name, src := range map[string]string{
		"arguments":       loop("{% set x = loop.cycle(" + series(2400, "1", ",") + ") %}"),
		"parameters":      "{% macro m(" + series(2400, "p#", ",") + ") %}{% endmacro %}" + loop("{% set x = m() %}"),
		"named arguments": "{% macro m(" + series(1200, "p#", ",") + ") %}{% endmacro %}" + loop("{% set x = m("+series(1200, "p#=1", ",")+") %}"),
		"with":            loop("{% with " + series(1200, "a#=1", ",") + " %}{% endwith %}"),
		"imported names":  loop("{% from 'empty' import " + series(2400, "a#", ",") + " %}"),
		"blocks":          loop("{% include 'blocks' %}"),
		"context": strings.Repeat("{% with "+series(1200, "a#=1", ",")+" %}", 90) +
			loop("{% include 'empty' %}") + strings.Repeat("{% endwith %}", 90),
	} {
		t.Run(name, func(t *testing.T) {
			var limit *expression.LimitError
			assert.ErrorAs(t, soon(t, dir, src), &limit)
		})
	}
}

// A name that is looked up through many scopes costs more than a step.
func TestDeepScopes(t *testing.T) {
	const depth = 95
	loop := "{% for i in range(100000) %}" + strings.Repeat("{{ x }}", 5) + "{% endfor %}"
	err := soon(t, t.TempDir(), "{% set x = '' %}"+strings.Repeat("{% with a = 1 %}", depth)+loop+strings.Repeat("{% endwith %}", depth))
	var limit *expression.LimitError
	assert.ErrorAs(t, err, &limit)
	assert.NoError(t, soon(t, t.TempDir(), "{% set x = '' %}{% with a = 1 %}"+loop+"{% endwith %}"))
}

// Parsing counts no steps: it has to take time that is linear in the size.
func TestLongTemplates(t *testing.T) {
	for name, src := range map[string]string{
		"ifs":     series(30_000, "{{a# is defined}}", "") + strings.Repeat("{%if 1%}{%endif%}", 20_000),
		"numbers": "{{ " + strings.Repeat("1+", 2490) + strings.Repeat("0", 1_000_000) + " }}",
		"targets": "{% if false %}" + strings.Repeat("{% set "+series(2400, "a#", ",")+" = 1 %}", 50) + "{% endif %}",
	} {
		t.Run(name, func(t *testing.T) { assert.NoError(t, soon(t, t.TempDir(), src)) })
	}
}

func soon(t *testing.T, dir, src string) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { _, err := expression.New(dir).Evaluate(src, nil); done <- err }()
	return waittest.Receive(t, done, "the value of a template")
}

func TestAnIncludeThatLeadsOutOfItsDirectoryIsNoFileThatIsAbsent(t *testing.T) {
	given := map[string]string{"conf/h1": "1", "default": "D", "known": "K", "inner": "\n{% include [\"conf/\" ~ host, \"default\"] %}"}
	e := expression.Over(func(name string) (string, error) {
		text, ok := given[name]
		if !ok {
			return "", fs.ErrNotExist
		}
		return text, nil
	})
	for _, tc := range []struct{ src, host, want, says string }{
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "h1", want: "1"},
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "h2", want: "D"},
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "", want: "D"},
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "h2/../h1", want: "1"},
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "../known", want: "K"},
		{src: `{% include ["conf/" ~ host, "default"] %}`, host: "../shared/x", says: `cannot include "conf/../shared/x": it is none of the files`},
		{src: `{% include "conf/" ~ host ignore missing %}`, host: "a/../../shared", says: "begin the name with the directory that it is in"},
		{src: `{% include "conf/../shared/" ~ host ignore missing %}`, host: "x", want: ""},
		{src: `{% include ["none", "a/../none", "default"] %}`, want: "D"},
		{src: `{% include "inner" %}`, host: "../shared/x", says: `inner:2:`},
		{src: `{% include host ignore missing %}`, host: "x", says: "is none of the files"},
	} {
		got, err := e.Evaluate(tc.src, map[string]any{"host": tc.host})
		switch {
		case tc.says != "" && (err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s with %q: %q, %v, want an error that says %q", tc.src, tc.host, got, err, tc.says)
		case tc.says == "" && (err != nil || got != tc.want):
			t.Errorf("%s with %q: %q, %v, want %q", tc.src, tc.host, got, err, tc.want)
		}
	}
	// In a workspace all files are there that there are.
	live := expression.New(t.TempDir())
	got := must.Get(live.Evaluate(`{% include "conf/" ~ host ignore missing %}`, map[string]any{"host": "../shared/x"}))(t)
	assert.True(t, got == "", "in a workspace it is %q", got)
}

func TestANameThatClimbsBehindItsDirectoryMayBeAnyFile(t *testing.T) {
	e := expression.Over(func(string) (string, error) { return "", fs.ErrNotExist })
	for src, anywhere := range map[string]bool{
		`{% include "conf/" ~ a ~ ".txt" %}`:         false,
		`{% include "conf/../b/" ~ a ~ "/" ~ b %}`:   false,
		`{% include "conf/" ~ a ~ "/../b" %}`:        true,
		`{% include "conf/" ~ a ~ ("/.." ~ "/b") %}`: true,
	} {
		u := must.Get(e.Examine(src))(t)
		assert.Equal(t, anywhere, u.Anywhere, "%s: %+v", src, u)
	}
}

func TestCheckFindsWhatATemplateNeeds(t *testing.T) {
	workspace := t.TempDir()
	write(t, workspace, "part.txt", "{{ inner }}{{ given }}")
	e := expression.New(workspace)
	for src, want := range map[string][]expression.Ref{
		"text":                                   nil,
		"{{ a }}":                                {{Name: "a", Line: 1, Column: 4}},
		"x\n é {{ a.b['c'] + d }}":               {{Name: "a", Line: 2, Column: 7}, {Name: "d", Line: 2, Column: 18}},
		"{{ a | default(b) }}":                   {{Name: "a", Line: 1, Column: 4, Optional: true}, {Name: "b", Line: 1, Column: 16}},
		"{{ a.b | default(1) }}":                 {{Name: "a", Line: 1, Column: 4}},
		"{{ a is defined and a.b }}":             {{Name: "a", Line: 1, Column: 4, Optional: true}},
		"{{ a is not defined }}":                 {{Name: "a", Line: 1, Column: 4, Optional: true}},
		"{{ range(3) | map('int') }}":            nil,
		"{% set x = y %}{{ x }}":                 {{Name: "y", Line: 1, Column: 12}},
		"{% set a, b = 1, 2 %}{{ a }}":           nil,
		"{% set x | upper %}{% endset %}{{ x }}": nil,
		"{% for k, v in d.items() %}{{ k }}{{ loop.index }}{% endfor %}":       {{Name: "d", Line: 1, Column: 16}},
		"{% for x in y if x > z recursive %}{% endfor %}":                      {{Name: "y", Line: 1, Column: 13}, {Name: "z", Line: 1, Column: 22}},
		"{% macro m(a, b=c) %}{{ a }}{% endmacro %}{{ m(n=o) }}":               {{Name: "c", Line: 1, Column: 17}, {Name: "o", Line: 1, Column: 50}},
		"{% with a = b, c = 1 %}{{ a }}{{ c }}{% endwith %}":                   {{Name: "b", Line: 1, Column: 13}},
		"{% include 'part.txt' %}":                                             {{Name: "inner", Line: 1, Column: 1}, {Name: "given", Line: 1, Column: 1}},
		"{% set given = 1 %}{% include 'part.txt' %}":                          {{Name: "inner", Line: 1, Column: 20}},
		"{% import 'part.txt' as p %}{{ p.x }}":                                nil,
		"{% from 'part.txt' import a as b, c %}{{ b }}{{ c }}":                 nil,
		"{% include file ignore missing %}":                                    {{Name: "file", Line: 1, Column: 12}},
		"{{ {'k': v} }}{{ 'a' if b else c }}":                                  {{Name: "v", Line: 1, Column: 10}, {Name: "b", Line: 1, Column: 25}, {Name: "c", Line: 1, Column: 32}},
		"{% raw %}{{ a }}{% endraw %}{# {{ b }} #}":                            nil,
		"{{ None }}{{ True }}{{ none }}{{ self }}":                             nil,
		"{{ a if b else c }}{{ b }}":                                           {{Name: "a", Line: 1, Column: 4}, {Name: "b", Line: 1, Column: 9}, {Name: "c", Line: 1, Column: 16}},
		"{{ dict(y=b, x=a) }}":                                                 {{Name: "b", Line: 1, Column: 11}, {Name: "a", Line: 1, Column: 16}},
		"{{ x | default(1) }}{{ x }}":                                          {{Name: "x", Line: 1, Column: 4}},
		"{{ 'a' ~ q | d(1) | upper }}":                                         {{Name: "q", Line: 1, Column: 10, Optional: true}},
		"{% block z %}{{ b }}{% endblock %}{% block a %}{{ a }}{% endblock %}": {{Name: "b", Line: 1, Column: 17}, {Name: "a", Line: 1, Column: 51}},
		"{% for x, (y, z) in l %}{{ x }}{{ y }}{{ z }}{% endfor %}":            {{Name: "l", Line: 1, Column: 21}},
		"{% set ns.a = 1 %}":                                                   {{Name: "ns", Line: 1, Column: 8}},
		"{% import 'part.txt' as p with context %}":                            {{Name: "inner", Line: 1, Column: 1}, {Name: "given", Line: 1, Column: 1}},
		"{% import 'part.txt' as p %}{% include 'part.txt' %}":                 {{Name: "inner", Line: 1, Column: 29}, {Name: "given", Line: 1, Column: 29}},
		"{% extends 'part.txt' %}{% block x %}{{ x }}{% endblock %}":           {{Name: "inner", Line: 1, Column: 1}, {Name: "given", Line: 1, Column: 1}, {Name: "x", Line: 1, Column: 41}},
	} {
		got := must.Get(e.Check(src))(t)
		assert.True(t, len(got) == len(want) && (len(want) == 0 || reflect.DeepEqual(got, want)), "%q needs %+v, want %+v", src, got, want)
	}
}

// Whoever looks for names that nothing reads must not miss one.
func TestExamineFindsEveryNameThatMayBeRead(t *testing.T) {
	workspace := t.TempDir()
	write(t, workspace, "part.txt", "{{ inner }}")
	e := expression.New(workspace)
	for src, want := range map[string]struct {
		mentions string
		dynamic  bool
	}{
		"text":                                      {"", false},
		"{{ b }}{{ a }}{{ b }}":                     {"a b", false},
		"{% set a = a | default(1) %}{{ a }}":       {"a", false},
		"{% for a in a %}{{ loop }}{% endfor %}":    {"a loop", false},
		"{% with a = a %}{% endwith %}":             {"a", false},
		"{% macro m(a=a) %}{% endmacro %}{{ m() }}": {"a m", false},
		"{% set a = 1 %}":                           {"", false},
		"{% include 'part.txt' %}":                  {"inner", false},
		"{% include 'p' ~ 'art.txt' %}":             {"", true},
		"{% include name %}":                        {"name", true},
		"{% import name as x %}":                    {"name", true},
		"{% include 'part.txt' without context %}":  {"", false},
	} {
		got, err := e.Examine(src)
		assert.True(t, err == nil && strings.Join(got.Mentions, " ") == want.mentions && got.Dynamic == want.dynamic,
			"%q mentions %q, dynamic %v, %v; want %+v", src, got.Mentions, got.Dynamic, err, want)
	}
}

func TestReadsLooksIntoEveryValue(t *testing.T) {
	e := expression.New(t.TempDir())
	config := map[string]any{"{{ db }}": "key", "deep": []any{1, map[string]any{"x": "{{ disk.state.zone }}"}}}
	for name, want := range map[string]bool{"disk": true, "db": false, "zone": false} {
		got := must.Get(e.Reads(config, "other", name))(t)
		assert.Equal(t, want, got, "reads %s: %t", name, got)
	}
	_, err := e.Reads(map[string]any{"b": "{{ 2 }", "a": "{{ 1 + }}"}, "x")
	var syntax *expression.SyntaxError
	assert.True(t, errors.As(err, &syntax) && strings.Contains(err.Error(), "expected either a number"),
		"got %v, want the mistake of the first key", err)
}

func TestMayReadLooksIntoEveryFileThatMayBeIncluded(t *testing.T) {
	workspace := t.TempDir()
	files := map[string]string{
		"d/direct": "{{ a }}", "d/more/deep": "{{ b }}", "e/next": "{% include 'd/' ~ x %}", "loop/l": "{% include 'loop/' ~ x %}{{ c }}",
		"no": "{{ z }}", "half/h": "{{ ", "far/f": "{% include x %}",
	}
	for name, text := range files {
		write(t, workspace, name, text)
	}
	e := expression.New(workspace)
	for src, want := range map[string]string{
		"{% include 'd/' ~ x %}":                   "a b x",
		"{% include './d/' ~ x %}":                 "a b x",
		"{% include 'd/more/' ~ x %}":              "b x",
		"{% include 'e/' ~ x %}":                   "a b x",
		"{% include 'loop/' ~ x %}":                "c x",
		"{% include ['none', 'no'] %}":             "z",
		"{% include 'half/' ~ x %}":                "x",
		"{% include 'far/' ~ x %}":                 "a b c x z",
		"{% set c = c | default(1) %}{{ c }}":      "c",
		"{% include './' ~ x %}":                   "a b c x z",
		"{% include 'no' without context %}text":   "",
		"{% include 'none/' ~ x ignore missing %}": "x",
	} {
		var got []string
		for _, name := range []string{"a", "b", "c", "x", "z"} {
			reads, err := e.MayRead([]any{1, map[string]any{"k": src}}, slices.Sorted(maps.Keys(files)), name)
			assert.NoError(t, err, "%s", src)
			if reads {
				got = append(got, name)
			}
		}
		assert.Equal(t, want, strings.Join(got, " "), "%s may read %q, want %s", src, got, want)
	}
	reads, err := e.MayRead("{{ 1 + }}", nil, "a")
	assert.True(t, !reads && err != nil, "of what is no template is said %t, %v", reads, err)
}

func FuzzCheck(f *testing.F) {
	for _, c := range load(f).Cases {
		f.Add(c.Template)
	}
	f.Add("{% include 'none' ignore missing %}{% from name import a as b %}{% set a.b = c %}")
	e := expression.New(f.TempDir())
	f.Fuzz(func(t *testing.T, src string) {
		refs, err := e.Check(src)
		again, _ := e.Check(src)
		assert.Equal(t, again, refs, "%q needs %v, then %v", src, refs, again)
		inOrder := func(a, b expression.Ref) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		}
		assert.True(t, slices.IsSortedFunc(refs, inOrder) && (err == nil || refs == nil), "%q needs %v (%v)", src, refs, err)
		seen := map[string]bool{}
		for _, r := range refs {
			assert.True(t, !seen[r.Name] && r.Name != "" && r.Line >= 1 && r.Column >= 1, "%q needs %+v", src, r)
			seen[r.Name] = true
		}
	})
}

func TestPathsAreWhatATemplateReadsBelowNames(t *testing.T) {
	workspace := t.TempDir()
	write(t, workspace, "part.txt", "{{ from.part }}")
	e := expression.New(workspace)
	for src, want := range map[string][]string{
		"text":                                         nil,
		"{{ other.a }}":                                nil,
		"{{ from }}":                                   nil,
		"{{ from.a }}":                                 {"from.a"},
		"{{ from['a-b'] }} {{ from[\"c\"].d }}":        {"from['a-b']", "from.c.d"},
		"{{ from.a.b ~ from.c | upper }}":              {"from.a.b", "from.c"},
		"{{ from[key].a }}":                            nil,
		"{{ from.a[from.b].c }}":                       {"from.a", "from.b"},
		"{{ from.a[0].b }}":                            {"from.a"},
		"{{ from.a.items() }}":                         {"from.a"},
		"{{ from.get('a') }} {{ from.b }}":             nil,
		"{{ from.a.get('x', from.b.c) }}":              {"from.a", "from.b.c"},
		"{{ from.a.upper().b }}":                       {"from.a"},
		"{{ from.a | default('x') }}":                  nil,
		"{{ from.a.b | default('x') }} {{ from.a.c }}": {"from.a.c"},
		"{% if from.a is defined %}{{ from.a.b }}{{ from.a }}{% endif %}": nil,
		"{% if 'a' in from.b %}{{ from.b.a }}{% endif %}":                 {"from.b"},
		"{% if 'a' in from %}{{ from.a }}{% endif %}":                     nil,
		"{% set from = {} %}{{ from.a }}":                                 nil,
		"{% for x in from.list %}{{ x.a }}{% endfor %}":                   {"from.list"},
		"{% include 'part.txt' %}":                                        {"from.part"},
		"{{ (from.a).b }}":                                                {"from.a.b"},
		"{{ (from).a }}":                                                  {"from.a"},
		"{{ [from.a, {'k': from.b}] }}":                                   {"from.a", "from.b"},
	} {
		paths, err := e.Paths(src, "from")
		var got []string
		for _, p := range paths {
			got = append(got, p.String())
		}
		assert.True(t, err == nil && slices.Equal(got, want), "%q reads %q (%v), want %q", src, got, err, want)
	}
}

// recorded is what Python's Jinja2 answers; see testdata/record.py.
type recorded struct {
	Jinja2 string
	Vars   map[string]any
	Cases  []struct {
		Template string
		Value    json.RawMessage
		Error    string
	}
}

func load(t testing.TB) recorded {
	data := must.Get(os.ReadFile("testdata/jinja2.json"))(t)
	var r recorded
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&r))
	return r
}

func decode(t testing.TB, data []byte) any {
	var v any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&v))
	return plain(v)
}

// plain tells whole numbers from those with decimals, as Python does.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}

func show(v any) string {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("float %v", f)
	}
	return fmt.Sprintf("%#v", v)
}

func TestAgreesWithJinja2(t *testing.T) {
	r := load(t)
	require.True(t, len(r.Cases) >= 600, "only %d recorded answers", len(r.Cases))
	e := expression.New(t.TempDir())
	seen := map[string]bool{}
	for _, c := range r.Cases {
		seen[c.Template] = true
		got, err := e.Evaluate(c.Template, r.Vars)
		var want any
		if c.Error == "" {
			want = decode(t, c.Value)
		}
		agrees := (c.Error != "") == (err != nil) && (err != nil || reflect.DeepEqual(got, want))
		if known, differs := knownDifferences[c.Template]; differs {
			known.check(t, c.Template, got, err, agrees)
			continue
		}
		switch {
		case !agrees && c.Error != "":
			t.Errorf("%q is %s, but Jinja2 fails with %s", c.Template, show(got), c.Error)
		case !agrees:
			t.Errorf("%q is %s (%v), want %s", c.Template, show(got), err, show(want))
		}
		var undefined *expression.UndefinedError
		if c.Error == "UndefinedError" && !errors.As(err, &undefined) {
			t.Errorf("%q fails with %T %v, want an UndefinedError", c.Template, err, err)
		}
		var syntax *expression.SyntaxError
		if (c.Error == "TemplateSyntaxError" || c.Error == "TemplateAssertionError") && !errors.As(err, &syntax) {
			t.Errorf("%q fails with %T %v, want a SyntaxError", c.Template, err, err)
		}
	}
	for template := range knownDifferences {
		assert.True(t, seen[template], "%q is a known difference but was not recorded", template)
	}
}

type difference struct {
	why   string
	value any
	fails bool
}

func (d difference) check(t *testing.T, template string, got any, err error, agrees bool) {
	t.Helper()
	switch {
	case agrees:
		t.Errorf("%q agrees with Jinja2 now: take it off the known differences", template)
	case d.fails && err == nil:
		t.Errorf("%q is %s, want the known failure", template, show(got))
	case !d.fails && (err != nil || !reflect.DeepEqual(got, d.value)):
		t.Errorf("%q is %s (%v), want the known difference %s", template, show(got), err, show(d.value))
	}
}

// knownDifferences are what Jinja2 has an answer to and this package refuses.
// Each but lipsum is a failure, never a silently different value.
var knownDifferences = map[string]difference{
	"{% macro m(a, a2) %}{{ a }}-{{ a2 }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'a2': 4}) }}": {
		why: "a call does not unpack * and **", fails: true,
	},
	`{{ '\u0661'|int }}`:          {why: "the digits of other scripts are refused", fails: true},
	"{{ -1 ** (count - 1) }}":     {why: "Jinja2 takes it for -(1 ** (count - 1))", fails: true},
	"{{ range(3) == [0, 1, 2] }}": {why: "a range is not compared", fails: true},
	"a{{ range(3) }}b":            {why: "a range is not written as text", fails: true},
	"a{{ map.keys() }}b":          {why: "keys, values and items are not written as text", fails: true},
	"{{ 'x' if none_list|map('upper') else 'y' }}": {
		why: "what map gives is always true, even when it is empty", fails: true,
	},
	"{% set m = list|map('upper') %}{{ m|list }}{{ m|list }}": {
		why: "what map gives is empty the second time", fails: true,
	},
	"{{ name.swapcase is defined }}": {why: "what is not provided is not taken for undefined", fails: true},
	"{{ count.real|default(9) }}":    {why: "what is not provided is not taken for undefined", fails: true},
	"{{ map['keys'] is defined }}":   {why: "a method is not taken for a key", fails: true},
	"a{{ range }}b":                  {why: "a function is not written as text", fails: true},
	"{{ namespace(a=1) }}":           {why: "a namespace is not a value", fails: true},
	"{{ [1] is sameas [1] }}":        {why: "whether equal values are the same is not known", fails: true},
	"{{ 'wordwrap' is filter }}":     {why: "what is not provided is not taken for unknown", fails: true},
	`{{ '\u00b2'.isdigit() }}`:       {why: "only decimal digits are known", fails: true},
	"{{ '{:%}'.format(1e308) }}":     {why: "numbers are finite", fails: true},
	"{{ lipsum is defined }}":        {why: "there is no lipsum(): it would differ each time", value: false},
}
