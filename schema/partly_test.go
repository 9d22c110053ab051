package schema_test

import (
	"testing"
)

// Of a value that is not known as a whole, only that is wrong which is wrong
// whatever the rest will be.
func TestWhatIsWrongWhateverTheRestWillBe(t *testing.T) {
	s := compile(t, `{
		"type": "object", "additionalProperties": false, "required": ["path"],
		"properties": {
			"path": {"type": "string"}, "content": {"type": "string"}, "directory": {"type": "boolean"},
			"ports": {"type": "array", "uniqueItems": true, "maxItems": 3, "items": {"type": "integer"}},
			"check": {"oneOf": [
				{"properties": {"kind": {"const": "http"}, "url": {"type": "string"}}, "required": ["kind", "url"], "additionalProperties": false},
				{"properties": {"kind": {"const": "tcp"}, "port": {"type": "integer"}}, "required": ["kind", "port"], "additionalProperties": false}
			]}
		},
		"if": {"required": ["directory"], "properties": {"directory": {"const": true}}},
		"then": {"properties": {"content": false}}, "else": {"required": ["content"]}
	}`)
	for name, test := range map[string]struct {
		config  string
		unknown [][]string
		want    string
	}{
		"all is known":                   {`{"path": 1, "content": ""}`, nil, `path [type] must be a string, not a number`},
		"the wrong one is not known":     {`{"path": 1, "content": ""}`, [][]string{{"path"}}, ``},
		"beside it one is missing":       {`{"content": "?"}`, [][]string{{"content"}}, ` [required] missing property "path"`},
		"beside it one is misspelt":      {`{"path": "?", "contnet": 1}`, [][]string{{"path"}}, ` [required] missing property "content"` + "\n" + `contnet [additionalProperties] unknown property "contnet", did you mean "content"?`},
		"the condition is not known":     {`{"path": "x", "directory": "?"}`, [][]string{{"directory"}}, ``},
		"nor is what it asks for":        {`{"path": "x", "directory": "?", "content": "?"}`, [][]string{{"directory"}, {"content"}}, ``},
		"neither way it is right":        {`{"path": 7, "directory": "?"}`, [][]string{{"directory"}}, `path [type] must be a string, not a number`},
		"items that may be alike":        {`{"path": "x", "content": "", "ports": ["?", "?", 3]}`, [][]string{{"ports", "0"}, {"ports", "1"}}, ``},
		"one item too many":              {`{"path": "x", "content": "", "ports": ["?", 1, 2, 3]}`, [][]string{{"ports", "0"}}, `ports [maxItems] must have at most 3 items, not 4`},
		"which alternative is not known": {`{"path": "x", "content": "", "check": {"kind": "?", "port": 1}}`, [][]string{{"check", "kind"}}, ``},
		"a whole part is not known":      {`{"path": "x", "content": "", "check": "?"}`, [][]string{{"check"}}, ``},
	} {
		if got := lines(s.ValidatePartly(value(t, test.config), test.unknown)); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, test.want)
		}
	}
}
