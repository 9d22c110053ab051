package yamlfile_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/deployster-go/deployster/internal/yamlfile"
)

// read reads a file that should hold a name and a list of numbers.
func read(text string) (name string, numbers []int, err error) {
	err = yamlfile.Read("f.yaml", []byte(text), "it needs a name", func(root *yamlfile.Node) {
		fields, ok := root.Fields("the file", "name", "numbers", "query", "engine")
		if !ok {
			return
		}
		if n := fields["name"]; n == nil {
			root.Fail("there is no name")
		} else {
			name, _ = n.Line("a name", 10)
		}
		if n := fields["numbers"]; n != nil {
			for _, one := range n.List("numbers", 5) {
				numbers = append(numbers, one.Integer("a number", 1, 9))
			}
		}
		if n := fields["engine"]; n != nil && n.Value == "none" {
			n.FailName("leave it out")
		} else if n != nil {
			n.FailLike(n.Value, []string{"docker", "oci"}, "there is no engine %s", n.Value)
		}
		if n := fields["query"]; n != nil {
			if text, ok := n.Text("a query", 100); ok && strings.Contains(text, "?") {
				if !n.FailInside(slices.Index([]rune(text), '?'), "there is a ?") {
					n.Fail("there is a ? somewhere")
				}
			}
		}
	})
	return name, numbers, err
}

func TestWhatAliasesAndMergeKeysStandForIsRead(t *testing.T) {
	name, numbers, err := read("numbers: &n [1, 2]\n<<: [{name: &x a, numbers: []}, {name: b}]\n")
	assert.True(t, err == nil && name == "a" && fmt.Sprint(numbers) == "[1 2]", "got %q %v %v", name, numbers, err)
}

func TestEveryProblemIsReportedAtItsPlace(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"several, in the order of the file":    {"nane: x\nnumbers: [0, a, 3, 4.5]\n", "f.yaml:1:1: unknown key \"nane\", did you mean \"name\"?\nf.yaml:1:1: there is no name\nf.yaml:2:11: numbers[0]: must be a number from 1 to 9, not 0\nf.yaml:2:14: numbers[1]: must be a number from 1 to 9, not text\nf.yaml:2:20: numbers[3]: must be a number from 1 to 9, not 4.5"},
		"empty":                                {"# nothing\n", "f.yaml:1:1: the file is empty; it needs a name"},
		"two documents":                        {"name: a\n---\nname: b\n", "f.yaml:3:1: a second YAML document begins here; a file holds one"},
		"UTF-16":                               {"\xff\xfen\x00", "f.yaml:1:1: is UTF-16; save it as UTF-8"},
		"other bytes":                          {"name: a\n# \xe4\n", "f.yaml:2:3: is not valid UTF-8"},
		"a control character":                  {"name: \"\x01\"", "f.yaml:1:8: a control character (0x01) is not possible in YAML"},
		"a control character that was escaped": {`name: "\x01"`, "f.yaml:1:7: name: holds a control character"},
		"a tab":                                {"name: a\nnumbers:\n\t- 1\n", "f.yaml:3:1: malformed YAML: a tab is in the indentation; YAML is indented with spaces only"},
		"an open quote":                        {"name: a\nnumbers: [\"1, 2]\n", `f.yaml:2:11: malformed YAML: the double quote (") that opens here is not closed`},
		"an open quote that another one ends":  {"numbers: ['1, 2]\nname: 'a'\n", `f.yaml:1:11: malformed YAML: the single quote (') that opens here is not closed before line 2, where the next one ends it`},
		"a statement":                          {"{% if a %}\nname: a\n{% endif %}\n", "f.yaml:1:1: malformed YAML: a statement ({% … %}) cannot stand around parts of a file, only within one value, which is then in quotes"},
		"a statement within a list":            {"name: a\nnumbers:\n  - 1\n  {% for i in x %}\n  - 1\n", "f.yaml:4:3: malformed YAML: a statement ({% … %}) cannot stand around parts of a file, only within one value, which is then in quotes"},
		"a statement without quotes":           {"name: a\nquery: {% if x %}a{% endif %}\n", "f.yaml:2:8: malformed YAML: a value that begins with a statement ({% … %}) must be in quotes, all of it"},
		"one in brackets":                      {"name: a\nquery: {b: {% if x %}a{% endif %}}\n", "f.yaml:2:12: malformed YAML: a value that begins with a statement ({% … %}) must be in quotes, all of it"},
		"a quote within quotes":                {"{name: a, query: \"it\"s\"}\n", `f.yaml:1:18: malformed YAML: the double quote (") that opens here is closed before the end of the value; within the text it is written \"`},
		"one with a space behind it":           {"name: 'it' was'\n", `f.yaml:1:7: malformed YAML: the single quote (') that opens here is closed before the end of the value; within the text it is written ''`},
		"a colon in brackets":                  {"name: a\nquery: {b: c, path: a: b}\n", `f.yaml:2:22: malformed YAML: a second colon with a space behind it; a value that has ": " in it must be in quotes, all of it`},
		"a colon in a value":                   {"name: a\nquery: so: is it\n", `f.yaml:2:10: malformed YAML: a second colon with a space behind it; a value that has ": " in it must be in quotes, all of it`},
		"an apostrophe before it":              {"name: so, 'tis [it's] \"\nnumbers:\n - ]\n", "f.yaml:3:2: malformed YAML: did not find expected node content"},
		"brackets that stay open before it":    {"name: a\nquery: {b: so\n numbers: 'x'\nengine: c\n", "f.yaml:2:1: malformed YAML: did not find expected ',' or '}'"},
		"malformed":                            {"name: a\nnumbers:\n - 1\n  - 2\n - ]\n", "f.yaml:5:2: malformed YAML: did not find expected node content"},
		"no such anchor":                       {"name: *nobody", "f.yaml:1:7: there is no anchor &nobody before this alias"},
		"an anchor within itself":              {"name: &n [*n]", "f.yaml:1:7: name: must be a name, not a list\nf.yaml:1:11: name[0][0]: the anchor &n contains itself"},
		"a key twice":                          {"name: a\nname: b\n", "f.yaml:2:1: name: duplicate key \"name\", first at f.yaml:1:1"},
		"a key that is no text":                {"name: a\n1: b\n", "f.yaml:2:1: a key must be text, not a number: write it as \"1\""},
		"what needs quotes":                    {"name: 007", "f.yaml:1:7: name: must be a name, not an integer: write it as \"007\""},
		"too long":                             {"name: abcdefghijk", "f.yaml:1:7: name: has 11 bytes; at most 10 are possible"},
		"too many":                             {"name: a\nnumbers: [1,1,1,1,1,1]", "f.yaml:2:10: numbers: has 6 numbers; at most 5 are possible"},
		"within a text":                        {"name: a\nquery: ä = ?", "f.yaml:2:12: query: there is a ?"},
		"within quotes":                        {`{name: a, query: "\"\\?"}`, "f.yaml:1:23: query: there is a ?"},
		"within lines":                         {"name: a\nquery: |\n  a\n  ?", "f.yaml:4:3: query: there is a ?"},
		"what was probably meant":              {"{name: a, engine: dokcer}", "f.yaml:1:19: engine: there is no engine dokcer, did you mean \"docker\"?"},
		"what is possible":                     {"{name: a, engine: k8s}", "f.yaml:1:19: engine: there is no engine k8s; possible are docker, oci"},
		"what should not be there":             {"{name: a, engine: none}", "f.yaml:1:11: engine: leave it out"},
		"a tag":                                {"{name: !mine a}", "f.yaml:1:8: name: the tag !mine is not known"},
		"what cannot be merged":                {"<<: 3\nname: a", "f.yaml:1:5: a merge key (<<) takes a mapping or a list of mappings, not a number"},
		"not a mapping":                        {"[a]", "f.yaml:1:1: the file must be a mapping with name, numbers, query, engine, not a list"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(c.text)
			var invalid *yamlfile.Error
			require.True(t, errors.As(err, &invalid), "nothing was found wrong: %v", err)
			assert.Equal(t, c.want, err.Error())
		})
	}
}

func TestAThousandProblemsAreEnough(t *testing.T) {
	_, _, err := read("name: a\n" + manyKeys(3001))
	var invalid *yamlfile.Error
	if !errors.As(err, &invalid) || len(invalid.Problems) != 1001 || !strings.HasSuffix(err.Error(), "and 2001 more problems") {
		t.Errorf("got %d problems", len(invalid.Problems))
	}
}

func manyKeys(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "key%d: 1\n", i)
	}
	return b.String()
}

func TestHostileFilesAreRefusedQuickly(t *testing.T) {
	bomb := func(open, item, end string) string {
		var b strings.Builder
		fmt.Fprintf(&b, "name: a\na0: &a0 %s\n", open+end)
		for i := 1; i <= 30; i++ {
			fmt.Fprintf(&b, "a%d: &a%d %s%s%s\n", i, i, open, strings.Repeat(fmt.Sprintf(item, i-1), 10), end)
		}
		return b.String()
	}
	for name, c := range map[string]struct{ text, want string }{
		"a bomb of lists":      {bomb("[", "*a%d, ", "]"), "stand for more than 500000 values"},
		"a bomb of merge keys": {bomb("{<<: [", "*a%d, ", "]}"), "stand for more than 500000 values"},
		"brackets":             {"numbers: " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "nested deeper than 100 levels"},
		"open braces":          {strings.Repeat("{", 100_000), "malformed YAML"},
		"itself":               {"numbers: &c [*c]", "the anchor &c contains itself"},
		"merged itself":        {"numbers: [&c {<<: *c}]", "nested deeper than 100 levels"},
		"merged itself often":  {"numbers: [&c {<<: [*c, *c, *c]}]", "nested deeper than 100 levels"},
		"10 MB":                {"# " + strings.Repeat("x", 10_000_000), "f.yaml: has 10000002 bytes or more; at most 8388608 (8 MiB) are possible"},
		"long keys":            {"? " + strings.Repeat("k", 1_000_000) + "\n: 1\n", `unknown key "` + strings.Repeat("k", 60) + `"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read(c.text)
			assert.True(t, err != nil && strings.Contains(err.Error(), c.want), "got %.300v, want %s", err, c.want)
		})
	}
}

// What is right is not blamed for what is wrong behind it.
func TestNothingIsWrongWithWhatAParserTakes(t *testing.T) {
	for _, text := range []string{
		"? a: b\n: c: d\n", "{[a: b]: c, \"d\": 'e', {f: g}: h}", "- a: {b: c, d: [e: f, g]}\n  h: i\n", "a: \"b: c\" # it's\n'd' : e\n",
		"a: it's, so [\"x\nb: {c: it's}\n", "a: &x 'y'\nb: [*x , \"z\"]\n", "a: b {% c %}\n", "{\"a\":\"b\",\"c\":[\"d\"]}",
		"a: http://b:80/c?d=e\nf: 12:30\n", "a: |\n  b: c: d\n  'e\nf: >-\n  \"g\nh: i\n", "a: 'b\n  c: d'\ne: f\n",
	} {
		var node yaml.Node
		require.NoError(t, yaml.Unmarshal([]byte(text), &node), "%q", text)
		_, message := yamlfile.Malformed([]byte(text+"\n]"), 2+strings.Count(text, "\n"))
		assert.True(t, message == "", "%q: %s", text, message)
	}
}

// Whatever the text, what is probably wrong with it is said of a place in it.
func FuzzMalformed(f *testing.F) {
	for _, text := range []string{"a: \"x\nb: \"y\"\n", "\t- 1", "{% for %}", "a: |\n 'x\n# it's\nb: 'don''t", "a: \"\\", "- &a !b 'x", "é: 'é\n"} {
		f.Add([]byte(text), 1)
	}
	f.Fuzz(func(t *testing.T, data []byte, line int) {
		at, message := yamlfile.Malformed(data, line)
		require.True(t, at >= 0 && at <= len(data) && !strings.Contains(message, "\n") && (message != "" || at == 0), "at %d of %d: %q", at, len(data), message)
	})
}

// Of a value without quotes, some texts are lost, and some are not the same for all that read YAML.
func TestTextsThatAreLostWithoutQuotes(t *testing.T) {
	why := func(value string) (found string) {
		err := yamlfile.Read("v.yaml", []byte("v: "+value+"\n"), "", func(root *yamlfile.Node) { found = root.Child("v").Lost() })
		assert.NoError(t, err, value)
		return found
	}
	for value, says := range map[string]string{
		"020222070707": "is the number", "0644": "is the number 420", "1.10": "is the number 1.1,", "1e5": "100000", "0x1F": "31", "0o17": "15", "1_000": "1000",
		"+5": "is the number 5", ".5": "0.5", "089": "89", "12e4567": "number for some readers", "22:30": "number for some readers", "no": "true or false for some readers", "Off": "true or false",
	} {
		assert.True(t, strings.HasPrefix(why(value), value) && strings.Contains(why(value), says), "%s: %q", value, why(value))
		for _, quoted := range []string{`"` + value + `"`, "'" + value + "'", "|\n  " + value, "!!str " + value} {
			assert.Empty(t, why(quoted))
		}
	}
	for _, value := range []string{"5176135", "-3", "1.5", "1.0", "1e+300", "true", "True", "y", "~", "v1.10", "abc1234", "1.10.2", "2026-11-29", "10:99", "nothing"} {
		assert.Empty(t, why(value), value)
	}
}
