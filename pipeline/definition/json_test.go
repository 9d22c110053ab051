package definition_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/pipeline/definition"
)

// What is sent as JSON is read again as a file would be, to the same definition.
func TestADefinitionIsReadBackFromJSON(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/*.yaml")
	require.NoError(t, err)
	texts := map[string][]byte{"all": []byte(everything)}
	for _, file := range files {
		if texts[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	read := 0
	for name, text := range texts {
		d, err := definition.Parse(name, text, anyQuery)
		if err != nil {
			assert.True(t, name != "all", err)
			continue // another kind of file
		}
		read++
		back, err := d.Reread(name, anyQuery)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		was, failed := json.Marshal(d)
		is, err := json.Marshal(back)
		err = errors.Join(failed, err)
		assert.True(t, err == nil && string(is) == string(was), "%s: %v\n%s\nis read back as\n%s", name, err, was, is)
	}
	assert.True(t, read >= 5, "only %d were read", read)
}

func anyQuery(string) error { return nil }

const everything = `
pipeline: gateway
supersede: true
stages:
  - {name: bins, build: {artifacts: [x86, arm]}}
  - {name: image, build: {artifacts: [image], manifest: image.yaml, retries: 2, timeout: 5m}}
  - {name: packages, build: {group: packages.yaml}, after: [bins]}
  - name: beta
    after: [image, packages]
    stop_on_failure: false
    deploy:
      host_groups:
        - {name: gateway/beta, hosts: "attribute:stack == beta", max_leaving: 2, max_in_flight: 25%}
      steps:
        - {event: host-artifact-replicated, manifest: r.yaml, retries: 1, timeout: 1m}
        - {event: host-deployed, manifest: d.yaml}
  - {name: check, run: {manifest: check.yaml, timeout: 30s}}
  - {name: approve, approval: {approvals: 2, expires: 24h}}
  - {name: prod, environment: shop/prod, after: [approve, check], inputs: [{pipeline: config, passed: check}]}
batches: [{from: beta, to: check}]
`
