package definition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/environment/definition"
	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/schema"
)

// misplaced is what a query says that is wrong at a character.
type misplaced int

func (m misplaced) Error() string {
	_, problem := m.Place()
	return fmt.Sprintf("the query at character %d: %s", int(m), problem)
}

func (m misplaced) Place() (column int, problem string) { return int(m), "a query holds no ?" }

// anyQuery knows two mistakes.
func anyQuery(text string) error {
	switch i := strings.IndexByte(text, '?'); {
	case text == "wrong":
		return errors.New("is wrong all over")
	case i >= 0:
		return misplaced(1 + len([]rune(text[:i])))
	}
	return nil
}

func defined(text string) (*definition.Definition, error) {
	return definition.Parse("env.yaml", []byte(text), anyQuery)
}

func mustDefine(t *testing.T, text string) *definition.Definition {
	t.Helper()
	d, err := defined(text)
	require.NoError(t, err)
	return d
}

const minutes = definition.Duration(time.Minute)

// smallest has nothing that could be left out.
const smallest = `
name: SomeEnvironment/Prod
task: {manifest: log-daemon.yaml}
instance_group: {query: "attribute:stack == prod"}
deployment: {min_healthy_percent: 75}
`

const everything = `
name: SomeEnvironment/Prod
type: Daemon
task:
  manifest: ../tasks/log-daemon.yaml
  vars: {image: "log-daemon:1", ports: [80, 0x1bb], ratio: 0.5, whole: 2.0, on: true, off: ~, limits: {memory: 64m, cpus: 2}}
instance_group:
  query: "attribute:stack in (prod, gamma)"
deployment:
  method: Surge
  min_healthy_percent: "100"
  max_over: "3"
  min_healthy_time: 90s
  healthy_deadline: 1h30m
  progress_deadline: 720h
  max_failed: 33.3%
  auto_rollback: true
  drift: report
`

func TestParse(t *testing.T) {
	defaults := &definition.Definition{
		Name: "SomeEnvironment/Prod", Type: definition.Daemon,
		Task:          definition.TaskSpec{Manifest: "log-daemon.yaml"},
		InstanceGroup: definition.InstanceGroup{Query: "attribute:stack == prod"},
		Deployment: definition.Configuration{
			Method: definition.Replace, MinHealthyPercent: 75, MaxOver: 1,
			MinHealthyTime: definition.Duration(10 * time.Second), HealthyDeadline: 5 * minutes, ProgressDeadline: 10 * minutes, Drift: definition.RepairDrift,
		},
	}
	full := &definition.Definition{
		Name: "SomeEnvironment/Prod", Type: definition.Daemon,
		Task: definition.TaskSpec{Manifest: "../tasks/log-daemon.yaml", Vars: map[string]any{
			"image": "log-daemon:1", "ports": []any{int64(80), int64(443)}, "ratio": 0.5, "whole": int64(2), "on": true, "off": nil,
			"limits": map[string]any{"memory": "64m", "cpus": int64(2)},
		}},
		InstanceGroup: definition.InstanceGroup{Query: "attribute:stack in (prod, gamma)"},
		Deployment: definition.Configuration{
			Method: definition.Surge, MinHealthyPercent: 100, MaxOver: 3,
			MinHealthyTime: 3 * minutes / 2, HealthyDeadline: 90 * minutes, ProgressDeadline: 720 * 60 * minutes,
			MaxFailed: &budget.Budget{Percent: 33.3}, AutoRollback: true, Drift: definition.ReportDrift,
		},
	}
	surge := *defaults
	surge.Deployment.Method, surge.Deployment.MinHealthyPercent = definition.Surge, 100
	for name, test := range map[string]struct {
		text string
		want *definition.Definition
	}{
		"what is left out has defaults":           {smallest, defaults},
		"everything may be given":                 {everything, full},
		"with Surge all hosts stay healthy":       {strings.Replace(smallest, "min_healthy_percent: 75", "method: Surge", 1), &surge},
		"no variables are the same as none given": {strings.Replace(smallest, "yaml}", "yaml, vars: {}}", 1), defaults},
		"a healthy time of nothing needs no unit": {strings.Replace(smallest, "75", "75, min_healthy_time: 0", 1), with(defaults, func(c *definition.Configuration) { c.MinHealthyTime = 0 })},
		"the default healthy time can be given":   {strings.Replace(smallest, "75", "75, min_healthy_time: 10s", 1), defaults},
		"it bakes for a while":                    {strings.Replace(smallest, "75", "75, bake: 10m", 1), with(defaults, func(c *definition.Configuration) { c.Bake = 10 * minutes })},
		"deadlines may be the same":               {strings.Replace(smallest, "75", "75, healthy_deadline: 10m", 1), with(defaults, func(c *definition.Configuration) { c.HealthyDeadline = 10 * minutes })},
		"no failure at all is a budget, too":      {strings.Replace(smallest, "75", "75, max_failed: 0", 1), with(defaults, func(c *definition.Configuration) { c.MaxFailed = &budget.Budget{} })},
		"Replace ignores how many may be doubled": {strings.Replace(smallest, "75", "75, max_over: 100000", 1), with(defaults, func(c *definition.Configuration) { c.MaxOver = 100_000 })},
		"hosts may be without a task": {strings.Replace(smallest, "min_healthy_percent: 75", "max_unavailable: 10%", 1), with(defaults, func(c *definition.Configuration) {
			c.MinHealthyPercent, c.MaxUnavailable = 0, &budget.Budget{Percent: 10}
		})},
		"many hosts may have two tasks":             {strings.Replace(smallest, "75", "75, max_surge: '2'", 1), with(defaults, func(c *definition.Configuration) { c.MaxOver, c.MaxSurge = 0, &budget.Budget{Count: 2} })},
		"Replace has no hosts with two tasks":       {strings.Replace(smallest, "75", "75, max_surge: 0", 1), with(defaults, func(c *definition.Configuration) { c.MaxOver, c.MaxSurge = 0, &budget.Budget{} })},
		"a name may end in a number and be a depth": {strings.Replace(smallest, "Prod", "Prod/eu.1/2", 1), renamed(defaults, "SomeEnvironment/Prod/eu.1/2")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := defined(test.text)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
			data, err := json.Marshal(got)
			require.NoError(t, err)
			var stored definition.Definition
			require.NoError(t, json.Unmarshal(data, &stored))
			assert.Equal(t, got, &stored, "from the log")
		})
	}
}

func with(d *definition.Definition, change func(*definition.Configuration)) *definition.Definition {
	other := *d
	change(&other.Deployment)
	return &other
}

func renamed(d *definition.Definition, name string) *definition.Definition {
	other := *d
	other.Name = name
	return &other
}

func TestVariablesKeepLargeIntegers(t *testing.T) {
	d := mustDefine(t, strings.Replace(smallest, "yaml}", "yaml, vars: {id: 9007199254740993, far: 1e300}}", 1))
	assert.Equal(t, map[string]any{"id": int64(9007199254740993), "far": 1e300}, d.Task.Vars)
}

// Each file of testdata/problems is a definition, with what is said about it; see yamltest.
func TestParseReportsEveryProblemWithItsPlace(t *testing.T) {
	yamltest.Problems(t, func(files ...string) error {
		_, err := defined(files[0])
		return err
	})
}

func TestADefinitionMustFitIntoTheLog(t *testing.T) {
	large := func(n int) string {
		return strings.Replace(smallest, "yaml}", "yaml, vars: {text: "+strings.Repeat("x", n)+"}}", 1)
	}
	_, err := defined(large(524_288))
	assert.ErrorContains(t, err, "bytes as JSON; at most 524288 fit into the deployment log")
	assert.Len(t, mustDefine(t, large(500_000)).Task.Vars["text"], 500_000)
}

func TestAliasesCanNotFloodTheLog(t *testing.T) {
	var b strings.Builder
	b.WriteString("name: a\ntask:\n  manifest: m.yaml\n  vars:\n    v0: &v0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&b, "    v%d: &v%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*v%d, ", i-1), 10), ", "))
	}
	b.WriteString("instance_group: {query: name exists}\ndeployment: {method: Surge}\n")
	_, err := defined(b.String())
	assert.ErrorContains(t, err, "the aliases of this file stand for more than 500000 values")
}

// The schema and the parser accept the same documents, but for what a schema
// cannot say: how settings fit together, and how large times are.
func TestTheSchemaOfDefinitionsAgrees(t *testing.T) {
	source, err := schema.Source("environment")
	require.NoError(t, err)
	top := func(name, more string) string {
		return "{name: " + name + ", task: {manifest: m}, instance_group: {query: q}, deployment: {method: Surge}" + more + "}"
	}
	task := func(task string) string {
		return "{name: a, task: " + task + ", instance_group: {query: q}, deployment: {method: Surge}}"
	}
	vars := func(vars string) string { return task("{manifest: m, vars: " + vars + "}") }
	group := func(group string) string {
		return "{name: a, task: {manifest: m}, instance_group: " + group + ", deployment: {method: Surge}}"
	}
	deployment := func(d string) string {
		return "{name: a, task: {manifest: m}, instance_group: {query: q}, deployment: " + d + "}"
	}
	surge := func(more string) string { return deployment("{method: Surge, " + more + "}") }
	yamltest.Schema(t, source, map[string]bool{
		smallest: true, everything: true, "{}": false, "[]": false, "{name: a}": false,
		top("a", ""): true, top("a/b-c/d_e.f", ""): true, top("a/1", ""): true, top("a//b", ""): false, top("/a", ""): false, top("-a", ""): false, top("a b", ""): false, top("''", ""): false, top("7", ""): false,
		top(strings.Repeat("a", 100), ""): true, top(strings.Repeat("a", 101), ""): false,
		top("a", ", type: Daemon"): true, top("a", ", type: daemon"): false, top("a", ", type: Service"): false, top("a", ", typ: Daemon"): false,
		task("{}"): false, task("m"): false, task("{manifest: ''}"): false, task("{manifest: /m}"): false, task(`{manifest: 'a\m'}`): false, task("{manifest: a/../m.yaml}"): true, task("{manifest: m, digest: x}"): false,
		vars("{}"): true, vars("[]"): false, vars("{a: 1, b: [x, {c: ~}], c-d_9: true}"): true, vars("{host: x}"): false, vars("{task: x}"): false, vars("{revision: 1}"): false, vars("{host_attributes: {}}"): false, vars("{environment: x}"): false, vars("{hosts: x}"): true,
		vars("{_a: 1}"): false, vars("{9a: 1}"): false, vars("{a.b: 1}"): false,
		group("{}"): false, group("q"): false, group("{query: ''}"): false, group("{query: q, hosts: []}"): false,
		deployment("{}"): false, deployment("{method: Replace}"): false, deployment("{method: Surge}"): true, deployment("{method: surge}"): false, deployment("{min_healthy_percent: 0}"): true, deployment("{method: Replace, min_healthy_percent: 100}"): true,
		deployment("[]"): false, deployment("{min_healthy_percent: '100'}"): true, deployment("{min_healthy_percent: '101'}"): false, deployment("{min_healthy_percent: '007'}"): false, deployment("{min_healthy_percent: 101}"): false, deployment("{min_healthy_percent: -1}"): false,
		deployment("{min_healthy_percent: 1.5}"): false, deployment("{min_healthy_percent: 10%}"): false, deployment("{min_healthy_percent: ~}"): false,
		surge("max_over: 1"): true, surge("max_over: 0"): false, surge("max_over: 100000"): true, surge("max_over: 100001"): false, surge("max_over: '100000'"): true, surge("max_over: '100001'"): false, surge("max_over: all"): false,
		surge("min_healthy_time: 0"): true, surge("min_healthy_time: '0'"): true, surge("min_healthy_time: 1.5s"): true, surge("min_healthy_time: 1"): false, surge("min_healthy_time: -1s"): false, surge("healthy_deadline: 0"): false, surge("healthy_deadline: 1m30s"): true,
		surge("healthy_deadline: 5"): false, surge("healthy_deadline: 5min"): false, surge("healthy_deadline: ''"): false, surge("progress_deadline: 1d"): false, surge("progress_deadline: 10h"): true, surge("progress_deadline: 10 h"): false,
		surge("max_failed: 0"): true, surge("max_failed: 3"): true, surge("max_failed: '3'"): true, surge("max_failed: 2.5%"): true, surge("max_failed: -1"): false, surge("max_failed: few"): false, surge("max_failed: []"): false,
		surge("max_unavailable: 0"): true, surge("max_unavailable: 1, min_healthy_percent: 1"): false, surge("max_surge: 1, max_over: 1"): false, surge("max_surge: few"): false, surge("max_surge: 10%"): true, surge("steps: []"): true, surge("steps: [{hosts: 1}, {hosts: '25%', pause: 10m}, {hosts: 100%}]"): true, surge("steps: [{hosts: 1, pause: forever}]"): true, surge("steps: [{hosts: 0}]"): false, surge("steps: [{pause: 1m}]"): false,
		surge("steps: [{hosts: 1, verify: smoke.yaml}]"): true, surge("steps: [{hosts: 1, verify: /smoke.yaml}]"): false, surge("steps: [{hosts: 1, verify: [a]}]"): false, surge("steps: [{hosts: 1}, {hosts: 100%, verify: smoke.yaml}]"): true, surge("steps: {hosts: 1}"): false, surge("steps: [{hosts: 1, pause: soon}]"): false, surge("order_by: zone"): true, surge("order_by: ''"): false, surge("order_by: [zone]"): false,
		deployment("{max_unavailable: 1}"): true, deployment("{max_unavailable: []}"): false,
		surge("auto_rollback: true"): true, surge("auto_rollback: 'false'"): true, surge("auto_rollback: yes please"): false, surge("auto_rollback: 1"): false,
		surge("drift: repair"): true, surge("drift: report"): true, surge("drift: ignore"): false, surge("drfit: report"): false,
	}, func(file string) error {
		_, err := defined(file)
		return err
	})
}
