package expression_test

import (
	"maps"
	"strings"
)

// files are what random templates include, import and extend.
var files = map[string]string{
	"part":   "({{ x|default('-') }}{{ loop.index|default('-') }}{% set x = 'part' %}{{ x }}{{ y|default('-') }})",
	"macros": "{% set v = 'V' %}{% set _p = 2 %}{% macro m(a, b=a) %}{{ a }}{{ b }}{{ x|default('-') }}{{ v }}{% endmacro %}{% if v %}{% set w = 3 %}{% endif %}{% for x in [1] %}{% set u = x %}{% endfor %}out",
	"base":   "<{% block b %}base {{ x|default('-') }}{% endblock %}{% set y = 'base' %}{{ y }}{{ x|default('-') }}{% block c %}{{ y|default('-') }}{% endblock %}>",
	"middle": "{% extends 'base' %}{% set x = 'middle' %}{% block b %}middle {{ super() }}{{ y|default('-') }}{% endblock %}",
}

func init() {
	maps.Copy(terminals, map[byte][]string{
		'S': lines(`
text
 a 
{{ x|default('-') }}
{{ y|default('-') }}
{{ z|default('-') }}
{{ x is defined }}{{ z is defined }}
`),
		'V': lines("x\ny\nz\nname\ncount"),
		'E': lines("name\ncount\n1\n'a'\n[1, 2]\nnone\nx\nx|default(3)\ny|default('d')\nz|default([])\nx|default(y|default(1))"),
		'C': lines("true\nfalse\nyes\nx is defined\ny == 1\nx|default(0)\nloop is defined\nname"),
		'I': lines("[1, 2]\n[]\nlist\n'ab'\nrange(3)\nmap\nx|default([1])\n[[1, 2], [3]]\n1, 2"),
		'J': lines("map.items()\n[(1, 2), (3, 4)]\nnested\nmap|dictsort"),
		'X': lines("loop.index\nloop.index0\nloop.first\nloop.last\nloop.length\nloop.revindex\nloop.revindex0\nloop.depth\nloop.depth0\nloop.previtem|default('-')\nloop.nextitem|default('-')\nloop.cycle('o', 'e')\nloop.changed(x|default(1))\nloop.cycle(x)"),
	})
	maps.Copy(productions, map[byte][]string{
		'S': lines(`
<S><S>
<S><S><S>
<S>{{ <E> }}<S>
{{ <V>|default('-') }}<S>
{% set <V> = <E> %}<S>
{% set x, y = <E>, <E> %}<S>
{% set (z, y) = <J>|list|first %}<S>
{% set <V> %}<S>{% endset %}<S>
{% set <V> | upper | default('n') %}<S>{% endset %}<S>
{% if <C> %}<S>{% endif %}<S>
{% if <C> %}<S>{% else %}<S>{% endif %}<S>
{% if <C> %}<S>{% elif <C> %}<S>{% elif <C> %}<S>{% endif %}<S>
{% if <C> %}<S>{% elif <C> %}<S>{% else %}<S>{% endif %}<S>
{% if <C> %}{% set <V> = <E> %}{% endif %}<S>
{% if <C> %}{% set <V> = <E> %}{% else %}{% set <V> = <E> %}{% endif %}<S>
{% for <V> in <I> %}<S>{% endfor %}<S>
{% for <V> in <I> %}<S>{{ <X> }}{% endfor %}<S>
{% for <V> in <I> %}{{ <X> }}{% for <V> in <I> %}<S>{{ <X> }}{% endfor %}{{ <X> }}{% endfor %}<S>
{% for <V> in <I> %}<S>{% set <V> = <E> %}<S>{% endfor %}<S>
{% for <V> in <I> %}<S>{% else %}<S>{% endfor %}<S>
{% for <V> in <I> if <C> %}<S>{{ <X> }}{% endfor %}<S>
{% for <V> in <I> if x|default(2) != 2 %}{{ x }}<S>{% else %}<S>{% endfor %}<S>
{% for <V>, <V> in <J> %}<S>{{ <X> }}{% endfor %}<S>
{% for <V>, (<V>, <V>) in [(1, (2, 3))] %}<S>{% endfor %}<S>
{% for <V> in <I> %}<S>{% if <C> %}{% break %}{% endif %}<S>{% else %}<S>{% endfor %}<S>
{% for <V> in <I> %}<S>{% if <C> %}{% continue %}{% endif %}<S>{% else %}<S>{% endfor %}<S>
{% for <V> in <I> %}{% set <V> %}<S>{% if <C> %}{% break %}{% endif %}{% endset %}<S>{% endfor %}<S>
{% for x in [1, [2, []], [3]] recursive %}{{ loop.depth }}{% if x is iterable %}({{ loop(x) }}<S>){% else %}{{ x }}<S>{% endif %}{% endfor %}<S>
{% for x in [1, [2, 1], []] if x != 1 recursive %}<S>{{ loop(x) if x is iterable }}{% else %}<S>{% endfor %}<S>
{% with <V> = <E> %}<S>{% endwith %}<S>
{% with x = <E>, y = <E> %}<S>{% set <V> = <E> %}<S>{% endwith %}<S>
{% macro m(<V>) %}<S>{% endmacro %}<S>{{ m(<E>) }}<S>
{% macro m(x, y=<E>) %}<S>{% endmacro %}{{ m(<E>) }}{{ m(<E>, <E>) }}<S>
{% macro m(x=1, y=x) %}<S>{{ x }}{{ y }}{% endmacro %}{{ m(y=<E>) }}{{ m(<E>) }}{{ m() }}<S>
{% macro m() %}<S>{% set <V> = <E> %}<S>{% endmacro %}{% set <V> = <E> %}{{ m() }}<S>
{% macro m() %}<S>{% endmacro %}{{ m() }}<S>{% set <V> = <E> %}{{ m() }}<S>
{% macro m(x) %}{% if x %}{{ x }}<S>{{ m(x[1:]) }}{% endif %}{% endmacro %}{{ m('abc') }}<S>
{% macro m() %}{{ n() }}<S>{% endmacro %}{% macro n() %}<S>{% endmacro %}{{ m() }}<S>
{% for <V> in <I> %}{% macro m() %}{{ <X> }}<S>{% endmacro %}{{ m() }}<S>{% endfor %}<S>
{% macro m(a) %}{{ a }}{% endmacro %}{% set <V> = m(<E>) %}{{ m(a=m(<E>)) }}<S>
{% set ns = namespace(n=<E>) %}{% for <V> in <I> %}<S>{% set ns.n = <E> %}{% endfor %}{{ ns.n }}<S>
{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}<S>{% endfor %}{{ ns.n }}{{ ns.q|default('-') }}<S>
{% include 'part' %}<S>
{% include 'part' without context %}<S>
{% include ['none', 'part'] %}<S>
{% include 'none' ignore missing %}<S>
{% include 'base' %}<S>
{% include 'middle' %}<S>
{% for <V> in <I> %}<S>{% include 'part' %}{% endfor %}<S>
{% for <V> in <I> %}{{ <X> }}{% include 'part' %}{% endfor %}<S>
{% import 'macros' as q %}{{ q.m(<E>) }}{{ q.v }}{{ q.w }}{{ q._p|default('-') }}{{ q.u|default('-') }}<S>
{% import 'macros' as q with context %}{% set x = <E> %}{{ q.m(<E>) }}<S>
{% from 'macros' import m, v as <V> %}{{ m(1) }}<S>
{% from 'macros' import m with context %}{{ m(<E>, <E>) }}<S>
{% raw %} {{ x }} {% endraw %}<S>
{# {{ x }} #}<S>
 {{ <E> }}
<S>
{{ <E> ~ <E> }}<S>
{{ <V> if <C> else <E> }}<S>
`),
	})
}

// statements makes a template with statements. Its blocks have names that are
// there once, and a tag may trim the blanks around it.
func (g grammar) statements() string {
	part := func() string { return g.expand("<S>", 1+g.random.IntN(3)) }
	t := part()
	if g.random.IntN(3) == 0 {
		t += "{% block b %}" + part() + g.pick([]string{"", "", "{{ super() }}", "{{ self.c() }}"}) + "{% endblock %}" + part()
	}
	if g.random.IntN(6) == 0 {
		t += "{% block c %}" + part() + "{% endblock %}" + part()
	}
	if g.random.IntN(8) == 0 {
		t = "{% extends '" + g.pick([]string{"base", "middle"}) + "' %}" + t
	}
	var b strings.Builder
	for _, piece := range strings.SplitAfter(t, "}") {
		if g.random.IntN(6) == 0 {
			piece = strings.Replace(piece, "{%", g.pick([]string{" {%-", "\n{%-", "\n {%+", "{%", "\n\t{%"}), 1)
		}
		if g.random.IntN(6) == 0 {
			piece = strings.Replace(piece, " %}", g.pick([]string{" -%} ", "-%}\n", " +%}\n", "%} \n", "\n%}"}), 1)
		}
		b.WriteString(piece)
	}
	return "[" + b.String() + "]"
}
