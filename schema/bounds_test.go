package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

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
		if err == nil || !strings.Contains(err.Error(), test.want) || len(err.Error()) > 400 {
			t.Errorf("%s: got %.600v, want %s", name, err, test.want)
		}
	}
}

func TestALargeSchemaIsCompiled(t *testing.T) {
	text := `{"properties": {` + members(1500, `"setting-%[1]d": {"description": "What the setting %[1]d is about, and when it is best left as it is", "$ref": "#/$defs/kind-%[1]d"}`) +
		`}, "$defs": {` + members(1500, `"kind-%[1]d": {"type": "string", "maxLength": 100, "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}`) + `}}`
	if len(text) < 300_000 {
		t.Fatalf("the schema has %d bytes only", len(text))
	}
	s := compile(t, text)
	got := lines(s.Validate(map[string]any{"setting-0": "fine", "setting-1499": "Not"}))
	if want := `setting-1499 [pattern] must match the pattern "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Matching takes at most the instructions of a regular expression for each
// character of a text, so their product is bounded too.
func TestWhatWouldTakeTooLongToMatchIsNotTried(t *testing.T) {
	slow := compile(t, `{"properties": {"p": {"pattern": "(x?){1000}y", "writeOnly": true}}}`)
	if found := slow.Validate(map[string]any{"p": strings.Repeat("x", 500) + "y"}); found != nil {
		t.Errorf("a text of 500 characters: %s", lines(found))
	}
	megabyte := map[string]any{"p": strings.Repeat("x", 1<<20)}
	if got := lines(slow.Validate(megabyte)); !strings.Contains(got, "too complicated") {
		t.Errorf("a text of 1 MiB: %.200s", got)
	}
	quick := compile(t, `{"properties": {"p": {"pattern": "^[0-9a-zA-Z+/]*=?=?$"}}}`)
	if found := quick.Validate(map[string]any{"p": strings.Repeat("x", 100_000)}); found != nil {
		t.Errorf("a simple regular expression on 100 kB: %s", lines(found))
	}
	names := compile(t, `{"patternProperties": {`+members(1500, `"(x?){100}y%d": {"type": "string"}`)+`}}`)
	if got := lines(names.Validate(value(t, `{`+members(300, `"`+strings.Repeat("x", 30)+`%d": 1`)+`}`))); !strings.Contains(got, "too complicated") {
		t.Errorf("many names against many regular expressions: %.200s", got)
	}
	listed := compile(t, `{"items": {"enum": [`+members(20_000, `"v%d"`)+`]}}`)
	if got := lines(listed.Validate(value(t, `[`+members(20_000, `"w%d"`)+`]`))); !strings.Contains(got, "too complicated") {
		t.Errorf("a long list against a long enum: %.200s", got)
	}
}

func TestNamesOfPropertiesAreCheckedWithinBoundsToo(t *testing.T) {
	s := compile(t, strings.Replace(doubling(60, "allOf"), `{"$ref"`, `{"propertyNames": {"$ref": "#/$defs/l0"}, "x-ref"`, 1))
	if got := lines(s.Validate(map[string]any{"a": 1})); !strings.Contains(got, "too complicated") {
		t.Error(got)
	}
}

// The formats of old drafts are checked, and one of them is "regex": values
// that are regular expressions are bounded one by one, however many come.
func TestValuesThatAreRegularExpressionsAreBounded(t *testing.T) {
	s := compile(t, `{"$schema": "http://json-schema.org/draft-07/schema#", "items": {"format": "regex"}}`)
	for range 3 {
		if found := s.Validate([]any{"([a-z]{1,30}){1,30}", "x([a-z]{1,30}){1,30}"}); found != nil {
			t.Fatal(lines(found))
		}
	}
	found := s.Validate([]any{"ok", strings.Repeat("a?", 100_000), strings.Repeat("([a-z]{1,30}){1,30}", 400)})
	if got := lines(found); got != "1 [format] must be a valid regex\n2 [format] must be a valid regex" {
		t.Error(got)
	}
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
		if got := lines(s.Validate(map[string]any{"n": json.Number(text)})); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	var many []any
	for i := range 30 {
		many = append(many, i)
	}
	if got := lines(s.Validate(map[string]any{"l": append(many, json.Number("1e-99999999"))})); got != "l.30 [type] is too small: nothing but 0 is nearer to 0 than 1e-100" {
		t.Error(got)
	}
}
