#!/usr/bin/env python3
"""Records what Python's Jinja2 answers, into jinja2.json beside this file.

The Go tests of this package hold the evaluator to those answers, so Python is
only needed to add cases:  python3 record.py

A case is a template and, where it differs from VARS, its variables. A template
that is one single {{ expression }} answers the value itself, anything else the
rendered text. An answer is {"value": ...} or {"error": "the exception's name"}.
"""

import json
import os

import jinja2
from jinja2 import nodes

VARS = {
    "name": "web",
    "empty": "",
    "text": "The quick brown fox",
    "path": "/srv/app/data.tar.gz",
    "count": 3,
    "zero": 0,
    "neg": -7,
    "ratio": 0.25,
    "big": 1e21,
    "yes": True,
    "no": False,
    "nothing": None,
    "list": ["b", "a", "c"],
    "numbers": [3, 1, 2],
    "nested": [[1, 2], [3, 4]],
    "none_list": [],
    "hosts": [
        {"name": "h1", "port": 80, "tls": False, "tags": ["x", "y"]},
        {"name": "h2", "port": 443, "tls": True, "tags": []},
        {"name": "H3", "port": 8080, "tls": True, "tags": ["x"]},
    ],
    "disk": {
        "name": "my_disk",
        "state": {"size": 200, "labels": {"env": "prod", "tier": "db"}, "zones": ["a", "b"], "id": None},
        "type": "acme/disk:1",
    },
    "map": {"a": 1, "b": 2, "c": 3},
    "env": {"HOME": "/root", "LANG": "C"},
    "dashed": {"machine-type": "n1", "items": [1, 2]},
    "unicode": "Grüße, 世界",
    "html": "<b>a & 'b'</b>",
}

CASES = r"""
{{ 1 }}
{{ -1 }}
{{ 1.5 }}
{{ 1_000 }}
{{ 0x1f }}
{{ 0b101 }}
{{ 0o17 }}
{{ 1e3 }}
{{ 'text' }}
{{ "double \"quoted\"" }}
{{ 'a\nb\tc' }}
{{ 'a\\b' }}
{{ 'caf\u00e9' }}
{{ 'a' 'b' }}
{{ true }}
{{ True }}
{{ false }}
{{ none }}
{{ None }}
{{ [] }}
{{ [1, 'a', [2.5], none, true] }}
{{ [1, 2,] }}
{{ {} }}
{{ {'a': 1, 'b': [2, {'c': 3}]} }}
{{ {'a': 1,} }}
{{ (1, 2) }}
{{ (1,) }}
{{ 1, 2 }}
{{ () }}
{{ (3) }}
{{ name }}
{{ count }}
{{ ratio }}
{{ yes }}
{{ nothing }}
{{ list }}
{{ disk }}
{{ hosts }}
{{ disk.state.size }}
{{ disk['state']['size'] }}
{{ disk.state['labels'].env }}
{{ disk.state.zones[0] }}
{{ disk.state.zones[-1] }}
{{ disk.state.zones.1 }}
{{ disk.state.id }}
{{ hosts[1].name }}
{{ hosts[1]['port'] }}
{{ hosts[count - 1].name }}
{{ dashed['machine-type'] }}
{{ dashed['items'] }}
{{ nested[1][0] }}
{{ name[0] }}
{{ name[-1] }}
{{ list[0:2] }}
{{ list[1:] }}
{{ list[:-1] }}
{{ list[::-1] }}
{{ list[::2] }}
{{ list[5:] }}
{{ text[4:9] }}
{{ text[::-1] }}
{{ unicode[-2:] }}
{{ list[:] }}
{{ missing }}
{{ disk.missing }}
{{ disk['missing'] }}
{{ disk.state.missing.deeper }}
{{ missing.attribute }}
{{ list[9] }}
{{ name.missing }}
{{ nothing.a }}
{{ [missing] }}
{{ 'x' ~ missing }}
{{ missing == 1 }}
{{ missing in list }}
{{ not missing }}
{{ missing or 1 }}
{{ missing | upper }}
{{ 1 + 2 }}
{{ 1 + 2 * 3 }}
{{ (1 + 2) * 3 }}
{{ 1 + 2.0 }}
{{ 7 / 2 }}
{{ 6 / 2 }}
{{ 7 // 2 }}
{{ -7 // 2 }}
{{ 7.5 // 2 }}
{{ 7 % 3 }}
{{ -7 % 3 }}
{{ 7 % -3 }}
{{ 7.5 % 2 }}
{{ 2 ** 10 }}
{{ 2 ** -1 }}
{{ 2 ** 0.5 }}
{{ 2 ** 3 ** 2 }}
{{ -2 ** 2 }}
{{ - count }}
{{ +count }}
{{ 1 - -1 }}
{{ 1/0 }}
{{ 1 // 0 }}
{{ 1 % 0 }}
{{ 'a' + 'b' }}
{{ 'a' * 3 }}
{{ 3 * 'ab' }}
{{ 'a' * -1 }}
{{ [1] * 2 }}
{{ [1] + [2, 3] }}
{{ 'a' + 1 }}
{{ 1 + 'a' }}
{{ [1] + 'a' }}
{{ none + 1 }}
{{ true + 1 }}
{{ 'a' - 'b' }}
{{ 'a' ~ 'b' }}
{{ 'a' ~ 1 ~ 2.0 ~ true ~ none }}
{{ name ~ '-' ~ count }}
{{ name ~ list }}
{{ 1 ~ 2 + 3 }}
{{ '%s-%02d' % ('a', 5) }}
{{ '%s' % name }}
{{ '%d%%' % 50 }}
{{ '%.2f' % 3.14159 }}
{{ '%5s|%-5s|' % ('a', 'b') }}
{{ '%x %X %o' % (255, 255, 8) }}
{{ '%(a)s and %(b)03d' % {'a': 'x', 'b': 7} }}
{{ '%s %s' % ('only one',) }}
{{ '%r' % 'a' }}
{{ '%s' % [1, 'a'] }}
{{ '%e' % 12345.678 }}
{{ '%+d' % 5 }}
{{ 1 == 1 }}
{{ 1 == 1.0 }}
{{ 1 == '1' }}
{{ true == 1 }}
{{ none == none }}
{{ [1, 2] == [1, 2] }}
{{ {'a': 1} == {'a': 1} }}
{{ {'a': 1, 'b': 2} == {'b': 2, 'a': 1} }}
{{ 'a' != 'b' }}
{{ 1 < 2 }}
{{ 2 <= 2 }}
{{ 3 > 2.5 }}
{{ 'a' < 'b' }}
{{ 'a' < 'B' }}
{{ 1 < 'a' }}
{{ none < 1 }}
{{ [1, 2] < [1, 3] }}
{{ [1] < [1, 0] }}
{{ 1 < 2 < 3 }}
{{ 1 < 3 < 2 }}
{{ 1 == 1 == 1 }}
{{ true and false }}
{{ true or false }}
{{ '' or 'fallback' }}
{{ 'a' and 'b' }}
{{ 0 or none }}
{{ not true }}
{{ not not 'a' }}
{{ not 1 == 2 }}
{{ yes and not no }}
{{ false and missing }}
{{ true or missing }}
{{ 'a' in list }}
{{ 'z' not in list }}
{{ not 'z' in list }}
{{ 'a' in map }}
{{ 'ell' in 'hello' }}
{{ 1 in 'abc' }}
{{ 1 in 5 }}
{{ 1 in [1.0] }}
{{ 'yes' if yes else 'no' }}
{{ 'yes' if no else 'no' }}
{{ 'yes' if no }}
{{ ('a' if yes else 'b') ~ 'c' }}
{{ 'a' if no else 'b' if no else 'c' }}
{{ [1 if yes else 2, 3] }}
{{ 1 if yes else missing }}
{{ name | default('x' if yes else 'y') }}
{{ name is defined }}
{{ missing is defined }}
{{ missing is undefined }}
{{ missing is not defined }}
{{ nothing is defined }}
{{ nothing is none }}
{{ disk.state.missing is defined }}
{{ disk.state.id is defined }}
{{ missing.deeper is defined }}
{{ name is string }}
{{ count is number }}
{{ count is integer }}
{{ ratio is float }}
{{ yes is integer }}
{{ yes is number }}
{{ yes is boolean }}
{{ count is string }}
{{ list is sequence }}
{{ list is iterable }}
{{ count is iterable }}
{{ name is sequence }}
{{ map is mapping }}
{{ list is mapping }}
{{ yes is true }}
{{ 1 is true }}
{{ no is false }}
{{ count is odd }}
{{ count is even }}
{{ 9 is divisibleby 3 }}
{{ 9 is divisibleby(2) }}
{{ count is eq 3 }}
{{ count is equalto(3) }}
{{ count is gt 2 }}
{{ count is lessthan 2 }}
{{ count is in [1, 2, 3] }}
{{ count is not in [1, 2] }}
{{ 'abc' is lower }}
{{ 'ABC' is upper }}
{{ list is sameas list }}
{{ none is sameas none }}
{{ 'upper' is filter }}
{{ 'nosuch' is filter }}
{{ 'defined' is test }}
{{ range is callable }}
{{ name is callable }}
{{ count is odd and yes }}
{{ missing is defined and missing.x }}
{{ count is nosuchtest }}
{{ name | nosuchfilter }}
{{ name | upper }}
{{ 'ABC' | lower }}
{{ text | title }}
{{ "they're bill's-friends (x)" | title }}
{{ 'hELLO wORLD' | capitalize }}
{{ '  a b  ' | trim }}
{{ 'xxaxx' | trim('x') }}
{{ text | length }}
{{ unicode | length }}
{{ list | count }}
{{ map | length }}
{{ 5 | length }}
{{ text | wordcount }}
{{ text | replace('quick', 'slow') }}
{{ 'aaa' | replace('a', 'b', 2) }}
{{ text | truncate(9) }}
{{ text | truncate(12, true) }}
{{ text | truncate(10, false, '…', 0) }}
{{ text | truncate(255) }}
{{ 'a\nb\nc' | indent }}
{{ 'a\nb' | indent(2, true) }}
{{ 'a\n\nb' | indent(2) }}
{{ 'a\n\nb' | indent(2, blank=true) }}
{{ 'a\nb' | indent('> ') }}
{{ html | escape }}
{{ html | e }}
{{ html | safe }}
{{ 'a b/c?d=é&e' | urlencode }}
{{ missing | default('x') }}
{{ missing | d('x') }}
{{ empty | default('x') }}
{{ empty | default('x', true) }}
{{ empty | default('x', boolean=true) }}
{{ nothing | default('x') }}
{{ disk.state.missing | default(0) }}
{{ missing | default }}
{{ missing.deeper | default(1) }}
{{ missing | default(none) }}
{{ missing | default([1, 2]) | length }}
{{ '12' | int }}
{{ '12.7' | int }}
{{ 'abc' | int }}
{{ 'abc' | int(5) }}
{{ '0x1f' | int(0, 16) }}
{{ '1f' | int(base=16) }}
{{ '101' | int(base=2) }}
{{ 3.9 | int }}
{{ -3.9 | int }}
{{ none | int }}
{{ true | int }}
{{ ' 12 ' | int }}
{{ '1.5' | float }}
{{ 'abc' | float }}
{{ 'abc' | float(2.5) }}
{{ 3 | float }}
{{ '1e3' | float }}
{{ 12 | string }}
{{ 1.0 | string }}
{{ none | string }}
{{ [1, 'a', none, true, 1.5] | string }}
{{ {'a': 'it''s'} | string }}
{{ ["it's", 'say "x"'] | string }}
{{ ['a\nb\\'] | string }}
{{ (1, 'a') | string }}
{{ (1,) | string }}
{{ big | string }}
{{ 0.0001 | string }}
{{ 0.00001 | string }}
{{ 1e16 | string }}
{{ 123456789012345.6 | string }}
{{ 3.7 | round }}
{{ 2.5 | round }}
{{ 2.675 | round(2) }}
{{ 42.55 | round(1, 'floor') }}
{{ 42.51 | round(1, method='ceil') }}
{{ 1234 | round(-2) }}
{{ 5 | round }}
{{ neg | abs }}
{{ -1.5 | abs }}
{{ -1 | abs }}
{{ list | first }}
{{ list | last }}
{{ none_list | first }}
{{ none_list | first is defined }}
{{ name | first }}
{{ list | join }}
{{ list | join(', ') }}
{{ hosts | join(',', attribute='name') }}
{{ [1, none, true, 2.0] | join('-') }}
{{ 'abc' | join('.') }}
{{ map | join(',') }}
{{ list | sort }}
{{ numbers | sort(reverse=true) }}
{{ ['b', 'A', 'c'] | sort }}
{{ ['b', 'A', 'c'] | sort(case_sensitive=true) }}
{{ hosts | sort(attribute='port', reverse=true) | map(attribute='name') | list }}
{{ hosts | sort(attribute='tls,name') | map(attribute='name') | list }}
{{ [1, 'a'] | sort }}
{{ list | reverse | list }}
{{ 'abc' | reverse }}
{{ numbers | sum }}
{{ hosts | sum(attribute='port') }}
{{ numbers | sum(start=10) }}
{{ none_list | sum }}
{{ numbers | min }}
{{ numbers | max }}
{{ ['b', 'A'] | min }}
{{ hosts | max(attribute='port') }}
{{ none_list | max }}
{{ [1, 2, 1, 3] | unique | list }}
{{ ['a', 'A', 'b'] | unique | list }}
{{ ['a', 'A'] | unique(case_sensitive=true) | list }}
{{ hosts | unique(attribute='tls') | map(attribute='name') | list }}
{{ 'abc' | list }}
{{ map | list }}
{{ 5 | list }}
{{ map | dictsort }}
{{ {'b': 1, 'A': 2} | dictsort }}
{{ {'b': 1, 'A': 2} | dictsort(true) }}
{{ {'b': 1, 'a': 2} | dictsort(by='value') }}
{{ map | dictsort(reverse=true) }}
{{ map | items | list }}
{{ hosts | map(attribute='name') | list }}
{{ hosts | map(attribute='tags.0', default='-') | list }}
{{ hosts | map(attribute='missing') | list }}
{{ hosts | map(attribute='missing', default='x') | list }}
{{ list | map('upper') | list }}
{{ ['1', '2'] | map('int') | sum }}
{{ list | map('replace', 'a', 'z') | list }}
{{ [' a ', 'b '] | map('trim') | map('upper') | join('+') }}
{{ numbers | select('gt', 1) | list }}
{{ numbers | select('odd') | list }}
{{ [0, 1, '', 'a', none] | select | list }}
{{ numbers | reject('odd') | list }}
{{ [0, 1, ''] | reject | list }}
{{ hosts | selectattr('tls') | map(attribute='name') | list }}
{{ hosts | selectattr('port', 'gt', 100) | map(attribute='port') | list }}
{{ hosts | rejectattr('tls') | map(attribute='name') | list }}
{{ hosts | selectattr('name', 'equalto', 'h2') | first }}
{{ hosts | selectattr('missing', 'defined') | list }}
{{ hosts | selectattr('name', 'in', ['h1', 'h2']) | list | length }}
{{ hosts | groupby('tls') | map('first') | list }}
{{ hosts | groupby('tls') | map(attribute='list') | map('length') | list }}
{{ hosts | groupby('tls') | map(attribute='grouper') | list }}
{{ disk | attr('name') }}
{{ map | tojson }}
{{ hosts[0] | tojson }}
{{ {'b': 1, 'a': [1.0, none, true, 'é<>&\'"']} | tojson }}
{{ map | tojson(2) }}
{{ map | tojson(indent=4) }}
{{ [] | tojson(2) }}
{{ '"\\\n\t/' | tojson }}
{{ name | tojson }}
{{ 1e21 | tojson }}
{{ '%s and %s' | format('a', 2) }}
{{ '%(x)s' | format(x=5) }}
{{ '%05.1f' | format(3.14159) }}
{{ '%d' | format('a') }}
{{ name.upper() }}
{{ 'a,b,,c'.split(',') }}
{{ ' a  b '.split() }}
{{ 'a,b,c'.split(',', 1) }}
{{ 'a,b,c'.rsplit(',', 1) }}
{{ path.split('/')[-1] }}
{{ path.rpartition('.')[0] }}
{{ 'k=v=w'.partition('=') }}
{{ 'a\nb\r\nc'.splitlines() }}
{{ '-'.join(list) }}
{{ '-'.join([1, 2]) }}
{{ path.startswith('/srv') }}
{{ path.endswith(('.gz', '.zip')) }}
{{ path.replace('/', '_') }}
{{ 'aXbX'.replace('X', '-', 1) }}
{{ '  x '.strip() }}
{{ 'xxaxx'.lstrip('x') }}
{{ 'xxaxx'.rstrip('x') }}
{{ 'hello'.find('l') }}
{{ 'hello'.find('z') }}
{{ 'hello'.index('z') }}
{{ 'hello'.rfind('l') }}
{{ 'hello'.count('l') }}
{{ 'hello world'.title() }}
{{ 'hello'.capitalize() }}
{{ 'a'.ljust(3, '.') }}
{{ 'a'.rjust(3) }}
{{ '7'.zfill(3) }}
{{ '-7'.zfill(4) }}
{{ '12'.isdigit() }}
{{ 'a1'.isalnum() }}
{{ 'ab'.isalpha() }}
{{ ' '.isspace() }}
{{ 'ab'.islower() }}
{{ 'AB'.isupper() }}
{{ 'v1.2'.removeprefix('v') }}
{{ 'a.txt'.removesuffix('.txt') }}
{{ 'Straße'.casefold() }}
{{ '{} {}'.format('a', 1) }}
{{ '{0}-{1}-{0}'.format('a', 'b') }}
{{ '{x:>5}|{y:<4}|{z:^5}|'.format(x='a', y='b', z='c') }}
{{ '{:05d} {:.2f} {:,}'.format(42, 3.14159, 1234567) }}
{{ '{:x} {:#x} {:b} {:%}'.format(255, 255, 5, 0.25) }}
{{ '{}'.format(1.0) }}
{{ map.keys() | list }}
{{ map.values() | list }}
{{ map.items() | list }}
{{ map.get('a') }}
{{ map.get('z') }}
{{ map.get('z', 9) }}
{{ numbers.index(1) }}
{{ numbers.count(1) }}
{{ name.nosuch() }}
{{ name() }}
{{ range(5) | list }}
{{ range(1, 4) | list }}
{{ range(10, 0, -3) | list }}
{{ range(3) | sum }}
{{ range(0) | list }}
{{ dict(a=1, b=2) }}
{{ dict(map, z=9) }}
{{ dict([['a', 1]]) }}
{{ [1, 2, 3][1:] + [4] }}
{{ {'a': {'b': 1}}['a']['b'] }}
{{ {'a': 1}.a }}
{{ 'abc'[1] ~ [1, 2][0] }}
{{ {'x': name, 'y': list | sort} }}
{{ {1: 'a'}[1] }}
{{ name | upper ~ 'x' }}
{{ 'a' ~ 'b' | upper }}
{{ ('a' ~ 'b') | upper }}
{{ 1 + '2' | int }}
{{ -count | abs }}
{{ list | join(',') | upper | replace('A', 'x') }}
{{ list | length > 2 }}
{{ list | length + 1 }}
{{ disk.state.labels | dictsort | map('join', '=') | join(',') }}
{{ lookup }}
{{ (1 < 2) == true }}
{{ (name == 'web') == yes }}
{{ (1 < 2) < 3 }}
{{ 1 < (2 < 3) }}
{{ 1 < 2 == true }}
{{ 1 <= 2 in [2] }}
{{ 1 in [1] == true }}
{{ (1 in [1]) == true }}
{{ 1 in [1] in [true] }}
{{ 'a' ~ 1 is string }}
{{ 1 + 2 is odd }}
{{ 2 is odd == false }}
{{ -1 is number }}
{{ not 1 is odd }}
{{ not not name }}
{{ --1 }}
{{ - -count }}
{{ name is defined if yes else no }}
{{ 1|round(1, 'ceil') }}
{{ true|round(0, 'floor') }}
{{ -3|round(0, 'floor') }}
{{ 3|round(-1, 'ceil') }}
{{ 25|round(-1) }}
{{ 2.5|round(none) }}
{{ 1.5|round(none, 'ceil') }}
{{ -0.5|round(0, 'ceil') }}
{{ 'inf'|float }}
{{ 'nan'|float }}
{{ '1e400'|float }}
{{ 'inf'|int }}
{{ '1__0'|int }}
{{ '_1'|int }}
{{ '_1'|float }}
{{ '1_0'|float }}
{{ '0x1f'|int(0, 0) }}
{{ '12'|int(base=1) }}
{{ '\u0661'|int }}
{{ {} == [] }}
{{ [] == {} }}
{{ [] == () }}
{{ (1, 2) == [1, 2] }}
{{ (1, 2) < [1, 3] }}
{{ 9223372036854775807 == 9223372036854775808.0 }}
{{ 4611686018427387905 / 3 }}
{{ 2 ** 1.5 }}
{{ 10 ** -3 }}
{{ -1 ** (count - 1) }}
{{ neg ** (count - 1) }}
{{ -7.5 // 2 }}
{{ -0.0|abs }}
{{ html|tojson|e }}
{{ html|e|e }}
{{ html|safe|e }}
{{ html|e|upper|e }}
{{ html|e|replace('&', '<')|e }}
{{ ('<'|e) + '<' }}
{{ '<' + ('<'|e) }}
{{ ('<'|e) ~ '<' }}
[{{ ['<']|map('e')|list }}]
{{ [1]|tojson(0) }}
[{{ [1]|tojson(-1) }}]
[{{ {true: 1, none: 2, 1.5: 3} }}]
{{ {true: 1}|tojson }}
{{ [[]] in {} }}
{{ [] in {} }}
{{ range(3) }}
{{ range(3) == [0, 1, 2] }}
{{ range(3)[1] }}
{{ range(3)|last }}
{{ range(3)|length }}
a{{ range(3) }}b
a{{ map.keys() }}b
{{ map.keys()[0] }}
{{ map.keys()|first }}
{{ map.keys() is sequence }}
{{ list|map('upper')|length }}
{{ list|map('upper')|first }}
{{ list|map('upper')|last }}
{{ list|select('eq', 'z') is iterable }}
{{ 'x' if none_list|map('upper') else 'y' }}
{{ 'x' if none_list|map('upper')|list else 'y' }}
{% set m = list|map('upper') %}{{ m|list }}{{ m|list }}
{{ list|reverse }}
{{ (1, 2).copy is defined }}
{{ name.swapcase is defined }}
{{ count.real|default(9) }}
{{ map['keys'] is defined }}
a{{ range }}b
{{ namespace(a=1) }}
{{ namespace(a=1)|list }}
{{ [1] is sameas [1] }}
{{ 1 is sameas true }}
{{ 2.5 is odd }}
{{ 'wordwrap' is filter }}
{{ ('a' if no)|int }}
[{{ ['a' if no] }}]
{{ list|sort(reverse='') }}
{{ list|sum(start='') }}
{{ 5|truncate }}
{{ 5|indent }}
{{ text|indent(none) }}
{{ '\x1ca'.split() }}
{{ ' a b '.rsplit(none, 1) }}
{{ '\u039f\u03a3'.capitalize() }}
{{ 'a\u4e16b'.title() }}
{{ '\u00b2'.isdigit() }}
{{ '\u00b2'|wordcount }}
{{ '%c' % 1.5 }}
{{ '%5%' % () }}
{{ '{:5}'.format(true) }}
{{ '{:5}'.format(none) }}
{{ '{:c}'.format(65) }}
{{ '{:.1}'.format(3.0) }}
{{ '{:.2}'.format(5) }}
{{ '{0}{}'.format(1, 2) }}
{{ '{:%}'.format(1e308) }}
{{ a b }}
{{ 1 + }}
{{ (1 }}
{{ [1 }}
{{ {'a' 1} }}
{{ 'unclosed }}
{{ 1 | }}
{{ name. }}
{{ }}
{{ name
{% if yes %}
{% endif %}
{% nosuchtag %}
{% for x in %}{% endfor %}
{% for 1 in list %}{% endfor %}
{% for x, in nested %}{% endfor %}
{% for x, y, in nested %}{% endfor %}
{% for (x, y), in nested %}{% endfor %}
{% for x, 2 in nested %}{% endfor %}
{% for (x,) in [[1], [2]] %}{{ x }}{% endfor %}
{% for (x, y,) in nested %}{{ x }}{{ y }}{% endfor %}
{% for x, (y,) in [[1, [2]]] %}{{ x }}{{ y }}{% endfor %}
{% set x, = [1] %}{{ x }}
{% set x, y, = 1, 2 %}{{ x }}
{% set (x,) = [1] %}{{ x }}
{% set x, %}a{% endset %}{{ x }}
{% set %}
{{ name }}{% endfor %}
{# unclosed
{{ 1 = 2 }}
{{ 1 ! 2 }}
{{ name @ 2 }}
{{ f(a=1, 2) }}
{{ 01 }}
plain text
Hello {{ name }}!
{{ name }}-{{ count }}
 {{ count }}
{{ count }} 
a{{ none }}b
a{{ true }}b
a{{ 1.0 }}b
a{{ list }}b
a{{ map }}b
a{{ {'b': 1, 'a': 'x'} }}b
a{{ missing }}b
a{{ 'yes' if no }}b
{% if yes %}a{% endif %}
{% if no %}a{% else %}b{% endif %}
{% if no %}a{% elif count == 3 %}b{% else %}c{% endif %}
{% if none_list %}a{% else %}empty{% endif %}
{% if missing %}a{% endif %}
{% if missing is defined %}{{ missing }}{% else %}none{% endif %}
{% if count > 1 and name %}ok{% endif %}
{% if 'a' if no else 'b' %}x{% endif %}
{% for x in list %}{{ x }},{% endfor %}
{% for x in none_list %}{{ x }}{% else %}empty{% endfor %}
{% for x in list %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }};{% endfor %}
{% for x in list %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}
{% for x in list %}{{ loop.cycle('odd', 'even') }} {% endfor %}
{% for x in [1, 1, 2] %}{{ loop.changed(x) }} {% endfor %}
{% for x in list %}{{ loop.previtem | default('-') }}{{ loop.nextitem | default('-') }} {% endfor %}
{% for k, v in map.items() %}{{ k }}={{ v }};{% endfor %}
{% for k in map %}{{ k }}{% endfor %}
{% for k, v in map | dictsort(reverse=true) %}{{ k }}={{ v }};{% endfor %}
{% for a, b in nested %}{{ a }}+{{ b }} {% endfor %}
{% for a, b, c in [(1, 2, 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, b in [1] %}{% endfor %}
{% for a, b in [(1, 2, 3)] %}{% endfor %}
{% for x in numbers if x > 1 %}{{ x }}{{ loop.length }}{% endfor %}
{% for x in nested %}{% for y in x %}{{ y }}{{ loop.depth }} {% endfor %}{% endfor %}
{% for x in nested %}{% set outer = loop.index %}{% for y in x %}{{ outer }}{{ y }} {% endfor %}{% endfor %}
{% for x in [1, [2, [3]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}{% endif %}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for x in 'abc' %}{{ x }}.{% endfor %}
{% for x in range(3) %}{{ x }}{% endfor %}
{% for x in list %}{% if x == 'a' %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in list %}{% if x == 'a' %}{% break %}{% endif %}{{ x }}{% endfor %}
{% for x in list %}{{ x }}{% endfor %}{{ x }}
{% set x = 1 %}{{ x + 1 }}
{% set x = [1, 2] %}{{ x }}!
{% set a, b = 1, 2 %}{{ a }}{{ b }}
{% set x %}block {{ name }}{% endset %}[{{ x }}]
{% set x | upper %}block{% endset %}{{ x }}
{% set x = 1 %}{% for i in list %}{% set x = 2 %}{% endfor %}{{ x }}
{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}
{% set ns = namespace(n=0) %}{% for i in numbers %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}
{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}
{% set x = 'a' if yes else 'b' %}{{ x }}
{% set name.x = 1 %}
{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}
{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q is defined }}
{% macro m(a, b='x') %}<{{ a }}{{ b }}>{% endmacro %}{{ m(1) }}{{ m(1, 2) }}{{ m(b=3, a=4) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(z=1) }}
{% macro m(a) %}{{ name }}{{ a }}{% endmacro %}{{ m('!') | upper }}
{% macro f(n) %}{{ n }}{% if n > 1 %},{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(4) }}
{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}
{% raw %}{{ not }} {% evaluated %}{% endraw %}
{%- raw -%}  a  {%- endraw -%}  
a{# comment #}b
a {#- comment -#} b
a {%- if yes -%} b {%- endif -%} c
a {{- name -}} b
x {% if yes %} y {% endif %} z
{{- name }}
{% block b %}text{% endblock %}
{% block b %}a{% endblock b %}{{ self.b() }}
{% if yes %}{% else %}{% else %}{% endif %}
{% macro m(a, a2) %}{{ a }}-{{ a2 }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'a2': 4}) }}
{{ '{{' }} literal
{{ "}}" }}
{{ '%}' }}{% if '%}' %}x{% endif %}
{{ {'a': {'b': 1}} }}
{{ {'a': {}} }}
{{ hosts | map(attribute='port') | map('string') | join(':') }}
{{ (hosts | selectattr('tls') | first).name }}
{{ hosts | rejectattr('port', 'lt', 100) | list | count }}
{{ 'a' if count is divisibleby 3 else 'b' }}
{{ count is divisibleby 3 and yes }}
{{ [3, 1] | sort | first }}
{{ disk.state.zones | join(',') if disk.state.zones else 'none' }}
{{ 10 // 3 * 3 + 10 % 3 == 10 }}
{{ name in ['web', 'db'] and count >= 3 }}
{{ [list, numbers] | map('length') | list }}
{{ 'x' * count ~ 'y' }}
{{ (list + ['d']) | last }}
{{ '2024-01-02' > '2023-12-31' }}
{{ text.split() | map('first') | join }}
{{ text.split(' ') | map('lower') | select('in', ['the', 'fox']) | list }}
{{ env.HOME ~ '/.' ~ name }}
{{ hosts | map(attribute='tags') | sum(start=[]) }}
{{ map | dictsort(by='value', reverse=true) | map('first') | join(' ') }}
{{ (count | string).zfill(3) }}
{{ (1, 2) + (3,) }}
{{ 'b' not in list or 'c' in list }}
{{ not (yes and no) }}
{{ lipsum is defined }}
{{ '{} {{}}'.format('a') }}
{{ 'straße' | upper }}
{{ 'straße'.upper() }}
{{ 'ﬁx ŉ ΐ' | upper }}
{{ 'ΑΣ ΟΔΟΣ' | lower }}
{{ 'ΑΣ'.lower() }}
{{ 'İ' | lower | length }}
{{ 'ßx' | capitalize }}
{{ 'ǆX'.capitalize() }}
{{ 'ßa ﬁX-éT' | title }}
{{ 'ßa ﬁX'.title() }}
{{ "they're x".title() }}
{{ 'ς ŉ ﬁ'.casefold() }}
{{ 'a b c'.rsplit(none, 1) }}
{{ ' a b c '.rsplit(none, 1) }}
{{ ' a  b c '.split(none, 1) }}
{{ ' a b c '.split(none, 0) }}
{{ ' a  b '.rsplit(none, 5) }}
{{ 'a\u2003b\u3000c'.split(none, 1) }}
{{ 'a\u2003b\u3000c'.rsplit(none, 1) }}
{{ 'a\u3000\u3000b'.rsplit(none, 1) }}
{{ '%g %g %g %G' % (0.00001, 100000.0, 1e16, 1.5e-7) }}
{{ '%#x %#o' % (255, 8) }}
{{ '%.3e' % 12345.678 }}
{{ '{:g} {:.3} {:e} {:.1%} {:+}'.format(1e10, 2.0, 5, 0.125, 3) }}
{{ '{:.4} {:.3}'.format(1234567.0, 0.1) }}
{{ '{:*^7}|{:=+5}|{:_}'.format('ab', 3, 1234567) }}
""".strip("\n").split("\n")

MULTILINE = [
    "{{ name }}\n",
    "a {{ name }}\n",
    "{% if yes %}\n  a\n{% endif %}\nb\n",
    "{% for x in list -%}\n  {{ x }}\n{% endfor %}",
    "{%- for x in list %}\n- {{ x }}\n{%- endfor %}\n",
    "line 1\n{# gone #}\nline 3",
    "{% set x = 1 %}\n{{ x }}",
    "{{ [\n  1,\n  2\n] }}",
    "a\r\nb {{ name }}",
    "{% raw %}\n  {{ x }}\n{% endraw %}\n",
    "{%+ if yes %}a{% endif %}",
    "{{ name | upper\n}} {{ count\n+ 1 }}",
]


def environment():
    env = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        extensions=["jinja2.ext.loopcontrols"],
    )
    return env


def single(env, source):
    body = env.parse(source).body
    return (
        len(body) == 1
        and isinstance(body[0], nodes.Output)
        and len(body[0].nodes) == 1
        and not isinstance(body[0].nodes[0], nodes.TemplateData)
    )


def plain(value):
    if isinstance(value, jinja2.Undefined):
        return str(value)  # raises where it is strict
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return str(value)
    return list(value) if hasattr(value, "__iter__") else str(value)


def answer(env, source, variables):
    try:
        if single(env, source):
            expression = "(" + source[2:-2].strip("-") + ")"
            return {"value": plain(env.compile_expression(expression, undefined_to_none=False)(**variables))}
        return {"value": env.from_string(source).render(**variables)}
    except Exception as problem:  # every exception is an answer
        return {"error": type(problem).__name__}


def main():
    env = environment()
    variables = json.loads(json.dumps(VARS, sort_keys=True))
    cases = []
    for source in dict.fromkeys(CASES + MULTILINE):
        cases.append({"template": source, **answer(env, source, variables)})
    target = os.path.join(os.path.dirname(os.path.abspath(__file__)), "jinja2.json")
    with open(target, "w", encoding="utf-8") as out:
        out.write('{\n"jinja2": %s,\n"vars": %s,\n"cases": [\n' % (
            json.dumps(jinja2.__version__),
            json.dumps(variables, ensure_ascii=False),
        ))
        out.write(",\n".join(json.dumps(case, ensure_ascii=False) for case in cases))
        out.write("\n]\n}\n")
    print(len(cases), "cases")


if __name__ == "__main__":
    main()
