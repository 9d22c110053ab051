package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/deployster-go/deployster/schema"
)

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
		if found := s.Validate(map[string]any{"p": test.good}); found != nil {
			t.Errorf("%s: %.40s: %s", test.pattern, test.good, lines(found))
		}
		if got := lines(s.Validate(map[string]any{"p": test.bad})); !strings.HasPrefix(got, "p [pattern] must match the pattern") {
			t.Errorf("%s: %.40s is accepted, or refused otherwise: %s", test.pattern, test.bad, got)
		}
	}
}

func TestSecretsAreFoundByRegularExpressionsThatLookAround(t *testing.T) {
	s := compile(t, `{"patternProperties": {"^(?!public_).*key$": {"writeOnly": true}}}`)
	paths := s.Secrets(map[string]any{"public_key": "x", "private_key": "y"})
	if len(paths) != 1 || paths[0][0] != "private_key" {
		t.Errorf("secrets are %v", paths)
	}
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
	if got := lines(s.Validate(many)); !strings.Contains(got, "cannot be checked") {
		t.Errorf("got %.300s", got)
	}
}

func TestRegularExpressionsThatLookAroundAreBoundedTogether(t *testing.T) {
	long := "(?!" + strings.Repeat("x", 60_000) + ")"
	_, err := schema.CompileConfig(json.RawMessage(`{"properties": {` + members(17, `"p%d": {"pattern": "x%[1]d`+long+`"}`) + `}}`))
	if err == nil || !strings.Contains(err.Error(), "the regular expressions stand for") {
		t.Errorf("got %.300v", err)
	}
}
