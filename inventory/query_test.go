package inventory_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/inventory"
)

func parse(t testing.TB, text string) inventory.Query {
	t.Helper()
	q, err := inventory.ParseQuery(text)
	require.NoError(t, err, "%s", text)
	return q
}

func TestQueriesSelect(t *testing.T) {
	hosts := []inventory.Host{
		{Name: "web1", Attributes: map[string][]string{"stack": {"beta"}, "roles": {"web", "db"}}, Platforms: []string{"linux/amd64", "linux/386"}},
		{Name: "web2", Attributes: map[string][]string{"stack": {"prod"}, "roles": {"web"}, "note": {`and "so on"`}}, Platforms: []string{"linux/arm64"}},
		{Name: "bare"},
	}
	for _, test := range []struct{ about, query, want string }{
		{"a value", "attribute:stack == beta", "web1"},
		{"without spaces", "attribute:stack==beta", "web1"},
		{"in quotes", `attribute:stack == "beta"`, "web1"},
		{"!= is the opposite: a host without the attribute differs, too", "attribute:stack != beta", "web2 bare"},
		{"one of the values of a list is enough", "attribute:roles == db", "web1"},
		{"and spoils the opposite", "attribute:roles != db", "web2 bare"},
		{"in", "attribute:stack in (beta, 'prod')", "web1 web2"},
		{"in is false where nothing is", "attribute:nothing in (beta)", ""},
		{"not_in is true where nothing is", "attribute:stack not_in (beta)", "web2 bare"},
		{"exists", "attribute:stack exists", "web1 web2"},
		{"not_exists", "attribute:stack not_exists", "bare"},
		{"an expression matches anywhere", "name =~ eb", "web1 web2"},
		{"unless it is anchored", `name =~ "^web\d$" and not name =~ '^eb'`, "web1 web2"},
		{"an expression does not match what is not there", `attribute:stack =~ ""`, "web1 web2"},
		{"a name", "name == bare", "bare"},
		{"every host", "name exists", "web1 web2 bare"},
		{"a platform", "platform == linux/arm64", "web2"},
		{"no platform known", "platform not_exists", "bare"},
		{"and goes before or", "name == bare or name == web1 and attribute:stack == prod", "bare"},
		{"parentheses go before and", "(name == bare or name == web1) and attribute:stack == beta", "web1"},
		{"not goes before and", "not name == bare and name =~ 2", "web2"},
		{"not not", "not not name == bare", "bare"},
		{"a keyword in quotes is a value", `name == "and" or attribute:note == "and \"so on\""`, "web2"},
		{"a query in lines", "name == web1\n\tor\nname == web2", "web1 web2"},
		{"case matters", "attribute:stack == Beta or attribute:Stack exists", ""},
	} {
		t.Run(test.about, func(t *testing.T) {
			var got []string
			q := parse(t, test.query)
			for _, h := range hosts {
				if q.Match(h) {
					got = append(got, h.Name)
				}
			}
			assert.Equal(t, test.want, strings.Join(got, " "), "%s selects %v, want %s", test.query, got, test.want)
		})
	}
	if (inventory.Query{}).Match(hosts[0]) || (inventory.Query{}).String() != "" {
		t.Error("the zero query is not empty")
	}
}

func TestQueriesAreWrittenCanonically(t *testing.T) {
	for query, want := range map[string]string{
		"((attribute:a=='b'))":                  "attribute:a == b",
		"(name==a and (name==b and name==c))":   "name == a and name == b and name == c",
		"name==a and (name==b or name==c)":      "name == a and (name == b or name == c)",
		"name==a or (name==b and name==c)":      "name == a or name == b and name == c",
		"not(name==a or name==b)":               "not (name == a or name == b)",
		"not (not (name == a))":                 "not not name == a",
		`name in ("a b",'c', "in")`:             `name in ("a b", c, "in")`,
		`name == '"\d\\'`:                       `name == "\"\\d\\"`,
		"platform not_in(a)or name not_exists":  "platform not_in (a) or name not_exists",
		"attribute:x == ''":                     `attribute:x == ""`,
		"attribute:x != ümläut and name exists": "attribute:x != ümläut and name exists",
	} {
		if got := parse(t, query).String(); got != want {
			t.Errorf("%s is written %s, want %s", query, got, want)
		}
	}
}

func TestWhatIsWrongWithAQueryIsToldWithItsPlace(t *testing.T) {
	const possible = "==, !=, =~, in, not_in, exists, not_exists"
	for _, test := range []struct {
		query  string
		column int
		want   string
	}{
		{"", 1, "the query is empty; name exists selects every host"},
		{" \n ", 1, "the query is empty; name exists selects every host"},
		{"stack == beta", 1, `hosts have no "stack"; queries ask for name, platform or attribute:KEY, did you mean "attribute:stack"?`},
		{"nmae == beta", 1, `hosts have no "nmae"; queries ask for name, platform or attribute:KEY, did you mean "name"?`},
		{"name == a or atribute:stack == b", 14, `hosts have no "atribute:stack"; queries ask for name, platform or attribute:KEY, did you mean "attribute:stack"?`},
		{"tag:stack == b", 1, `hosts have no "tag:stack"; queries ask for name, platform or attribute:KEY`},
		{"attribute: stack == b", 1, "the key of the attribute is missing; it follows right after attribute:"},
		{"attribute:a/b == b", 1, `"a/b" cannot be the name of an attribute: letters, digits, ., _ and - are possible, with a letter or digit at both ends`},
		{`"name" == b`, 1, "expected name, platform or attribute:KEY, not a text in quotes"},
		{"and name == b", 1, `expected name, platform or attribute:KEY, not "and"`},
		{"name", 5, "expected an operator (" + possible + ") after name, not the end"},
		{"name web1", 6, "expected an operator (" + possible + `) after name, not "web1"`},
		{"name exist", 6, "expected an operator (" + possible + `) after name, not "exist", did you mean "exists"?`},
		{"name notin (a)", 6, "expected an operator (" + possible + `) after name, not "notin", did you mean "not_in"?`},
		{"name not in (a)", 6, "expected an operator (" + possible + `) after name, not "not"`},
		{"name !~ a", 6, "expected an operator (" + possible + `) after name, not "!~", did you mean "not name =~"?`},
		{"name = a", 6, `there is no = in queries, did you mean "=="?`},
		{"name == a && name == b", 11, `there is no && in queries, did you mean "and"?`},
		{"name == a || name == b", 11, `there is no || in queries, did you mean "or"?`},
		{"!name == b", 1, `there is no ! in queries, did you mean "not"?`},
		{"name in [a]", 9, `there is no [ in queries, did you mean "("?`},
		{"name == ", 9, "expected a value after ==, not the end"},
		{"name == and", 9, "expected a value after ==; the word and as a value is written in quotes"},
		{"name == )", 9, `expected a value after ==, not ")"`},
		{"name == a b", 11, `expected and, or or the end, not "b"`},
		{"name == a AND name == b", 11, `expected and, or or the end, not "AND", did you mean "and"?`},
		{"name == a)", 10, "there is no ( for this )"},
		{"(name == a", 11, "expected and, or or a ) for the ( at character 1, not the end"},
		{"()", 2, `expected name, platform or attribute:KEY, not ")"`},
		{"name in a", 9, `expected a list such as (a, b) after in, not "a"`},
		{"name in ()", 10, `expected a value after (, not ")"`},
		{"name in (a,)", 12, `expected a value after ,, not ")"`},
		{"name not_in (a b)", 16, `expected , or ) in the list, not "b"`},
		{"name == 'a", 9, "this quote is never closed"},
		{`name == "a\"`, 9, "this quote is never closed"},
		{"name == 'a\x1bb'", 11, "a control character is not possible in a value"},
		{"name =~ ^web", 9, `'^' is only possible within quotes`},
		{"name =~ 'a('", 9, "this is no regular expression: missing closing ): `a(`"},
		{"name == ä and name =~ '*'", 23, "this is no regular expression: missing argument to repetition operator: `*`"},
		{"name =~ '(" + strings.Repeat("x", 60) + "){1000}'", 9, "the regular expressions of the query are too large"},
		{"name == " + strings.Repeat("x", 1001), 9, "the value has 1001 bytes; at most 1000 are possible"},
		{strings.Repeat("(", 101) + "name", 101, "nested deeper than 100 levels"},
		{strings.Repeat("not ", 101) + "name", 401, "nested deeper than 100 levels"},
		{strings.Repeat("x", 4097), 1, "the query has 4097 bytes; at most 4096 are possible"},
		{"name == \xff", 1, "the query is not valid UTF-8"},
	} {
		_, err := inventory.ParseQuery(test.query)
		var wrong *inventory.QueryError
		if !errors.As(err, &wrong) {
			t.Errorf("%.60s: %v", test.query, err)
			continue
		}
		column, problem := wrong.Place()
		assert.Equal(t, fmt.Sprint(test.column, ": ", test.want), fmt.Sprint(column, ": ", problem), "%.60s", test.query)
		assert.EqualError(t, err, fmt.Sprintf("the query at character %d: %s", test.column, test.want))
	}
}

// naive is a query as a tree, with what it means spelled out.
type naive struct {
	text string // with all the parentheses, and spaces and quotes at random
	eval func(inventory.Host) bool
}

func values(h inventory.Host, subject string) []string {
	switch subject {
	case "name":
		return []string{h.Name}
	case "platform":
		return h.Platforms
	default:
		return h.Attributes[strings.TrimPrefix(subject, "attribute:")]
	}
}

func drawTest(t *rapid.T) naive {
	words := rapid.SampledFrom([]string{"a", "b", "c", "", "and", `x "y"`, `back\slash`, "it's", "linux/a", "ä", "()"})
	subject := rapid.SampledFrom([]string{"name", "platform", "attribute:k", "attribute:l"}).Draw(t, "subject")
	operator := rapid.SampledFrom([]string{"==", "!=", "in", "not_in", "=~", "exists", "not_exists"}).Draw(t, "operator")
	quoted := func(v string) string {
		mark := rapid.SampledFrom([]string{`"`, `'`}).Draw(t, "quote")
		return mark + strings.NewReplacer(`\`, `\\`, mark, `\`+mark).Replace(v) + mark
	}
	var args []string
	var arg string
	switch operator {
	case "in", "not_in":
		args = rapid.SliceOfN(words, 1, 3).Draw(t, "values")
		var written []string
		for _, a := range args {
			written = append(written, quoted(a))
		}
		arg = "(" + strings.Join(written, ",") + ")"
	case "=~":
		args = []string{rapid.SampledFrom([]string{"", "a", "^a$", `\\s`, `[ab]|"`, "x?", `\ba`}).Draw(t, "pattern")}
		arg = quoted(args[0])
	case "==", "!=":
		args = []string{words.Draw(t, "value")}
		arg = quoted(args[0])
	}
	return naive{subject + " " + operator + " " + arg, func(h inventory.Host) bool {
		has := values(h, subject)
		any := func(good func(string) bool) bool { return slices.ContainsFunc(has, good) }
		switch operator {
		case "exists":
			return len(has) > 0
		case "not_exists":
			return len(has) == 0
		case "==":
			return slices.Contains(has, args[0])
		case "!=":
			return !slices.Contains(has, args[0])
		case "in":
			return any(func(v string) bool { return slices.Contains(args, v) })
		case "not_in":
			return !any(func(v string) bool { return slices.Contains(args, v) })
		default:
			return any(regexp.MustCompile(args[0]).MatchString)
		}
	}}
}

func drawQuery(t *rapid.T, depth int) naive {
	kind := rapid.IntRange(0, 4).Draw(t, "kind")
	if depth == 0 || kind < 2 {
		return drawTest(t)
	}
	a := drawQuery(t, depth-1)
	if kind == 2 {
		return naive{"not (" + a.text + ")", func(h inventory.Host) bool { return !a.eval(h) }}
	}
	b := drawQuery(t, depth-1)
	if kind == 3 {
		return naive{"(" + a.text + ")and(" + b.text + ")", func(h inventory.Host) bool { return a.eval(h) && b.eval(h) }}
	}
	return naive{"(" + a.text + ") or (" + b.text + ")", func(h inventory.Host) bool { return a.eval(h) || b.eval(h) }}
}

func drawHost(t *rapid.T) inventory.Host {
	some := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "", "and", `x "y"`, `back\slash`, "it's", "ä"}), 1, 3)
	h := inventory.Host{Name: rapid.SampledFrom([]string{"a", "b", "ba"}).Draw(t, "name"), Attributes: map[string][]string{}}
	for _, key := range []string{"k", "l"} {
		if rapid.Bool().Draw(t, "has "+key) {
			h.Attributes[key] = some.Draw(t, key)
		}
	}
	if rapid.Bool().Draw(t, "platforms known") {
		h.Platforms = rapid.SliceOfN(rapid.SampledFrom([]string{"linux/a", "linux/b"}), 1, 2).Draw(t, "platforms")
	}
	return h
}

func TestAQueryMeansWhatItsPartsMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, h := drawQuery(t, 4), drawHost(t)
		q, err := inventory.ParseQuery(want.text)
		if err != nil || q.Match(h) != want.eval(h) {
			t.Fatalf("%s of %+v is %t, %v", want.text, h, q.Match(h), err)
		}
		again, err := inventory.ParseQuery(q.String())
		if err != nil || again.String() != q.String() || again.Match(h) != want.eval(h) {
			t.Fatalf("%s became %s, %v", q, again, err)
		}
	})
}

// Whatever the text, there is a query that can be written and read back, or an
// error whose place is in the text.
func FuzzParseQuery(f *testing.F) {
	for _, text := range []string{
		"attribute:stack == beta", `not (name in (a, 'b c') or platform =~ "^linux/\\w+$") and attribute:x not_exists`,
		"name == 'a\\'b' or attribute:ä != \"\"", "((name", "name = [a]", "name =~ '(a{500}){500}'",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := inventory.ParseQuery(text)
		var wrong *inventory.QueryError
		if errors.As(err, &wrong) {
			if wrong.Message == "" || wrong.Column < 1 || wrong.Column > len([]rune(text))+1 {
				t.Fatalf("an error that cannot be shown: %+v", wrong)
			}
			return
		}
		require.NoError(t, err, "an error without a place")
		canonical := q.String()
		if len(canonical) > 4096 { // spaces and quotes may be added
			return
		}
		if again := parse(t, canonical); again.String() != canonical {
			t.Fatalf("%s became %s", canonical, again)
		}
	})
}
