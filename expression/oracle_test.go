package expression_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/ringtest"
)

// oracle is a running Python that answers templates as its Jinja2 does.
type oracle struct {
	version string
	in      io.WriteCloser
	out     *bufio.Reader
}

// answer is what Jinja2 makes of a template: a value, the name of an exception, or why there is nothing to compare with.
type answer struct {
	Value json.RawMessage `json:"value,omitempty"`
	Error string          `json:"error,omitempty"`
	Skip  string          `json:"skip,omitempty"`
}

// startOracle starts the first Python that has Jinja2; it is nil where none
// has. Debian's comes first: another one on the path often lacks the package.
func startOracle(t *testing.T, vars map[string]any, files map[string]string) *oracle {
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import jinja2").Run() != nil {
			continue
		}
		var stderr bytes.Buffer
		cmd := exec.Command(python, "testdata/oracle.py")
		cmd.Stderr = &stderr
		in := must.Get(cmd.StdinPipe())(t)
		out := must.Get(cmd.StdoutPipe())(t)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			in.Close()
			err := cmd.Wait()
			assert.NoError(t, err, "%s: %v\n%s", python, err, stderr.String())
		})
		o := &oracle{in: in, out: bufio.NewReaderSize(out, 1<<20)}
		o.exchange(t, map[string]any{"vars": vars, "files": files}, &o.version)
		return o
	}
	return nil
}

func (o *oracle) exchange(t *testing.T, question, reply any) {
	line := must.Get(json.Marshal(question))(t)
	_, err := o.in.Write(append(line, '\n'))
	require.NoError(t, err, "Python does not read")
	line, err = o.out.ReadBytes('\n')
	require.NoError(t, err, "Python does not answer")
	require.NoError(t, json.Unmarshal(line, reply), "Python answers %.200q", line)
}

func (o *oracle) answers(t *testing.T, templates []string) []answer {
	var list []answer
	o.exchange(t, templates, &list)
	require.Len(t, list, len(templates), "Python answers")
	return list
}

// agrees reports whether a value is that of the answer. A whole number and one
// with decimals differ, and so do numbers that a float64 cannot tell apart.
func (a answer) agrees(got any) bool {
	decoder := json.NewDecoder(bytes.NewReader(a.Value))
	decoder.UseNumber()
	var want any
	return decoder.Decode(&want) == nil && sameValue(want, got)
}

func sameValue(want, got any) bool {
	switch want := want.(type) {
	case json.Number:
		if strings.ContainsAny(string(want), ".e") {
			f, err := want.Float64()
			g, isFloat := got.(float64)
			return err == nil && isFloat && reflect.DeepEqual(f, g) && (1/f < 0) == (1/g < 0)
		}
		i, isInt := got.(int64)
		exact, ok := new(big.Int).SetString(string(want), 10)
		return isInt && ok && exact.Cmp(big.NewInt(i)) == 0
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !sameValue(want[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		m, ok := got.(map[string]any)
		if !ok || len(m) != len(want) {
			return false
		}
		for key, v := range want {
			other, ok := m[key]
			if !ok || !sameValue(v, other) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(want, got)
	}
}

var (
	seed        = flag.Uint64("random.seed", 1, "seed of the random expressions that are compared with Jinja2")
	expressions = flag.Int("random.expressions", ringtest.Cases(4_000, 20_000), "number of random expressions that are compared with Jinja2")
	templates   = flag.Int("random.templates", ringtest.Cases(1_000, 5_000), "number of random templates with statements that are compared with Jinja2")
	update      = flag.Bool("update", false, "record Jinja2's answers to random templates anew, in testdata")
)

const batch = 500

// experiment is a kind of random templates that are compared.
type experiment struct {
	make func(grammar) string
	// Where Jinja2's answers to the first ones are recorded, and how many.
	recorded string
	size     int
	// mostRefused bounds the share of templates with an answer that this package may refuse. Much in them is odd on
	// purpose: numbers beyond 64 bits, ranges as text, lists as keys.
	mostRefused float64
	// leastAnswered bounds the share that Jinja2 has an answer to.
	leastAnswered float64
}

var (
	ofExpressions = experiment{grammar.template, "testdata/random.json", 2500, 0.15, 0.45}
	ofStatements  = experiment{grammar.statements, "testdata/statements.json", 500, 0.1, 0.5}
)

func TestRandomExpressionsAgreeWithJinja2(t *testing.T) { ofExpressions.run(t, *expressions) }
func TestRandomStatementsAgreeWithJinja2(t *testing.T)  { ofStatements.run(t, *templates) }

// run compares with the Jinja2 of this machine. Where there is none, its
// recorded answers stand for it, but not in CI nor in make test.
func (x experiment) run(t *testing.T, number int) {
	vars := load(t).Vars
	o := startOracle(t, vars, files)
	if o == nil {
		require.True(t, os.Getenv("CI") == "" && os.Getenv("JINJA2") != "required",
			"no Python on this machine has Jinja2: apt-get install python3-jinja2")
		t.Log("no Python on this machine has Jinja2: comparing with its recorded answers")
		x.compareRecorded(t, vars)
		return
	}
	t.Logf("comparing with Jinja2 %s, seed %d", o.version, *seed)
	g := grammar{rand.New(rand.NewPCG(*seed, 0))}
	c := newComparison(t, vars)
	var record []recordedAnswer
	for n := 0; n < number; n += batch {
		templates := make([]string, batch)
		for i := range templates {
			templates[i] = x.make(g)
		}
		for i, a := range o.answers(t, templates) {
			c.compare(templates[i], a)
			if len(record) < x.size {
				record = append(record, recordedAnswer{templates[i], a})
			}
		}
	}
	c.report(t, x)
	if *update {
		x.writeRecorded(t, record)
	}
}

func TestRecordedRandomExpressionsAgreeWithJinja2(t *testing.T) {
	ofExpressions.compareRecorded(t, load(t).Vars)
	ofStatements.compareRecorded(t, load(t).Vars)
}

type recordedAnswer struct {
	Template string `json:"t"`
	answer
}

func (x experiment) compareRecorded(t *testing.T, vars map[string]any) {
	t.Helper()
	data := must.Get(os.ReadFile(x.recorded))(t)
	var recorded []recordedAnswer
	require.NoError(t, json.Unmarshal(data, &recorded))
	require.True(t, len(recorded) >= x.size, "only %d recorded answers", len(recorded))
	c := newComparison(t, vars)
	for _, r := range recorded {
		c.compare(r.Template, r.answer)
	}
	c.report(t, x)
}

func (x experiment) writeRecorded(t *testing.T, record []recordedAnswer) {
	var b strings.Builder
	for i, r := range record {
		line := must.Get(json.Marshal(r))(t)
		b.WriteString(map[bool]string{true: "[\n", false: ",\n"}[i == 0])
		b.Write(line)
	}
	require.NoError(t, os.WriteFile(x.recorded, []byte(b.String()+"\n]\n"), 0o600))
}

// comparison counts how this package's answers compare with Jinja2's.
type comparison struct {
	e                                 *expression.Evaluator
	vars                              map[string]any
	total, skipped, answered, refused int
	differing                         []string
}

func newComparison(t *testing.T, vars map[string]any) *comparison {
	workspace := t.TempDir()
	for name, content := range files {
		write(t, workspace, name, content)
	}
	return &comparison{e: expression.New(workspace), vars: vars}
}

func (c *comparison) compare(template string, a answer) {
	c.total++
	got, err := c.e.Evaluate(template, c.vars)
	differs := func(theirs string) {
		c.differing = append(c.differing, fmt.Sprintf("%s\n\tis %s, but %s", template, show(got), theirs))
	}
	switch {
	case a.Skip != "":
		c.skipped++
	case a.Error != "":
		if err == nil {
			differs("Jinja2 fails with " + a.Error)
		}
	default:
		c.answered++
		if err != nil {
			c.refused++
		} else if !a.agrees(got) {
			differs("Jinja2 has " + string(a.Value))
		}
	}
}

func (c *comparison) report(t *testing.T, x experiment) {
	t.Helper()
	answered, refused := float64(c.answered)/float64(c.total), float64(c.refused)/float64(c.answered)
	t.Logf("%d templates: Jinja2 answers %.1f%%, of which %.1f%% are refused here; %d cannot be compared", c.total, 100*answered, 100*refused, c.skipped)
	assert.GreaterOrEqual(t, answered, x.leastAnswered, "Jinja2 answers only %.1f%% of the templates: they test little", 100*answered)
	assert.True(t, refused <= x.mostRefused,
		"%.1f%% of what Jinja2 answers is refused, more than %.0f%%", 100*refused, 100*x.mostRefused)
	// The shortest say most.
	slices.SortFunc(c.differing, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
	for i, d := range c.differing {
		if i == 20 {
			t.Errorf("and %d more", len(c.differing)-i)
			break
		}
		t.Errorf("%s", d)
	}
}

func TestADifferentValueIsSeen(t *testing.T) {
	e := newComparison(t, nil)
	for template, theirs := range map[string]string{
		"{{ 1 }}": "1.0", "{{ 1.0 }}": "1", "{{ 0.0 }}": "-0.0", "{{ [1] }}": "[1, 2]", "{{ {'a': 1} }}": `{"b": 1}`,
		"{{ 'a' }}": `"b"`, "{{ true }}": "1", "{{ none }}": `""`, "{{ 9007199254740993 }}": "9007199254740992",
	} {
		before := len(e.differing)
		e.compare(template, answer{Value: json.RawMessage(theirs)})
		assert.True(t, len(e.differing) != before, "%s passes for %s", template, theirs)
		e.compare(template, answer{Error: "TypeError"})
		assert.True(t, len(e.differing) == before+2, "%s passes for a failure", template)
	}
}

// grammar makes random expressions. A placeholder such as <N> stands for another expression: N gives a number, T text,
// L a list, D a mapping, B true or false, K a small whole number, and A anything; for the others see statements. Now
// and then one kind stands where another belongs, so that errors are compared too.
type grammar struct{ random *rand.Rand }

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

// productions are what each kind is made of.
var productions = map[byte][]string{
	'N': lines(`
<N> + <N>   <N> - <N>   <N> * <N>   <N> / <N>   <N> // <N>   <N> % <N>   <N> ** <K>   <N> ** 0.5   2 ** <K> % 7   -<N>
+<N>   - <N> ** 2   <N>|abs   <N>|int   <N>|float   <N>|round   <N>|round(<K>)   <N>|round(<K>, 'ceil')
<N>|round(<K>, 'floor')   <N>|round(precision=<K>, method='common')   <T>|int   <T>|int(<N>)   <T>|int(<N>, 16)
<T>|int(base=8)   <T>|int(0, <K>)   <A>|int(<A>)   <T>|float   <T>|float(<N>)   <A>|float(<A>)   <A>|length
<T>|count   <T>|wordcount   <L>|sum   <L>|sum(start=<N>)   <L>|sum('a', <N>)   hosts|sum(attribute='port')   <L>|min
<L>|max   <L>|first   <L>|last   <L>[<K>]   <L>.<K>   <D>[<T>]   <D>.a   <D>.get(<T>, <N>)   <D>|length
<T>.find(<T>)   <T>.rfind(<T>)   <T>.index(<T>)   <T>.rindex(<T>)   <T>.count(<T>)   <L>.count(<A>)   <L>.index(<A>)
<N> if <B> else <N>   <N> if <A>   <N> or <N>   <N> and <N>   <A>|default(<N>)   missing|default(<N>)   missing|d
<T>|d(<N>, true)
`),
	'T': lines(`
<T> ~ <T>   <A> ~ <A>   <T> + <T>   <T> * <K>   <K> * <T>   <T> % <A>   <T> % (<A>, <A>)   <T> % <D>
'%s|%r|%5s|%-5s|' % (<A>, <A>, <T>, <T>)   '%d %i %5d %-5d %05d %+d % d' % (<N>, <N>, <N>, <N>, <N>, <N>, <N>)
'%x %X %o %#x %#o' % (<N>, <N>, <N>, <N>, <N>)   '%e %E %f %.2f %g %G' % (<N>, <N>, <N>, <N>, <N>, <N>)
'%.3g %#g %08.3f %+.1e' % (<N>, <N>, <N>, <N>)   '%c %a' % (<A>, <A>)   '%.2s %5.1d' % (<A>, <N>)   '%(a)s %%' % <D>
<T>|format(<A>)   <T>|format(<A>, <A>)   '%(a)s'|format(a=<A>)   <T>.format(<A>, <A>)
'{} {:5} {:>5} {:<5} {:^5}'.format(<A>, <T>, <T>, <T>, <T>)
'{:d} {:5d} {:05d} {:+d} {:,} {:_}'.format(<N>, <N>, <N>, <N>, <N>, <N>)
'{:x} {:X} {:o} {:b} {:#x} {:c}'.format(<N>, <N>, <N>, <N>, <N>, <N>)
'{:e} {:f} {:.2f} {:g} {:G} {:%} {:.1%}'.format(<N>, <N>, <N>, <N>, <N>, <N>, <N>)
'{:n} {:.3} {:10.2} {:=+8} {:08.1f}'.format(<N>, <N>, <N>, <N>, <N>)   '{:*^9} {:.2} {:s}'.format(<A>, <T>, <T>)
'{a} {0}'.format(<A>, a=<A>)   <A>|string   <A>|tojson   <A>|tojson(<K>)   <A>|tojson(indent=2)   <A>|e   <A>|escape
<A>|safe   <T>|e   <T>|upper   <T>|lower   <T>|capitalize   <T>|title   <T>|trim   <T>|trim(<T>)
<T>|replace(<T>, <T>)   <T>|replace(<T>, <T>, <K>)   <A>|replace(<A>, <A>)   <T>|truncate(<N>)   <T>|truncate(5, true)
<T>|truncate(6, <B>, '!', 0)   <T>|indent   <T>|indent(<K>, <B>, <B>)   <T>|indent('> ')   <A>|urlencode
<T>|urlencode   <A>|upper   <A>|trim   <T>|reverse   <L>|join   <L>|join(<T>)   <A>|join('-')
<L>|join(',', attribute='a')   hosts|join(<T>, 'name')   <T>|first   <T>|last   <T>[<K>]   <T>[<K>:<K>]   <T>[::<K>]
<T>.upper()   <T>.lower()   <T>.title()   <T>.capitalize()   <T>.casefold()   <T>.strip()   <T>.strip(<T>)
<T>.lstrip()   <T>.rstrip(<T>)   <T>.ljust(<N>, '.')   <T>.rjust(7)   <T>.zfill(<N>)   <T>.replace(<T>, <T>)
<T>.replace(<T>, <T>, <K>)   <T>.removeprefix(<T>)   <T>.removesuffix(<T>)   <T>.join(<L>)   <T>.join(['x', <T>])
<T>.partition(<T>)[<K>]   <T>.split(<T>)[<K>]   <T> if <B> else <T>   <T> if <A>   <T> or <T>   <T> and <T>
<A>|default(<T>)   missing|default(<T>)   <T>|default(<T>, true)   disk.name   disk.state.labels[<T>]   hosts[0].name
<T>|attr('upper')   <D>|attr('a')   <A>|min   <A>|max
`),
	'L': lines(`
[<A>]   [<A>, <A>]   [<A>, <A>, <A>]   (<A>,)   (<A>, <A>)   <A>, <A>   <L> + <L>   <L> * <K>   <L>[<K>:<K>]
<L>[<K>:<K>:<K>]   <L>[::-1]   <L>|list   <T>|list   <D>|list   <A>|list   <L>|sort   <L>|sort(true)
<L>|sort(reverse=<B>, case_sensitive=<B>)   <L>|sort(attribute='a')   <L>|sort(attribute=<K>)
hosts|sort(attribute='tls,name')|map(attribute='name')|list   <L>|reverse   <L>|reverse|list   <L>|unique|list
<L>|unique(<B>)|list   <L>|unique   <L>|map('int')|list   <L>|map('string')   <L>|map('upper')|list
<L>|map('default', <A>)|list   <L>|map('replace', 'a', <T>)|list   <L>|map('round', <K>)|list   <L>|map('length')|list
<L>|map('e')|list   <L>|map('tojson')|list   <L>|map('first')|list   <L>|map('join', <T>)|list
<L>|map(attribute='a')|list   <L>|map(attribute=<K>)|list   <L>|map(attribute='a', default=<A>)|list
<L>|map(attribute='a.b')|list   hosts|map(attribute='tags.0', default=<A>)|list   <L>|select|list
<L>|select('odd')|list   <L>|select('in', <L>)|list   <L>|select('gt', <N>)|list   <L>|select('==', <A>)|list
<L>|select('string')   <L>|select('mapping')|list   <L>|reject|list   <L>|reject('none')|list
<L>|reject('eq', <A>)|list   <L>|selectattr('a')|list   <L>|selectattr('a', 'gt', <N>)|list
<L>|selectattr('missing', 'defined')|list   <L>|rejectattr('a', 'eq', <A>)|list   hosts|selectattr('tls')|list
hosts|rejectattr('port', 'lt', <N>)|map(attribute='name')   <L>|groupby('a')   <L>|groupby(0)|list
<L>|groupby('a', default=<A>)|list   hosts|groupby('tls')|map('first')|list
hosts|groupby('tls')|map(attribute='list')|map('length')|list   <D>|dictsort   <D>|dictsort(<B>)
<D>|dictsort(by='value')   <D>|dictsort(reverse=<B>)   <D>|items   <D>|items|list   <D>.items()   <D>.keys()
<D>.values()|list   <D>.values()   <D>.keys()|sort   <T>.split()   <T>.split(<T>)   <T>.split(none, <K>)
<T>.split(<T>, <K>)   <T>.rsplit(<T>, <K>)   <T>.rsplit(none, 1)   <T>.splitlines()   <T>.splitlines(<B>)
<T>.partition(<T>)   <T>.rpartition(<T>)   range(<K>)   range(<K>, <K>)   range(<K>, <K>, <K>)   <L>.copy()
<L> or <L>   <L> and <L>   <L> if <B> else <L>   <A>|default(<L>)   missing|default(<L>)   missing|items
`),
	'D': lines(`
{'a': <A>}   {'a': <A>, 'b': <A>}   {<T>: <A>}   {<A>: <A>, <A>: <A>}   dict(<D>, z=<A>)   dict(a=<A>)   dict(<L>)
dict(<D>|dictsort)   <D>.copy()   <D> if <B> else <D>   <D> or <D>   missing|default(<D>)   <D>|default(<D>, true)
hosts[<K>]   hosts|first   hosts|min(attribute='port')   hosts|max(attribute='name')
`),
	'B': lines(`
<A> == <A>   <A> != <A>   <N> == <N>   <N> < <N>   <N> <= <N>   <N> > <N>   <N> >= <N>   <T> == <T>   <T> < <T>
<T> >= <T>   <L> == <L>   <L> != <L>   <L> < <L>   <D> == <D>   <A> < <A>   (<A> == <A>) == <B>   (<N> < <N>) == <B>
(<N> < <N>) < <N>   <N> < <N> < <N>   <N> == <N> == <N>   <N> < (<N> < <N>)   <N> < <N> == <B>   <A> == <A> != <A>
<N> <= <N> in <L>   <N> in <L> == <B>   (<N> in <L>) == <B>   <A> in <L>   <A> not in <L>   <T> in <T>
<T> not in <T>   <T> in <D>   <A> in <A>   <A> in <L> in <L>   not <A>   not <A> == <A>   not <A> in <L>   <A> and <A>
<A> or <A>   <B> and <B> or <B>   <B> or <B> and not <B>   <A> is defined   <A> is undefined   missing is defined
missing is not defined   <A> is none   <A> is not none   <A> is boolean   <A> is true   <A> is false   <A> is integer
<A> is float   <A> is number   <A> is string   <A> is mapping   <A> is sequence   <A> is iterable   <A> is callable
<A> is sameas <A>   <T> is lower   <T> is upper   <A> is lower   <N> is odd   <N> is even   <N> is divisibleby <K>
<N> is divisibleby(<N>)   <N> is eq <N>   <A> is eq(<A>)   <A> is ne(<A>)   <N> is lt(<N>)   <N> is gt <N>
<N> is ge(<N>)   <N> is lessthan <N>   <A> is equalto(<A>)   <A> is in(<L>)   <A> is in <L>   <A> is not in(<L>)
<N> is not odd   <N> is odd and <B>   <N> is odd == <B>   not <N> is odd   <T> is filter   <T> is test
<T>.startswith(<T>)   <T>.endswith((<T>, <T>))   <T>.isdigit()   <T>.isalpha()   <T>.isalnum()   <T>.isspace()
<T>.islower()   <T>.isupper()   <B> if <B> else <B>   <N> is number is true   -<N> is number   <N>|abs is number
<N> + <N> is odd   'a' ~ <A> is string
`),
}

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
