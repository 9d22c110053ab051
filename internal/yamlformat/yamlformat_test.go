package yamlformat_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/yamlformat"
)

func TestFormat(t *testing.T) {
	for name, test := range map[string]struct{ from, to string }{
		"levels of any width": {
			"resources:\n      a:\n         type: x\n         config:\n          - one\n          -   two\n",
			"resources:\n  a:\n    type: x\n    config:\n      - one\n      - two\n",
		},
		"lists that are not indented": {
			"jobs:\n- name: a\n  needs:\n  - b\n  - - c\n    -  d\n-   name:   e\n    x: y\nend: 1\n",
			"jobs:\n  - name: a\n    needs:\n      - b\n      - - c\n        - d\n  - name: e\n    x: y\nend: 1\n",
		},
		"comments": {
			"# head\n\n\n\na:\n    # of b\n    b: 1   # beside\n    # after b\n# of c\nc:\n    - 1\n    # of 2\n    - 2\n    # last\n# end\n\n",
			"# head\n\na:\n  # of b\n  b: 1   # beside\n  # after b\n# of c\nc:\n  - 1\n  # of 2\n  - 2\n  # last\n# end\n",
		},
		"blocks of text": {
			"a:\n    b: |\n        x\n          y  \n\n\n        z\n\n\n    c: >-\n      folded\n       more\n    d: |2\n         three\n    e: |+\n      kept\n\n\n\n\nf: 1\n",
			"a:\n  b: |\n    x\n      y  \n\n\n    z\n\n  c: >-\n    folded\n     more\n  d: |2\n       three\n  e: |+\n    kept\n\n\n\n\nf: 1\n",
		},
		"a block at the end": {"a: |+\n   x\n\n", "a: |+\n  x\n\n"},
		"values of several lines": {
			"a:\n    b: \"x  \n\n      # no comment\n\n        y\\ \n     z\"\n    c: plain\n      goes\n\n      on\n    d: [1,\n        2, # two\n\n        3]\n    e: {\n      f: 1\n    }\n",
			"a:\n  b: \"x  \n\n    # no comment\n\n      y\\ \n   z\"\n  c: plain\n    goes\n\n    on\n  d: [1,\n      2, # two\n\n      3]\n  e: {\n    f: 1\n  }\n",
		},
		"anchors, tags and merges": {
			"a: &x\n    b:   !!str 1\n    c:   &y  2\nd:\n    <<:   *x\n    e: *y\nf: &z\n- !!str   1\n-  &q\n   r: 1\n",
			"a: &x\n  b: !!str 1\n  c: &y  2\nd:\n  <<: *x\n  e: *y\nf: &z\n  - !!str   1\n  - &q\n    r: 1\n",
		},
		"an item below its dash": {"a:\n-\n    b: 1\n    c: 2\n- # why\n  d\n-\n", "a:\n  -\n    b: 1\n    c: 2\n  - # why\n    d\n  -\n"},
		"line ends and a mark":   {"\ufeffa:  1\r\nb: |\r\n  x\r\n", "a: 1\nb: |\n  x\n"},
		"no line end":            {"a: 1", "a: 1\n"},
		"empty lines around":     {"\n\n\na: 1\n\n\n\nb: 2\n\n\n", "a: 1\n\nb: 2\n"},
		"JSON":                   {"{\"a\": [1,\n   2]}\n", "{\"a\": [1,\n   2]}\n"},
		"a mark of the document": {"%YAML 1.1\n---\na:\n    b: 1\n", "%YAML 1.1\n---\na:\n  b: 1\n"},
		"quotes":                 {"a:   'it''s  '\n\"b\":    \"\\\"x\"\n", "a: 'it''s  '\n\"b\": \"\\\"x\"\n"},
		"keys of several lines":  {"? a\n:   b\n", "? a\n:   b\n"},
		"nothing":                {"\n\n", ""},
		"only comments":          {"#  a\n\n\n  # b\n", "#  a\n\n  # b\n"},
		"wide characters":        {"ä:\n    ö:   1\n    ü: [日本,   語]\n", "ä:\n  ö: 1\n  ü: [日本,   語]\n"},
		"a separator at the end": {"a:   1\n---\n", "a: 1\n---\n"},
	} {
		out, err := yamlformat.Format([]byte(test.from))
		assert.True(t, err == nil && string(out) == test.to, "%s: %v, got\n%s\nwant\n%s", name, err, out, test.to)
		again, err := yamlformat.Format(out)
		assert.True(t, err == nil && string(again) == string(out), "%s: %v, formatted again it is\n%s", name, err, again)
	}
}

func TestWhatIsNotOneDocumentIsRefused(t *testing.T) {
	for _, text := range []string{"a: [", "a: 1\n---\nb: 2\n", "a:\n  b: 1\n  - c\n"} {
		out, err := yamlformat.Format([]byte(text))
		assert.True(t, err != nil, "%q became %q", text, out)
	}
}

// generator draws documents with everything that people write.
type generator struct {
	*rapid.T
	anchors int
	b       strings.Builder
}

func (g *generator) some(label string, n int) int { return rapid.IntRange(0, n).Draw(g.T, label) }

func (g *generator) line(indent int, text string) {
	g.b.WriteString(strings.Repeat(" ", indent) + text + strings.Repeat(" ", g.some("trailing", 1)) + "\n")
}

// between writes comments and empty lines.
func (g *generator) between(indent int) {
	for range g.some("comments", 6) - 4 {
		g.anchors++
		g.line(indent, fmt.Sprintf("# comment %d", g.anchors))
	}
	for range g.some("empty", 6) - 3 {
		g.b.WriteString("\n")
	}
}

func (g *generator) scalar(indent int) []string {
	pad := strings.Repeat(" ", indent+1+g.some("pad", 3))
	g.anchors++
	return [][]string{
		{"plain"}, {"12"}, {"'it''s # no comment'"}, {`"a \" b"`}, {"[1, {a: b},", pad + "# within", pad + "2]"}, {"{a: 1, b: [x]}"},
		{"plain text", "", pad + "that goes on"}, {`"quoted`, pad + "# text", "", pad + `\ that goes on"`}, {""}, {"{{ a }}x"},
		{"|", pad + "a: b", pad + "  - c  ", "", pad + "# d"}, {">-", "", pad + "folded", pad + " text"}, {"|+", pad + "kept", "", ""},
		{fmt.Sprintf("&a%d   x", g.anchors)}, {"!!str   1"}, {"value   # beside"}, {"|   # beside", pad + "x"}, {"日本   語"},
	}[g.some("scalar", 17)]
}

func (g *generator) write(indent int, prefix string, value []string) {
	g.line(indent, strings.TrimRight(prefix+value[0], " "))
	for _, more := range value[1:] {
		g.b.WriteString(more + "\n")
	}
}

func (g *generator) mapping(indent, depth int, first string) {
	for i := range 1 + g.some("entries", 2) {
		at, prefix := indent, fmt.Sprintf("k%d:%s", i, strings.Repeat(" ", 1+g.some("space", 2)))
		if i == 0 && first != "" {
			at, prefix = indent-len(first), first+prefix
		} else {
			g.between(indent)
		}
		switch kind := g.some("kind", 4); {
		case kind < 3 || depth == 0:
			g.write(at, prefix, g.scalar(indent))
		case kind == 3:
			g.line(at, strings.TrimRight(prefix, " "))
			g.mapping(indent+1+g.some("deeper", 3), depth-1, "")
		default:
			g.line(at, strings.TrimRight(prefix, " "))
			g.list(indent+g.some("deeper", 3), depth-1)
		}
	}
}

func (g *generator) list(indent, depth int) {
	for range 1 + g.some("items", 2) {
		g.between(indent)
		dash := "-" + strings.Repeat(" ", 1+g.some("space", 2))
		if depth > 0 && g.some("kind", 2) == 0 {
			g.mapping(indent+len(dash), depth-1, dash)
			continue
		}
		g.write(indent, dash, g.scalar(indent))
	}
}

// Whatever people write, formatting it changes no value, no anchor, no quote and no
// comment, and doing it again changes nothing.
func TestFormattingChangesNoMeaning(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := &generator{T: t}
		g.mapping(0, 3, "")
		g.between(0)
		unchanged(t, g.b.String())
	})
}

func unchanged(t require.TestingT, text string) {
	var before, after any
	if err := yaml.Unmarshal([]byte(text), &before); err != nil {
		return // no file of anybody
	}
	out, err := yamlformat.Format([]byte(text))
	require.True(t, err == nil, "%v of\n%s", err, text)
	err = yaml.Unmarshal(out, &after)
	assert.True(t, err == nil && reflect.DeepEqual(before, after), "%v, the value of\n%s\nis another in\n%s", err, text, out)
	a, b := remarks(text), remarks(string(out))
	assert.True(t, reflect.DeepEqual(a, b), "the comments of\n%s\nare others in\n%s", text, out)
	again, err := yamlformat.Format(out)
	assert.True(t, err == nil && string(again) == string(out), "%v, of\n%s\nwas made\n%s\nand of that\n%s", err, text, out, again)
}

// remarks are all comments in order, also what only looks like one in a text.
func remarks(text string) (out []string) {
	for line := range strings.Lines(text) {
		if i := strings.Index(line, "#"); i >= 0 {
			out = append(out, strings.TrimSpace(line[i:]))
		}
	}
	return out
}

func TestTheExamplesAreFormatted(t *testing.T) {
	for _, pattern := range []string{"../../examples/*/*.yaml", "../../examples/*/*.json"} {
		files := must.Get(filepath.Glob(pattern))(t)
		for _, file := range files {
			text := must.Get(os.ReadFile(file))(t)
			out, err := yamlformat.Format(text)
			assert.True(t, err == nil && string(out) == string(text), "%s: %v, it would be\n%s", file, err, out)
		}
	}
}

func FuzzFormat(f *testing.F) {
	f.Add("a:\n    b: |\n      x\n# c\n")
	f.Add("a: &x\n- 1\n-   'y\n\n  z'\n")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) < 10_000 {
			unchanged(t, text)
		}
	})
}
