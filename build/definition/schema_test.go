package definition_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deployster-go/deployster/build/definition"
	"github.com/deployster-go/deployster/internal/yamlfile/yamltest"
	"github.com/deployster-go/deployster/schema"
)

// shared are parts of a job with whether they are possible, as the schemas and the parser
// must agree, but for what a schema cannot say: which names and paths are possible together.
var shared = map[string]bool{
	"image: a": true, "image: ''": false, "image: 1": false, "image: '{{ a }}'": true,
	"entrypoint: sh": true, "entrypoint: []": false,
	"args: []": true, "args: [a, '']": true, "args: a": false, "args: [1]": false, "args:": false,
	"env: {A: ''}": true, "env: {a_1: b}": true, "env: {A-B: c}": false, "env: {DEPLOYSTER_X: c}": false, "env: {A: 1}": false, "env: []": false,
	"secrets: {A: '{{ a }}'}": true, "secrets: {1A: '{{ b }}'}": false, "secrets: {A: b}": false,
	"sources: []": true, "sources: [a/b]": true, "sources: ['']": false, "sources: a": false,
	"plugs: []": true, "plugs: [{path: /a, container_path: /b}]": true, "plugs: [{path: /a, container_path: /b, read_only: true}]": true,
	"plugs: [{path: /a}]": false, "plugs: [{path: a, container_path: /b}]": false, "plugs: [{path: /a, container_path: /b, read_only: 1}]": false, "plugs: [{path: /a, container_path: /b, more: 1}]": false,
	"resources: {}": true, "resources: {memory: 512MiB, pids: 10}": true, "resources: {memory: 1GB}": false, "resources: {memory: 0GiB}": false, "resources: {pids: 0}": false, "resources: {pids: '1'}": false, "resources: {cpus: 1}": false,
	"network: none": true, "network: ''": false,
	"timeout: 30m": true, "timeout: 1h30m": true, "timeout: 5": false, "timeout: soon": false,
	"target: linux/arm/v7": true, "target: linux": false, "target: ''": false,
	"workers: name == a": true, "workers: ''": false,
	"more: 1": false, "version: '1'": true, "version: 1": false,
}

func TestTheSchemaOfPackagesAgrees(t *testing.T) {
	digest := "sha256:0123456789012345678901234567890123456789012345678901234567890123"
	cases := map[string]bool{
		base: true, recipes: false, // its entrypoint is empty
		"{group: g, packages: {a: {}}}": true, "{group: g}": false, "{packages: {a: {}}}": false, "{group: g, packages: {}}": false,
		"{group: g, packages: [a]}": false, "{group: g, packages: {a: }}": false, "{group: -g, packages: {a: {}}}": false, "{group: g, packages: {a/: {}}}": false,
		"{group: g, converge: 0, packages: {a: {}}}": false, "{group: g, converge: 10, packages: {a: {}}}": true, "{group: g, converge: 11, packages: {a: {}}}": false,
		"{group: g, target: linux/amd64, workers: name == a, artifacts: r.example/a, job: {image: a}, packages: {a: {}}}": true,
		"{group: g, target: x, packages: {a: {}}}": false, "{group: g, artifacts: r.example, packages: {a: {}}}": false, "{group: g, job: {build: []}, packages: {a: {}}}": false,
	}
	for part, possible := range shared {
		cases["{group: g, packages: {a: {"+part+"}}}"] = possible
	}
	for part, possible := range map[string]bool{
		"build: [b], run: [b]": true, "build: [b, b]": false, "build: b": false, "unbuildable: gone": true, "unbuildable: ''": false, "needs: []": false,
		"released: a": true, "released: {path: a}": true, "released: {name: n, artifact: '" + digest + "'}": true, "released: {artifact: '" + digest[1:] + "'}": false,
		"released: {}": false, "released: {name: n}": false, "released: {path: a, artifact: '" + digest + "'}": false, "released: ''": false,
	} {
		cases["{group: g, packages: {b: {}, a: {"+part+"}}}"] = possible
	}
	agrees(t, "packages", cases)
}

func TestTheSchemaOfJobsAgrees(t *testing.T) {
	cases := map[string]bool{
		list: true, "{group: g, jobs: [{name: a}]}": true, "{group: g, jobs: []}": false, "{group: g, jobs: {a: {}}}": false, "{group: g, jobs: [{}]}": false, "{group: g, jobs: [a]}": false,
		"{group: g, converge: 2, jobs: [{name: a}]}": false, "{group: g, jobs: [{name: a/}]}": false, "{jobs: [{name: a}]}": false,
		"{group: g, jobs: [{name: a}, {name: b, needs: [a]}]}": true, "{group: g, jobs: [{name: a}, {name: b, needs: a}]}": false, "{group: g, jobs: [{name: a, released: x}]}": false,
		"{group: g, target: linux/amd64, workers: name == a, artifacts: r.example/a, job: {image: a}, jobs: [{name: a}]}": true,
	}
	for part, possible := range shared {
		cases["{group: g, jobs: [{name: a, "+part+"}]}"] = possible
	}
	agrees(t, "jobs", cases)
}

func agrees(t *testing.T, name string, cases map[string]bool) {
	t.Helper()
	source, err := schema.Source(name)
	require.NoError(t, err)
	yamltest.Schema(t, source, cases, func(file string) error {
		_, err := definition.Parse("p.yaml", []byte(file))
		return err
	})
}

// Every example is what its schema says, and can be read.
func TestExamplesAreWhatTheSchemasSay(t *testing.T) {
	for _, name := range []string{"packages", "jobs"} {
		paths, err := filepath.Glob("../../examples/*/" + name + ".yaml")
		require.NoError(t, err, "there are no examples of %s: %v", name, err)
		require.NotEmpty(t, paths, "there are no examples of %s: %v", name, err)
		cases := map[string]bool{}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			cases[string(text)] = true
		}
		agrees(t, name, cases)
	}
}
