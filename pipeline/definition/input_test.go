package definition_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/pipeline/definition"
)

const taking = `pipeline: app
stages:
  - name: beta
    run: {manifest: m}
    inputs:
      - {pipeline: lib}
      - {pipeline: config, passed: beta}
  - name: tell
    run: {manifest: m}
  - name: prod
    run: {manifest: m}
    inputs: [{pipeline: config, passed: prod}, {pipeline: lib, passed: build}, {pipeline: docs, passed: prod}]
  - name: last
    run: {manifest: m}
    inputs: [{pipeline: config, passed: prod}]
`

// A revision takes one of each other pipeline, for all stages together.
func TestARevisionNeedsOneOfEachPipeline(t *testing.T) {
	d, err := parse(taking)
	require.NoError(t, err)
	data, err := json.Marshal(d)
	require.NoError(t, err)
	var stored definition.Definition
	require.NoError(t, json.Unmarshal(data, &stored))
	type need struct {
		pipeline string
		passed   []string
		finished bool
	}
	want := []need{{"lib", []string{"build"}, true}, {"config", []string{"beta", "prod"}, false}, {"docs", []string{"prod"}, false}}
	for _, d := range []*definition.Definition{d, &stored} {
		var got []need
		for _, n := range d.Needs() {
			got = append(got, need{n.Pipeline, n.Passed, n.Finished})
		}
		assert.Equal(t, want, got)
	}
	config := d.Needs()[1]
	for stage, at := range map[string]yamlfile.Position{
		"": {File: "p.yaml", Line: 7, Column: 20}, "beta": {File: "p.yaml", Line: 7, Column: 36}, "prod": {File: "p.yaml", Line: 12, Column: 41},
	} {
		got := config.At(stage)
		assert.True(t, got == at, "config passed %q is at %+v, want %+v", stage, got, at)
	}
	got := stored.Needs()[1].At("")
	assert.True(t, got == (yamlfile.Position{}), "a definition of the log is at %+v", got)
}
