package expression_test

import (
	"math/rand/v2"
	"strings"
)

// grammar makes random expressions. A placeholder such as <N> stands for
// another expression: N gives a number, T text, L a list, D a mapping, B true
// or false, K a small whole number, and A anything; for the others see
// statements. Now and then one kind
// stands where another belongs, so that errors are compared too.
type grammar struct {
	random *rand.Rand
}

// template makes a template: of one expression, whose value keeps its type, or
// of text around one, which also shows how the value prints.
func (g grammar) template() string {
	x := g.expand("<A>", 1+g.random.IntN(3))
	if g.random.IntN(2) == 0 {
		return "{{ " + x + " }}"
	}
	return "[{{ " + x + " }}]"
}

func (g grammar) expand(pattern string, depth int) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(pattern, "<")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		if len(rest) < 2 || rest[1] != '>' || !strings.Contains("NTLDBKASVECIJX", rest[:1]) {
			b.WriteByte('<')
			pattern = rest
			continue
		}
		b.WriteString(g.kind(rest[0], depth))
		pattern = rest[2:]
	}
}

func (g grammar) kind(kind byte, depth int) string {
	if strings.IndexByte("NTLDB", kind) >= 0 && g.random.IntN(25) == 0 {
		kind = 'A'
	}
	for kind == 'A' {
		kind = "NTLDBA"[g.random.IntN(6)]
		if kind == 'A' && g.random.IntN(3) > 0 {
			return g.pick(otherwise)
		}
	}
	if productions[kind] == nil || depth <= 0 || g.random.IntN(8) == 0 {
		return g.pick(terminals[kind])
	}
	x := g.expand(g.pick(productions[kind]), depth-1)
	if kind != 'S' && g.random.IntN(4) == 0 {
		return "(" + x + ")"
	}
	return x
}

func (g grammar) pick(list []string) string { return list[g.random.IntN(len(list))] }

// lines returns what stands in a text, several to a line with three spaces between them.
func lines(text string) []string {
	return strings.Split(strings.ReplaceAll(strings.TrimSpace(text), "   ", "\n"), "\n")
}

// otherwise are expressions of no kind of their own.
var otherwise = lines(`
none   nothing   missing   missing.deeper   disk.missing   list[9]   range
`)

var terminals = map[byte][]string{
	'K': lines(`
0   1   2   3   5   -1   -2   none
`),
	'N': lines(`
0   1   2   3   7   10   -1   -3   1.5   2.5   0.5   -2.5   0.25   2.675   1e3   0.1   1e16   1e-7   0.0   -0.0
1e308   1e400   1_000   0x1f   true   false   9223372036854775807   9223372036854775808   4611686018427387904   count
zero   neg   ratio   big
`),
	'T': lines(`
''   'a'   'A'   'b c'   'abc'   "it's"   '<b>&"'   '12'   ' 3 '   '-7'   '+1.50'   'inf'   '-Infinity'   'nan'
'1e400'   '1e3'   '0x1f'   '1_0'   '1__0'   '_1'   '١٢'   '²'   'a²'   'é'   'ß'   'ﬁx'   'ǆ'   'İ'   'ΑΣ'   'ÿŒǲ ª①½'
'ის'   '世界'   'a,b,,c'   'Hello wOrld'   'they\'re bill\'s-friends'   'a\nb\r\n\tc '   '\x1c\x85\u2028'
'\x00\x7f\xad\u200b\U0001f600'   'back\\slash'   '%s-%s'   '%d|%5.1f'   '%(a)s'   '{}-{}'   '{0:>5}'   'True'   name
empty   text   path   unicode   html
`),
	'L': lines(`
[]   ()   (1,)   (1, 2)   [1, 2]   [3, 1, 2]   [1, 1.0, true]   [1, 'a', none]   ['b', 'A', 'a', 'B']
[[1, 'x'], [2, 'y']]   [('a', 1), ('b', 2)]   ['<', '&']   [0, 0.0, '', none, [], {}]   [{'a': 1}, {'a': 2}]   list
numbers   nested   none_list   hosts   range(3)   range(5, 0, -2)   map.keys()   map.values()   map.items()
`),
	'D': lines(`
{}   {'a': 1}   {'b': 2, 'A': 1, 'a': 3}   {'a': {'b': [1, 2]}}   {1: 'x', 'a': 2}   {1.5: 1, none: 2, true: 3}
{(1, 2): 'x'}   dict(a=1, b='x')   dict([['a', 1]])   map   disk   env   dashed   disk.state   hosts[0]
`),
	'B': lines(`
true   false   True   False   yes   no
`),
}
