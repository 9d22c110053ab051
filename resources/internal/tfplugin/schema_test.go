package tfplugin

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/zclconf/go-cty/cty"
)

func TestSchemasAreBounded(t *testing.T) {
	var deep message
	for range maxNesting + 2 {
		var block, nested message
		if deep != nil {
			block.message(3, deep)
		}
		nested.text(1, "x")
		nested.message(2, block)
		nested.number(3, int64(List))
		deep = nested
	}
	var block, schema message
	block.message(3, deep)
	schema.message(2, block)
	_, err := newSchemaReader(versions()[6]).schema(schema)
	assert.ErrorContains(t, err, "nested deeper")
}

func TestTypesOfNestedBlocks(t *testing.T) {
	port := Block{Attributes: []Attribute{{Name: "port", Type: cty.Number}}}
	anything := Block{Attributes: []Attribute{{Name: "value", Type: cty.DynamicPseudoType}}}
	for _, tc := range []struct {
		block NestedBlock
		want  cty.Type
	}{
		{NestedBlock{Block: port, Nesting: Single}, port.Type()},
		{NestedBlock{Block: port, Nesting: Group}, port.Type()},
		{NestedBlock{Block: port, Nesting: List}, cty.List(port.Type())},
		{NestedBlock{Block: port, Nesting: Set}, cty.Set(port.Type())},
		{NestedBlock{Block: port, Nesting: Map}, cty.Map(port.Type())},
		{NestedBlock{Block: anything, Nesting: List}, cty.DynamicPseudoType},
	} {
		got := tc.block.Type()
		assert.True(t, got.Equals(tc.want), "nested %d times it is %#v, want %#v", tc.block.Nesting, got, tc.want)
	}
}

func FuzzSchema(f *testing.F) {
	var attribute, block, schema message
	attribute.text(1, "name")
	attribute.text(2, `["list","string"]`)
	block.message(2, attribute)
	schema.message(2, block)
	f.Add([]byte(schema), true)
	f.Fuzz(func(t *testing.T, data []byte, six bool) {
		version := versions()[5]
		if six {
			version = versions()[6]
		}
		s, err := newSchemaReader(version).schema(data)
		if err == nil {
			_ = s.Type() // of what was accepted there is a type
		}
		_, _ = readDiagnostic(data)
		_, _ = readValue(data, cty.List(cty.String))
	})
}
