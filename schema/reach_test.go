package schema_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/schema"
)

func TestASchemaTellsWhichPathsItAllows(t *testing.T) {
	const closed = `{"type":"object","additionalProperties":false,"properties":{
		"image":{"type":"string"}, "labels":{"type":"object","additionalProperties":{"type":"string"}},
		"ports":{"type":"array","maxItems":3,"items":{"type":"object","additionalProperties":false,"properties":{"host":{}}}},
		"any":{}, "free":{"type":"object"}, "env":{"patternProperties":{"^[A-Z]+$":{}},"additionalProperties":false}}}`
	for _, tc := range []struct {
		schema string
		paths  map[string]schema.Reach
	}{
		{closed, map[string]schema.Reach{
			"image": schema.Named, "image.tag": schema.Forbidden, "imgae": schema.Forbidden, "lables.x": schema.Forbidden,
			"labels.x": schema.Named, "labels.x.y": schema.Named, "labels.app.kubernetes.io/name": schema.Named, "labels[0]": schema.Named,
			"ports": schema.Named, "ports[0].host": schema.Named, "ports[0].hots": schema.Forbidden, "ports.host": schema.Forbidden, "ports[3]": schema.Forbidden,
			"any.thing[2].at.all": schema.Named, "free.x": schema.Named, "env.PATH": schema.Named, "env.path": schema.Forbidden,
		}},
		{`{"type":"object","properties":{"a":{}}}`, map[string]schema.Reach{"a.b": schema.Named, "c": schema.Open}},
		{`{"additionalProperties":true}`, map[string]schema.Reach{"a": schema.Named}},
		{`{"$defs":{"n":{"type":"object","additionalProperties":false,"properties":{"next":{"$ref":"#/$defs/n"}}}},"$ref":"#/$defs/n"}`, map[string]schema.Reach{
			"next.next.next": schema.Named, "next.nxt": schema.Forbidden,
		}},
		{`{"oneOf":[{"additionalProperties":false,"properties":{"a":{}}},{"additionalProperties":false,"properties":{"b":{}}}]}`, map[string]schema.Reach{
			"a": schema.Named, "b": schema.Named, "c": schema.Forbidden,
		}},
		{`{"allOf":[{"properties":{"a":{}}}],"if":{},"then":{"properties":{"b":{}}},"unevaluatedProperties":false}`, map[string]schema.Reach{
			"a": schema.Named, "b": schema.Named, "c": schema.Forbidden,
		}},
		{`{"properties":{"a":{"type":"array","prefixItems":[{"type":"string"}],"items":false}},"unevaluatedProperties":false}`, map[string]schema.Reach{
			"a[0]": schema.Named, "a[1]": schema.Forbidden, "b": schema.Forbidden,
		}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"type":"array","items":[{}],"additionalItems":false}}}`, map[string]schema.Reach{
			"a[0]": schema.Named, "a[1]": schema.Forbidden,
		}},
	} {
		s := must.Get(schema.CompileConfig(json.RawMessage(tc.schema)))(t)
		for path, want := range tc.paths {
			assert.Equal(t, want, s.Reach(path), "%s in %s", path, tc.schema)
		}
	}
}

// A path that a schema forbids leads to nothing in whatever the schema accepts.
func TestNoAcceptedValueHasWhatIsForbidden(t *testing.T) {
	schemas := []string{
		`{"type":"object","additionalProperties":false,"properties":{"a":{"type":"array","items":{"type":"object"}},"b":{"type":"string"}}}`,
		`{"anyOf":[{"required":["a"],"properties":{"a":{"type":"string"}}},{"properties":{"b":{"maxItems":1}},"additionalProperties":{"type":"object"}}]}`,
		`{"allOf":[{"properties":{"a":{"type":["object","array"]}}},{"patternProperties":{"^b":{}}}],"unevaluatedProperties":false}`,
		`{"if":{"required":["a"]},"then":{"properties":{"b":false}},"properties":{"a":{"prefixItems":[{}],"items":false}}}`,
		`{"$ref":"#/$defs/x","$defs":{"x":{"properties":{"a":{"$ref":"#/$defs/x"},"b":{"type":"array","items":{"$ref":"#/$defs/x"}}},"additionalProperties":false}}}`,
	}
	leaf := rapid.SampledFrom([]any{"x", 1.0, nil})
	value := rapid.Deferred(func() *rapid.Generator[any] { return leaf })
	for range 3 {
		inner := value
		value = rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(inner, 0, 2), func(l []any) any { return l }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "b.a", "0"}), inner, 0, 3), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) {
		s := must.Get(schema.CompileConfig(json.RawMessage(rapid.SampledFrom(schemas).Draw(t, "schema"))))(t)
		v, ok := value.Draw(t, "value").(map[string]any)
		if !ok || len(s.Validate(v)) > 0 {
			return
		}
		var visit func(v any, path []string)
		visit = func(v any, path []string) {
			if len(path) > 0 {
				text := schema.PathOf("", path)[1:]
				assert.NotEqual(t, schema.Forbidden, s.Reach(text), "%s of %v", text, v)
			}
			switch v := v.(type) {
			case map[string]any:
				for key, item := range v {
					if len(path) > 0 || key != "0" { // no path begins with an index
						visit(item, append(path[:len(path):len(path)], key))
					}
				}
			case []any:
				for i, item := range v {
					visit(item, append(path[:len(path):len(path)], fmt.Sprint(i)))
				}
			}
		}
		visit(v, nil)
	})
}
