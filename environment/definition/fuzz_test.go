package definition_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/environment/record"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
)

// Whatever a file holds, Parse answers with a definition that the log gives back
// as it is and that can be written as a file and read again, or with problems
// whose positions are in the file.
func FuzzParse(f *testing.F) {
	f.Add(smallest)
	f.Add(everything)
	f.Add(daemon)
	yamltest.Seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := defined(text)
		if err != nil {
			yamltest.Showable(t, err, yamltest.Lines(text))
			return
		}
		survives(t, d)
	})
}

// Whatever is set, Set answers as Parse does.
func FuzzSet(f *testing.F) {
	for _, one := range []string{
		"task.vars.image=log-daemon:2", "task.vars.a=[1, {b: ~}]", "task.vars.a={{ x }}", "task.vars.a='x'", "task.vars.a=1.10", "instance_group.query=a == ?",
		"deployment.method=Replace", "deployment.max_failed=10%", "deployment.healthy_deadline=20m", "name=x", "task.vars.host=a", "x", "=", "task.manifest=x.yaml",
	} {
		f.Add(one, "deployment.min_healthy_percent=50")
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		before := mustDefine(t, daemon)
		d, err := before.Set([]string{first, second}, anyQuery)
		if err != nil {
			yamltest.Showable(t, err, 0)
			return
		}
		survives(t, d)
		for _, difference := range definition.Diff(before, d) {
			if strings.ContainsAny(difference.String(), "\n\r\x1b\u0085\u009b\u2028") {
				t.Fatalf("a difference that cannot be shown: %q", difference.String())
			}
		}
	})
}

func survives(t *testing.T, d *definition.Definition) {
	t.Helper()
	data, err := json.Marshal(d)
	var stored definition.Definition
	if err != nil || json.Unmarshal(data, &stored) != nil || !reflect.DeepEqual(&stored, d) {
		t.Fatalf("%s became %+v", data, stored)
	}
	again, err := definition.Parse("env.yaml", d.YAML(), anyQuery)
	if err != nil || !reflect.DeepEqual(again, d) {
		t.Fatalf("%s\nbecame %+v, %v\nof %+v", d.YAML(), again, err, d)
	}
	for _, target := range []interface{ Validate() error }{record.Target(d.Name), record.TaskTarget(d.Name, 1_000_000, strings.Repeat("h", 200))} {
		require.NoError(t, target.Validate())
	}
}
