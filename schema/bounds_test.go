package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/schema"
)

// members writes n members of an object.
func members(n int, member string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, member, i)
	}
	return b.String()
}

// What would take minutes or gigabytes to compile is refused by its size, which
// the error tells together with the bound.
func TestWhatWouldTakeTooLongToCompileIsRefusedBefore(t *testing.T) {
	const draft7 = `"$schema": "http://json-schema.org/draft-07/schema#", `
	for name, test := range map[string]struct{ schema, want string }{
		"a long regular expression": {
			`{"pattern": "` + strings.Repeat("a?", 135_000) + `"}`,
			`the regular expression "a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?a?…" has 270000 bytes, at most 65536 are possible`,
		},
		"repetitions that multiply": {
			`{"pattern": "^` + strings.Repeat("([a-z]{1,30}){1,30}", 3000) + `$"}`,
			"stands for more than 1000000 instructions, which is the most that is possible: its repetitions multiply",
		},
		"repetitions beside each other": {
			`{"properties": {"p": {"pattern": "^` + strings.Repeat("([a-z]{1,30}){1,30}", 400) + `$"}}}`,
			"stands for more than 1000000 instructions, which is the most that is possible: its repetitions multiply",
		},
		"many regular expressions": {
			`{"properties": {` + members(600, `"p%[1]d": {"pattern": "^x%[1]d([a-z]{1,30}){1,30}$"}`) + `}}`,
			"the regular expressions stand for 100", // and some more
		},
		"many names of properties": {
			`{"patternProperties": {` + members(30_000, `"^x%d": {}`) + `}}`,
			"the schema has 30002 parts (objects and booleans), at most 20000 are possible",
		},
		"many schemas that are booleans": {
			`{"properties": {` + members(20_000, `"p%d": true`) + `}}`,
			"the schema has 20002 parts",
		},
		"many identifiers": {
			`{"$defs": {` + members(1001, `"d%[1]d": {"$id": "d%[1]d"}`) + `}}`,
			"the schema has 1001 identifiers ($id), at most 1000 are possible",
		},
		"many references to what is not at the place of a schema": {
			`{"properties": {` + members(3000, `"p%[1]d": {"$ref": "#/x-mine/p%[1]d"}`) + `}, "x-mine": {` + members(3000, `"p%d": {}`) + `}}`,
			"the schema has 3000 references to what is not at the place of a schema; with its 6003 parts at most 666 are possible: move what they mean to $defs or definitions",
		},
		"the same by a keyword of a later draft": {
			`{` + draft7 + `"properties": {` + members(3000, `"p%[1]d": {"$ref": "#/$defs/p%[1]d"}`) + `}, "$defs": {` + members(3000, `"p%d": {}`) + `}}`,
			"the schema has 3000 references to what is not at the place of a schema",
		},
	} {
		_, err := schema.CompileConfig(json.RawMessage(test.schema))
		assert.ErrorContains(t, err, test.want, name)
		assert.LessOrEqual(t, len(err.Error()), 400, name)
	}
}

func TestALargeSchemaIsCompiled(t *testing.T) {
	text := `{"properties": {` + members(1500, `"setting-%[1]d": {"description": "What the setting %[1]d is about, and when it is best left as it is", "$ref": "#/$defs/kind-%[1]d"}`) +
		`}, "$defs": {` + members(1500, `"kind-%[1]d": {"type": "string", "maxLength": 100, "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}`) + `}}`
	require.GreaterOrEqual(t, len(text), 300_000)
	s := compile(t, text)
	got := lines(s.Validate(map[string]any{"setting-0": "fine", "setting-1499": "Not"}))
	assert.Equal(t, `setting-1499 [pattern] must match the pattern "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"`, got)
}

// Matching takes at most the instructions of a regular expression for each
// character of a text, so their product is bounded too.
func TestWhatWouldTakeTooLongToMatchIsNotTried(t *testing.T) {
	slow := compile(t, `{"properties": {"p": {"pattern": "(x?){1000}y", "writeOnly": true}}}`)
	assert.Nil(t, slow.Validate(map[string]any{"p": strings.Repeat("x", 500) + "y"}), "a text of 500 characters")
	megabyte := map[string]any{"p": strings.Repeat("x", 1<<20)}
	assert.Contains(t, lines(slow.Validate(megabyte)), "too complicated", "a text of 1 MiB")
	quick := compile(t, `{"properties": {"p": {"pattern": "^[0-9a-zA-Z+/]*=?=?$"}}}`)
	assert.Nil(t, quick.Validate(map[string]any{"p": strings.Repeat("x", 100_000)}), "a simple regular expression on 100 kB")
	names := compile(t, `{"patternProperties": {`+members(1500, `"(x?){100}y%d": {"type": "string"}`)+`}}`)
	if got := lines(names.Validate(value(t, `{`+members(300, `"`+strings.Repeat("x", 30)+`%d": 1`)+`}`))); !strings.Contains(got, "too complicated") {
		t.Errorf("many names against many regular expressions: %.200s", got)
	}
	listed := compile(t, `{"items": {"enum": [`+members(20_000, `"v%d"`)+`]}}`)
	assert.Contains(t, lines(listed.Validate(value(t, `[`+members(20_000, `"w%d"`)+`]`))), "too complicated", "a long list against a long enum")
}

func TestNamesOfPropertiesAreCheckedWithinBoundsToo(t *testing.T) {
	s := compile(t, strings.Replace(doubling(60, "allOf"), `{"$ref"`, `{"propertyNames": {"$ref": "#/$defs/l0"}, "x-ref"`, 1))
	assert.Contains(t, lines(s.Validate(map[string]any{"a": 1})), "too complicated")
}

// The formats of old drafts are checked, and one of them is "regex": values
// that are regular expressions are bounded one by one, however many come.
func TestValuesThatAreRegularExpressionsAreBounded(t *testing.T) {
	s := compile(t, `{"$schema": "http://json-schema.org/draft-07/schema#", "items": {"format": "regex"}}`)
	for range 3 {
		require.Nil(t, s.Validate([]any{"([a-z]{1,30}){1,30}", "x([a-z]{1,30}){1,30}"}))
	}
	found := s.Validate([]any{"ok", strings.Repeat("a?", 100_000), strings.Repeat("([a-z]{1,30}){1,30}", 400)})
	assert.Equal(t, "1 [format] must be a valid regex\n2 [format] must be a valid regex", lines(found))
}

func TestNumbersThatCannotBeReckonedWithAreRefused(t *testing.T) {
	s := compile(t, `{"properties": {"n": {"multipleOf": 2, "enum": [1, 2]}, "l": {"type": "array", "uniqueItems": true}}}`)
	for text, want := range map[string]string{
		"1e-99999999":           "n [type] is too small: nothing but 0 is nearer to 0 than 1e-100",
		"1e99999999":            "n [type] is too large: possible are -1e100 to 1e100",
		"1e400":                 "n [type] is too large: possible are -1e100 to 1e100",
		strings.Repeat("1", 50): "n [type] is too long: it has 50 characters, at most 40 are possible",
		"2.0":                   "",
		"0e-99999999":           "n [enum] must be one of 1, 2",
	} {
		assert.Equal(t, want, lines(s.Validate(map[string]any{"n": json.Number(text)})), text)
	}
	var many []any
	for i := range 30 {
		many = append(many, i)
	}
	if got := lines(s.Validate(map[string]any{"l": append(many, json.Number("1e-99999999"))})); got != "l.30 [type] is too small: nothing but 0 is nearer to 0 than 1e-100" {
		t.Error(got)
	}
}

// What RE2 does not have is understood as ECMA-262 has it.
func TestRegularExpressionsThatLookAroundAreMatched(t *testing.T) {
	for _, test := range []struct{ pattern, good, bad string }{
		{`^(?=.*[A-Z])(?=.*[0-9]).{8,}$`, "Passw0rd", "password"},
		{`^(?!kube-)[a-z-]+$`, "web", "kube-system"},
		{`(?<=:)[0-9]+$`, "web:80", "web-80"},
		{`^(['"]).*\\1$`, `'x'`, `'x\"`},
		{`^.{0,5000}$`, strings.Repeat("x", 5000), strings.Repeat("x", 5001)},
		{`^\\u0041+$`, "AA", "u0041"},
		{`^(?!x)[\\w-.]+$`, "a-b.c", "x"},
		{`^\\p{Lu}(?!x)`, "É", "é"},
		{`^a(?!b)\\Z`, "a", "aZ"},
	} {
		s := compile(t, `{"properties": {"p": {"pattern": "`+strings.ReplaceAll(test.pattern, `"`, `\"`)+`"}}}`)
		assert.Nil(t, s.Validate(map[string]any{"p": test.good}))
		got := lines(s.Validate(map[string]any{"p": test.bad}))
		assert.True(t, strings.HasPrefix(got, "p [pattern] must match the pattern"))
	}
}

func TestSecretsAreFoundByRegularExpressionsThatLookAround(t *testing.T) {
	s := compile(t, `{"patternProperties": {"^(?!public_).*key$": {"writeOnly": true}}}`)
	paths := s.Secrets(map[string]any{"public_key": "x", "private_key": "y"})
	require.Len(t, paths, 1)
	assert.Equal(t, "private_key", paths[0][0])
}

// A regular expression that goes back can take longer than anybody lives. It is
// given up, without showing the text, which is taken for a secret.
func TestARegularExpressionThatGoesBackAgainAndAgainIsGivenUp(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schema, text, want string }{
		"ever more ways": {
			`{"properties": {"p": {"pattern": "^(a+)+(?!b)$"}}}`, strings.Repeat("a", 200) + "!",
			`p [pattern] cannot be checked: the regular expression "^(a+)+(?!b)$" takes too long: it goes back again and again`,
		},
		"a long text": {
			`{"properties": {"p": {"pattern": "^(?!x)"}}}`, strings.Repeat("a", 100_000),
			`p [pattern] cannot be checked: a text of 100000 bytes is too long for the regular expression "^(?!x)", which may have to go back: at most 65536 are possible`,
		},
		"names": {
			`{"propertyNames": {"pattern": "^(a|aa)+(?!b)$"}}`, "",
			`[pattern] cannot be checked: the regular expression "^(a|aa)+(?!b)$" takes too long`,
		},
	} {
		s := compile(t, test.schema)
		config := map[string]any{"p": test.text, strings.Repeat("a", 200) + "!": 1}
		if got := lines(s.Validate(config)); !strings.Contains(got, test.want) || strings.Contains(got, "aaa!") {
			t.Errorf("%s: got %.300s, want %s", name, got, test.want)
		}
		if paths := s.Secrets(config); len(paths) != 1 || len(paths[0]) != 0 {
			t.Errorf("%s: secrets are %.100v, not everything", name, paths)
		}
	}
}

func TestManyMatchesAreGivenUpTogether(t *testing.T) {
	t.Parallel()
	s := compile(t, `{"items": {"pattern": "(?=x)(.*)*y"}}`)
	var many []any
	for i := range 2_000 {
		many = append(many, strings.Repeat("x", 600+i))
	}
	assert.Contains(t, lines(s.Validate(many)), "cannot be checked")
}

func TestRegularExpressionsThatLookAroundAreBoundedTogether(t *testing.T) {
	long := "(?!" + strings.Repeat("x", 60_000) + ")"
	_, err := schema.CompileConfig(json.RawMessage(`{"properties": {` + members(17, `"p%d": {"pattern": "x%[1]d`+long+`"}`) + `}}`))
	assert.ErrorContains(t, err, "the regular expressions stand for")
}
