package terraform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/zclconf/go-cty/cty"

	"github.com/deployster-go/deployster/resources/internal/tfplugin"
)

func TestChangesForPeople(t *testing.T) {
	inner := tfplugin.Block{Attributes: []tfplugin.Attribute{{Name: "port", Type: cty.Number}, {Name: "key", Type: cty.String, Sensitive: true}}}
	block := tfplugin.Block{
		Attributes: []tfplugin.Attribute{
			{Name: "name", Type: cty.String}, {Name: "on", Type: cty.Bool}, {Name: "tags", Type: cty.Map(cty.String)},
			{Name: "list", Type: cty.List(cty.String)}, {Name: "password", Type: cty.String, Sensitive: true},
		},
		Blocks: []tfplugin.NestedBlock{{Name: "rule", Block: inner, Nesting: tfplugin.List}},
	}
	of := func(config string) cty.Value {
		t.Helper()
		v, err := decodeJSON([]byte(config))
		require.NoError(t, err)
		value, err := blockValue(block, v, nil)
		require.NoError(t, err)
		return value
	}
	for i := range block.Attributes {
		block.Attributes[i].Optional = true
	}
	for i := range inner.Attributes {
		inner.Attributes[i].Optional = true
	}
	many := func(value string) string {
		var tags []string
		for i := range 20 {
			tags = append(tags, fmt.Sprintf(`"t%02d":%q`, i, value))
		}
		return `{"tags":{` + strings.Join(tags, ",") + `}}`
	}
	long := strings.Repeat("x", 300)
	for _, tc := range []struct{ was, planned, want string }{
		{`{}`, `{}`, ``},
		{`{"name":"a","on":true}`, `{"name":"b","on":false}`, `name: "a" → "b", on: true → false`},
		{`{"name":"a"}`, `{}`, `name: "a" → none`},
		{`{"name":"a"}`, `{"name":{"$unknown":true}}`, `name: "a" → (known after apply)`},
		{`{"name":"a"}`, `{"name":"` + long + `"}`, `name: "a" → (a text of 300 bytes)`},
		{`{"name":"a"}`, `{"name":"a\nb"}`, `name: "a" → (a text of 3 bytes)`},
		{`{"password":"a"}`, `{"password":"b"}`, `password: another secret value`},
		{`{"tags":{"a":"1","b":"2"}}`, `{"tags":{"a":"1","c":"3"}}`, `tags["b"]: "2" → none, tags["c"]: none → "3"`},
		{`{"tags":{"` + long + `":"1"}}`, `{"tags":{"` + long + `":"2"}}`, `tags: "1" → "2"`},
		{`{"list":["a","b"]}`, `{"list":["a","c"]}`, `list[1]: "b" → "c"`},
		{`{"list":["a"]}`, `{"list":["a","c"]}`, `list: (1 elements) → (2 elements)`},
		{`{"rule":[{"port":1,"key":"a"}]}`, `{"rule":[{"port":2,"key":"b"}]}`, `rule[0].key: another secret value, rule[0].port: 1 → 2`},
		{`{"rule":[{"key":"a"}]}`, `{"rule":[]}`, `rule: another secret value`},
	} {
		got := changes(block, of(tc.was), of(tc.planned))
		assert.True(t, got == tc.want, "from %.60s to %.60s it says %s, want %s", tc.was, tc.planned, got, tc.want)
	}
	got := changes(block, of(many("a")), of(many("b")))
	assert.True(t, strings.HasSuffix(got, ", and 12 more changes"), "of many it says %s", got)
}
