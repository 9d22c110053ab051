package definition_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/internal/budget"
	"github.com/deployster-go/deployster/internal/must"
	"github.com/deployster-go/deployster/internal/yamlfile"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/pipeline/definition"
	"github.com/deployster-go/deployster/pipeline/record"
	"github.com/deployster-go/deployster/schema"
)

// misplaced is what a query says that is wrong at a character.
type misplaced int

func (m misplaced) Error() string {
	_, problem := m.Place()
	return fmt.Sprintf("the query at character %d: %s", int(m), problem)
}

func (m misplaced) Place() (column int, problem string) { return int(m), "a query holds no ?" }

func checkQuery(text string) error {
	switch i := strings.IndexByte(text, '?'); {
	case text == "wrong":
		return errors.New("is wrong all over")
	case i >= 0:
		return fmt.Errorf("a query: %w", misplaced(1+len([]rune(text[:i]))))
	}
	return nil
}

func parse(text string) (*definition.Definition, error) {
	return definition.Parse("p.yaml", []byte(text), checkQuery)
}

const gateway = `
pipeline: ant-gateway
stages:
  - name: build
    build: {artifacts: [x86, aarch64, raspbian]}
  - name: prod
    deploy: &prod
      host_groups:
        - {name: ant-gateway/prod, hosts: "attribute:stack == prod", max_failed: 10%}
        - {name: spare, hosts: "name == spare", max_failed: 2, max_leaving: 0, allow_empty: true}
      steps:
        - {event: host-artifact-replicated, manifest: replicate.yaml, retries: 2, timeout: 10m}
        - {event: host-deployed, manifest: deploy.yaml}
    after: [approve, docs]
  - name: beta
    after: [build]
    deploy:
      <<: *prod
      host_groups: [{name: ant-gateway/beta, hosts: "attribute:stack == beta"}]
  - name: approve
    approval: {}
  - name: docs
    run: {manifest: docs.yaml, retries: 1}
    after: []
batches:
  - {from: beta, to: prod}
  - {from: approve, to: approve}
promotion: {policy: concurrent}
`

func TestParse(t *testing.T) {
	got := must.Get(parse(gateway))(t)
	steps := []definition.HostStep{{Event: "host-artifact-replicated", Manifest: "replicate.yaml", Retries: 2, Timeout: definition.Duration(10 * time.Minute)}, {Event: "host-deployed", Manifest: "deploy.yaml"}}
	want := &definition.Definition{
		Name: "ant-gateway",
		Stages: []definition.Stage{
			{Name: "build", After: []string{}, Build: &definition.Build{Artifacts: []string{"x86", "aarch64", "raspbian"}}},
			{Name: "beta", After: []string{"build"}, Deploy: &definition.Deploy{
				HostGroups: []definition.HostGroup{{Name: "ant-gateway/beta", Hosts: "attribute:stack == beta"}}, Steps: steps,
			}},
			{Name: "approve", After: []string{"beta"}, Approval: &definition.Approval{}},
			{Name: "docs", After: []string{}, Run: &definition.Run{Manifest: "docs.yaml", Retries: 1}},
			{Name: "prod", After: []string{"approve", "docs"}, Deploy: &definition.Deploy{
				HostGroups: []definition.HostGroup{
					{Name: "ant-gateway/prod", Hosts: "attribute:stack == prod", MaxFailed: budget.Budget{Percent: 10}},
					{Name: "spare", Hosts: "name == spare", MaxFailed: budget.Budget{Count: 2}, MaxLeaving: &budget.Budget{}, AllowEmpty: true},
				}, Steps: steps,
			}},
		},
		Batches: []definition.Batch{{From: "beta", To: "prod"}, {From: "approve", To: "approve"}},
	}
	assert.Equal(t, want, got)
	data := must.Get(json.Marshal(got))(t)
	var stored definition.Definition
	err := json.Unmarshal(data, &stored)
	assert.True(t, err == nil && reflect.DeepEqual(&stored, want), "from the log it comes as %+v, %v", stored, err)
}

// Each file of testdata/problems is a definition, with what is said about it; see yamltest.
func TestParseReportsEveryProblemWithItsPlace(t *testing.T) {
	yamltest.Problems(t, func(files ...string) error { _, err := parse(files[0]); return err })
}

func stages(n int, more func(int) string) string {
	var b strings.Builder
	b.WriteString("pipeline: p\nstages:\n")
	for i := range n {
		fmt.Fprintf(&b, "- {name: s%d, run: {manifest: m}%s}\n", i, more(i))
	}
	return b.String()
}

func TestParseRefusesHostileFilesQuickly(t *testing.T) {
	nothing := func(int) string { return "" }
	steps := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "{event: e%d, manifest: %s},", i, strings.Repeat("m", 1000))
		}
		return "pipeline: p\nstages: [{name: s, deploy: {host_groups: [{name: g, hosts: h}], steps: [" + b.String() + "]}}]"
	}
	unknown := strings.Repeat("s1x,", 1000)
	tests := map[string]struct{ text, want string }{
		"too many stages":   {stages(1001, nothing), "p.yaml:3:1: stages: has 1001 stages; at most 1000 are possible"},
		"too much":          {steps(600), "bytes as JSON; at most 524288 fit into the deployment log"},
		"a long circle":     {stages(1000, func(i int) string { return fmt.Sprintf(", after: [s%d]", (i+999)%1000) }), "in a circle: s0 after s999 after s998"},
		"unknown stages":    {stages(1000, func(int) string { return ", after: [" + unknown + "]" }), "more problems"},
		"unknown artifacts": {"stages: [{build: {artifacts: [" + strings.Repeat("X,", 1000) + "]}}]", `cannot be a kind of artifact`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) { assert.ErrorContains(t, must.Fail(parse(test.text)), test.want) })
	}
}

func TestDefinitionsAreAsLargeAsTheLogAllows(t *testing.T) {
	var before strings.Builder
	d, err := parse(stages(600, func(i int) string {
		more := ", after: [" + before.String() + "]"
		fmt.Fprintf(&before, "s%d,", i)
		return more
	}) + "batches: [{from: s0, to: s599}, {from: s598, to: s599}]")
	assert.True(t, err != nil && d == nil && strings.Contains(err.Error(), "fit into the deployment log"),
		"180,000 names of stages fit into an event: %v", err)
	d, err = parse(stages(1000, func(int) string { return "" }) + "batches: [{from: s0, to: s999}]")
	assert.True(t, err == nil && len(d.Stages) == 1000 && d.Stages[999].After[0] == "s998", "a chain of a thousand: %v", err)
}

// The schema and the parser accept the same documents, but for what a schema
// cannot say: what names refer to, and what is the same.
func TestTheSchemaOfDefinitionsAgrees(t *testing.T) {
	source := must.Get(schema.Source("pipeline"))(t)
	stage := func(does string) string { return "{pipeline: p, stages: [{name: s, " + does + "}]}" }
	group := func(g string) string {
		return stage("deploy: {host_groups: [" + g + "], steps: [{event: e, manifest: m}]}")
	}
	step := func(s string) string {
		return stage("deploy: {host_groups: [{name: g, hosts: h}], steps: [" + s + "]}")
	}
	event := func(e string) string { return step("{event: " + e + ", manifest: m}") }
	yamltest.Schema(t, source, map[string]bool{
		gateway: true, "{}": false, "{pipeline: p}": false, "{pipeline: p, stages: []}": false, "{pipeline: p/q, stages: [{name: a, approval: {}}]}": false,
		stage("approval: {}"): true, stage("approval: ~"): true, stage("approval: []"): false, stage("approval: {by: me}"): false, stage("aproval: {}"): false,
		stage("run: {manifest: m}"): true, stage("run: {}"): false, stage("run: {manifest: ''}"): false, stage("run: {manifest: m, retries: 100}"): true, stage("run: {manifest: m, timeout: 90s}"): true, stage("run: {manifest: m, timeout: 90}"): false, stage("build: {artifacts: [a], manifest: m, timeout: 5m}"): true, stage("run: {manifest: m, retries: 101}"): false, stage("run: {manifest: m, retries: -1}"): false,
		stage("run: {manifest: m}, approval: {}"): false, stage("environment: e"): true, stage("environment: e/prod"): true, stage("environment: -e"): false, stage("environment: {}"): false, stage("after: []"): false, stage("after: [], approval: {}"): true, stage("after: s, approval: {}"): false,
		stage("build: {artifacts: [x86, arm-v7]}"): true, stage("build: {artifacts: []}"): false, stage("build: {}"): false, stage("build: {artifacts: [a, a]}"): false, stage("build: {artifacts: [X]}"): false,
		stage("build: {artifacts: [a-]}"): false, stage("build: {artifacts: [a], manifest: m, retries: 1}"): true, stage("build: {artifacts: [a], retries: 1}"): false, stage("build: {group: packages.yaml}"): true,
		stage("build: {group: p, packages: [core/gcc], timeout: 1h}"): true, stage("build: {group: p, packages: []}"): false, stage("build: {group: p, packages: [a, a]}"): false, stage("build: {group: p, artifacts: [a]}"): false,
		stage("build: {group: p, manifest: m}"): false, stage("build: {group: p, manifest: m, retries: 1}"): false, stage("build: {group: ''}"): false, stage("build: {artifacts: [a], packages: [a]}"): false,
		group("{name: g, hosts: h}"): true, group("{name: g/h/i, hosts: h}"): true, group("{name: g//h, hosts: h}"): false, group("{name: /g, hosts: h}"): false, group("{name: g}"): false, group("{hosts: h}"): false, group(""): false,
		group("{name: g, hosts: h, max_failed: 1}"): true, group("{name: g, hosts: h, max_failed: 33.3%}"): true, group("{name: g, hosts: h, max_failed: -1}"): false, group("{name: g, hosts: h, max_failed: many}"): false, group("{name: g, hosts: h, max_failed: [1]}"): false,
		group("{name: g, hosts: h, max_in_flight: 1}"): true, group("{name: g, hosts: h, max_in_flight: 25%}"): true, group("{name: g, hosts: h, max_in_flight: 0.5%}"): true, group("{name: g, hosts: h, max_in_flight: 0}"): false, group("{name: g, hosts: h, max_in_flight: 0%}"): false, group("{name: g, hosts: h, max_in_flight: some}"): false,
		"{pipeline: p, stop_on_failure: false, stages: [{name: s, run: {manifest: m}, stop_on_failure: true}]}": true, "{pipeline: p, stop_on_failure: 1, stages: [{name: s, approval: {}}]}": false, "{pipeline: p, stages: [{name: s, run: {manifest: m}, stop_on_failure: 'no'}]}": false,
		stage("run: {manifest: m}, inputs: [{pipeline: q, passed: a/b}, {pipeline: r}]"): true, stage("run: {manifest: m}, inputs: []"): true, stage("run: {manifest: m}, inputs: [{passed: a}]"): false, stage("run: {manifest: m}, inputs: [{pipeline: q/r}]"): false, stage("run: {manifest: m}, inputs: [{pipeline: q, passed: ''}]"): false, stage("run: {manifest: m}, inputs: q"): false, stage("approval: {}, inputs: [{pipeline: q}]"): false,
		group("{name: g, hosts: h, max_leaving: 1, allow_empty: true}"): true, group("{name: g, hosts: h, max_leaving: 25%, allow_empty: false}"): true, group("{name: g, hosts: h, max_leaving: -1}"): false, group("{name: g, hosts: h, max_leaving: [1]}"): false, group("{name: g, hosts: h, allow_empty: 'true'}"): false, group("{name: g, hosts: h, allow_empty: 1}"): false,
		event("e"): true, event("host-deployed"): true, event("service-started"): true, event("host"): false, event("host-started"): false, event("host-failed"): false, event("tests-failed"): false, event("host-finished-successfully"): false,
		event("stage-approved"): false, event("pipeline-x"): false, event("host-group-x"): false, event("build-stage-received-x86-artifact"): false, event("Deployed"): false, event("a_b"): false, event("a--b"): false, event("1a"): false,
		step("{event: e}"): false, step("{manifest: m}"): false, step(""): false, step("{event: e, manifest: m, retries: 1.5}"): false,
		step("{event: e, manifest: m, prune: false}"): true, step("{event: e, manifest: m, prune: true}"): true, step("{event: e, manifest: m, prune: 'no'}"): false, step("{event: e, manifest: m, prune: 1}"): false,
		"{pipeline: p, stages: [{name: s, approval: {}}], batches: [{from: s, to: s}]}": true, "{pipeline: p, stages: [{name: s, approval: {}}], batches: [{from: s}]}": false,
		"{pipeline: p, stages: [{name: s, approval: {}}], promotion: {}}": true, "{pipeline: p, stages: [{name: s, approval: {}}], promotion: {policy: single}}": false,
	}, func(file string) error { _, err := parse(file); return err })
}

// Whatever a file holds, Parse answers with a definition that can be stored and in which everything stands after what
// it comes after, or with problems whose positions are in the file.
func FuzzParse(f *testing.F) {
	f.Add(gateway)
	f.Add(taking)
	yamltest.Seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		d, err := parse(text)
		if err != nil {
			yamltest.Showable(t, err, yamltest.Lines(text))
			return
		}
		valid(t, d)
	})
}

func valid(t *testing.T, d *definition.Definition) {
	t.Helper()
	data, err := json.Marshal(d)
	var stored definition.Definition
	require.True(t, err == nil && json.Unmarshal(data, &stored) == nil, "%s became %+v", data, stored)
	if again, err := json.Marshal(stored); err != nil || !bytes.Equal(again, data) { // without the places in the file
		t.Fatalf("%s became %s", data, again)
	}
	seen, targets := map[string]bool{}, map[string]bool{}
	target := func(err error, text string) {
		require.True(t, err == nil && !targets[text], "%s is no target, or that of two: %v", text, err)
		targets[text] = true
	}
	for i := range d.Stages {
		s := &d.Stages[i]
		at := record.StageTarget(d.Name, s.Name)
		target(at.Validate(), string(at))
		for _, a := range s.After {
			require.True(t, seen[a], "%s stands before %s", s.Name, a)
		}
		seen[s.Name] = true
		kinds := 0
		if s.Build != nil {
			kinds++
		}
		if s.Run != nil {
			kinds++
		}
		if s.Approval != nil {
			kinds++
		}
		if s.Deploy != nil {
			kinds++
			for _, g := range s.Deploy.HostGroups {
				at := record.GroupTarget(d.Name, g.Name)
				target(at.Validate(), string(at))
			}
		}
		require.Equal(t, 1, kinds, "%s does %d things", s.Name, kinds)
	}
	for _, b := range d.Batches {
		require.True(t, seen[b.From] && seen[b.To], "no stages for the batch %+v", b)
	}
}

func TestStopOnFailureOfThePipelineIsForTheStagesThatDoNotSayIt(t *testing.T) {
	d, err := parse("{pipeline: p, stop_on_failure: false, stages: [{name: a, build: {artifacts: [x]}}, {name: b, run: {manifest: m}}, {name: c, run: {manifest: m}, stop_on_failure: true}, {name: d, approval: {}}]}")
	require.NoError(t, err)
	for i, want := range []bool{false, false, true, false} {
		got := d.Stages[i].StopsOnFailure()
		assert.True(t, got == want, "stage %s stops on failure: %t", d.Stages[i].Name, got)
	}
	text, err := json.Marshal(d.Stages)
	assert.True(t, err == nil && strings.Count(string(text), "stop_on_failure") == 1, "recorded is %s, %v", text, err)
}

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

func TestARevisionNeedsOneOfEachPipeline(t *testing.T) {
	d := must.Get(parse(taking))(t)
	data := must.Get(json.Marshal(d))(t)
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
        - {event: host-deployed, manifest: d.yaml, prune: false}
  - {name: check, run: {manifest: check.yaml, timeout: 30s}}
  - {name: approve, approval: {approvals: 2, expires: 24h}}
  - {name: prod, environment: shop/prod, after: [approve, check], inputs: [{pipeline: config, passed: check}]}
batches: [{from: beta, to: check}]
`
