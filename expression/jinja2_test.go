package expression_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/expression"
)

// recorded is what Python's Jinja2 answers; see testdata/record.py.
type recorded struct {
	Jinja2 string
	Vars   map[string]any
	Cases  []struct {
		Template string
		Value    json.RawMessage
		Error    string
	}
}

func load(t testing.TB) recorded {
	t.Helper()
	data, err := os.ReadFile("testdata/jinja2.json")
	require.NoError(t, err)
	var r recorded
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&r))
	return r
}

func decode(t testing.TB, data []byte) any {
	t.Helper()
	var v any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	require.NoError(t, decoder.Decode(&v))
	return plain(v)
}

// plain tells whole numbers from those with decimals, as Python does.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}

func show(v any) string {
	if f, ok := v.(float64); ok {
		return fmt.Sprintf("float %v", f)
	}
	return fmt.Sprintf("%#v", v)
}

func TestAgreesWithJinja2(t *testing.T) {
	r := load(t)
	require.True(t, len(r.Cases) >= 600, "only %d recorded answers", len(r.Cases))
	e := expression.New(t.TempDir())
	seen := map[string]bool{}
	for _, c := range r.Cases {
		seen[c.Template] = true
		got, err := e.Evaluate(c.Template, r.Vars)
		var want any
		if c.Error == "" {
			want = decode(t, c.Value)
		}
		agrees := (c.Error != "") == (err != nil) && (err != nil || reflect.DeepEqual(got, want))
		if known, differs := knownDifferences[c.Template]; differs {
			known.check(t, c.Template, got, err, agrees)
			continue
		}
		switch {
		case !agrees && c.Error != "":
			t.Errorf("%q is %s, but Jinja2 fails with %s", c.Template, show(got), c.Error)
		case !agrees:
			t.Errorf("%q is %s (%v), want %s", c.Template, show(got), err, show(want))
		}
		var undefined *expression.UndefinedError
		if c.Error == "UndefinedError" && !errors.As(err, &undefined) {
			t.Errorf("%q fails with %T %v, want an UndefinedError", c.Template, err, err)
		}
		var syntax *expression.SyntaxError
		if (c.Error == "TemplateSyntaxError" || c.Error == "TemplateAssertionError") && !errors.As(err, &syntax) {
			t.Errorf("%q fails with %T %v, want a SyntaxError", c.Template, err, err)
		}
	}
	for template := range knownDifferences {
		assert.True(t, seen[template], "%q is a known difference but was not recorded", template)
	}
}

type difference struct {
	why   string
	value any
	fails bool
}

func (d difference) check(t *testing.T, template string, got any, err error, agrees bool) {
	t.Helper()
	switch {
	case agrees:
		t.Errorf("%q agrees with Jinja2 now: take it off the known differences", template)
	case d.fails && err == nil:
		t.Errorf("%q is %s, want the known failure", template, show(got))
	case !d.fails && (err != nil || !reflect.DeepEqual(got, d.value)):
		t.Errorf("%q is %s (%v), want the known difference %s", template, show(got), err, show(d.value))
	}
}

// knownDifferences are what Jinja2 has an answer to and this package refuses.
// Each but lipsum is a failure, never a silently different value.
var knownDifferences = map[string]difference{
	"{% macro m(a, a2) %}{{ a }}-{{ a2 }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 3, 'a2': 4}) }}": {
		why: "a call does not unpack * and **", fails: true,
	},
	`{{ '\u0661'|int }}`:          {why: "the digits of other scripts are refused", fails: true},
	"{{ -1 ** (count - 1) }}":     {why: "Jinja2 takes it for -(1 ** (count - 1))", fails: true},
	"{{ range(3) == [0, 1, 2] }}": {why: "a range is not compared", fails: true},
	"a{{ range(3) }}b":            {why: "a range is not written as text", fails: true},
	"a{{ map.keys() }}b":          {why: "keys, values and items are not written as text", fails: true},
	"{{ 'x' if none_list|map('upper') else 'y' }}": {
		why: "what map gives is always true, even when it is empty", fails: true,
	},
	"{% set m = list|map('upper') %}{{ m|list }}{{ m|list }}": {
		why: "what map gives is empty the second time", fails: true,
	},
	"{{ name.swapcase is defined }}": {why: "what is not provided is not taken for undefined", fails: true},
	"{{ count.real|default(9) }}":    {why: "what is not provided is not taken for undefined", fails: true},
	"{{ map['keys'] is defined }}":   {why: "a method is not taken for a key", fails: true},
	"a{{ range }}b":                  {why: "a function is not written as text", fails: true},
	"{{ namespace(a=1) }}":           {why: "a namespace is not a value", fails: true},
	"{{ [1] is sameas [1] }}":        {why: "whether equal values are the same is not known", fails: true},
	"{{ 'wordwrap' is filter }}":     {why: "what is not provided is not taken for unknown", fails: true},
	`{{ '\u00b2'.isdigit() }}`:       {why: "only decimal digits are known", fails: true},
	"{{ '{:%}'.format(1e308) }}":     {why: "numbers are finite", fails: true},
	"{{ lipsum is defined }}":        {why: "there is no lipsum(): it would differ each time", value: false},
}
