package upstream_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/deployster-go/deployster/pipeline/upstream"
)

func TestClosureIsAllButTheReleasedPipelineItself(t *testing.T) {
	var names []string
	for _, r := range upstream.Closure("app", []upstream.Input{released("lib 5, base 2, app 6"), released("config 3, base 2, alpha 1")}) {
		names = append(names, r.String())
	}
	assert.Equal(t, "alpha 1, base 2, config 3, lib 5", strings.Join(names, ", "))
	all := upstream.Closure("app", nil)
	assert.True(t, len(all) == 0, "without inputs got %v", all)
}

func TestVariablesAreByPipelineAndKind(t *testing.T) {
	config := released("config 3")
	config.Artifacts = map[string]string{"x86": "config-3.tar"}
	got := upstream.Variables([]upstream.Input{config, released("lib 5")})
	want := map[string]any{
		"config": map[string]any{"revision": "3", "artifacts": map[string]any{"x86": "config-3.tar"}},
		"lib":    map[string]any{"revision": "5", "artifacts": map[string]any{}},
	}
	assert.Equal(t, want, got)
	assert.Nil(t, upstream.Variables(nil), "without inputs got")
}

// What is recorded is read again, and keeps its form.
func TestInputsAreRecorded(t *testing.T) {
	in := released("lib 5, base 2")
	in.Passed, in.Finished, in.Artifacts = []string{"beta", "prod"}, true, map[string]string{"x86": "lib.tar"}
	const want = `{"pipeline":"lib","revision":"5","deployment":"lib5","passed":["beta","prod"],"finished":true,"artifacts":{"x86":"lib.tar"},"inputs":[{"pipeline":"base","revision":"2","deployment":"base2"}]}`
	data, err := json.Marshal(in)
	assert.True(t, err == nil && string(data) == want, "recorded is %s, %v", data, err)
	var again upstream.Input
	err = json.Unmarshal(data, &again)
	assert.True(t, err == nil && reflect.DeepEqual(again, in), "read is %+v, %v", again, err)
	assert.Equal(t, "passed beta and prod, and finished", in.Had(), "it had")
}
