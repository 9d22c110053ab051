package expression_test

import (
	"cmp"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/expression"
)

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
		got, err := e.Check(src)
		assert.True(t, err == nil && len(got) == len(want) && (len(want) == 0 || reflect.DeepEqual(got, want)),
			"%q needs %+v (%v), want %+v", src, got, err, want)
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
		got, err := e.Reads(config, "other", name)
		assert.True(t, got == want && err == nil, "reads %s: %t (%v)", name, got, err)
	}
	_, err := e.Reads(map[string]any{"b": "{{ 2 }", "a": "{{ 1 + }}"}, "x")
	var syntax *expression.SyntaxError
	assert.True(t, errors.As(err, &syntax) && strings.Contains(err.Error(), "expected either a number"),
		"got %v, want the mistake of the first key", err)
}

// A name of a file may be computed, and what it holds may compute others.
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
		if !slices.IsSortedFunc(refs, inOrder) || (err != nil && refs != nil) {
			t.Errorf("%q needs %v (%v)", src, refs, err)
		}
		seen := map[string]bool{}
		for _, r := range refs {
			if seen[r.Name] || r.Name == "" || r.Line < 1 || r.Column < 1 {
				t.Errorf("%q needs %+v", src, r)
			}
			seen[r.Name] = true
		}
	})
}
