package manifest_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/expression"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/manifest"
	"github.com/deployster-go/deployster/manifest/vars"
	"github.com/deployster-go/deployster/schema"
)

// A number that a variable without a type comes to is the text as which it was given, where the type wants a text.
func TestANumberOfAVariableIsATextWhereTheTypeWantsOne(t *testing.T) {
	const declared = "variables: {int: {type: integer}, any: {}, pin: {writeOnly: true}}\n"
	s := must.Get(schema.CompileConfig([]byte(`{"type": "object", "properties": {
		"text": {"type": "string"}, "number": {"type": "number"}, "all": {"type": "array", "items": {"type": "string"}}, "env": {"additionalProperties": {"type": "string"}}}}`)))(t)
	given := []vars.Flag{
		{Name: "tag", Value: "5176135"}, {Name: "version", Value: "1.10"}, {Name: "on", Value: "True"}, {Name: "list", Value: "[1.10, 007, 12, 1e3]"},
		{Name: "of", Value: "{a: 1.0, b: x}"}, {Name: "int", Value: "7"}, {Name: "any", Value: "8"}, {Name: "pin", Value: "9"},
	}
	for name, c := range map[string]struct {
		config, forEach string
		want            any // the configuration, or nil if it is refused
	}{
		"a number":                    {"{text: '{{ tag }}'}", "", map[string]any{"text": "5176135"}},
		"a text that looks like one":  {"{text: '{{ version }}'}", "", map[string]any{"text": "1.10"}},
		"a truth value":               {"{text: '{{ on }}'}", "", map[string]any{"text": "True"}},
		"a part of a list":            {"{text: '{{ list[0] }}', all: '{{ list }}'}", "", map[string]any{"text": "1.10", "all": []any{"1.10", "007", "12", "1e3"}}},
		"a part of a mapping":         {"{env: '{{ of }}'}", "", map[string]any{"env": map[string]any{"a": "1.0", "b": "x"}}},
		"within a mapping":            {"{env: {a: '{{ tag }}', b: '{{ of.a }}'}}", "", map[string]any{"env": map[string]any{"a": "5176135", "b": "1.0"}}},
		"by a condition":              {"{text: '{{ tag if on else 1 }}'}", "", map[string]any{"text": "5176135"}},
		"where a number is wanted":    {"{number: '{{ tag }}', text: x}", "", map[string]any{"number": int64(5176135), "text": "x"}},
		"both":                        {"{number: '{{ tag }}', text: '{{ tag }}'}", "", map[string]any{"number": int64(5176135), "text": "5176135"}},
		"one that any type may be":    {"{text: '{{ any }}'}", "", map[string]any{"text": "8"}},
		"each":                        {"{text: '{{ each.value }}'}", "{k: '{{ tag }}'}", map[string]any{"text": "5176135"}},
		"each of a list":              {"{text: '{{ each.value }}'}", "['{{ tag }}']", map[string]any{"text": "5176135"}},
		"each as it is written":       {"{text: '{{ each.value }}'}", "{k: 5}", nil},
		"one that is declared":        {"{text: '{{ int }}'}", "", nil},
		"one that may not be shown":   {"{text: '{{ pin }}'}", "", nil},
		"what is calculated":          {"{text: '{{ tag + 1 }}'}", "", nil},
		"what is made a number":       {"{text: '{{ tag | int }}'}", "", nil},
		"what is written":             {"{text: 5176135}", "", nil},
		"another type that is wanted": {"{number: '{{ on }}'}", "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			text := declared + "resources: {r: {type: x, config: " + c.config + "}}"
			if c.forEach != "" {
				text = declared + "resources: {r: {type: x, for_each: " + c.forEach + ", config: " + c.config + "}}"
			}
			sources := []manifest.Source{{Name: "m.yaml", Data: []byte(text)}}
			e, texts := expression.New(t.TempDir()), map[string]any{}
			variables := must.Get(vars.Load(vars.Options{Declared: must.Get(manifest.Declarations(sources))(t), Evaluator: e, Flags: given, Texts: texts}))(t)
			m := must.Get(manifest.Load(sources, manifest.Options{Variables: variables, Texts: texts, Evaluator: e, Workspace: t.TempDir()}))(t)
			r, scope := m.Resources[0], manifest.Scope{Expressions: e, Variables: variables}
			config := must.Get(r.Resolve(any(r.Config), scope))(t).(map[string]any)
			broken := func(config map[string]any) []schema.Violation { return s.Validate(config) }
			got := r.Fit(config, scope, broken)
			if c.want == nil {
				assert.Equal(t, config, got)
				assert.NotEmpty(t, broken(got))
				return
			}
			assert.Equal(t, c.want, got)
			require.Empty(t, broken(got))
		})
	}
}
